"""Count the cost, memory and steps of a compilation or evaluation, and limit cost and memory.

Cost is counted as in cel-go, so an expression that costs too much for Kubernetes fails here, too.

A step is a piece of work that takes about 0.1 to 1 microseconds. After each `QUANTUM` steps, the meter calls `pause`,
which the caller supplies. `pause` may let other work run, or raise an error to end the evaluation.

Differs from kube-scheduler: an expression also fails if it needs too much memory.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kube_cel.errors import CelCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MAX_COST", "MAX_MEMORY", "QUANTUM", "Meter", "tenth"]

MAX_COST: Final = 1_000_000
"""The greatest cost of an evaluation. Source: `CELSelectorExpressionMaxCost` of resource.k8s.io/v1."""
MAX_MEMORY: Final = 1 << 20
"""The most bytes of values that an evaluation may create, values that it drops included."""
QUANTUM: Final = 2_000
"""After so many steps the meter pauses."""

_TENTHS: Final = tuple(math.ceil(size * 0.1) for size in range(1024))


def tenth(size: int) -> int:
    """Return the cost of reading a text of `size` characters once."""
    return _TENTHS[size] if size < 1024 else math.ceil(size * 0.1)


class Meter:
    """Counts what an expression uses. `slots` holds the variables of the evaluation."""

    __slots__ = ("cost", "fuel", "limit", "memory", "pause", "slots", "steps")

    def __init__(self, pause: Callable[[], None] | None = None, *, limit: int = MAX_COST) -> None:
        self.cost = 0
        self.limit = limit
        self.memory = 0
        #: Steps that are left until the next pause, and steps before the last one.
        self.fuel = QUANTUM
        self.steps = 0
        self.pause = pause
        self.slots: list[object] = []

    def tick(self, steps: int = 1) -> None:
        """Count steps; raise `CelCancelledError` where the cost is too high by now, or what `pause` raises."""
        self.fuel -= steps
        if self.fuel < 0:
            self._pause()

    def _pause(self) -> None:
        if self.cost > self.limit:
            raise CelCancelledError
        while self.fuel < 0:
            self.fuel += QUANTUM
            self.steps += QUANTUM
            if self.pause is not None:
                self.pause()

    def charge(self, cost: int) -> None:
        """Add to the cost before the work is done; raise `CelCancelledError` where that is too much."""
        self.cost += cost
        if self.cost > self.limit:
            raise CelCancelledError

    def use(self, size: int) -> None:
        """Count bytes of memory before they are used; raise `CelCancelledError` where those are too many."""
        self.memory += size
        if self.memory > MAX_MEMORY:
            raise CelCancelledError

    def made_text(self, length: int) -> None:
        """Count a text of `length` characters, each of which can take four bytes, before it is made."""
        self.use(64 + 4 * length)
        self.tick(length >> 6)
