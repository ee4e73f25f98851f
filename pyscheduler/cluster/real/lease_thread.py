"""Run the `LeaseKeeper`, which renews the Lease, in a thread of its own, because the scheduler may be busy."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kube_objects.clock import LoopClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kube_objects.clock import Clock

__all__ = ["OwnThread", "SameLoop"]


class SameLoop:
    """Runs it as a task of the owner's loop: callbacks are calls."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def start(self, main: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
        """Run `main` as a task."""
        self._task = asyncio.create_task(main(self._clock), name="lease")

    def post(self, callback: Callable[[], object]) -> None:
        """Call back at once."""
        callback()

    def report(self, callback: Callable[[], object]) -> None:
        """Call back at once."""
        callback()

    async def join(self) -> None:
        """Return when the task has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])


class OwnThread:
    """Runs it in a thread with a loop of its own. The thread is a daemon: it never keeps the program from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._owner: asyncio.AbstractEventLoop | None = None
        self._ended = asyncio.Event()

    def start(self, main: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
        """Start the thread."""
        self._owner = asyncio.get_running_loop()
        # Not a loop of another make, whatever the policy says: the owner reads this one's clock across threads, and
        # asyncio's own loop asks the system each time where others hand out what they noted at their last turn.
        loop = self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._run, args=(loop, main), name=self._name, daemon=True)
        self._thread.start()

    def post(self, callback: Callable[[], object]) -> None:
        """Call back on the thread's loop; after its end nothing happens."""
        if self._loop is not None:
            _call(self._loop, callback)

    def report(self, callback: Callable[[], object]) -> None:
        """Call back on the owner's loop, when it turns; after its end nothing happens."""
        if self._owner is not None:
            _call(self._owner, callback)

    async def join(self) -> None:
        """Return when the thread has ended."""
        if self._thread is not None:
            await self._ended.wait()
            self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop, main: Callable[[Clock], Coroutine[Any, Any, None]]) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(main(LoopClock(loop=loop)))
        finally:
            self.report(self._ended.set)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)
