"""Run the simulations (*cells*) of a sweep: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Final, Self, TypeAlias
from warnings import catch_warnings

from pyscheduler.cli.worker_pool import WorkerPool
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
        with _Processes(workers) as processes:
            yield processes.run


class _Processes:
    """Processes that run cells; they are kept for further cells. On an exception, they and their cells are killed."""

    def __init__(self, workers: int | None) -> None:
        self._workers = workers
        self._pool = WorkerPool(workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._pool.__exit__(kind, *error)

    def run(self, run: Callable[[Cell], Outcome], cells: Sequence[Cell]) -> Iterator[Outcome]:
        """Yield the outcome of each cell when it ends."""
        futures: dict[Future[Outcome], Cell] = {}
        lost = []
        for cell in cells:
            try:
                futures[self._pool.submit(run, cell)] = cell
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
                yield self._pool.submit(run, cell).result()
            except BrokenProcessPool:
                self._restart()
                yield Outcome(cell=cell, error=_LOST)

    def _restart(self) -> None:
        self._pool.kill()
        self._pool = WorkerPool(self._workers)


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
