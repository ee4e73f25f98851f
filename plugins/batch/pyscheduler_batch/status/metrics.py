"""Metrics of queues, computed when Prometheus reads the metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler_batch import contract
from pyscheduler_batch.model.axis import CPU, MEMORY, PODS
from pyscheduler_batch.status.queues import QueueSums

if TYPE_CHECKING:
    from pyscheduler.framework import MetricRecorder
    from pyscheduler_batch.model.axis import Amounts
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.model.session import Session

__all__ = ["MOST_QUEUES", "OTHERS", "QueueMetrics", "Shares", "shares_of"]

MOST_QUEUES: Final = 1000
"""The oldest so many queues have values of their own."""
OTHERS: Final = "_others"
"""The name of the sum of all other queues; no queue can have it."""

_Labels: TypeAlias = tuple[tuple[str, str], ...]
Shares: TypeAlias = "tuple[Mapping[str, int], Amounts, Sequence[str]]"
"""The row of each queue, the shares of a pass (float64[Q, n]), and the resource of each column."""


def shares_of(session: Session) -> Shares | None:
    """Return the shares of a pass, of the first policy that computes shares; None if there is none."""
    policy = next((policy for tier in session.policies(contract.Shares) for policy in tier), None)
    return None if policy is None else (session.queues.index, policy.queue_shares(), session.axis.names)


@attrs.define(eq=False)
class QueueMetrics:
    """The values of the metrics of one preset; `Statuses` keeps them up to date while this scheduler leads."""

    preset: str
    specs: Mapping[str, QueueSpec] = attrs.Factory(dict)
    totals: Mapping[str, QueueSums] = attrs.Factory(dict)
    #: By queue, how many groups are in which phase.
    phases: Mapping[str, Mapping[str, int]] = attrs.Factory(dict)
    #: Of the last pass.
    shares: Shares | None = None
    #: Number of evicted pods by action.
    evicted: Counter[str] = attrs.Factory(Counter)

    def register(self, recorder: MetricRecorder) -> None:
        """Register what every preset has: the pods that its actions evicted."""
        recorder.counter(
            f"{self.preset.replace('-', '_')}_pod_group_evicted_pods_total",
            lambda: {(("action", action),): float(count) for action, count in self.evicted.items()},
            description="Pods that actions evicted",
        )

    def gauge(self, recorder: MetricRecorder, name: str, value: Callable[[str], float], description: str) -> None:
        """Register a gauge by queue."""

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

    def allocated(self, resource: str, unit: float = 1.0) -> Callable[[str], float]:
        """Return what reads the amounts that bound pods hold, times `unit`."""
        return lambda queue: self._sums(queue).allocated.get(resource, 0.0) * unit

    def requested(self, resource: str) -> Callable[[str], float]:
        """Return what reads the amounts that all pods request."""
        return lambda queue: self._sums(queue).requested.get(resource, 0.0)

    def quota(self, resource: str, unit: float) -> Callable[[str], float]:
        """Return what reads the quotas of queues, times `unit`; -1 for one without a limit."""

        def value(queue: str) -> float:
            amount = self.specs[queue].quota.get(resource, 0.0)
            return -1.0 if math.isinf(amount) else amount * unit

        return value

    def share(self, resource: str, unit: float = 1.0) -> Callable[[str], float]:
        """Return what reads the shares of the last pass, times `unit`; -1 for one without a limit."""

        def value(queue: str) -> float:
            rows, amounts, columns = self.shares or ({}, None, ())
            if amounts is None or queue not in rows or resource not in columns:
                return 0.0
            amount = float(amounts[rows[queue], columns.index(resource)])
            return amount * unit if math.isfinite(amount) else -1.0

        return value

    def count(self, phase: str) -> Callable[[str], float]:
        """Return what reads how many groups are in a phase."""
        return lambda queue: float(self.phases.get(queue, {}).get(phase.capitalize(), 0))

    def _sums(self, queue: str) -> QueueSums:
        return self.totals.get(queue) or QueueSums()

    def scalars(self, kind: str) -> dict[_Labels, float]:
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
