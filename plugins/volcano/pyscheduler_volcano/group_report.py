"""Compute the status of Volcano's pod groups after a scheduling round.

Sources: Volcano `framework/session.go`, `framework/job_updater.go`, `plugins/gang`, `scheduler/cache/cache.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import format_time
from pyscheduler_batch.contract import ALIVE, TaskState
from pyscheduler_batch.status.report import COMPLETED, Note, merged_conditions, raw_conditions
from pyscheduler_batch.status.writer import Patch, changed_fields
from pyscheduler_volcano.objects import LAST_EVICTION
from pyscheduler_volcano.status import GroupCondition, gang_condition, group_phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.contract import Job, JobSpec
    from pyscheduler_batch.status.reports import JobFacts
    from pyscheduler_volcano.session import VolcanoSession

__all__ = ["UNSCHEDULABLE", "VolcanoReport", "ended_report", "report_of", "volcano_report"]

UNSCHEDULABLE = "Unschedulable"
SCHEDULED = "Scheduled"
_ENDED = (TaskState.SUCCEEDED, TaskState.FAILED)
_WAITING = (TaskState.PENDING, TaskState.GATED, TaskState.ALLOCATED, TaskState.PIPELINED)


@attrs.frozen(kw_only=True)
class VolcanoReport:
    """The report of a pass about one group. `session_id` and `now` are those of the pass, in the condition."""

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

    def remembered(self, spec: JobSpec) -> JobSpec:
        """Return a description of the group with its phase and its last eviction as of this report."""
        last_eviction = spec.last_eviction if self.last_eviction is None else self.last_eviction
        return attrs.evolve(spec, phase=self.phase, last_eviction=last_eviction)

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


def volcano_report(job: Job, session: VolcanoSession, facts: JobFacts) -> VolcanoReport:
    """Return the report of a job at the end of a session, and move the job to its phase."""
    problem = facts.problem
    condition = gang_condition(job, session) if problem is None else GroupCondition(UNSCHEDULABLE, *problem)
    phase = group_phase(job, is_unschedulable=condition is not None and condition.type == UNSCHEDULABLE)
    is_done = phase == "Pending" and not job.count(ALIVE) and _stays_completed(job.phase, job.count(_ENDED))
    job.phase = COMPLETED if is_done else phase
    notes = _notes(job, condition, problem, facts.reasons) or _enqueue_notes(job, session)
    return report_of(job, condition, notes, facts.session_id, session.now)


def report_of(
    job: Job, condition: GroupCondition | None, notes: Sequence[Note], session_id: str, now: float
) -> VolcanoReport:
    """Return a report with the job's phase and the states of its pods."""
    return VolcanoReport(
        phase=job.phase,
        running=job.counts[TaskState.RUNNING],
        succeeded=job.counts[TaskState.SUCCEEDED],
        failed=job.counts[TaskState.FAILED],
        condition=condition,
        last_eviction=job.last_eviction,
        notes=notes,
        session_id=session_id,
        now=now,
    )


def _enqueue_notes(job: Job, session: VolcanoSession) -> tuple[Note, ...]:
    """Return the event of a group without pods that is not enqueued: its controller waits for that."""
    messages = session.reasons.get(job.uid, {}).values()
    if job.tasks or job.phase != "Pending" or not messages:
        return ()
    return (Note(UNSCHEDULABLE, "; ".join(filter(None, messages))),)


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


def ended_report(*, phase: str, min_member: int, succeeded: int, failed: int) -> VolcanoReport:
    """Return the report of a group without living members, whose status says `phase`."""
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
