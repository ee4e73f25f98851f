"""The status of groups of Volcano and kube-batch.

Sources: Volcano `framework/session.go`, `framework/job_updater.go`, `plugins/gang`, `scheduler/cache/cache.go`;
kube-batch `framework/session.go`, `cache/cache.go` (RecordJobStatusEvent).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import format_time
from pyscheduler.batch.tasks import ALIVE, TaskState
from pyscheduler.batch.volcano_objects import LAST_EVICTION
from pyscheduler_batch.changes import COMPLETED
from pyscheduler_batch.kube_batch import status as kube_batch
from pyscheduler_batch.status.report import Note, merged_conditions, raw_conditions
from pyscheduler_batch.status.writer import Patch, changed_fields
from pyscheduler_batch.volcano.status import GroupCondition, gang_condition, group_phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.batch.tasks import Job
    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.volcano.session import VolcanoSession

__all__ = ["VolcanoReport", "ended_report", "volcano_report"]

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
_ENDED = (TaskState.SUCCEEDED, TaskState.FAILED)
_WAITING = (TaskState.PENDING, TaskState.GATED, TaskState.ALLOCATED, TaskState.PIPELINED)


@attrs.frozen(kw_only=True)
class VolcanoReport:
    """What a pass says about one group. `session_id` and `now` are those of the pass, in the condition."""

    phase: str
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    #: Pods with a node (kube-batch).
    admitted: int | None = None
    condition: GroupCondition | None = None
    #: Seconds since 1970.
    last_eviction: float | None = None
    notes: Sequence[Note] = ()
    session_id: str = ""
    now: float = 0.0

    def patches(self, group: GroupObject) -> Sequence[Patch]:
        """Return what the group's status lacks. Session and time alone are no reason to write."""
        status = group.status
        before: dict[str, object] = {
            "phase": status.phase,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "admitted": status.admitted,
        }
        after: dict[str, object] = {
            "phase": self.phase,
            "running": self.running,
            "succeeded": self.succeeded,
            "failed": self.failed,
        }
        if self.admitted is not None:
            after["admitted"] = self.admitted
        changed = changed_fields(before, after)
        if self.condition is not None:
            new: dict[str, object] = {
                "type": self.condition.type,
                "status": "True",
                "transitionID": self.session_id,
                "lastTransitionTime": format_time(self.now),
                "reason": self.condition.reason,
            }
            if self.condition.message:
                new["message"] = self.condition.message
            conditions = merged_conditions(raw_conditions(status.conditions), new)
            if conditions is not None:
                changed["conditions"] = conditions
        patches = [Patch({"status": changed})] if changed else []
        time = None if self.last_eviction is None else format_time(self.last_eviction)
        if time is not None and group.annotations.get(LAST_EVICTION) != time:
            patches.append(Patch({"metadata": {"annotations": {LAST_EVICTION: time}}}, is_status=False))
        return patches


def volcano_report(
    job: Job, session: VolcanoSession, problem: tuple[str, str] | None, reasons: str, *, session_id: str, preset: str
) -> VolcanoReport:
    """Return the report of a job at the end of a session, and move the job to its phase.

    `problem`: reason and message of what is wrong with the job's queue. `reasons`: why the job waits, as recorded.
    """
    is_kube_batch = preset == kube_batch.PRESET
    if problem is not None:
        condition: GroupCondition | None = GroupCondition(UNSCHEDULABLE, *problem)
    elif is_kube_batch:
        condition = kube_batch.gang_condition(job, session.job_valid(job))
    else:
        condition = gang_condition(job, session)
    is_unschedulable = condition is not None and condition.type == UNSCHEDULABLE
    if is_kube_batch:
        job.phase = kube_batch.group_phase(job, is_unschedulable=is_unschedulable)
    else:
        phase = group_phase(job, is_unschedulable=is_unschedulable)
        is_done = phase == "Pending" and not job.count(ALIVE) and _stays_completed(job.phase, job.count(_ENDED))
        job.phase = COMPLETED if is_done else phase
    return VolcanoReport(
        phase=job.phase,
        running=job.counts[TaskState.RUNNING],
        succeeded=job.counts[TaskState.SUCCEEDED],
        failed=job.counts[TaskState.FAILED],
        admitted=_admitted(job) if is_kube_batch else None,
        condition=condition,
        last_eviction=job.last_eviction,
        notes=_kube_batch_notes(job, problem, reasons)
        if is_kube_batch
        else _notes(job, condition, problem, reasons) or _enqueue_notes(job, session),
        session_id=session_id,
        now=session.now,
    )


def _enqueue_notes(job: Job, session: VolcanoSession) -> tuple[Note, ...]:
    """Return the event of a group without pods that is not enqueued: its controller waits for that."""
    messages = session.reasons.get(job.uid, {}).values()
    if job.tasks or job.phase != "Pending" or not messages:
        return ()
    return (Note(UNSCHEDULABLE, "; ".join(filter(None, messages))),)


def _admitted(job: Job) -> int:
    return job.count((TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING))


def _kube_batch_notes(job: Job, problem: tuple[str, str] | None, reasons: str) -> tuple[Note, ...]:
    """Return the group's event: it is unschedulable while its phase is Pending or Unknown."""
    if problem is not None:
        return (Note(UNSCHEDULABLE, problem[1], is_warning=True),)
    if job.phase == kube_batch.RUNNING:
        return ()
    text = kube_batch.unschedulable(job, job.counts[TaskState.PENDING], reasons)
    return (Note(UNSCHEDULABLE, text, is_warning=True),)


def _notes(
    job: Job, condition: GroupCondition | None, problem: tuple[str, str] | None, reasons: str
) -> tuple[Note, ...]:
    """Return the group's event: it is unschedulable while tasks wait, else it is scheduled."""
    if problem is not None:
        return (Note(UNSCHEDULABLE, problem[1], is_warning=True),)
    waiting = job.count(_WAITING)
    if condition is None or condition.type == SCHEDULED:
        return (
            (Note(SCHEDULED, "pod group is ready", only_with_change=True),)
            if condition is not None and not waiting
            else ()
        )
    if not waiting:
        return ()
    text = f"{condition.message}. Origin reason is: {reasons}" if reasons else condition.message
    return (Note(UNSCHEDULABLE, text, is_warning=True),)


def ended_report(*, phase: str, min_member: int, succeeded: int, failed: int, preset: str) -> VolcanoReport:
    """Return the report of a group without living members, whose status says `phase`.

    kube-batch knows no phase of groups that have completed: they are Pending, as groups whose members are gone.
    """
    if preset == kube_batch.PRESET:
        return VolcanoReport(phase="Pending", succeeded=succeeded, failed=failed, admitted=0)
    ended = succeeded + failed
    if (ended and ended >= min_member) or _stays_completed(phase, ended):
        phase = COMPLETED
    elif phase != "Inqueue":
        phase = "Pending"
    return VolcanoReport(phase=phase, succeeded=succeeded, failed=failed)


def _stays_completed(phase: str, ended: int) -> bool:
    """Return whether a group without living members is done although fewer than its minimum are there.

    Controllers remove the pods of a job that has ended: all of them, or those that still ran. The group would be
    enqueued again, and reserve its `minResources` for ever.
    """
    return phase == COMPLETED or (phase in {"Running", "Unknown"} and ended > 0)
