"""Sessions of the preset `kube-batch` decide as a model of kube-batch that works one task at a time."""

from __future__ import annotations

import copy
import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_lab.simulation.batch_cases.runs import Run, open_session

_spec = importlib.util.spec_from_file_location("kube_batch_model", Path(__file__).parent / "kube_batch_model.py")
assert _spec is not None
assert _spec.loader is not None
kube_batch_model = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kube_batch_model)

GIB = 1024**3
TIERS = [
    [{"name": "priority"}, {"name": "gang"}],
    [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}],
]
ACTIONS = (
    ["allocate", "backfill"],
    ["reclaim", "allocate", "backfill", "preempt"],
    ["preempt"],
    ["reclaim"],
)
PLACES = (4, 20)
REQUESTS: tuple[dict[str, int], ...] = (
    {"cpu": 1000, "memory": GIB},
    {"cpu": 2000, "memory": 2 * GIB},
    {"cpu": 500, "memory": 4 * GIB},
    {},
)


class First(random.Random):
    """Takes the first of equals."""

    def randrange(self, *args: Any) -> int:
        """Return 0."""
        return 0


def random_case(seed: int) -> dict[str, Any]:
    """Make a small cluster with queues, groups and pods that partly run."""
    rng = random.Random(seed)
    nodes = [
        {
            "name": f"n{at}",
            "allocatable": {"cpu": rng.choice((4000, 8000)), "memory": 16 * GIB, "pods": rng.choice((4, 20))},
        }
        for at in range(rng.randint(1, 4))
    ]
    queues = [{"name": f"q{at}", "weight": rng.randint(1, 4), "created": at} for at in range(rng.randint(1, 4))]
    free = {node["name"]: dict(node["allocatable"]) for node in nodes}
    groups, pods = [], []
    for at in range(rng.randint(2, 7)):
        size = rng.randint(1, 5)
        groups.append(
            {
                "name": f"g{at}",
                "queue": rng.choice(queues)["name"],
                "minMember": rng.randint(1, size + (rng.random() < 0.1)),
                "priority": rng.choice((0, 0, 10, 100)),
                "created": rng.randint(0, 3),
                "phase": "Pending",
            }
        )
        request = rng.choice(
            ({"cpu": 1000, "memory": GIB}, {"cpu": 2000, "memory": 2 * GIB}, {"cpu": 500, "memory": 4 * GIB}, {})
        )
        is_running = rng.random() < 0.5
        for member in range(size):
            pod: dict[str, Any] = {
                "name": f"p{at}x{member}",
                "group": f"g{at}",
                "requests": request,
                "state": "Pending",
                "created": rng.randint(0, 5),
                "priority": rng.choice((1, 1, 5)),
            }
            room = [
                name
                for name, left in free.items()
                if left["pods"] >= 1 and all(left[key] >= value for key, value in request.items())
            ]
            if is_running and room and rng.random() < 0.85:
                pod["node"] = rng.choice(room)
                pod["state"] = "Terminating" if rng.random() < 0.1 else "Running"
                free[pod["node"]]["pods"] -= 1
                for key, value in request.items():
                    free[pod["node"]][key] -= value
            elif rng.random() < 0.05:
                pod["state"] = rng.choice(("Succeeded", "Failed"))
            pods.append(pod)
    actions = rng.choice(ACTIONS)
    configuration = {"actions": actions, "tiers": TIERS}
    return {"nodes": nodes, "queues": queues, "podGroups": groups, "pods": pods, "configuration": configuration}


def run_session(case: dict[str, Any]) -> Run:
    """Run a case with the preset; of equal nodes the first is taken."""
    run = open_session("kube-batch", case)
    run.session.rng = First()
    run.act()
    return run


def results_of(run: Run) -> dict[str, str]:
    """Return by pod what came of it, with its node."""
    found = {}
    for job in run.tables.jobs.values():
        for task in job.tasks.values():
            node = run.tables.nodes.names[task.node] if task.node >= 0 else ""
            if task.uid in run.effects.bound:
                found[task.uid] = f"bound {node}"
            elif task.uid in run.effects.evicted:
                found[task.uid] = "evicted"
            elif task.state in {TaskState.PIPELINED, TaskState.ALLOCATED}:
                found[task.uid] = f"{task.state.name.capitalize()} {node}"
    return found


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.long) for block in range(1, 4))])
def test_sessions_decide_as_the_model(block: int) -> None:
    """Bound, reserved, promised and evicted pods and their nodes agree on random clusters."""
    counts: Counter[str] = Counter()
    for seed in range(block * 150, block * 150 + 150):
        case = random_case(seed)
        model = kube_batch_model.Model(copy.deepcopy(case))
        for action in case["configuration"]["actions"]:
            getattr(model, action)()
        expected = model.results()
        found = results_of(run_session(case))
        assert found == expected, f"seed {seed}"
        counts.update(result.split()[0] for result in found.values())
        counts["sessions"] += 1
        counts["sessions with evictions"] += "evicted" in found.values()
    sys.stdout.write(f"{dict(sorted(counts.items()))}\n")
    assert counts["bound"] > 100
    assert counts["evicted"] > 10
    assert counts["Pipelined"] > 10
