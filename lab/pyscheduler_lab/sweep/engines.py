"""Run the cells of a sweep: one after the other, on processes of this machine, or on Ray.

The order in which cells end differs; their results do not, because each cell has its own settings and random draws.
"""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import chdir
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.sweep.cells import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyscheduler_lab.sweep.plan import Cell

__all__ = ["check_engine", "run_all"]

_RAY: Final = "ray"
_REMEDY: Final = "pip install 'kube-pyscheduler-lab[sweep]'"
_LOST: Final = "its process ended without a result, as if it was killed; is there enough memory?"


def check_engine(on: str | None, workers: int | None) -> None:
    """Raise `ConfigError` for an engine that is unknown or not installed."""
    if on is None:
        return
    if on != _RAY and not on.startswith(f"{_RAY}://"):
        raise ConfigError(f'--on: "{on}" must be ray, which starts Ray on this machine, or ray://HOST:PORT')
    if on != _RAY and workers is not None:
        raise ConfigError("--workers has no effect with --on ray://HOST:PORT; the Ray cluster has its own workers")
    try:
        import ray  # noqa: F401, PLC0415 - of an extra
    except ImportError as error:
        raise ConfigError(f"--on {on} needs Ray, which is not installed; run {_REMEDY}") from error


def run_all(
    run: Callable[[Cell], Outcome], cells: Sequence[Cell], *, workers: int | None = None, on: str | None = None
) -> Iterator[Outcome]:
    """Yield the outcome of each cell when it ends. `run` can be pickled. `workers`: by default, one for each CPU."""
    if on is not None:
        return _on_ray(run, cells, on, workers)
    workers = min(workers or os.cpu_count() or 1, len(cells))
    return _on_processes(run, cells, workers) if workers > 1 else map(run, cells)


def _on_processes(run: Callable[[Cell], Outcome], cells: Sequence[Cell], workers: int) -> Iterator[Outcome]:
    lost: list[Cell] = []
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_follow_parent) as pool:
        futures = {pool.submit(run, cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    lost.append(futures[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    # A process that is killed takes the pool with it. Which cell it had is not known, so each one runs alone.
    for cell in lost:
        if len(cells) == 1:
            yield Outcome(cell=cell, error=_LOST)
        else:
            yield from _on_processes(run, [cell], 1)


def _follow_parent() -> None:
    """End this process as soon as the one that started it ends or is interrupted.

    A process that outlives a killed sweep would write into its folder while the next one does.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    assert parent is not None, "a process of a pool has a parent"

    def follow() -> None:
        parent.join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()


def _on_ray(run: Callable[[Cell], Outcome], cells: Sequence[Cell], on: str, workers: int | None) -> Iterator[Outcome]:
    import ray  # noqa: PLC0415 - of an extra

    here = Path.cwd()

    def run_here(cell: Cell) -> Outcome:
        # The files that the settings name are relative to the folder of the command.
        with chdir(here):
            return run(cell)

    local = {"num_cpus": workers, "include_dashboard": False} if on == _RAY else {"address": on}
    ray.init(log_to_driver=False, logging_level="error", **local)
    try:
        remote = ray.remote(max_retries=0)(run_here)
        left = {remote.remote(cell): cell for cell in cells}
        while left:
            (done,), _ = ray.wait([*left], num_returns=1)
            cell = left.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError as error:
                yield Outcome(cell=cell, error=f"{_LOST.partition(',')[0]}: {type(error).__name__}")
    finally:
        ray.shutdown()
