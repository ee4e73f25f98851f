"""A barrier between PreBind and Bind: the members of a gang are bound only once enough of them are prepared.

A member that cannot be prepared, for example because its volume cannot be provisioned, then leaves no gang half bound.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pyscheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GangBarrier"]

_CALLED_OFF = "the binding was called off, because other pods of the gang could not be prepared"


class GangBarrier:
    """The members of one gang that one pass placed, by uid of their pods."""

    def __init__(self, members: Iterable[str], needed: int) -> None:
        """Begin with all members on their way; `needed` of them must be prepared before the first one is bound."""
        self._coming = set(members)
        self._needed = needed
        self._prepared = 0
        self._decided = asyncio.Event()
        self._is_open = False

    async def wait(self, uid: str) -> Status | None:
        """Wait, as a member that is prepared, until enough are; return why the binding is called off, or None."""
        self._coming.discard(uid)
        self._prepared += 1
        self._decide()
        await self._decided.wait()
        return None if self._is_open else Status.unschedulable(_CALLED_OFF)

    def leave(self, uid: str) -> None:
        """Take notice that a member ended; without effect for one that was prepared before."""
        self._coming.discard(uid)
        self._decide()

    def _decide(self) -> None:
        if self._decided.is_set():
            return
        self._is_open = self._prepared >= self._needed
        if self._is_open or self._prepared + len(self._coming) < self._needed:
            self._decided.set()
