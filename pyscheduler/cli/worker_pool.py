"""Processes that share the work of a command, and end with it.

Ctrl-C in a terminal interrupts all processes of the command. Here only the main process gets it and ends the others.
Each process has a pipe of its own: if it is killed, its call is lost and no other.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import connection, get_context, parent_process, resource_tracker
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import attrs

from kube_objects.errors import PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

__all__ = ["LostCall", "WorkerPool"]

_T = TypeVar("_T")

_LOST: Final = "a process ended without a result, as if it was killed; is there enough memory?"


class LostCall:
    """Stands for the result of a call whose process was killed."""


@attrs.frozen(eq=False)
class _Worker:
    process: SpawnProcess
    pipe: Connection


class WorkerPool:
    """New processes; `with` ends them, after an exception at once. `workers` None: one per CPU."""

    def __init__(self, workers: int | None = None) -> None:
        self._most = workers or os.cpu_count() or 1
        self._workers: list[_Worker] = []
        self._busy: dict[Connection, int] = {}
        #: Starts the processes. They inherit that this thread gets no SIGINT, which cannot interrupt a start half-way
        #: either: Python raises `KeyboardInterrupt` only in the main thread.
        self._starter = ThreadPoolExecutor(1)

    def results(
        self, function: Callable[..., _T], calls: Iterable[Sequence[object]]
    ) -> Iterator[tuple[int, _T | LostCall]]:
        """Yield the number and the result of each call when it ends; `calls` are the arguments of each.

        An exception of the function is raised.
        """
        waiting = deque(enumerate(calls))
        while waiting or self._busy:
            self._begin(function, waiting)
            for pipe in connection.wait([*self._busy]):
                assert isinstance(pipe, connection.Connection)
                number = self._busy.pop(pipe)
                try:
                    error, result = pipe.recv()
                except (EOFError, OSError):
                    self._workers = [each for each in self._workers if each.pipe is not pipe]
                    yield number, LostCall()
                    continue
                if error is not None:
                    raise error
                yield number, result

    def map(self, function: Callable[..., _T], *arguments: Iterable[object]) -> Iterator[_T]:
        """Yield the results in the order of the arguments; raise `PySchedulerError` after a process was killed."""
        found: dict[int, _T] = {}
        following = 0
        for number, result in self.results(function, zip(*arguments, strict=True)):
            if isinstance(result, LostCall):
                raise PySchedulerError(_LOST)
            found[number] = result
            while following in found:
                yield found.pop(following)
                following += 1

    def _begin(self, function: Callable[..., Any], waiting: deque[tuple[int, Sequence[object]]]) -> None:
        """Give calls to idle processes, and to new ones while there are too few."""
        idle = [worker for worker in self._workers if worker.pipe not in self._busy]
        while waiting and (idle or len(self._workers) < self._most):
            worker = idle.pop() if idle else self._starter.submit(self._start).result()
            number, arguments = waiting.popleft()
            self._busy[worker.pipe] = number
            with suppress(OSError):  # if the process was killed, the next read says so
                worker.pipe.send((function, arguments))

    def _start(self) -> _Worker:
        # When it starts, it takes SIGINT out of the signal mask of the thread.
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, gc.get_threshold()), daemon=True)
        process.start()
        # Only the process has this end, so a read from the other one fails when the process is gone.
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._starter.shutdown()
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()


def _work(pipe: Connection, threshold: tuple[int, int, int]) -> None:
    """Run the calls that come through the pipe, until the process is ended or the one that started it ends.

    Otherwise, what a killed command left would write into its folder while the next one does.
    """
    gc.set_threshold(*threshold)
    parent = parent_process()
    assert parent is not None, "a process of a pool has a parent"

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()
    while True:
        function, arguments = pipe.recv()
        answer: tuple[Exception | None, object]
        try:
            answer = (None, function(*arguments))
        except Exception as error:  # noqa: BLE001 - it is raised where the call was made
            error.add_note("".join(traceback.format_exception(error)))
            answer = (error, None)
        pipe.send(answer)
