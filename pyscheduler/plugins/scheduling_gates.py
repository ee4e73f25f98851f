"""SchedulingGates: a pod waits until all its `spec.schedulingGates` have been removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api import Pod
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EnqueueExtensions,
    EventResource,
    PreEnqueuePlugin,
    QueueingHint,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SchedulingGates"]


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    """Keep pods out of the queue while `spec.schedulingGates` is not empty."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Status.unresolvable(f"waiting for scheduling gates: [{names}]")

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
