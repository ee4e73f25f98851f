"""Make statuses, events and metrics of pod groups and queues, like those of Volcano.

Sources: Volcano `framework/session.go`, `pkg/controllers/queue`, `scheduler/metrics/queue.go`,
`controllers/metrics/queue.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from pyscheduler_batch.contract import CPU, MEMORY
from pyscheduler_batch.model.amounts import NONE
from pyscheduler_batch.status.quantities import resource_list
from pyscheduler_batch.status.reports import Reports
from pyscheduler_batch.status.writer import Patch, StatusWish, changed_fields, status_of
from pyscheduler_volcano.group_report import VolcanoReport, ended_report, volcano_report
from pyscheduler_volcano.queue_states import CLOSED_BY_PARENT, QueueMove, move_of
from pyscheduler_volcano.session import VolcanoSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import MetricRecorder
    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.contract import Job, QueueSpec, Session
    from pyscheduler_batch.status.metrics import QueueMetrics
    from pyscheduler_batch.status.queues import QueueSums
    from pyscheduler_batch.status.report import GroupReport
    from pyscheduler_batch.status.reports import JobFacts
    from pyscheduler_batch.status.writer import Wish

__all__ = ["VolcanoReports"]

_PHASES = ("Unknown", "Pending", "Running", "Inqueue", "Completed")
#: In the order of the metrics.
_COUNTED = ("inqueue", "pending", "running", "unknown", "completed")


class VolcanoReports(Reports):
    """Phases and conditions of groups; counts, amounts and states of queues."""

    counts_phases = True

    def queue_fields(self, spec: QueueSpec) -> Sequence[tuple[str, str]]:
        """Return the weight of a queue, whether others may reclaim from it, and its place in a hierarchy."""
        fields = [*super().queue_fields(spec), ("Reclaimable", "true" if spec.reclaimable else "false")]
        if spec.hierarchy:
            fields.append(("Hierarchy", f"{spec.hierarchy} (weights {spec.hierarchy_weights or NONE})"))
        return fields

    def of_job(self, job: Job, session: Session, facts: JobFacts) -> GroupReport:
        """Return phase, counts and condition of a group."""
        assert isinstance(session, VolcanoSession), "the class of the system's sessions"
        return volcano_report(job, session, facts)

    def of_ended(
        self, group: GroupObject, before: GroupReport | None, *, min_member: int, succeeded: int, failed: int
    ) -> GroupReport:
        """Return whether the group has completed."""
        phase = before.phase if isinstance(before, VolcanoReport) else group.status.phase
        return ended_report(phase=phase, min_member=min_member, succeeded=succeeded, failed=failed)

    def of_queues(
        self,
        specs: Mapping[str, QueueSpec],
        totals: Mapping[str, QueueSums],
        phases: Mapping[str, Mapping[str, int]],
    ) -> Mapping[str, Mapping[str, object]]:
        """Return the counts of groups and what is allocated, without the state."""
        return {name: _status(totals[name], phases.get(name, {})) for name in specs}

    def queue_wish(
        self,
        queue: KubeObject,
        status: Mapping[str, object],
        specs: Mapping[str, QueueSpec],
        phases: Mapping[str, int],
    ) -> Wish:
        """Return what to bring a queue to, with the next state."""
        above = specs.get(specs[queue.name].parent)
        move = move_of(
            _state_of(queue),
            has_groups=any(phases.values()),
            parent="" if above is None else str(above.state),
            closed_by_parent=queue.annotations.get(CLOSED_BY_PARENT) == "true",
        )
        return _QueueWish(status, move)

    def register(self, metrics: QueueMetrics, recorder: MetricRecorder) -> None:
        """Register what queues hold, request and deserve, their weights, and their groups by phase."""
        for resource, suffix in ((CPU, "milli_cpu"), (MEMORY, "memory_bytes")):
            for name, value, text in (
                ("allocated", metrics.allocated(resource), "Held"),
                ("request", metrics.requested(resource), "Requested"),
                ("deserved", metrics.share(resource), "Share of"),
            ):
                metrics.gauge(recorder, f"volcano_queue_{name}_{suffix}", value, f"{text} {resource}")
        for name, kind in (("allocated", "allocated"), ("request", "requested")):
            recorder.gauge(
                f"volcano_queue_{name}_scalar_resources",
                lambda kind=kind: metrics.scalars(kind),  # type: ignore[misc]  # mypy knows no defaults of lambdas
                description=f"Other {kind} resources",
            )
        metrics.gauge(
            recorder, "volcano_queue_weight", lambda queue: metrics.specs[queue].weight, "Weight of the queue"
        )
        for phase in _COUNTED:
            metrics.gauge(recorder, f"volcano_queue_pod_group_{phase}_count", metrics.count(phase), f"Groups: {phase}")


@attrs.frozen
class _QueueWish(StatusWish):
    """The wish that a queue has this status, and moves to another state."""

    move: QueueMove

    def __call__(self, item: KubeObject) -> Sequence[Patch]:
        """Return what status and annotations lack.

        If somebody else changed the state meanwhile, the next computation of all queues decides about it.
        """
        patches, wanted = [], {**self.status}
        if self.move.seen == _state_of(item):
            wanted["state"] = self.move.state
            if self.move.by_parent is not None:
                annotations = {CLOSED_BY_PARENT: str(self.move.by_parent).lower()}
                patches.append(Patch({"metadata": {"annotations": annotations}}, is_status=False))
        changed = changed_fields(status_of(item), wanted)
        if changed:
            patches.append(Patch({"status": changed}))
        return patches


def _state_of(queue: KubeObject) -> str:
    state = status_of(queue).get("state")
    return state if isinstance(state, str) else ""


def _status(sums: QueueSums, phases: Mapping[str, int]) -> Mapping[str, object]:
    status: dict[str, Any] = {phase.lower(): phases.get(phase, 0) for phase in _PHASES}
    status["allocated"] = resource_list({CPU: 0.0, MEMORY: 0.0, **sums.allocated})
    return status
