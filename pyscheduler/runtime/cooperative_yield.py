"""Yield to the event loop every few milliseconds during long work, such as PostFilter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kube_objects.clock import Clock

__all__ = ["CooperativeYield", "run_now"]

T = TypeVar("T")

#: Work goes on for so long before others get their turn, in seconds.
_SLICE_SECONDS: Final = 0.005


class CooperativeYield:
    """Lets the event loop turn when enough time has passed since it last did."""

    __slots__ = ("_began", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.now()

    async def yield_if_due(self) -> None:
        """Let the loop turn if it is time."""
        if self._clock.now() - self._began >= _SLICE_SECONDS:
            await asyncio.sleep(0)
            self._began = self._clock.now()


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; raise `RuntimeError` where it waits for anything but its next turn."""
    try:
        while True:
            if work.send(None) is not None:
                raise RuntimeError("the coroutine waits for something, which takes a running event loop")
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        work.close()
