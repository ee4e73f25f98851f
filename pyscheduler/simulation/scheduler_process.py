"""The scheduler process of a simulation: started, stopped and started anew, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.simulation.virtual_time import VirtualClock

__all__ = ["SchedulerProcess", "StepError"]

#: So many seconds a scheduler may take to start or to stop.
_PATIENCE: Final = 60
#: So long, of virtual time, a scheduler that stops may wait for what it has begun.
_GRACE_SECONDS: Final = 1.0


class StepError(Exception):
    """A step could not be done as was asked."""


class SchedulerProcess:
    """At most one scheduler at a time; `make` builds each life of it."""

    def __init__(self, clock: VirtualClock, make: Callable[[], Scheduler]) -> None:
        self._clock = clock
        self._make = make
        self._running: asyncio.Task[None] | None = None
        #: The scheduler that lives now.
        self.scheduler: Scheduler | None = None

    def build(self) -> Scheduler:
        """Put the next scheduler together, not yet started; raise `ConfigError` for a profile that cannot be built."""
        self.scheduler = self._make()
        return self.scheduler

    async def begin(self) -> None:
        """Start what was built, and let it schedule."""
        assert self.scheduler is not None
        await self._patiently(asyncio.create_task(self.scheduler.start()), "start")
        self._running = asyncio.create_task(self.scheduler.run(), name="simulated scheduler")

    async def end(self) -> None:
        """Stop it, if it lives; what it knew is lost."""
        scheduler, self.scheduler = self.scheduler, None
        if scheduler is None:
            return
        stopping = scheduler.stop(at_once=True, grace_seconds=_GRACE_SECONDS)
        await self._patiently(asyncio.create_task(stopping), "stop")
        if self._running is not None:
            await asyncio.wait([self._running])
            self._running.result()
            self._running = None

    def require(self) -> None:
        """Raise what ended the scheduler, or `StepError`, where it has ended by itself."""
        if self._running is not None and self._running.done():
            self._running.result()
            raise StepError("the scheduler has ended")

    async def _patiently(self, task: asyncio.Task[None], what: str) -> None:
        """Wait for a task that may need time to pass."""
        await self._clock.advance(0)
        for _ in range(_PATIENCE):
            if task.done():
                break
            await self._clock.advance(1.0)
        else:
            task.cancel()
            raise StepError(f"the scheduler did not {what} within {_PATIENCE} s")
        await task
