"""Processes that share the work of a command, and end with it.

Ctrl-C in a terminal interrupts all processes of the command. Here only the main process gets it and ends the others.
"""

from __future__ import annotations

import gc
import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import TYPE_CHECKING, Self, TypeVar

from kube_objects.errors import PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["WorkerPool"]

_T = TypeVar("_T")


class WorkerPool:
    """New processes; `with` waits for their work, or kills them after an exception. `workers` None: one per CPU."""

    def __init__(self, workers: int | None = None) -> None:
        #: Processes that this pool did not start.
        self._others = {*active_children()}
        context = get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(gc.get_threshold(),))
        #: Starts the processes. They inherit that this thread gets no SIGINT, which cannot interrupt a start half-way
        #: either: Python raises `KeyboardInterrupt` only in the main thread.
        self._starter = ThreadPoolExecutor(
            1, initializer=signal.pthread_sigmask, initargs=(signal.SIG_BLOCK, {signal.SIGINT})
        )

    def submit(self, function: Callable[..., _T], /, *args: object) -> Future[_T]:
        """Submit a call; raise `BrokenProcessPool`, as its future does, after a process was killed.

        A future must not be cancelled: the executor cannot end killed processes then (Python 3.11).
        """
        return self._starter.submit(self._pool.submit, function, *args).result()

    def map(self, function: Callable[..., _T], /, *arguments: Iterable[object]) -> Iterator[_T]:
        """Yield the results in their order; raise `PySchedulerError` after a process was killed."""
        try:
            for future in [self.submit(function, *each) for each in zip(*arguments, strict=True)]:
                yield future.result()
        except BrokenProcessPool as error:
            raise PySchedulerError(
                "a process ended without a result, as if it was killed; is there enough memory?"
            ) from error

    def kill(self) -> None:
        """End the processes and their work at once."""
        self._starter.shutdown()
        self._pool.shutdown(wait=False, cancel_futures=True)
        processes = {*active_children()} - self._others
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._starter.shutdown()
            self._pool.shutdown()
        else:
            self.kill()


def _begin(threshold: tuple[int, int, int]) -> None:
    """Prepare a process: it ends as soon as the one that started it ends.

    Otherwise, what a killed command left would write into its folder while the next one does.
    """
    gc.set_threshold(*threshold)
    parent = parent_process()
    assert parent is not None, "a process of a pool has a parent"

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()
