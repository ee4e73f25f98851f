"""The solver of the preset kai finds victims exactly where trying all sets of victims finds some."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings, strategies as st

from pyscheduler.simulation.batch_cases.kai import run_case

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_CLAIM = 70


@st.composite
def full_clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Draw nodes with running pods of two queues, and one gang that waits and may preempt in its queue."""
    nodes = [
        {"name": f"n{at}", "gpu": draw(st.integers(1, 4)), "cpuMillis": 64000, "maxPods": 110}
        for at in range(draw(st.integers(1, 3)))
    ]
    jobs: list[dict[str, Any]] = []
    for node in nodes:
        left = node["gpu"]
        while left and len(jobs) < 8 and draw(st.integers(0, 4)):
            gpus = draw(st.integers(1, min(left, 2)))
            left -= gpus
            name = f"r{len(jobs)}"
            task = {"name": f"{name}-0", "gpu": gpus, "state": "Running", "node": node["name"]}
            priority = draw(st.sampled_from([40, 50, 60, 80, 100]))
            jobs.append({"name": name, "queue": draw(st.sampled_from("aab")), "priority": priority, "tasks": [task]})
    size, gpus = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    tasks = [{"name": f"w-{at}", "gpu": gpus, "state": "Pending"} for at in range(size)]
    jobs.append({"name": "w", "queue": "a", "priority": _CLAIM, "minMember": size, "tasks": tasks})
    for age, spec in enumerate(jobs):
        spec |= {"createdSecondsAgo": 500 - age, "minMember": spec.get("minMember", 1)}
    queues = [
        {"name": name, "createdSecondsAgo": 1000, "gpu": _FREE, "cpuMillis": _FREE, "memoryBytes": _FREE}
        for name in ("a", "b")
    ]
    return {"actions": ["allocate", "preempt"], "nodes": nodes, "queues": queues, "jobs": jobs, "args": {}}


def _fits(case: Mapping[str, Any], evicted: Iterable[str]) -> bool:
    """Return whether the waiting gang fits once some jobs are gone; its tasks are equal."""
    gone, free = set(evicted), {node["name"]: node["gpu"] for node in case["nodes"]}
    for spec in case["jobs"][:-1]:
        if spec["name"] not in gone:
            free[spec["tasks"][0]["node"]] -= spec["tasks"][0]["gpu"]
    waiting = case["jobs"][-1]["tasks"]
    return sum(left // waiting[0]["gpu"] for left in free.values()) >= len(waiting)


def test_the_solver_equals_brute_force() -> None:
    """Preempt makes room for a gang if and only if evicting some jobs of its queue and a lower priority does."""
    counts: Counter[str] = Counter()

    @settings(max_examples=max(100, 10 * settings.default.max_examples // 3), deadline=None)
    @given(full_clusters())
    def check(case: dict[str, Any]) -> None:
        candidates = [spec["name"] for spec in case["jobs"][:-1] if spec["queue"] == "a" and spec["priority"] < _CLAIM]
        subsets = chain.from_iterable(combinations(candidates, count) for count in range(len(candidates) + 1))
        least = next((chosen for chosen in subsets if _fits(case, chosen)), None)
        found = run_case(case)["actual"]
        placed = sum(found["jobs"]["w"].get(state, 0) for state in ("allocated", "pipelined"))
        victims = {name.rpartition("-")[0] for name in found["evictions"]}
        assert placed == (0 if least is None else len(case["jobs"][-1]["tasks"]))
        assert victims <= set(candidates)
        assert least is None or (_fits(case, victims) and len(victims) >= len(least))
        counts["no room whatever is evicted" if least is None else "evicted" if least else "fits at once"] += 1
        counts["as few as possible"] += bool(least) and len(victims) == len(least or ())

    check()
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each rule fired
    assert min(counts[what] for what in ("no room whatever is evicted", "evicted", "fits at once")) >= 10, counts
