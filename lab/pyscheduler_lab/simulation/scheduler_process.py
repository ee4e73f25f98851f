"""Start, stop and restart the scheduler of a simulation, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.virtual_time import VirtualClock
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["SchedulerProcess", "StepError", "namespaces_of_plugins"]

#: Limit for the scheduler to start or stop, in virtual seconds.
_PATIENCE: Final = 60
#: Time for a stopping scheduler to finish its bindings, in virtual seconds.
_GRACE_SECONDS: Final = 1.0


class StepError(Exception):
    """A step could not be executed."""


class SchedulerProcess:
    """At most one running scheduler; `make` builds each of them."""

    def __init__(self, clock: VirtualClock, make: Callable[[], Scheduler]) -> None:
        self._clock = clock
        self._make = make
        self._running: asyncio.Task[None] | None = None
        #: The running scheduler.
        self.scheduler: Scheduler | None = None

    def build(self) -> Scheduler:
        """Build the next scheduler without starting it; raise `ConfigError` for a profile that cannot be built."""
        self.scheduler = self._make()
        return self.scheduler

    async def begin(self) -> None:
        """Start the scheduler."""
        assert self.scheduler is not None
        await self._patiently(asyncio.create_task(self.scheduler.start()), "start")
        self._running = asyncio.create_task(self.scheduler.run(), name="simulated scheduler")

    async def end(self) -> None:
        """Stop the scheduler, if it runs; its memory is lost."""
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
        """Raise the error that ended the scheduler, or `StepError` if it ended without one."""
        if self._running is not None and self._running.done():
            self._running.result()
            raise StepError("the scheduler has ended")

    async def _patiently(self, task: asyncio.Task[None], what: str) -> None:
        """Wait for a task while virtual time passes."""
        await self._clock.advance(0)
        for _ in range(_PATIENCE):
            if task.done():
                break
            await self._clock.advance(1.0)
        else:
            task.cancel()
            raise StepError(f"the scheduler did not {what} within {_PATIENCE} s")
        await task


def namespaces_of_plugins(scheduler: Scheduler) -> list[str]:
    """Return the namespaces in which plugins create objects; users add them before they enable such a plugin."""
    return sorted({name for need in scheduler.needs() if "create" in need.rule.verbs for name in need.rule.namespaces})
