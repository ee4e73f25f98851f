"""Decide by fair shares whether a reclaim was allowed. A reclaim evicts pods of one queue for a job of another.

Sources: KAI, `plugins/proportion/reclaimable`; Volcano, `plugins/proportion` and `plugins/capacity`; kube-batch,
`plugins/proportion`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from pyscheduler_lab.audit.amounts import Amounts, fits, plus
from pyscheduler_lab.audit.shares import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler_lab.audit.batch_objects import Queue

__all__ = ["Claim", "ShareState", "kai_objection", "volcano_objection"]


@attrs.frozen(kw_only=True)
class Claim:
    """The request of a job that reclaims."""

    queue: str
    preemptible: bool
    request: Amounts


@attrs.frozen(kw_only=True)
class ShareState:
    """Queues and their amounts at one moment; every amount of a queue contains the queues below it."""

    queues: Mapping[str, Queue]
    allocated: Mapping[str, Amounts]
    non_preemptible: Mapping[str, Amounts]
    #: Fair share (KAI) or deserved (Volcano, kube-batch).
    fair: Mapping[str, Amounts]

    def path(self, queue: str) -> list[str]:
        """Return the queue's path, from the top down."""
        found: list[str] = []
        while queue in self.queues and queue not in found:
            found.append(queue)
            queue = self.queues[queue].parent
        return found[::-1]

    def split(self, one: str, other: str) -> tuple[str, str]:
        """Return the two queues at which the paths of two leaf queues part."""
        pairs = list(zip(self.path(one), self.path(other), strict=False))
        return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1] if pairs else (one, other))


def _within(amounts: Mapping[str, float], bounds: Mapping[str, float]) -> bool:
    return all(fits(amounts.get(name, 0.0), bounds.get(name, 0.0)) for name in RESOURCES)


def _show(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(amounts.items()) if name != "pods")


def kai_objection(
    state: ShareState, claim: Claim, victims: Mapping[str, Sequence[Amounts]], *, multiplier: float = 1.0
) -> str:
    """Return KAI's objection to a reclaim.

    `victims`: by leaf queue the units that are evicted: a surplus pod, or the rest of a job. Moved pods are left out.
    A set of units passes if one order of them passes.
    """
    wanted = plus(state.allocated.get(claim.queue, {}), claim.request)
    fair = state.fair.get(claim.queue, {})
    for name in RESOURCES:
        if not fits(wanted.get(name, 0.0), fair.get(name, 0.0)):
            return (
                f"queue {claim.queue} would have {wanted[name]:g} of {name}, "
                f"above its fair share {fair.get(name, 0.0):g}"
            )
    for queue in state.path(claim.queue):
        held = plus(state.non_preemptible.get(queue, {}), claim.request)
        if not claim.preemptible and not _within(held, _quota(state.queues[queue])):
            return f"queue {queue} would have {_show(held)} that is not preemptible, above its quota"
    levels: dict[tuple[str, str], list[Amounts]] = {}
    left: dict[str, Amounts] = {}
    involved: dict[str, set[str]] = {}
    for queue, units in victims.items():
        levels.setdefault(state.split(claim.queue, queue), []).extend(units)
        for one in state.path(queue):
            taken = plus(*units)
            left[one] = _minus(left.get(one, state.allocated.get(one, {})), taken)
            involved.setdefault(one, set()).update(name for name in RESOURCES if taken.get(name, 0.0) > 0)
    for (own, other), units in levels.items():
        if not any(_may_lose(state, claim, own, other, _minus_others(units, index)) for index in range(len(units))):
            return (
                f"queue {other} would lose {_show(plus(*units))} of {_show(state.allocated.get(other, {}))}, "
                f"which is within its fair share {_show(state.fair.get(other, {}))}"
            )
    return _ratio_objection(state, claim, left, involved, multiplier)


def _quota(queue: Queue) -> Amounts:
    return {name: queue.quota.get(name, math.inf) for name in RESOURCES}


def _minus(amounts: Mapping[str, float], less: Mapping[str, float]) -> Amounts:
    return {name: amounts.get(name, 0.0) - less.get(name, 0.0) for name in amounts.keys() | less.keys()}


def _minus_others(units: Sequence[Amounts], last: int) -> Amounts:
    """Return what the queue has lost just before its last unit is taken."""
    return plus(*(unit for index, unit in enumerate(units) if index != last))


