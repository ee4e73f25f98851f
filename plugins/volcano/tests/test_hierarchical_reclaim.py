"""The victims of `reclaim` under `drf` with `enableHierarchy`, as pyscheduler and as Volcano choose them."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases.runs import open_session

GIB = 1024**3
TIERS = [["gang", "conformance"], [{"name": "drf", "enableHierarchy": True}, "predicates"]]


def _evicted(running: dict[str, int], waiting: list[tuple[str, int]], *, is_live: bool) -> list[str]:
    """Return the queues of the evicted pods on a full node.

    `running`: by queue, its jobs of one pod with one CPU. `waiting`: queue and CPUs of jobs of one pod.
    """
    groups: list[dict[str, Any]] = []
    pods: list[dict[str, Any]] = []
    jobs = [(queue, 1, {"state": "Running", "node": "n"}) for queue, count in running.items() for _ in range(count)]
    jobs += [(queue, cpus, {"state": "Pending"}) for queue, cpus in waiting]
    for at, (queue, cpus, place) in enumerate(jobs):
        name = f"{queue}{at}"
        groups.append({"name": name, "queue": queue, "minMember": 1, "phase": "Inqueue", "created": at})
        pods.append({"name": name, "group": name, "requests": {"cpu": cpus * 1000}, **place})
    run = open_session(
        "volcano",
        {
            "configuration": {
                "actions": ["reclaim"],
                "tiers": [[each if isinstance(each, dict) else {"name": each} for each in tier] for tier in TIERS],
            },
            "nodes": [
                {"name": "n", "allocatable": {"cpu": sum(running.values()) * 1000, "memory": 64 * GIB, "pods": 99}}
            ],
            "queues": [{"name": name, "hierarchy": f"root/{name}", "hierarchyWeights": "1/1"} for name in "abc"],
            "podGroups": groups,
            "pods": pods,
            "now": 0.0,
        },
    )
    run.session.is_live = is_live
    run.act()
    return sorted(name[0] for name in run.effects.evicted)


@pytest.mark.parametrize(("cpus", "is_live", "evicted"), [(4, True, 0), (4, False, 4), (2, True, 2), (2, False, 2)])
def test_queue_does_not_lose_so_much_that_it_comes_first(cpus: int, evicted: int, *, is_live: bool) -> None:
    """The victims of a pod are counted together, so 8 and 2 CPUs do not become 4 and 6."""
    assert _evicted({"a": 8, "b": 2}, [("b", cpus), ("b", 9)], is_live=is_live) == ["a"] * evicted


def test_each_queue_gives_up_what_it_can() -> None:
    """A queue that keeps its other pods does not protect those of another queue."""
    assert _evicted({"a": 6, "c": 6}, [("b", 4), ("b", 9)], is_live=True) == ["a", "a", "c", "c"]


@pytest.mark.parametrize(("is_live", "evicted"), [(True, ["a"] * 4), (False, [])])
def test_last_job_of_a_queue_evicts(evicted: list[str], *, is_live: bool) -> None:
    """A queue takes its whole share, also for the last job that waits in it."""
    assert _evicted({"a": 8}, [("b", 4)], is_live=is_live) == evicted
