"""Limit the time of a search for a pod's devices.

The search counts its steps with `Patience.tick`. In a scheduling cycle, `tick` raises an error if the search takes too
long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_cel import QUANTUM
from pyscheduler.api import PySchedulerError
from pyscheduler.plugins.dynamic_resources.errors import AllocationTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PAUSES_PER_CYCLE", "CyclePatience", "Patience", "StillWorkingError"]

PAUSES_PER_CYCLE: Final = 20
"""So many pauses fit into one call within a cycle; that is 10 to 20 ms."""


class StillWorkingError(PySchedulerError):
    """Report that the work on a pod's devices takes longer than a cycle may."""


class Patience:
    """Counts steps without end; what derives from it says what a pause is."""

    def __init__(self) -> None:
        self._fuel = QUANTUM

    def tick(self, steps: int = 1) -> None:
        """Count steps; raise what `pause` raises."""
        self._fuel -= steps
        if self._fuel < 0:
            self._fuel = QUANTUM
            self.pause()

    def pause(self) -> None:
        """Do nothing: the work may take for ever."""

    def is_over(self) -> bool:
        """Return whether the time of the pod is over."""
        return False


class CyclePatience(Patience):
    """The patience of one call within a cycle.

    `expired` tells whether the time that the pod was given is over, None where it has as much as it takes.
    """

    def __init__(self, expired: Callable[[], bool] | None = None, pauses: int = PAUSES_PER_CYCLE) -> None:
        super().__init__()
        self._expired = expired
        self._left = pauses

    def pause(self) -> None:
        """Raise `StillWorkingError` after the last pause, or `AllocationTimeoutError` when the time is over."""
        if self.is_over():
            raise AllocationTimeoutError("filter operation aborted: context deadline exceeded")
        self._left -= 1
        if self._left < 0:
            raise StillWorkingError("the devices for the pod are still being looked for")

    def is_over(self) -> bool:
        return self._expired is not None and self._expired()
