"""The FGD paper's experiment: order of tasks, placements against plain arithmetic, and what is measured."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import attrs
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings

from lab.tests.conftest import other_hash_seed
from lab.tests.packing_model import Model
from pyscheduler_lab.cli.reproduce import command
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.clusters.node import Node
from pyscheduler_lab.reproduction import fgd
from pyscheduler_lab.reproduction.arrivals import arrivals
from pyscheduler_lab.reproduction.fgd import LEVELS, Run, compare, is_in_order, write
from pyscheduler_lab.reproduction.packing import POLICIES, Curves, curves_of, place_all, renamed
from pyscheduler_lab.traces import Job, Trace

MODELS = ("", "A", "B", "C")


def some_nodes(rng: random.Random, number: int) -> Cluster:
    """Return random nodes; some have no GPU model."""
    nodes = [
        Node(
            name=f"n{place:02}",
            cpu_milli=rng.choice((16_000, 32_000, 64_000)),
            memory_mib=rng.choice((65_536, 131_072)),
            gpus=rng.choice((1, 2, 4, 8)),
            gpu_model=rng.choice(MODELS),
        )
        for place in range(number)
    ]
    return Cluster(nodes=nodes)


def some_tasks(rng: random.Random, number: int) -> list[Job]:
    """Return random tasks of a few kinds: without GPUs, with a part of one, with whole ones, for some models only."""
    kinds = []
    for _ in range(12):
        gpus = rng.choice((0, 1, 1, 1, 1, 2, 4))
        kinds.append(
            {
                "cpu_milli": rng.choice((1000, 2000, 4000, 6000, 12_000)),
                "memory_mib": rng.choice((1024, 4096, 16_384)),
                "gpus": gpus,
                "gpu_milli": rng.choice((100, 250, 330, 500, 810, 1000)) if gpus == 1 else 1000,
                "gpu_models": tuple(sorted(rng.sample(("A", "B"), rng.randint(1, 2))))
                if gpus and rng.random() < 0.3
                else (),
            }
        )
    return [Job(name=f"t{place:03}", arrival=0, duration=1, **rng.choice(kinds)) for place in range(number)]


def as_model(cluster: Cluster, tasks: list[Job], seed: int) -> Model:
    """Return the same cluster as plain arithmetic, with the names that nodes have under this seed."""
    nodes = renamed(cluster, seed).nodes
    facts = [(node.name, node.cpu_milli, node.memory_mib, node.gpus, node.gpu_model) for node in nodes]
    return Model(facts, [as_tuple(task) for task in tasks])


def as_tuple(task: Job) -> tuple[object, ...]:
    """Return what the model knows of a task."""
    return (task.cpu_milli, task.memory_mib, task.gpus, task.gpu_milli, task.gpu_models)


@pytest.fixture(scope="module")
def openb() -> tuple[Cluster, list[Job]]:
    """Return the nodes and the tasks of the openb trace."""
    return Cluster.read("openb"), [*Trace.read("openb").jobs]


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "Random"])
@pytest.mark.parametrize("seed", range(4))
def test_plugins_place_as_plain_arithmetic_does(policy: str, seed: int) -> None:
    """On random small clusters, each task gets the same node, until and beyond the moment when tasks are dropped."""
    rng = random.Random(seed)
    cluster, tasks = some_nodes(rng, 12), some_tasks(rng, 150)
    order = arrivals(tasks, 1000 * cluster.gpus, seed=seed, inflation=1.6)
    placed, shared = place_all(policy, cluster, tasks, order, seed=seed)
    model = as_model(cluster, tasks, seed)
    expected = [model.place(policy, as_tuple(task)) for task in order]
    assert placed == expected
    assert -1 in placed
    assert max(shared) > 0
    curves = curves_of(cluster, tasks, order, placed, shared)
    total = sum(
        model.fragmentation(int(cpu), free, node[4])
        for cpu, free, node in zip(model.cpu, model.free, model.nodes, strict=True)
    )
    capacity = 1000 * cluster.gpus
    assert curves.fragmented[-1] == pytest.approx(100 * float(total) / capacity)
    assert curves.allocated[-1] == pytest.approx(100 - 100 * sum(int(free.sum()) for free in model.free) / capacity)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "Random"])
def test_the_beginning_of_the_experiment_is_placed_as_plain_arithmetic_does(
    policy: str, openb: tuple[Cluster, list[Job]]
) -> None:
    """The first tasks of the openb trace, in the order of a seed, on every third of its 1,213 nodes."""
    whole, tasks = openb
    cluster = Cluster(nodes=whole.nodes[::3])
    order = arrivals(tasks, 1000 * cluster.gpus, seed=1)[: 5 * settings.default.max_examples]
    placed, _ = place_all(policy, cluster, tasks, order, seed=1)
    model = as_model(cluster, tasks, 1)
    assert placed == [model.place(policy, as_tuple(task)) for task in order]


@pytest.mark.slow
def test_random_placements_fit_and_repeat_with_their_seed() -> None:
    """A seed gives the same nodes and devices again, another seed gives others, and no device is overcommitted."""
    rng = random.Random(1)
    cluster, tasks = some_nodes(rng, 12), some_tasks(rng, 150)
    first, again, other = (place_all("Random", cluster, tasks, tasks, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    used: Counter[tuple[int, int]] = Counter()
    for task, node, device in zip(tasks, *first, strict=True):
        if device >= 0:
            used[node, device] += task.gpu_milli
    assert used
    assert max(used.values()) <= 1000
    assert len({device for _, device in used}) > 1


def test_order_depends_on_the_seed_only() -> None:
    """The list is sorted before it is shuffled, and what is appended comes from the list."""
    tasks = some_tasks(random.Random(0), 100)
    demand = sum(task.worker_gpu_milli for task in tasks)
    first = arrivals(tasks, demand, seed=3)
    assert first == arrivals(tasks[::-1], demand, seed=3) != arrivals(tasks, demand, seed=4)
    assert sorted(task.name for task in first[:100]) == [task.name for task in tasks]
    assert {as_tuple(task) for task in first[100:]} <= {as_tuple(task) for task in tasks}
    assert len({task.name for task in first}) == len(first)
    assert 1.2 * demand < sum(task.worker_gpu_milli for task in first) <= 1.3 * demand + 4000


def test_a_list_above_the_goal_loses_tasks() -> None:
    """Tasks are drawn from the shuffled list until it asks for no more than the goal."""
    tasks = some_tasks(random.Random(0), 100)
    demand = sum(task.worker_gpu_milli for task in tasks)
    order = arrivals(tasks, demand, seed=3, inflation=0.5)
    assert 0.4 * demand < sum(task.worker_gpu_milli for task in order) <= 0.5 * demand
    assert {task.name for task in order} < {task.name for task in tasks}


def test_a_list_without_gpus_is_not_inflated() -> None:
    """It would never reach the goal."""
    tasks = [Job(name="a", arrival=0, duration=1, cpu_milli=1)]
    assert arrivals(tasks, 1000, seed=0) == tasks


def test_a_level_is_the_mean_of_the_steps_that_round_to_it() -> None:
    """Without such a step, the next level counts."""
    curves = Curves(*(np.array(values) for values in ([9.6, 10.4, 12.0], [1.0, 3.0, 7.0], [0.0] * 3, [0.0] * 3)))
    assert curves.at(10)["allocated"] == 2.0
    assert curves.at(13)["allocated"] == 7.0


def run_of(tasks: str, policy: str, seed: int) -> list[Run]:
    """Return results in place of a run; the first one takes the longest."""
    time.sleep(0.2 * (seed == 0))
    return [
        Run(tasks=tasks, policy=policy, seed=seed, level=level, allocated=1, fragmented=2, fragmented_idle=3)
        for level in LEVELS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_have_the_order_of_the_runs(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """The number of processes changes neither the order nor the progress, which counts each run once."""
    monkeypatch.setattr(fgd, "run", run_of)
    seen: list[tuple[int, int]] = []
    found = fgd.run_all(["default", "cpu050"], ["FGD"], 2, workers=workers, progress=lambda *each: seen.append(each))
    expected = [(tasks, seed, level) for tasks in ("default", "cpu050") for seed in range(2) for level in LEVELS]
    assert [(each.tasks, each.seed, each.level) for each in found] == expected
    assert seen == [(done, 4) for done in range(1, 5)]


def failing(tasks: str, policy: str, seed: int) -> list[Run]:
    """Fail in the second run."""
    if seed == 1:
        raise RuntimeError(f"{tasks}/{policy}/{seed}")
    return run_of(tasks, policy, seed)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_error_of_a_run_ends_the_experiment(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """It is raised also if the run was in another process."""
    monkeypatch.setattr(fgd, "run", failing)
    with pytest.raises(RuntimeError, match="default/FGD/1"):
        fgd.run_all(["default"], ["FGD"], 3, workers=workers)


#: Places the first tasks of a seed in two processes, and prints what they got, by policy.
TWIN = """
from concurrent.futures import ProcessPoolExecutor
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.reproduction.arrivals import arrivals
from pyscheduler_lab.reproduction.packing import POLICIES, place_all
from pyscheduler_lab.traces import Trace

