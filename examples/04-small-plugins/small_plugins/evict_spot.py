"""EvictSpot: make room by evicting pods that have the label `example.com/spot`, whatever their priority."""

from collections.abc import Sequence
from typing import Final

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    NodeStatuses,
    Pod,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreemptionRules,
    PreEnqueuePlugin,
    Status,
)

SPOT: Final = "example.com/spot"
EVICTING: Final = Status.unresolvable("waiting for the eviction of spot pods")


class SpotRules(PreemptionRules):
    """Every pod may preempt spot pods, except for spot pods."""

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        return SPOT in victim.pod.labels and SPOT not in preemptor.labels


class EvictSpot(PostFilterPlugin, PreEnqueuePlugin, EnqueueExtensions):
    """Let the scheduler search, choose and evict; say only who may be a victim."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.preemptor = handle.preemptor(self.name, SpotRules())

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return await self.preemptor.preempt(state, pod, statuses)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return EVICTING if self.preemptor.is_preempting(pod.uid) else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE))]
