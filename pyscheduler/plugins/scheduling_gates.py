"""SchedulingGates: a pod with scheduling gates waits until whoever put them there has removed them all.

Differs from kube-scheduler: a pod with `spec.schedulingGroup` is rejected in PreFilter. The plugin that would start it
together with its group, GangScheduling, is not implemented yet, and is in no default profile where it could say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Nodes,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    QueueingHint,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SchedulingGates"]


_GROUPED: Final = Status.unresolvable(
    "pod uses spec.schedulingGroup, which plugin GangScheduling would decide; it is not implemented yet"
)


class SchedulingGates(PreEnqueuePlugin, PreFilterPlugin, EnqueueExtensions):
    """Keep pods out of the queue while `spec.schedulingGates` is not empty."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{names}]")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        # Here and not in PreEnqueue, whose rejections no event and no condition tells the user about.
        return _GROUPED if pod.spec.scheduling_group is not None else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
                self.after_gates_removed,
            ),
        )

    def after_gates_removed(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue the pod whose own gates are gone."""
        assert isinstance(new, Pod)
        return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.SKIP
