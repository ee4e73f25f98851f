"""Run the simulations (*cells*) of a sweep: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir, contextmanager
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Final, TypeAlias
from warnings import catch_warnings

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.sweep.cells import Outcome
from pyscheduler_lab.sweep.plan import Cell

__all__ = ["Engine", "open_engine"]

Engine: TypeAlias = Callable[[Callable[[Cell], Outcome], Sequence[Cell]], Iterator[Outcome]]
"""Yields the outcome of each cell when it ends; the first argument runs a cell, and can be pickled."""

_RAY: Final = "ray"
_REMEDY: Final = "pip install 'kube-pyscheduler-lab[sweep]'"
_LOST: Final = "its process ended without a result, as if it was killed; is there enough memory?"


@contextmanager
def open_engine(on: str | None = None, workers: int | None = None) -> Iterator[Engine]:
    """Yield an engine; raise `ConfigError` for one that is unknown, not installed, or does not answer.

    `on`: None for processes of this machine, or as `--on`. `workers`: by default, one for each CPU.
    """
    if on is not None:
        with _ray(on, workers) as engine:
            yield engine
    elif (workers or os.cpu_count() or 1) == 1:
        yield map
    else:
        processes = _Processes(workers)
        try:
            yield processes.run
        except BaseException:
            processes.kill()
            raise
        processes.close()


class _Processes:
    """Processes that run cells; they are kept for further cells."""

    def __init__(self, workers: int | None) -> None:
        self._workers = workers
        #: Processes that this object did not start.
        self._others = {*active_children()}
        self._pool = self._new_pool()

    def run(self, run: Callable[[Cell], Outcome], cells: Sequence[Cell]) -> Iterator[Outcome]:
        """Yield the outcome of each cell when it ends."""
        futures: dict[Future[Outcome], Cell] = {}
        lost = []
        for cell in cells:
            try:
                futures[self._submit(run, cell)] = cell
            except BrokenProcessPool:
                lost.append(cell)
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:
                lost.append(futures[future])
        # A process that is killed takes the pool with it. Which cell it had is not known, so each one runs alone.
        if lost:
            self._restart()
        for cell in lost:
            try:
                yield self._submit(run, cell).result()
            except BrokenProcessPool:
                self._restart()
                yield Outcome(cell=cell, error=_LOST)

    def close(self) -> None:
        """End the processes when their cells have ended; other cells do not begin."""
        self._pool.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """End the processes and their cells at once."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in {*active_children()} - self._others:
            process.terminate()
        self.close()

    def _submit(self, run: Callable[[Cell], Outcome], cell: Cell) -> Future[Outcome]:
        """Submit a cell. A process that starts for it never gets SIGINT, also while it imports modules.

        Ctrl-C in a terminal interrupts all processes; the one that started the others ends them.
        """
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(run, cell)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def _restart(self) -> None:
        self.close()
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        context = get_context("spawn")
        return ProcessPoolExecutor(self._workers, context, initializer=_begin, initargs=(gc.get_threshold(),))


def _begin(threshold: tuple[int, int, int]) -> None:
    """Prepare a process: it ends as soon as the one that started it ends.

    A process that outlives a killed sweep would write into its folder while the next one does.
    """
    gc.set_threshold(*threshold)
    parent = parent_process()
    assert parent is not None, "a process of a pool has a parent"

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


@contextmanager
def _ray(on: str, workers: int | None) -> Iterator[Engine]:
    """Yield an engine on Ray: on this machine for `ray`, otherwise at the address `ray://HOST:PORT`."""
    if on != _RAY and not on.startswith(f"{_RAY}://"):
        raise ConfigError(f'--on: "{on}" must be ray, which starts Ray on this machine, or ray://HOST:PORT')
    if on != _RAY and workers is not None:
        raise ConfigError("--workers has no effect with --on ray://HOST:PORT; the Ray cluster has its own workers")
    try:
        import ray  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise ConfigError(f"--on {on} needs Ray, which is not installed; run {_REMEDY}") from error
    where: dict[str, object] = {"address": on}
    if on == _RAY:
        where = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    try:
        with catch_warnings(action="ignore"):  # they say what the error says
            ray.init(log_to_driver=False, logging_level="error", **where)
    except (ConnectionError, RuntimeError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        remedy = "Ray must run there, in the same version and with the same RAY_AUTH_MODE as here"
        raise ConfigError(f"--on {on}: cannot connect: {text}; {remedy}") from error
    here = Path.cwd()

    def engine(run: Callable[[Cell], Outcome], cells: Sequence[Cell]) -> Iterator[Outcome]:
        def run_here(cell: Cell) -> Outcome:
            # The files that the settings name are relative to the folder of the command.
            with chdir(here):
                return run(cell)

        remote = ray.remote(max_retries=0)(run_here)
        left = {remote.remote(cell): cell for cell in cells}
        while left:
            (done,), _ = ray.wait([*left], num_returns=1)
            cell = left.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError as error:
                yield Outcome(cell=cell, error=f"{_LOST.partition(',')[0]}: {type(error).__name__}")

    try:
        yield engine
    finally:
        ray.shutdown()
