"""Compute the status of kube-batch's pod groups after a scheduling round.

Source: kube-batch `framework/session.go`, `cache/cache.go` (RecordJobStatusEvent).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.contract import TaskState
from pyscheduler_batch.status.report import Note
from pyscheduler_kube_batch.status import RUNNING, gang_condition, group_phase, unschedulable
from pyscheduler_volcano.group_report import UNSCHEDULABLE, VolcanoReport, report_of
from pyscheduler_volcano.status import GroupCondition

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Job
    from pyscheduler_batch.status.reports import JobFacts
    from pyscheduler_kube_batch.session import KubeBatchSession

__all__ = ["kube_batch_report"]

_ADMITTED = (TaskState.BINDING, TaskState.BOUND, TaskState.RUNNING)


def kube_batch_report(job: Job, session: KubeBatchSession, facts: JobFacts) -> VolcanoReport:
    """Return the report of a job at the end of a session, and move the job to its phase."""
    problem = facts.problem
    if problem is not None:
        condition: GroupCondition | None = GroupCondition(UNSCHEDULABLE, *problem)
    else:
        condition = gang_condition(job, session.gates.job_valid(job))
    job.phase = group_phase(job, is_unschedulable=condition is not None and condition.type == UNSCHEDULABLE)
    notes = _notes(job, problem, facts.reasons)
    return attrs.evolve(report_of(job, condition, notes, facts.session_id, session.now), admitted=job.count(_ADMITTED))


def _notes(job: Job, problem: tuple[str, str] | None, reasons: str) -> tuple[Note, ...]:
    """Return the group's event: it is unschedulable while its phase is Pending or Unknown."""
    if problem is not None:
        return (Note(UNSCHEDULABLE, problem[1], is_warning=True),)
    if job.phase == RUNNING:
        return ()
    text = unschedulable(job, job.counts[TaskState.PENDING], reasons)
    return (Note(UNSCHEDULABLE, text, is_warning=True),)
