"""DynamicResources: the pod's resource claims get devices allocated.

Here for pods without claims: they skip its filter, every node scores 0, and when nothing fits it has no claim to give
back, which is what its PostFilter says. Claims themselves are not allocated yet, so a pod that names one is rejected,
and never placed as if it had none.
Differs from kube-scheduler: a pod with resource claims is unschedulable, with a message that says so.
Source: kube-scheduler 1.36, `dynamicresources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeStatuses,
    PostFilterPlugin,
    PreFilterPlugin,
    QueueingHint,
    Reuse,
    ScorePlugin,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.plugin_args import DynamicResourcesArgs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework import (
        CycleState,
        Nodes,
        PostFilterResult,
        PreFilterResult,
        SignFragment,
    )

__all__ = ["DynamicResources"]

_STATE: Final[StateKey[bool]] = StateKey("DynamicResources")

_CLAIMS: Final = Status.unresolvable(
    "pod uses spec.resourceClaims, for which plugin DynamicResources would allocate devices; it does not do that yet"
)
_NOTHING_TO_GIVE_BACK: Final = Status.unschedulable("no new claims to deallocate")
_NOT_FOUND: Final = Status.from_error(LookupError("not found"))


class DynamicResources(PreFilterPlugin, FilterPlugin, PostFilterPlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Reject pods with resource claims; have nothing to say about others."""

    reuse = Reuse.WHILE_NODE_STAYS
    args_type = DynamicResourcesArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        state.write(_STATE, True)
        return _CLAIMS if pod.spec.resource_claims else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        # Reached by pods with claims only in a profile that disables PreFilter of this plugin.
        if not pod.spec.resource_claims:
            return None
        return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), _CLAIMS)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        # Where another plugin rejected the pod before this one's PreFilter, there is no state to look into, which
        # kube-scheduler takes for an error; it keeps preemption from being tried.
        return None, _NOTHING_TO_GIVE_BACK if state.get(_STATE) else _NOT_FOUND

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return np.zeros(len(nodes), dtype=np.int64)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        if pod.spec.resource_claims:
            return Status.unschedulable("pods with dra resource claims are not signable")
        return ()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        changes = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, node_actions)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_CLAIM, changes)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM), self.after_pod_change
            ),
            ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, changes)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, changes)),
        )

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when the pod itself changed and has no claims left to wait for."""
        if not isinstance(new, Pod):
            return QueueingHint.QUEUE
        return QueueingHint.QUEUE if pod.uid == new.uid and not new.spec.resource_claims else QueueingHint.SKIP
