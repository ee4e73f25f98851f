"""SIGUSR2: dump and compare the cache and the queue of the running scheduler."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from pyscheduler.scheduler.debugger import Debugger

if TYPE_CHECKING:
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["DebugSignal"]


class DebugSignal:
    """Handles SIGUSR2 from its creation, inside a running event loop, until `stop`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._debugger = Debugger(scheduler)
        self._loop = asyncio.get_running_loop()
        try:
            # Not loop.add_signal_handler, which would take the signals from the watchdog.
            signal.signal(signal.SIGUSR2, self._hear)
        except (ValueError, AttributeError):
            # The system has no such signal, or this is not the main thread (in some tests).
            self._answers = False
        else:
            self._answers = True

    def _hear(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._debugger.look)

    async def stop(self) -> None:
        """Restore the default handler and cancel a dump that is under way; idempotent."""
        if self._answers:
            self._answers = False
            signal.signal(signal.SIGUSR2, signal.SIG_DFL)
        await self._debugger.stop()