def _may_lose(state: ShareState, claim: Claim, own: str, other: str, lost: Amounts) -> bool:
    """Return True if the queue may lose one more unit after `lost`: by fair share, or by quota."""
    held = _minus(state.allocated.get(other, {}), lost)
    queue, fair = state.queues[other], state.fair.get(other, {})
    quota = _quota(queue)
    allowed = {name: min(queue.limit.get(name, math.inf), max(quota[name], fair.get(name, 0.0))) for name in RESOURCES}
    if not _within(held, allowed):
        return True
    claimed = plus(state.allocated.get(own, {}), claim.request)
    return _within(claimed, _quota(state.queues[own])) and not _within(held, quota)


def _ratio_objection(
    state: ShareState, claim: Claim, left: Mapping[str, Amounts], involved: Mapping[str, set[str]], multiplier: float
) -> str:
    """Compare the saturation of each queue above the claim with its siblings that lose something."""
    asked = {name for name in RESOURCES if claim.request.get(name, 0.0) > 0}
    for own in state.path(claim.queue):
        held = plus(left.get(own, state.allocated.get(own, {})), claim.request)
        for other, remaining in left.items():
            if other == own or state.queues[other].parent != state.queues[own].parent:
                continue
            for name in involved[other] | asked:
                fair = state.fair.get(other, {}).get(name, 0.0)
                ratio = _ratio(held.get(name, 0.0), state.fair.get(own, {}).get(name, 0.0))
                other_ratio = _ratio(remaining.get(name, 0.0), fair)
                if ratio > 1 and fair > 0 and ratio * multiplier >= other_ratio:
                    return (
                        f"queue {own} would use {ratio:.3g} of its fair share of {name}, "
                        f"and its sibling {other} only {other_ratio:.3g}"
                    )
    return ""


def _ratio(amount: float, fair: float) -> float:
    if fair == 0:
        return math.inf if amount > 0 else 0.0
    return amount / fair


def volcano_objection(
    state: ShareState, claim: Claim, victims: Mapping[str, Sequence[Amounts]], *, formula: str
) -> str:
    """Return the objection of Volcano's proportion or capacity, or of kube-batch's proportion.

    `claim.request` is one task of the reclaimer, and each unit is one pod.
    """
    deserved = state.fair.get(claim.queue, {})
    held = state.allocated.get(claim.queue, {})
    asked = [name for name, amount in claim.request.items() if amount > 0 and name != "pods"]
    if formula == "capacity":
        after = plus(held, claim.request)
        if not any(name in deserved and fits(after.get(name, 0.0), deserved[name]) for name in asked):
            return f"queue {claim.queue} would have {_show(after)}, above what it deserves ({_show(deserved)})"
    elif deserved and all(fits(amount, held.get(name, 0.0)) for name, amount in deserved.items()):
        return f"queue {claim.queue} has {_show(held)} already, all that it deserves"
    for queue, units in victims.items():
        if not state.queues[queue].reclaimable:
            return f"queue {queue} is not reclaimable"
        if not any(_volcano_may_lose(state, queue, units, index, asked, formula) for index in range(len(units))):
            return (
                f"queue {queue} would lose {_show(plus(*units))} of {_show(state.allocated.get(queue, {}))}, "
                f"and deserves {_show(state.fair.get(queue, {}))}"
            )
    return ""


def _volcano_may_lose(
    state: ShareState, queue: str, units: Sequence[Amounts], last: int, asked: Sequence[str], formula: str
) -> bool:
    held = _minus(state.allocated.get(queue, {}), _minus_others(units, last))
    deserved, unit = state.fair.get(queue, {}), units[last]
    after = _minus(held, unit)
    if formula == "kube-batch":
        return all(fits(amount, after.get(name, 0.0)) for name, amount in deserved.items())
    above = any(not fits(held.get(name, 0.0), amount) for name, amount in deserved.items())
    if formula == "proportion":
        return above
    guarantee = state.queues[queue].guarantee
    if any(not fits(amount, after.get(name, 0.0)) for name, amount in guarantee.items()):
        return False
    if not any(unit.get(name, 0.0) > 0 for name in asked):
        return False
    return above or not any(deserved.get(name, 0.0) > 0 for name in unit if name != "pods")
