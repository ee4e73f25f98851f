"""Compute the fair shares of queues by KAI's rules, for each resource separately.

A queue first gets its quota, but not more than its limit and its request. Remaining resources are divided by priority,
over-quota weight and past use. Child queues divide the share of their parent in the same way.

Source: KAI, `plugins/proportion/resource_division`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_lab.audit.amounts import GPU, Amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_lab.audit.batch_objects import Queue

__all__ = ["RESOURCES", "kai_shares"]

RESOURCES: Final = ("cpu", "memory", GPU)


@attrs.define
class _Entry:
    """One queue during the division of one resource."""

    name: str
    quota: float
    limit: float
    weight: float
    request: float
    usage: float
    created: float
    share: float = 0.0
    remainder: float = 0.0

    @property
    def wanted(self) -> float:
        """Return what the queue may still get."""
        return max(min(self.limit, self.request) - self.share, 0.0)

    @property
    def satisfied(self) -> bool:
        """Return True if the queue has its request or its limit."""
        return self.request <= self.share or self.limit <= self.share


def kai_shares(
    queues: Mapping[str, Queue],
    requested: Mapping[str, Amounts],
    pool: Mapping[str, float],
    *,
    k_value: float = 1.0,
    usage: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Amounts]:
    """Return the fair share of each queue by resource.

    `requested`: allocated and pending amounts by queue, each with all queues below it. `usage`: historical usage by
    queue, as a part of the cluster. Queues below a missing parent get no share.
    """
    children: dict[str, list[Queue]] = defaultdict(list)
    for queue in queues.values():
        children[queue.parent].append(queue)
    shares: dict[str, Amounts] = {}
    for resource in RESOURCES:
        todo = [("", pool.get(resource, 0.0))]
        while todo:
            parent, amount = todo.pop()
            entries = [
                _Entry(
                    name=queue.name,
                    quota=queue.quota.get(resource, math.inf),
                    limit=queue.limit.get(resource, math.inf),
                    weight=queue.weight.get(resource, 0.0),
                    request=requested.get(queue.name, {}).get(resource, 0.0),
                    usage=(usage or {}).get(queue.name, {}).get(resource, 0.0),
                    created=queue.created,
                )
                for queue in children.get(parent, ())
            ]
            _divide(amount, entries, {entry.name: queues[entry.name].priority for entry in entries}, k_value)
            for entry in entries:
                shares.setdefault(entry.name, {})[resource] = entry.share
                todo.append((entry.name, entry.share))
    return shares


def _divide(pool: float, entries: list[_Entry], priorities: Mapping[str, int], k_value: float) -> None:
    """Divide `pool` among siblings; each entry holds its share afterwards."""
    left = pool
    for entry in entries:
        entry.share = min(pool if math.isinf(entry.quota) else entry.quota, entry.limit, entry.request)
        left -= entry.share
    if left <= 0:
        return
    levels = [
        [entry for entry in entries if priorities[entry.name] == priority]
        for priority in sorted(set(priorities.values()), reverse=True)
    ]
    for level in levels:
        left = _divide_by_weight(left, level, k_value)
    for level in levels:
        for entry in sorted(level, key=lambda one: (-one.remainder, one.created, one.name)):
            if entry.remainder <= 0 or left <= 0:
                continue
            given = min(1.0, left)
            entry.share += given
            left -= given


def _divide_by_weight(left: float, level: list[_Entry], k_value: float) -> float:
    """Divide by weight until every queue has its part or its request; return what is left."""
    while left > 0:
        weights = sum(entry.weight for entry in level if entry.wanted > 0)
        if weights == 0:
            return left
        parts: dict[str, float] = {}
        for entry in level:
            if not entry.satisfied:
                normal = entry.weight / weights
                parts[entry.name] = max(0.0, normal + k_value * (normal - entry.usage))
        total, given, again = sum(parts.values()), left, False
        if total == 0:
            return left
        for entry in level:
            if left == 0:
                break
            if entry.name not in parts or entry.weight == 0:
                continue
            ideal, wanted = given * (parts[entry.name] / total), entry.wanted
            if wanted <= ideal:
                amount, entry.remainder = wanted, 0.0
            else:
                amount = float(math.floor(ideal))
                if ideal > amount:
                    entry.remainder = ideal - amount
            entry.share += amount
            left -= amount
            again = again or (amount > 0 and wanted < ideal)
        if not again:
            return left
    return left
