"""The lock of the snapshot: while one asyncio task uses the snapshot, no other task changes it.

All tasks run in one thread. But while a scheduling cycle awaits an answer, for example of an extender, other tasks run.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pyscheduler.runtime.permit.release import PermitReleases

__all__ = ["SnapshotAccess"]


class SnapshotAccess:
    """The right to use the snapshot: `async with access as has_waited`. `refresh` brings the snapshot up to date.

    Whoever enters waits for the holder, and then for rejected pods of `releases` that still hold their nodes.
    `has_waited` is True if anything may have happened in between.
    """

    def __init__(self, releases: PermitReleases, refresh: Callable[[], object]) -> None:
        self.refresh = refresh
        self._releases = releases
        self._lock = asyncio.Lock()

    @property
    def is_held(self) -> bool:
        """Return whether a cycle, a what-if or an evaluation uses the snapshot."""
        return self._lock.locked()

    async def __aenter__(self) -> bool:
        has_waited = self._lock.locked()
        await self._lock.acquire()
        if not self._releases.is_giving_back:
            return has_waited
        try:
            await self._releases.given_back()
        except BaseException:
            self._lock.release()
            raise
        return True

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()
