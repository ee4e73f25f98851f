"""Repeat the FGD paper's experiment (Weng et al., USENIX ATC 2023), and compare the results with the paper's."""

from __future__ import annotations

import csv
from contextlib import ExitStack
from importlib.resources import files
from itertools import product
from statistics import mean
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.cli.worker_pool import WorkerPool
from pyscheduler_fgd.typical_tasks import WHOLE
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.reproduction.arrivals import arrivals
from pyscheduler_lab.reproduction.packing import POLICIES, curves_of, place_all
from pyscheduler_lab.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["LEVELS", "LISTS", "Row", "Run", "compare", "is_in_order", "run", "run_all", "write"]

#: The task lists, by the name of their trace.
LISTS: Final = {
    "default": "openb",
    "cpu050": "openb-cpu050",
    "gpushare100": "openb-gpushare100",
    "gpuspec33": "openb-gpuspec33",
    "multigpu50": "openb-multigpu50",
}
#: The levels that are compared: requested GPUs in percent of the cluster.
LEVELS: Final = (100, 130)
#: The largest difference of the means in points, on the default list.
_TOLERANCE: Final = {"GpuPacking": 0.6, "GpuClustering": 0.6}
_USUAL_TOLERANCE: Final = 0.5


@attrs.frozen(kw_only=True)
class Run:
    """The results of one run at one level, in percent."""

    tasks: str
    policy: str
    seed: int
    level: int
    allocated: float
    fragmented: float
    fragmented_idle: float


@attrs.frozen(kw_only=True)
class Row:
    """The mean GPU allocation of a policy at a level beside the published one, in percent; differences in points."""

    tasks: str
    policy: str
    level: int
    seeds: int
    published: float
    ours: float
    tolerance: float

    @property
    def difference(self) -> float:
        """Return by how much our mean is above the published one."""
        return self.ours - self.published

    @property
    def is_close(self) -> bool:
        """Return True if the difference is within the tolerance."""
        return abs(self.difference) <= self.tolerance


def run(tasks: str, policy: str, seed: int) -> Sequence[Run]:
    """Run a task list under a policy, in the order of a seed; return one result for each level."""
    cluster, jobs = Cluster.read("openb"), Trace.read(LISTS[tasks]).jobs
    order = arrivals(jobs, WHOLE * cluster.gpus, seed=seed)
    placed, shared = place_all(policy, cluster, jobs, order, seed=seed)
    curves = curves_of(cluster, jobs, order, placed, shared)
    return [Run(tasks=tasks, policy=policy, seed=seed, level=level, **curves.at(level)) for level in LEVELS]


def run_all(
    lists: Sequence[str],
    policies: Sequence[str],
    seeds: int,
    *,
    workers: int = 1,
    progress: Callable[[int, int], object] = lambda _done, _total: None,
) -> Sequence[Run]:
    """Return the results of all runs by list, policy and seed; `progress` gets the numbers of ended and of all runs."""
    wanted = [*product(lists, policies, range(seeds))]
    found: list[Run] = []
    with ExitStack() as stack:
        # A single worker is this process.
        apply = map if workers == 1 else stack.enter_context(WorkerPool(workers)).map
        for done, answer in enumerate(apply(run, *zip(*wanted, strict=True)), 1):
            found += answer
            progress(done, len(wanted))
    return found


def compare(runs: Sequence[Run]) -> Sequence[Row]:
    """Return the means beside the published ones, in the order of the paper's policies."""
    text = (files("pyscheduler_lab.reproduction") / "published/fgd.csv").read_text(encoding="utf-8")
    published = {(row["list"], row["policy"]): row for row in csv.DictReader(text.splitlines())}
    rows = []
    for tasks in dict.fromkeys(each.tasks for each in runs):
        for level in LEVELS:
            for policy in POLICIES:
                key = (tasks, policy, level)
                values = [each.allocated for each in runs if (each.tasks, each.policy, each.level) == key]
                if values:
                    row = Row(
                        tasks=tasks,
                        policy=policy,
                        level=level,
                        seeds=len(values),
                        published=float(published[tasks, policy][f"allocated_{level}_mean"]),
                        ours=mean(values),
                        tolerance=_TOLERANCE.get(policy, _USUAL_TOLERANCE),
                    )
                    rows.append(row)
    return rows


def is_in_order(rows: Sequence[Row]) -> bool:
    """Return True if the policies have the published order, for each list and level."""
    ours = sorted(rows, key=lambda row: (row.tasks, row.level, row.ours))
    return ours == sorted(rows, key=lambda row: (row.tasks, row.level, row.published))


def write(folder: Path, runs: Sequence[Run], rows: Sequence[Row]) -> None:
    """Write `runs.csv`, a line for each run and level, and `comparison.csv`."""
    tables = {
        "runs.csv": [attrs.asdict(each) for each in runs],
        "comparison.csv": [
            {**attrs.asdict(row), "difference": row.difference, "is_close": row.is_close} for row in rows
        ],
    }
    for name, table in tables.items():
        with (folder / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(table)
