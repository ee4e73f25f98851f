"""The statuses of kube-batch's queues and pod groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler_batch.status.reports import Reports
from pyscheduler_kube_batch.group_report import kube_batch_report
from pyscheduler_kube_batch.session import KubeBatchSession
from pyscheduler_volcano.group_report import VolcanoReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.contract import Job, QueueSpec, Session
    from pyscheduler_batch.status.queues import QueueSums
    from pyscheduler_batch.status.report import GroupReport
    from pyscheduler_batch.status.reports import JobFacts

__all__ = ["KubeBatchReports"]

_PHASES = ("Unknown", "Pending", "Running")


class KubeBatchReports(Reports):
    """Phases and conditions of groups, and counts of queues."""

    counts_phases = True

    def of_job(self, job: Job, session: Session, facts: JobFacts) -> GroupReport:
        """Return phase, counts and condition of a group."""
        assert isinstance(session, KubeBatchSession), "the class of the system's sessions"
        return kube_batch_report(job, session, facts)

    def of_ended(
        self, group: GroupObject, before: GroupReport | None, *, min_member: int, succeeded: int, failed: int
    ) -> GroupReport:
        """Return that the group is pending: kube-batch knows no phase of groups that have completed."""
        del group, before, min_member
        return VolcanoReport(phase="Pending", succeeded=succeeded, failed=failed, admitted=0)

    def of_queues(
        self,
        specs: Mapping[str, QueueSpec],
        totals: Mapping[str, QueueSums],
        phases: Mapping[str, Mapping[str, int]],
    ) -> Mapping[str, Mapping[str, object]]:
        """Return how many groups of each queue are in which phase."""
        del totals
        return {name: {phase.lower(): phases.get(name, {}).get(phase, 0) for phase in _PHASES} for name in specs}
