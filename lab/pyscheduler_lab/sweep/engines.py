"""Run the simulations (*cells*) of a sweep: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from warnings import catch_warnings

from pyscheduler.cli.worker_pool import LostCall, WorkerPool
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
        with WorkerPool(workers) as pool:
            yield partial(_run, pool)


def _run(pool: WorkerPool, run: Callable[[Cell], Outcome], cells: Sequence[Cell]) -> Iterator[Outcome]:
    """Yield the outcome of each cell when it ends."""
    lost = []
    for number, outcome in pool.results(run, [(cell,) for cell in cells]):
        if isinstance(outcome, LostCall):
            lost.append(cells[number])
        else:
            yield outcome
    # Several cells at a time may need too much memory.
    for cell in lost:
        ((_, outcome),) = pool.results(run, [(cell,)])
        yield Outcome(cell=cell, error=_LOST) if isinstance(outcome, LostCall) else outcome


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
