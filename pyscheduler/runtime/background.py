"""Work that plugins do beside the scheduler: their `run()`, and the coroutines they spawn.

Every task is known here, so that its failure is logged and counted rather than forgotten, and so that none outlives its
profile.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.runtime.assembly.registry import one_line

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pyscheduler.framework.recorder import Recorder

__all__ = ["Background"]

_log = logging.getLogger(__name__)


class Background:
    """The background tasks of one profile."""

    def __init__(self, *, recorder: Recorder) -> None:
        self._recorder = recorder
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def names(self) -> list[str]:
        """Return the names of the tasks that run."""
        return [task.get_name() for task in self._tasks]

    def spawn(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run `work` as a task; raise `RuntimeError` when closed, or where no event loop runs."""
        try:
            if self._closed:
                raise RuntimeError(f"cannot start {name}: the profile is closed")
            task = asyncio.get_running_loop().create_task(self._guarded(work, name), name=name)
        except RuntimeError:
            work.close()
            raise
        self._tasks.add(task)

        def over(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            # A task that is cancelled before it began has never awaited its work.
            work.close()

        task.add_done_callback(over)
        return task

    async def _guarded(self, work: Coroutine[object, object, None], name: str) -> None:
        try:
            await work
        except PLUGIN_FAILURES as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            # There is nobody who would await it, and who would hear of what others' code did.
            self._recorder.warning("plugin_task_failed")
            _log.error('Background task failed task="%s" err="%s"', name, one_line(error))
            _log.debug('Background task failed task="%s"', name, exc_info=error)

    async def close(self) -> None:
        """Cancel all tasks and wait until they are over; nothing can be spawned any more."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
