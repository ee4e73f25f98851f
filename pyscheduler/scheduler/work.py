"""`Work` is one step of the scheduling loop: a decision about one or more pods.

A `WorkSource`, such as the queue, hands out work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from pyscheduler.scheduler.attempt import Attempt

__all__ = ["Work", "WorkResult", "WorkSource", "WorkSources"]


class WorkResult(NamedTuple):
    """The outcome of one work."""

    #: The attempts whose binding cycles begin now. Every other pod that the work took is back in the queue.
    attempts: Sequence[Attempt] = ()
    #: Whether the next work may run before other tasks do: the work was short, and no pod was rejected.
    may_continue: bool = False


class Work(NamedTuple):
    """A scheduling decision about one or more pods."""

    #: What the decision is about, for logs: `pod=default/a`.
    name: str
    #: Decides. The loop holds the lock on the snapshot and passes whether it had to wait for the lock. If this raises,
    #: the loop logs the error, and the pods that are still in flight return to the queue.
    run: Callable[[bool], Awaitable[WorkResult]]


class WorkSource(Protocol):
    """Hands out one kind of work."""

    @property
    def held_profiles(self) -> Collection[str]:
        """Return the profiles whose pods this source takes by name; the queue order never pops them."""
        ...

    @property
    def has_work(self) -> bool:
        """Return True if `next` would return work now."""
        ...

    def next(self) -> Work | None:
        """Return the next work without waiting; None if there is none. Call `WorkSources.wake` when that changes.

        It must not raise: an exception ends the loop, and with it the process. What may fail belongs into `Work.run`.
        """
        ...


class WorkSources:
    """All sources. `next` asks them in turn, so that no source can starve another."""

    def __init__(self) -> None:
        self._sources: deque[WorkSource] = deque()
        self._arrival = asyncio.Event()
        self._is_closed = False

    def add(self, source: WorkSource) -> None:
        """Add a source; it comes first in the next turn."""
        self._sources.appendleft(source)
        self.wake()

    def wake(self) -> None:
        """Make a waiting `next` ask the sources again: some source may have work now."""
        self._arrival.set()

    def close(self) -> None:
        """End: `next` returns None from now on."""
        self._is_closed = True
        self.wake()

    @property
    def has_work(self) -> bool:
        """Return True if some source has work now."""
        return any(source.has_work for source in self._sources)

    async def next(self) -> Work | None:
        """Return the next work, waiting until a source has some; None after `close`.

        Does not yield to the event loop if a source has work already. If it is cancelled, no work is lost.
        """
        while not self._is_closed:
            self._arrival.clear()
            for _ in range(len(self._sources)):
                source = self._sources[0]
                self._sources.rotate(-1)
                work = source.next()
                if work is not None:
                    return work
            await self._arrival.wait()
        return None
