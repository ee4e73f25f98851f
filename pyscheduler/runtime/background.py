"""Run the `run()` methods of plugins, and the coroutines that plugins start through their handle.

If `run()` fails, it is started again after a pause, which doubles with each failure: 1 s, 2 s, up to one minute.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.errors import PLUGIN_FAILURES, raise_own_cancellation
from pyscheduler.framework.plugin_failures import RUN, TASK, error_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.framework.plugin_failures import PluginFailures

__all__ = ["Background", "Restarts"]

_log = logging.getLogger(__name__)

#: The pause before `run()` is started again: the first, and the longest, in seconds.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0

#: After so many seconds without a failure, the next pause is the first one again.
_HEALTHY_SECONDS: Final = 300.0


@attrs.define
class Restarts:
    """The failures of `run()` of one plugin; `next_at`: clock seconds of the next start, None while it runs."""

    count: int = 0
    error: str = ""
    next_at: float | None = None


class Background:
    """The background tasks of one profile."""

    def __init__(self, *, clock: Clock, failures: PluginFailures) -> None:
        self._clock = clock
        self._failures = failures
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarts: dict[str, Restarts] = {}
        self._closed = False

    def names(self) -> list[str]:
        """Return the names of the tasks that run."""
        return [task.get_name() for task in self._tasks]

    @property
    def restarts(self) -> Mapping[str, Restarts]:
        """Return how often the `run()` of each plugin failed; only of those that have one."""
        return self._restarts

    def spawn(self, work: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run `work` as a task; raise `RuntimeError` when closed, or where no event loop runs.

        Raises `TypeError` for anything but a coroutine.
        """
        if not asyncio.iscoroutine(work):
            raise TypeError(_remedy(work))
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

    def keep_running(self, run: Callable[[], Coroutine[object, object, None]], *, plugin: str, name: str) -> None:
        """Run a plugin's `run()` as a task, again and again until it returns."""
        self._restarts[plugin] = Restarts()
        self.spawn(self._keep_running(run, plugin), name=name)

    async def _keep_running(self, run: Callable[[], Coroutine[object, object, None]], plugin: str) -> None:
        restarts = self._restarts[plugin]
        pause = _FIRST_PAUSE
        while True:
            began = self._clock.now()
            try:
                await self._watched(run(), plugin, RUN)
            except PLUGIN_FAILURES as error:
                raise_own_cancellation(error)
                self._failures.report(error, plugin=plugin, point=RUN, call=run, warning="plugin_task_failed")
                restarts.error = error_text(error)
            else:
                return
            now = self._clock.now()
            if now - began >= _HEALTHY_SECONDS:
                pause = _FIRST_PAUSE
            restarts.next_at = now + pause
            _log.warning("Plugin's run() ended with an error; it is started again plugin=%s seconds=%d", plugin, pause)
            await self._clock.sleep(pause)
            restarts.next_at = None
            restarts.count += 1
            pause = min(pause * 2, _LONGEST_PAUSE)

    def _watched(
        self, work: Coroutine[object, object, None], plugin: str, point: str, about: str = ""
    ) -> Awaitable[None]:
        """Measure the steps of others' work; with `plugin` "", find out whose it is."""
        watch = self._failures.steps
        if watch is None or not asyncio.iscoroutine(work) or not is_foreign(work):
            return work
        plugin = plugin or self._failures.owners.of_call(work)
        return watch.steps(work, plugin=plugin, point=point, about=about)

    async def _guarded(self, work: Coroutine[object, object, None], name: str) -> None:
        try:
            await self._watched(work, "", TASK, f'task="{name}"')
        except PLUGIN_FAILURES as error:
            raise_own_cancellation(error)
            # There is nobody who would await it, and who would hear of what others' code did.
            about, code = f'task="{name}"', getattr(work, "cr_code", None)
            self._failures.report(error, plugin="", point=TASK, about=about, call=code, warning="plugin_task_failed")

    async def close(self) -> None:
        """Cancel all tasks and wait until they are over; nothing can be spawned any more."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _remedy(work: object) -> str:
    """Return what to write in place of something that is no coroutine."""
    name, begin = getattr(work, "__name__", "work"), "handle.spawn() takes a coroutine"
    if inspect.iscoroutinefunction(work):
        return f"{begin}, not a function; write handle.spawn({name}(...))"
    if inspect.isawaitable(work):
        return f"{begin}, not {type(work).__name__}; await it in an `async def` method and spawn that"
    if callable(work):
        return f"{begin}; write `async def {name}` and handle.spawn({name}(...))"
    return f"{begin}, not {type(work).__name__}; call an `async def` method: handle.spawn(self.work())"
