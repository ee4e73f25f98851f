"""Volcano's plugin `resourcequota`: enqueue a job only if its namespace's ResourceQuotas have enough left for it.

Source: Volcano `plugins/resourcequota`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyscheduler_quota.quotas import exceeded
from pyscheduler_volcano.policy import VolcanoPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler_batch.contract import Job

__all__ = ["ResourceQuotas"]


class ResourceQuotas(VolcanoPolicy):
    """Admit jobs whose minimum fits into all quotas of their namespace, beside the jobs admitted before."""

    name: ClassVar[str] = "resourcequota"
    steps: ClassVar[Mapping[str, str]] = {"ResourceQuota": "gates"}

    def prepare(self) -> None:
        """Begin without jobs that this pass admitted."""
        self._pending: dict[str, dict[str, float]] = {}

    def job_enqueueable(self, job: Job) -> int:
        """Accept a job without minResources, or one that fits; a quota limits only the resources that it names."""
        namespace = job.key.partition("/")[0]
        pending = self._pending.get(namespace, {})
        limits = self.session.quotas(namespace)
        for name, amount in job.min_amounts.items():
            limit = limits.get(name)
            if limit is None or not exceeded({name: amount}, limit.hard, limit.used, pending):
                continue
            over = exceeded(job.min_amounts, limit.hard, limit.used, pending)
            amounts = (("requested", job.min_amounts), ("used", limit.used), ("limited", limit.hard))
            listed = ", ".join(f"{title}: {_listed(quantities, over)}" for title, quantities in amounts)
            self.session.record(job, "ResourceQuota", f"resource quota insufficient, {listed}")
            return -1
        return 1

    def job_enqueued(self, job: Job) -> None:
        """Count the minimum of an admitted job."""
        if not job.min_amounts:
            return
        pending = self._pending.setdefault(job.key.partition("/")[0], {})
        for name, amount in job.min_amounts.items():
            pending[name] = pending.get(name, 0.0) + amount


def _listed(amounts: Mapping[str, float], names: Iterable[str]) -> str:
    """Return amounts as a list; CPU is in millicores."""
    parts = (f"{name}:{amounts.get(name, 0.0):.10g}{'m' if name == 'cpu' else ''}" for name in sorted(names))
    return f"map[{' '.join(parts)}]"
