"""A barrier between PreBind and Bind: the members of a group are bound only after enough of them passed PreBind.

A member may fail at PreBind, for example because its volume cannot be provisioned.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyscheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.runtime.permit.release import PermitReleases

__all__ = ["GangBarrier"]

_CALLED_OFF = "the binding was called off, because other pods of the gang could not be prepared"


class GangBarrier:
    """The members of one gang that one pass placed, by uid of their pods.

    `releases` lets the members go on, so many at each turn of the event loop: the first step of a binding is long.
    """

    def __init__(self, members: Iterable[str], needed: int, releases: PermitReleases) -> None:
        """Begin with all members on their way; `needed` of them must be prepared before the first one is bound."""
        self._coming = set(members)
        self._needed = needed
        self._releases = releases
        #: The members that are prepared and wait.
        self._waiting: list[asyncio.Future[None]] = []
        self._prepared = 0
        self._is_decided = False
        self._is_open = False

    async def wait(self, uid: str) -> Status | None:
        """Wait, as a member that is prepared, until enough are; return why the binding is called off, or None."""
        self._coming.discard(uid)
        self._prepared += 1
        self._decide()
        future = asyncio.get_running_loop().create_future()
        if self._is_decided:
            self._let_go(future)
        else:
            self._waiting.append(future)
        await future
        return None if self._is_open else Status.unschedulable(_CALLED_OFF)

    def leave(self, uid: str) -> None:
        """Take notice that a member ended; without effect for one that was prepared before."""
        self._coming.discard(uid)
        self._decide()

    def _decide(self) -> None:
        if self._is_decided:
            return
        self._is_open = self._prepared >= self._needed
        if self._is_open or self._prepared + len(self._coming) < self._needed:
            self._is_decided = True
            for future in self._waiting:
                self._let_go(future)
            self._waiting.clear()

    def _let_go(self, future: asyncio.Future[None]) -> None:
        if not future.done():  # a member that waited may have been cancelled
            self._releases.add(future, is_refused=not self._is_open)
