"""Read the ResourceQuotas of all namespaces, for Volcano's plugin `resourcequota`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_batch.model.values import amounts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import ResourceQuota

__all__ = ["QuotaLimit", "QuotaLimits"]


@attrs.frozen
class QuotaLimit:
    """The amounts of a quota by resource, as its status has them."""

    hard: Mapping[str, float]
    used: Mapping[str, float]

    @classmethod
    def of(cls, quota: ResourceQuota) -> QuotaLimit:
        """Read a quota; a limit that cannot be read limits nothing."""
        return cls(amounts_of(quota.status.hard, "status", []), amounts_of(quota.status.used, "status", []))

    def room(self, name: str) -> float:
        """Return how much of a limited resource is left."""
        return self.hard[name] - self.used.get(name, 0.0)


class QuotaLimits:
    """The quotas by namespace. Each is read once, and the tightest of a namespace are found once after a change."""

    def __init__(self) -> None:
        self._limits: dict[str, dict[str, QuotaLimit]] = {}
        self._tightest: dict[str, Mapping[str, QuotaLimit]] = {}

    def put(self, quota: ResourceQuota) -> bool:
        """Take over a quota that came or changed; return whether its amounts did."""
        limits, limit = self._limits.setdefault(quota.namespace, {}), QuotaLimit.of(quota)
        is_changed = limits.get(quota.name) != limit
        if is_changed:
            limits[quota.name] = limit
            self._tightest.pop(quota.namespace, None)
        return is_changed

    def remove(self, quota: ResourceQuota) -> None:
        """Forget a quota."""
        limits = self._limits[quota.namespace]
        del limits[quota.name]
        if not limits:
            del self._limits[quota.namespace]
        self._tightest.pop(quota.namespace, None)

    def tightest(self, namespace: str) -> Mapping[str, QuotaLimit]:
        """Return by limited resource the quota of a namespace with the least room for it."""
        limits, found = self._limits.get(namespace), self._tightest.get(namespace)
        if limits is None:
            return {}
        if found is None:
            best: dict[str, QuotaLimit] = {}
            for limit in limits.values():
                for name in limit.hard:
                    if name not in best or limit.room(name) < best[name].room(name):
                        best[name] = limit
            found = self._tightest[namespace] = best
        return found
