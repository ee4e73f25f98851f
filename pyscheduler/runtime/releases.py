"""Pods that may go on to be bound, some of them at each turn of the event loop.

The last member of a group lets all the others go at once. Each then goes a good way in its first turn, and thousands of
them in one turn would hold the loop, and with it timers, watches and probes, for as long as that takes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

__all__ = ["Releases"]

#: So many go on in one turn, which then takes a few milliseconds.
_PER_TURN: Final = 50


class Releases:
    """Futures that are given their result in the order in which they come, so many at each turn."""

    __slots__ = ("_due", "_this_turn")

    def __init__(self) -> None:
        self._due: deque[asyncio.Future[None]] = deque()
        self._this_turn = 0

    def add(self, future: asyncio.Future[None]) -> None:
        """Give the future its result, now or in one of the next turns of its loop."""
        if not self._this_turn:
            future.get_loop().call_soon(self._turn, future.get_loop())
        if self._this_turn < _PER_TURN:
            self._this_turn += 1
            _give(future)
        else:
            self._due.append(future)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._this_turn = min(_PER_TURN, len(self._due))
        for _ in range(self._this_turn):
            _give(self._due.popleft())
        if self._this_turn:
            loop.call_soon(self._turn, loop)


def _give(future: asyncio.Future[None]) -> None:
    # Whoever waited may have been cancelled meanwhile.
    if not future.done():
        future.set_result(None)
