"""The statuses, events and metrics that KAI's users expect.

Sources: KAI-Scheduler, `pkg/queuecontroller` and `pkg/scheduler/metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_objects.durations import format_duration
from pyscheduler_batch.contract import CPU, GPU, MEMORY
from pyscheduler_batch.model.amounts import NONE
from pyscheduler_batch.status.reports import Reports
from pyscheduler_kai.evict_note import evict_note
from pyscheduler_kai.group_report import KaiReport, kai_report, resources_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.framework import MetricRecorder
    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.contract import Job, QueueSpec, Session, Task
    from pyscheduler_batch.status.metrics import QueueMetrics
    from pyscheduler_batch.status.queues import QueueSums
    from pyscheduler_batch.status.report import GroupReport
    from pyscheduler_batch.status.reports import JobFacts

__all__ = ["KaiReports"]


class KaiReports(Reports):
    """Scheduling conditions of groups, amounts of queues, and events of promised nodes."""

    too_few_pods = "NotReady"
    further_amount = "Over-quota weight"
    tells_evictions = False
    tells_promises = True

    def queue_fields(self, spec: QueueSpec) -> Sequence[tuple[str, str]]:
        """Return the times for which jobs of a queue are protected."""
        return [
            ("Preempt min runtime", _seconds(spec.preempt_min_runtime)),
            ("Reclaim min runtime", _seconds(spec.reclaim_min_runtime)),
        ]

    def further_amount_of(self, spec: QueueSpec, resource: str) -> str:
        """Return the weight of a queue beyond its quota."""
        return f"{spec.over_quota_weight[resource]:g}" if resource in spec.over_quota_weight else NONE

    def weight(self, spec: QueueSpec, resource: str) -> float:
        """Return the weight of a queue beyond its quota."""
        return spec.over_quota_weight.get(resource, 0.0)

    def of_job(self, job: Job, session: Session, facts: JobFacts) -> GroupReport:
        """Return counts, amounts, condition and times of a group."""
        return kai_report(job, session, facts.problem, facts.sums, facts.node_pool)

    def of_ended(
        self, group: GroupObject, before: GroupReport | None, *, min_member: int, succeeded: int, failed: int
    ) -> GroupReport:
        """Return counts, and that nothing is held."""
        del group, before, min_member
        counts = {"pending": 0, "running": 0, "succeeded": succeeded, "failed": failed}
        empty: Mapping[str, str] = {}
        resources = {"allocated": empty, "allocatedNonPreemptible": empty, "requested": empty}
        return KaiReport(counts=counts, resources=resources)

    def of_queues(
        self,
        specs: Mapping[str, QueueSpec],
        totals: Mapping[str, QueueSums],
        phases: Mapping[str, Mapping[str, int]],
    ) -> Mapping[str, Mapping[str, object]]:
        """Return amounts and children of each queue."""
        del phases
        children: dict[str, list[str]] = {}
        for spec in specs.values():
            children.setdefault(spec.parent, []).append(spec.name)
        return {name: _status(totals[name], children.get(name, ())) for name in specs}

    def evict_note(self, job: Job, tasks: Sequence[Task], *, action: str, by: Job | None) -> str:
        """Return why the tasks are evicted, in KAI's words."""
        return evict_note(job, tasks, action, by)

    def register(self, metrics: QueueMetrics, recorder: MetricRecorder) -> None:
        """Register what queues hold, their quotas and their fair shares."""
        for resource, suffix, quota, unit in (
            (GPU, "gpus", "deserved_gpus", 1.0),
            (CPU, "cpu_cores", "quota_cpu_cores", 1e-3),
            (MEMORY, "memory_bytes", "quota_memory_bytes", 1.0),
        ):
            held = metrics.allocated(resource, unit)
            metrics.gauge(recorder, f"kai_queue_allocated_{suffix}", held, f"Held {resource}")
            metrics.gauge(recorder, f"kai_queue_{quota}", metrics.quota(resource, unit), f"Quota of {resource}")
        for resource, suffix, unit in ((GPU, "gpu", 1.0), (CPU, "cpu_cores", 1e-3), (MEMORY, "memory_gb", 1e-9)):
            share = metrics.share(resource, unit)
            metrics.gauge(recorder, f"kai_queue_fair_share_{suffix}", share, f"Share of {resource}")


def _status(sums: QueueSums, children: Iterable[str]) -> Mapping[str, object]:
    return {"childQueues": sorted(children), **resources_of(sums)}


def _seconds(value: float | None) -> str:
    return NONE if value is None else format_duration(value)
