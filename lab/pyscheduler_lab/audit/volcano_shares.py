"""Compute the share that each queue deserves, as plugins of Volcano (`proportion`, `capacity`) and kube-batch do."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from pyscheduler_lab.audit.amounts import Amounts, plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyscheduler_lab.audit.batch_objects import Queue

__all__ = ["capacity_deserved", "kube_batch_deserved", "proportion_deserved"]

#: Below this part of the pool nothing remains to be divided; it is more than what rounding leaves.
_NEGLIGIBLE = 1e-12


def kube_batch_deserved(
    queues: Mapping[str, Queue], requested: Mapping[str, Amounts], pool: Mapping[str, float]
) -> dict[str, Amounts]:
    """Return kube-batch's deserved amounts: a queue is met once its request is below its part in every resource."""
    deserved: dict[str, Amounts] = {name: dict.fromkeys(pool, 0.0) for name in queues}
    unmet, left = set(queues), dict(pool)
    while unmet and any(amount > _NEGLIGIBLE * pool[name] for name, amount in left.items()):
        weights = sum(queues[name].weight.get("", 1.0) for name in unmet)
        given: Amounts = dict.fromkeys(pool, 0.0)
        for name in sorted(unmet):
            part = queues[name].weight.get("", 1.0) / weights
            before = dict(deserved[name])
            own = {resource: before[resource] + left[resource] * part for resource in pool}
            wanted = requested.get(name, {})
            if all(wanted.get(resource, 0.0) < own[resource] for resource in pool):
                own = {resource: min(own[resource], wanted.get(resource, 0.0)) for resource in pool}
                unmet.discard(name)
            deserved[name] = own
            for resource in pool:
                given[resource] += own[resource] - before[resource]
        left = {resource: left[resource] - given[resource] for resource in pool}
    return deserved


def proportion_deserved(
    queues: Mapping[str, Queue],
    requested: Mapping[str, Amounts],
    pool: Mapping[str, float],
    used: Iterable[str],
) -> dict[str, Amounts]:
    """Return Volcano's deserved amounts. `used`: the queues with at least one pod group; only these take part."""
    taking = sorted(name for name in used if name in queues)
    guarantees = plus(*(queue.guarantee for queue in queues.values()))
    deserved: dict[str, Amounts] = {name: dict.fromkeys(pool, 0.0) for name in taking}
    unmet, left = set(taking), dict(pool)
    while unmet and any(amount > _NEGLIGIBLE * pool[name] for name, amount in left.items() if name != "pods"):
        weights = sum(queues[name].weight.get("", 1.0) for name in unmet)
        given: Amounts = dict.fromkeys(pool, 0.0)
        for name in sorted(unmet):
            queue, before, wanted = queues[name], deserved[name], requested.get(name, {})
            own = {}
            for resource in pool:
                guarantee = queue.guarantee.get(resource, 0.0)
                real = min(
                    pool[resource] - guarantees.get(resource, 0.0) + guarantee, queue.limit.get(resource, math.inf)
                )
                part = before[resource] + left[resource] * queue.weight.get("", 1.0) / weights
                own[resource] = max(guarantee, min(part, real, wanted.get(resource, 0.0)))
                given[resource] += own[resource] - before[resource]
            if own == before or all(wanted.get(resource, 0.0) <= own[resource] for resource in pool):
                unmet.discard(name)
            deserved[name] = own
        if not any(given.values()):
            break
        left = {resource: max(left[resource] - given[resource], 0.0) for resource in pool}
    return deserved


def capacity_deserved(queues: Mapping[str, Queue], pool: Mapping[str, float]) -> dict[str, Amounts]:
    """Return the deserved amounts of Volcano's capacity plugin.

    Flat: the configured amount, cut by the queue's real capability, and at least its guarantee. With a tree, it is not
    cut; the root deserves the sum of its children. Resources without a configured amount are missing.
    """
    hierarchical = any(queue.parent not in {"", "root"} for queue in queues.values())
    guarantees = plus(*(queue.guarantee for queue in queues.values() if queue.name != "root"))
    found: dict[str, Amounts] = {}
    for queue in queues.values():
        own: Amounts = {}
        for resource in queue.quota.keys() | queue.guarantee.keys():
            guarantee = queue.guarantee.get(resource, 0.0)
            real = math.inf
            if not hierarchical:
                total = pool.get(resource, 0.0) - guarantees.get(resource, 0.0) + guarantee
                real = min(total, queue.limit.get(resource, math.inf))
            own[resource] = max(min(queue.quota.get(resource, 0.0), real), guarantee)
        found[queue.name] = own
    if hierarchical and "root" in found:
        tops: dict[str, float] = defaultdict(float)
        for queue in queues.values():
            if queue.parent == "root":
                for resource, amount in found[queue.name].items():
                    tops[resource] += amount
        found["root"] = dict(tops)
    return found
