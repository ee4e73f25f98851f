"""Release the pods whose wait at Permit is over, a limited number in each turn of the event loop.

If thousands of pods of a group continued in one turn, they would block the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

__all__ = ["PermitReleases"]

#: So many go on in one turn, which then takes a few milliseconds.
_PER_TURN: Final = 50


class PermitReleases:
    """Futures that are given their result, so many at each turn; each kind in the order in which they come."""

    __slots__ = ("_allowed", "_given", "_is_turning", "_refused", "_under_way", "_waiters")

    def __init__(self) -> None:
        self._allowed: deque[asyncio.Future[None]] = deque()
        self._refused: deque[asyncio.Future[None]] = deque()
        self._is_turning = False
        #: How many were given their result in this turn.
        self._given = 0
        #: Whether some of those that the last turn refused may not have gone on yet.
        self._under_way = False
        #: Of those who wait until nobody is left that has to give back.
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def is_giving_back(self) -> bool:
        """Return whether more were refused than one turn takes, and some of them still hold their resources."""
        return self._under_way or bool(self._refused)

    async def given_back(self) -> None:
        """Return when nobody is left of those that were refused."""
        # A scheduling cycle before that would see only a part of the room that becomes free.
        while self.is_giving_back:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def add(self, future: asyncio.Future[None], *, is_refused: bool) -> None:
        """Give the future its result, now or in one of the next turns of its loop."""
        if self._given < _PER_TURN:
            self._given += 1
            future.set_result(None)
        else:
            (self._refused if is_refused else self._allowed).append(future)
        if not self._is_turning:
            self._is_turning = True
            # After the first of them, so that each turn comes after those that the one before it let go.
            future.get_loop().call_soon(self._turn, future.get_loop())

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._under_way = bool(self._refused)
        self._given = 0
        while self._given < _PER_TURN and (self._refused or self._allowed):
            future = (self._refused or self._allowed).popleft()
            # Whoever waited may have been cancelled meanwhile.
            if not future.done():
                self._given += 1
                future.set_result(None)
        self._is_turning = bool(self._given)
        if self._is_turning:
            loop.call_soon(self._turn, loop)
        else:
            self._under_way = False
        if self._waiters and not self.is_giving_back:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
