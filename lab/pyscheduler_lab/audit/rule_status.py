"""Rule 9 of the audit of a batch scheduler: the status of a queue shows the sums of its pods' requests."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from pyscheduler_lab.audit.amounts import GPU, Amounts, fits, plus
from pyscheduler_lab.audit.rule import Rule
from pyscheduler_lab.audit.world import ALLOCATED, GATED, NON_PREEMPTIBLE, PENDING, TERMINATING

if TYPE_CHECKING:
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.verdict import Verdict
    from pyscheduler_lab.audit.world import World

__all__ = ["StatusRule"]

#: For each field of a status: the sums that count, and those that may count.
_FIELDS: Final = {
    "allocated": ((ALLOCATED,), (TERMINATING,)),
    "allocatedNonPreemptible": ((NON_PREEMPTIBLE,), (TERMINATING,)),
    "requested": ((ALLOCATED, PENDING), (TERMINATING, GATED)),
}
_RESOURCES: Final = ("cpu", "memory", GPU)


class StatusRule(Rule):
    """The status of each queue is right."""

    number = 9

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        self._changed: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []

    def after(self, change: Change) -> None:
        """Note which queues changed."""
        if self.options.status_seconds is None:
            return
        for queue in self.world.drain_touched():
            self._changed[queue] = change.at
            heapq.heappush(self._due, (change.at + self.options.status_seconds, queue))

    def advance(self, at: float) -> None:
        """Judge the queues that have not changed for a while."""
        while self._due and self._due[0][0] < at:
            due, queue = heapq.heappop(self._due)
            changed = self._changed.get(queue)
            if changed is not None and changed + (self.options.status_seconds or 0.0) <= due:
                del self._changed[queue]
                self._judge(queue, due)

    def finish(self, end: float) -> None:
        """Judge all queues that were quiet; the others are undecided."""
        self.advance(end)
        for _ in self._changed:
            self.skip()

    def _judge(self, name: str, at: float) -> None:
        queue = self.world.queues.get(name)
        if queue is None or queue.dialect == "kube-batch":
            return  # kube-batch's queues have no amounts in their status
        self.judge()
        fields = _FIELDS if queue.dialect == "kai" else {"allocated": _FIELDS["allocated"]}
        for field, (certain, possible) in fields.items():
            low = plus(*(self.world.sum_of(kind, name) for kind in certain))
            high = plus(low, *(self.world.sum_of(kind, name) for kind in possible))
            problem = _difference(queue.status.get(field, {}), low, high)
            if problem:
                self.report(at, 0, (name,), f"the status of queue {name} is wrong: {field} {problem}")


def _difference(written: Amounts, low: Amounts, high: Amounts) -> str:
    """Return how a status differs from its sums, or ""."""
    for resource in _RESOURCES:
        amount, least, most = (each.get(resource, 0.0) for each in (written, low, high))
        if not fits(least, amount) or not fits(amount, most):
            expected = f"{least:g}" if least == most else f"{least:g} to {most:g}"
            return f"says {amount:g} of {resource}, and the pods have {expected}"
    return ""
