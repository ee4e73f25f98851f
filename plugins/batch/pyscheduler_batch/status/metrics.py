"""Metrics of queues, under the names of KAI and Volcano. They are computed when they are read.

Sources: KAI-Scheduler `pkg/queuecontroller/metrics`, `pkg/scheduler/metrics`; Volcano `scheduler/metrics/queue.go`,
`controllers/metrics/queue.go`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.batch.axis import CPU, GPU, MEMORY, PODS
from pyscheduler_batch.status.queues import QueueSums

if TYPE_CHECKING:
    from pyscheduler.batch.axis import Amounts
    from pyscheduler.batch.queue_spec import QueueSpec
    from pyscheduler.framework import Recorder

__all__ = ["MOST_QUEUES", "OTHERS", "QueueMetrics"]

MOST_QUEUES: Final = 1000
"""The oldest so many queues have values of their own."""
OTHERS: Final = "_others"
"""The name of the sum of all other queues; no queue can have it."""

_Labels: TypeAlias = tuple[tuple[str, str], ...]
_PHASES: Final = ("inqueue", "pending", "running", "unknown", "completed")


@attrs.define(eq=False)
class QueueMetrics:
    """What the metrics of one preset show; `Statuses` keeps it up to date while this scheduler leads."""

    preset: str
    specs: Mapping[str, QueueSpec] = attrs.Factory(dict)
    totals: Mapping[str, QueueSums] = attrs.Factory(dict)
    #: By queue, how many groups are in which phase.
    phases: Mapping[str, Mapping[str, int]] = attrs.Factory(dict)
    #: Of the last pass: the row of each queue, the shares (float64[Q, n]), and the resource of each column.
    shares: tuple[Mapping[str, int], Amounts, Sequence[str]] | None = None
    #: Number of evicted pods by action.
    evicted: Counter[str] = attrs.Factory(Counter)

    def register(self, recorder: Recorder) -> None:
        """Register the metrics of the preset's system."""
        if self.preset == "kai":
            self._register_kai(recorder)
        elif self.preset == "volcano":
            self._register_volcano(recorder)
        recorder.counter(
            f"{self.preset.replace('-', '_')}_pod_group_evicted_pods_total",
            lambda: {(("action", action),): float(count) for action, count in self.evicted.items()},
            description="Pods that actions evicted",
        )

    def _register_kai(self, recorder: Recorder) -> None:
        for resource, suffix, quota, unit in (
            (GPU, "gpus", "deserved_gpus", 1.0),
            (CPU, "cpu_cores", "quota_cpu_cores", 1e-3),
            (MEMORY, "memory_bytes", "quota_memory_bytes", 1.0),
        ):
            self._gauge(recorder, f"kai_queue_allocated_{suffix}", self._allocated(resource, unit), f"Held {resource}")
            self._gauge(recorder, f"kai_queue_{quota}", self._quota(resource, unit), f"Quota of {resource}")
        for resource, suffix, unit in ((GPU, "gpu", 1.0), (CPU, "cpu_cores", 1e-3), (MEMORY, "memory_gb", 1e-9)):
            self._gauge(recorder, f"kai_queue_fair_share_{suffix}", self._share(resource, unit), f"Share of {resource}")

    def _register_volcano(self, recorder: Recorder) -> None:
        for resource, suffix in ((CPU, "milli_cpu"), (MEMORY, "memory_bytes")):
            self._gauge(recorder, f"volcano_queue_allocated_{suffix}", self._allocated(resource), f"Held {resource}")
            self._gauge(recorder, f"volcano_queue_request_{suffix}", self._requested(resource), f"Requested {resource}")
            self._gauge(recorder, f"volcano_queue_deserved_{suffix}", self._share(resource), f"Share of {resource}")
        for name, kind in (("allocated", "allocated"), ("request", "requested")):
            recorder.gauge(
                f"volcano_queue_{name}_scalar_resources",
                lambda kind=kind: self._scalars(kind),  # type: ignore[misc]  # mypy knows no defaults of lambdas
                description=f"Other {kind} resources",
            )
        self._gauge(recorder, "volcano_queue_weight", lambda queue: self.specs[queue].weight, "Weight of the queue")
        for phase in _PHASES:
            self._gauge(recorder, f"volcano_queue_pod_group_{phase}_count", self._count(phase), f"Groups: {phase}")

    def _gauge(self, recorder: Recorder, name: str, value: Callable[[str], float], description: str) -> None:
        def read() -> dict[_Labels, float]:
            return {(("queue_name", queue),): amount for queue, amount in self._by_queue(value).items()}

        recorder.gauge(name, read, description=description)

    def _by_queue(self, value: Callable[[str], float]) -> dict[str, float]:
        """Return the value of each queue; of those beyond the limit the sum."""
        names = self._names()
        found = {name: value(name) for name in names[:MOST_QUEUES]}
        if len(names) > MOST_QUEUES:
            # -1 stands for unlimited, which cannot be added.
            found[OTHERS] = sum(max(value(name), 0.0) for name in names[MOST_QUEUES:])
        return found

    def _names(self) -> list[str]:
        return sorted(self.specs, key=lambda name: (self.specs[name].created, name))

    def _allocated(self, resource: str, unit: float = 1.0) -> Callable[[str], float]:
        return lambda queue: self._sums(queue).allocated.get(resource, 0.0) * unit

    def _requested(self, resource: str) -> Callable[[str], float]:
        return lambda queue: self._sums(queue).requested.get(resource, 0.0)

    def _quota(self, resource: str, unit: float) -> Callable[[str], float]:
        def value(queue: str) -> float:
            amount = self.specs[queue].quota.get(resource, 0.0)
            return -1.0 if math.isinf(amount) else amount * unit

        return value

    def _share(self, resource: str, unit: float = 1.0) -> Callable[[str], float]:
        def value(queue: str) -> float:
            rows, amounts, columns = self.shares or ({}, None, ())
            if amounts is None or queue not in rows or resource not in columns:
                return 0.0
            amount = float(amounts[rows[queue], columns.index(resource)])
            return amount * unit if math.isfinite(amount) else -1.0

        return value

    def _count(self, phase: str) -> Callable[[str], float]:
        return lambda queue: float(self.phases.get(queue, {}).get(phase.capitalize(), 0))

    def _sums(self, queue: str) -> QueueSums:
        return self.totals.get(queue) or QueueSums()

    def _scalars(self, kind: str) -> dict[_Labels, float]:
        """Return the resources besides CPU and memory, by queue and resource."""
        found: dict[_Labels, float] = {}
        for resource in sorted(self._scalar_names(kind)):

            def value(queue: str, resource: str = resource) -> float:
                amounts: Mapping[str, float] = getattr(self._sums(queue), kind)
                return amounts.get(resource, 0.0)

            for queue, amount in self._by_queue(value).items():
                if amount:
                    found[("queue_name", queue), ("resource", resource)] = amount
        return found

    def _scalar_names(self, kind: str) -> Iterable[str]:
        return {name for sums in self.totals.values() for name in getattr(sums, kind)} - {CPU, MEMORY, PODS}
