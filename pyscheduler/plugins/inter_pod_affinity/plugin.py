"""InterPodAffinity at each extension point.

Source: kube-scheduler 1.36, `pkg/scheduler/framework/plugins/interpodaffinity`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kube_objects.kinds import NAMESPACES
from pyscheduler.api import Namespace, Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.affinity_terms import preferred_terms, required_terms
from pyscheduler.framework.in_tree_args import InterPodAffinityArgs
from pyscheduler.framework.signatures import sign_labels
from pyscheduler.plugins.inter_pod_affinity.filtering import FilterState, count_for_filter
from pyscheduler.plugins.inter_pod_affinity.hints import Hints
from pyscheduler.plugins.inter_pod_affinity.scoring import ScoreState, normalize, sum_for_score
from pyscheduler.plugins.inter_pod_affinity.terms import Namespaces, Target, parse_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Affinity

__all__ = ["InterPodAffinity"]

_FILTER: Final[StateKey[FilterState]] = StateKey("PreFilterInterPodAffinity")
_SCORE: Final[StateKey[ScoreState]] = StateKey("PreScoreInterPodAffinity")
_UNSIGNABLE: Final = Status.unschedulable("pods with InterPodAffinity are not signable")


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Place a pod near or away from other pods, as it and they demand or prefer."""

    args_type = InterPodAffinityArgs
    watches = (NAMESPACES,)

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        super().__init__(args, handle)
        args = args if args is not None else InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_others = args.ignore_preferred_terms_of_existing_pods
        self._namespaces = Namespaces(handle.lister(Namespace))

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        affinity = _with_terms(pod)
        snapshot = self.handle.snapshot
        if affinity is None and not snapshot.nodes_with_anti_affinity_pods:
            return Status.skip()
        if affinity is not None and (errors := parse_errors(pod)):
            return Status.unresolvable(f"parsing pod: {errors}")
        wanted: list[Target] = []
        unwanted: list[Target] = []
        if affinity is not None:
            wanted += map(self._namespaces.target, required_terms(pod, affinity.pod_affinity))
            unwanted += map(self._namespaces.target, required_terms(pod, affinity.pod_anti_affinity))
        labels = self._namespaces.labels(pod.namespace)
        shunning = snapshot.nodes_with_anti_affinity_pods
        counted = count_for_filter(
            pod,
            snapshot.nodes,
            labels,
            affinity=wanted,
            anti_affinity=unwanted,
            placed=snapshot.nodes.terms_about(pod.namespace, pod.labels, labels) if shunning else (),
        )
        if counted.is_idle:
            return Status.skip()
        state.write(_FILTER, counted)
        return None

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        """Count a pod in that was put on `node` in a what-if."""
        state.read(_FILTER).update(to_add, node, self.handle.snapshot.nodes, 1)
        return None

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        """Count a pod out that was taken off `node` in a what-if."""
        state.read(_FILTER).update(to_remove, node, self.handle.snapshot.nodes, -1)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return state.read(_FILTER).judge(nodes)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        counted = state.get(_FILTER)
        return counted.partners(self.handle.snapshot) if counted is not None else ""

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        wishes = self._wishes(pod)
        snapshot = self.handle.snapshot
        if not wishes and (self._ignore_others or not snapshot.nodes_with_affinity_pods):
            return Status.skip()
        labels = self._namespaces.labels(pod.namespace)
        summed = sum_for_score(
            snapshot.nodes,
            wishes=wishes,
            placed=snapshot.nodes.terms_about(pod.namespace, pod.labels, labels),
            hard_weight=self._hard_weight,
        )
        if summed is None:
            return Status.skip()
        state.write(_SCORE, summed)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return state.read(_SCORE).score(nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Scale sums of weights, which may be negative, to 0..100."""
        normalize(scores)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        if _with_terms(pod) is not None:
            return _UNSIGNABLE
        # Other pods' terms look at the labels.
        return () if self._ignore_others else (sign_labels(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = ClusterEvent(EventResource.POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE)
        nodes = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        namespaces = ClusterEvent(EventResource.NAMESPACE, ActionType.ADD | ActionType.UPDATE)
        hints = Hints(self._namespaces.labels)
        return (
            ClusterEventWithHint(pods, hints.after_pod_change),
            ClusterEventWithHint(nodes, hints.after_node_change),
            ClusterEventWithHint(namespaces, hints.after_namespace_change),
        )

    def _wishes(self, pod: Pod) -> list[tuple[int, Target]]:
        """Return the pod's own preferences, with negative weights where it wants to be away."""
        affinity = _with_terms(pod)
        if affinity is None:
            return []
        target = self._namespaces.target
        near = preferred_terms(pod, affinity.pod_affinity)
        away = preferred_terms(pod, affinity.pod_anti_affinity)
        return [
            *((wish.weight, target(wish.term)) for wish in near),
            *((-wish.weight, target(wish.term)) for wish in away),
        ]


def _with_terms(pod: Pod) -> Affinity | None:
    """Return the pod's affinity where it concerns pods."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return None
    return affinity
