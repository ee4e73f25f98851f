"""NodeDeclaredFeatures: a pod that needs features of the kubelet runs only on nodes that declare these features.

A node lists its features in `status.declaredFeatures`. The features that a pod needs follow from its spec.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from pyscheduler.api import Node, Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    PreFilterPlugin,
    PreFilterResult,
    QueueingHint,
    Reuse,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.signatures import FEATURES

__all__ = ["NodeDeclaredFeatures"]

_REJECTION: Final = Status.unresolvable("node(s) didn't match Pod's required features")
_REQUIRED: Final[StateKey[frozenset[str]]] = StateKey("PreFilterNodeDeclaredFeatures")


def _restarts_all_containers(pod: Pod) -> bool:
    return any(
        rule.action == "RestartAllContainers"
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for rule in container.restart_policy_rules
    )


def _has_users_of_its_own_on_the_host_network(pod: Pod) -> bool:
    return pod.spec.host_network and pod.spec.host_users is False


#: The features that matter to scheduling, and how a pod shows that it needs them.
_NEEDS: Final[Mapping[str, Callable[[Pod], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_users_of_its_own_on_the_host_network,
}


def required_features(pod: Pod) -> frozenset[str]:
    """Return the features that a node has to declare to run `pod`."""
    return frozenset(feature for feature, needs in _NEEDS.items() if needs(pod))


class NodeDeclaredFeatures(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes that do not declare all the pod needs; does nothing with the feature gate of its name off."""

    reuse = Reuse.WHILE_NODE_STAYS

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        gates = handle.feature_gates if handle is not None else {}
        self._enabled = gates.get("NodeDeclaredFeatures", True)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        required = required_features(pod) if self._enabled else None
        if not required:
            return Status.skip()
        state.write(_REQUIRED, required)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        required = state.read(_REQUIRED)
        declared = nodes.declared_features()
        lacking = np.array([not required <= each for each in declared.sets], dtype=np.bool_)
        return NodeStatuses.failing(lacking[declared.ids], _REJECTION)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        declared = self.handle.snapshot.nodes.declared_features()
        texts = []
        for feature in sorted(required_features(pod)):
            has_it = np.array([feature in each for each in declared.sets], dtype=np.bool_)
            number = int(has_it[declared.ids].sum())
            texts.append(f"{feature}: declared by {number or 'no'} node{'' if number == 1 else 's'}")
        return "; ".join(texts)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment(FEATURES, tuple(sorted(required_features(pod)))),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if not self._enabled:
            return ()
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE),
                self.after_node_change,
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.UPDATE), self.after_pod_update),
        )

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue on a new node, and on one whose features changed."""
        assert isinstance(new, Node)
        same = isinstance(old, Node) and old.status.declared_features == new.status.declared_features
        return QueueingHint.SKIP if same else QueueingHint.QUEUE

    def after_pod_update(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue the pod that needs other features than before."""
        assert isinstance(old, Pod)
        assert isinstance(new, Pod)
        changed = new.uid == pod.uid and required_features(old) != required_features(new)
        return QueueingHint.QUEUE if changed else QueueingHint.SKIP
