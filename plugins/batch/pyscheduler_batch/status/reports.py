"""The base class `Reports`: the statuses, events and metrics that a batch system writes about jobs and queues."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

import attrs

from pyscheduler_batch.model.amounts import amount_text
from pyscheduler_batch.status.report import SilentReport
from pyscheduler_batch.status.writer import StatusWish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import MetricRecorder
    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.model.session import Session
    from pyscheduler_batch.model.tasks import Job, Task
    from pyscheduler_batch.status.metrics import QueueMetrics
    from pyscheduler_batch.status.queues import QueueSums
    from pyscheduler_batch.status.report import GroupReport
    from pyscheduler_batch.status.writer import Wish

__all__ = ["JobFacts", "Reports", "pod_note"]


@attrs.frozen(kw_only=True)
class JobFacts:
    """The findings of a pass about a job, besides its session."""

    #: Reason and message of what is wrong with its queue.
    problem: tuple[str, str] | None
    #: What its pods hold and request.
    sums: QueueSums
    #: Why it waits, as recorded; "" if this pass did not try it.
    reasons: str
    #: The id of the pass, of the form of a UUID, and the node pool of the profile.
    session_id: str
    node_pool: str


class Reports:
    """The reports of one system. Objects of it keep nothing."""

    #: Whether queues count their groups by phase.
    counts_phases: ClassVar[bool] = False
    #: Whether pods have events when they are evicted, and when they are promised a node.
    tells_evictions: ClassVar[bool] = True
    tells_promises: ClassVar[bool] = False
    #: The reason of a job with fewer pods than its minimum.
    too_few_pods: ClassVar[str] = "NotEnoughTasks"
    #: The amounts of queues beside quota and limit, as `kubectl queue describe` calls them.
    further_amount: ClassVar[str] = "Guarantee"

    def of_job(self, job: Job, session: Session, facts: JobFacts) -> GroupReport:
        """Return the report of a job at the end of a pass; the job may be moved to another phase."""
        return SilentReport()

    def of_ended(
        self,
        group: GroupObject,
        before: GroupReport | None,
        *,
        min_member: int,
        succeeded: int,
        failed: int,
    ) -> GroupReport:
        """Return the report of a group without living members; `before` is the last one."""
        return SilentReport()

    def of_queues(
        self,
        specs: Mapping[str, QueueSpec],
        totals: Mapping[str, QueueSums],
        phases: Mapping[str, Mapping[str, int]],
    ) -> Mapping[str, Mapping[str, object]]:
        """Return the status of each queue by name; a queue without one is left alone.

        `phases`: how many groups of a queue are in which phase.
        """
        return {}

    def queue_wish(
        self,
        queue: KubeObject,
        status: Mapping[str, object],
        specs: Mapping[str, QueueSpec],
        phases: Mapping[str, int],
    ) -> Wish:
        """Return what to bring a queue to; equal wishes are written once."""
        return StatusWish(status)

    def queue_fields(self, spec: QueueSpec) -> Sequence[tuple[str, str]]:
        """Return what only queues of this system say, with names."""
        return [("Weight", f"{spec.weight:g}")]

    def further_amount_of(self, spec: QueueSpec, resource: str) -> str:
        """Return the amount of a resource that `further_amount` names, as text."""
        return amount_text(resource, spec.guarantee.get(resource, math.nan))

    def weight(self, spec: QueueSpec, resource: str) -> float:
        """Return the weight of a queue for a resource."""
        return spec.weight

    def evict_note(self, job: Job, tasks: Sequence[Task], *, action: str, by: Job | None) -> str:
        """Return the first part of the event of an eviction on the group."""
        return pod_note(action)

    def register(self, metrics: QueueMetrics, recorder: MetricRecorder) -> None:
        """Register the metrics of the system's queues."""


def pod_note(action: str) -> str:
    """Return the note of the event `Evict` on a pod. Source: Volcano `scheduler/cache/cache.go`."""
    return f"Pod is evicted, because of {action}"