def place(policy):
    cluster, tasks = Cluster.read("openb"), Trace.read("openb").jobs
    cluster = Cluster(nodes=cluster.nodes[::120])
    order = arrivals(tasks, 1000 * cluster.gpus, seed=2, inflation=1.3)
    return policy, place_all(policy, cluster, tasks, order, seed=2)

if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print([*pool.map(place, POLICIES)])
"""


@pytest.mark.slow
def test_placements_depend_neither_on_hashing_nor_on_the_process(
    tmp_path: Path, openb: tuple[Cluster, list[Job]]
) -> None:
    """Another value of `PYTHONHASHSEED` and two processes give the placements that one process gives."""
    script = tmp_path / "twin.py"
    script.write_text(TWIN, encoding="utf-8")
    command = [sys.executable, script]
    done = subprocess.run(command, env=other_hash_seed(), check=True, capture_output=True, text=True)
    cluster, tasks = openb
    cluster = Cluster(nodes=cluster.nodes[::120])
    order = arrivals(tasks, 1000 * cluster.gpus, seed=2, inflation=1.3)
    here = [(policy, place_all(policy, cluster, tasks, order, seed=2)) for policy in POLICIES]
    assert done.stdout == f"{here}\n"
    assert all(-1 in placed for _, (placed, _) in here)


def a_run(policy: str, seed: int, allocated: float, level: int = 100) -> Run:
    """Return the result of a run on the default list."""
    return Run(
        tasks="default", policy=policy, seed=seed, level=level, allocated=allocated, fragmented=1, fragmented_idle=2
    )


def test_means_are_compared_with_the_published_ones() -> None:
    """A mean beyond its tolerance and another order of the policies are noticed."""
    runs = [a_run("Random", 0, 86.2), a_run("Random", 1, 86.6), a_run("FGD", 0, 94.0), a_run("FGD", 1, 94.2)]
    first, last = compare(runs)
    assert (first.policy, first.seeds, round(first.difference, 3), first.is_close) == ("Random", 2, 0.097, True)
    assert (last.published, round(last.ours, 3), last.is_close) == (95.227, 94.1, False)
    assert is_in_order([first, last])
    assert not is_in_order([first, attrs.evolve(last, ours=80.0)])


def test_results_are_written_as_tables(tmp_path: Path) -> None:
    """One line for each run and level, and one for each mean."""
    runs = [a_run("Random", 0, 86.2)]
    write(tmp_path, runs, compare(runs))
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8").splitlines() == [
        "tasks,policy,seed,level,allocated,fragmented,fragmented_idle",
        "default,Random,0,100,86.2,1,2",
    ]
    header, row = (tmp_path / "comparison.csv").read_text(encoding="utf-8").splitlines()
    assert header == "tasks,policy,level,seeds,published,ours,tolerance,difference,is_close"
    assert row.startswith("default,Random,100,1,86.303,86.2,0.5,-0.1")


def test_the_command_prints_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The exit code says whether all means are close; the folder has the tables."""
    values = {100: (86.3, 95.2), 130: (87.5, 95.4)}

    def runs(*_: object, **__: object) -> list[Run]:
        return [
            a_run(policy, 0, allocated, level)
            for level, pair in values.items()
            for policy, allocated in zip(("Random", "FGD"), pair, strict=True)
        ]

    monkeypatch.setattr("pyscheduler_lab.reproduction.fgd.run_all", runs)
    arguments = ["fgd", "--seeds", "1"]
    result = CliRunner().invoke(command, [*arguments, "--out", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (0, "")
    assert "default          100  FGD                95.23   95.20      -0.03  0.5\n" in result.stdout
    assert "means of 1 orders; order of the policies: the same" in result.stdout
    assert (tmp_path / "runs.csv").exists()
    values[130] = (97.5, 95.4)
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 4
    assert "0.5  beyond" in result.stdout
    assert "order of the policies: another" in result.stdout
