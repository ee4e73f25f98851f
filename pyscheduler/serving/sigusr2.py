"""SIGUSR2: a look inside the running scheduler."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from pyscheduler.scheduler.debugger import Debugger

if TYPE_CHECKING:
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Inspection"]


class Inspection:
    """Answers each SIGUSR2 with a look, from when it is made until it is stopped; made inside a running event loop."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._debugger = Debugger(scheduler)
        self._loop = asyncio.get_running_loop()
        try:
            # Not through the loop, which would take signals away from the watchdog.
            signal.signal(signal.SIGUSR2, self._hear)
        except (ValueError, AttributeError):
            # No such signal on this system, or none for this thread, as where a test runs the program in one.
            self._answers = False
        else:
            self._answers = True

    def _hear(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._debugger.look)

    async def stop(self) -> None:
        """Answer no more, and break off a look that is under way; idempotent."""
        if self._answers:
            self._answers = False
            signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        await self._debugger.stop()
