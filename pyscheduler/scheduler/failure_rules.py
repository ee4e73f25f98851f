"""The rules for a failed attempt, without I/O: from the pod, its status and the API server's version to a plan.

Differs from kube-scheduler: a pod that turns out to be bound, or deleted, gets the event but no `PodScheduled=False`,
which would stay on a bound pod forever.
Source: kube-scheduler 1.36, `handleSchedulingFailure`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.framework.group_cycle import PodGroupUnschedulableError
from pyscheduler.framework.pod_info import PodInfo

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.status import Status

__all__ = ["FailurePlan", "PodState", "plan_failure", "state_of"]


class PodState(Enum):
    """What the API server says about a pod whose attempt failed."""

    PENDING = "pending"
    #: Another pod has its name.
    RECREATED = "recreated"
    #: The binding succeeded although its answer was lost, or another scheduler bound the pod.
    BOUND = "bound"
    DELETED = "deleted"


@attrs.frozen(kw_only=True)
class FailurePlan:
    """What to do about a failed attempt: only a pending pod returns to the queue and gets a condition."""

    state: PodState
    #: The plugins whose hints decide about the next attempt; none after an error.
    unschedulable_plugins: set[str]
    pending_plugins: set[str]
    #: The pod as it returns to the queue.
    info: PodInfo
    #: Why the newest version cannot be used; `info` is the last version that could be read then.
    unreadable: PySchedulerError | None = None
    #: The object that the event is about; None: no event.
    event_on: Pod | None
    #: The reason of the condition `PodScheduled=False`.
    reason: str


def plan_failure(queued: QueuedPodInfo, status: Status, newest: Pod | None) -> FailurePlan:
    """Return the plan; `newest` is what the API server has under the pod's name, None if there is no such pod."""
    unschedulable, pending = _rejectors(status)
    state = state_of(queued.pod, newest)
    info, unreadable, event_on = queued.pod_info, None, queued.pod
    if state is PodState.PENDING:
        assert newest is not None, "a pending pod exists"
        info, unreadable = _refreshed(info, newest)
        event_on = newest
    return FailurePlan(
        state=state,
        unschedulable_plugins=unschedulable,
        pending_plugins=pending,
        info=info,
        unreadable=unreadable,
        event_on=None if state is PodState.RECREATED else event_on,
        reason="Unschedulable" if status.is_rejected else "SchedulerError",
    )


def state_of(pod: Pod, newest: Pod | None) -> PodState:
    """Return the state of a popped pod; `newest` is what the API server has under its name."""
    if newest is None:
        return PodState.DELETED
    if newest.node_name:
        return PodState.BOUND
    return PodState.PENDING if newest.uid == pod.uid else PodState.RECREATED


def _rejectors(status: Status) -> tuple[set[str], set[str]]:
    """Return the plugins that rejected the pod, and those that wait for an event of their own."""
    error = status.error
    if isinstance(error, FitError):
        return error.diagnosis.unschedulable_plugins, error.diagnosis.pending_plugins
    if isinstance(error, PodGroupUnschedulableError):
        return set(error.rejectors), set()
    return set(), set()


def _refreshed(info: PodInfo, newest: Pod) -> tuple[PodInfo, PySchedulerError | None]:
    """Return the facts about the newest version of the pod; the old facts and the error if it cannot be read."""
    if newest.resource_version == info.pod.resource_version:
        return (info if info.pod is newest else info.with_pod(newest)), None
    try:
        return PodInfo.of(newest), None
    except PySchedulerError as error:
        return info, error
