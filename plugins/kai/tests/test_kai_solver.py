"""The solver of the preset kai against all sets of victims: where it must find some, and where it must not."""

from __future__ import annotations

import copy
import random
from collections import Counter
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler_kai import cycle, solver
from pyscheduler_kai.scenario import _Accumulator
from pyscheduler_lab.simulation.batch_cases.kai import run_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_CLAIM = 70
#: How often each rule must have its turn, and a rare one.
_OFTEN, _RARELY = settings.default.max_examples // 4, max(1, settings.default.max_examples // 12)


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


@pytest.mark.slow
def test_the_solver_equals_brute_force() -> None:
    """Preempt makes room for a gang if and only if evicting some jobs of its queue and a lower priority does."""
    counts: Counter[str] = Counter()

    @settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
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
    assert min(counts[what] for what in ("no room whatever is evicted", "evicted", "fits at once")) >= _OFTEN, counts


def _subsets(names: list[str]) -> Iterable[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))


def _placed(found: Mapping[str, Any]) -> int:
    return sum(found["jobs"]["w"].get(state, 0) for state in ("allocated", "pipelined"))


@pytest.mark.slow
def test_reclaim_equals_brute_force() -> None:
    """Reclaim makes room for a gang only where a set of victims exists that its share justifies.

    It always finds one if the other queue has no quota: then every set of victims is justified. With a quota, the
    original proposes the units of whole nodes only, and may miss a set.
    """
    counts: Counter[str] = Counter()

    @settings(max_examples=25 * settings.default.max_examples // 4, deadline=None, derandomize=True)
    @given(full_clusters(), st.sampled_from([0, 0, 1, 2, -1]), st.sampled_from([0, 0, 1, 2, 4]))
    def check(case: dict[str, Any], spare: int, other_quota: int) -> None:
        case["actions"] = ["allocate", "reclaim"]
        sizes = {spec["name"]: spec["tasks"][0]["gpu"] for spec in case["jobs"][:-1] if spec["queue"] == "b"}
        held, total = sum(sizes.values()), sum(node["gpu"] for node in case["nodes"])
        own = sum(spec["tasks"][0]["gpu"] for spec in case["jobs"][:-1] if spec["queue"] == "a")
        asked = sum(task["gpu"] for task in case["jobs"][-1]["tasks"])
        quota = own + asked + spare
        other_quota = min(other_quota, max(total - quota, 0))
        for queue, amount in zip(case["queues"], (quota, other_quota), strict=True):
            queue["gpu"] = {"quota": amount, "limit": -1, "overQuotaWeight": 0}
        candidates = [spec["name"] for spec in case["jobs"][:-1] if spec["queue"] == "b" and spec["priority"] < 100]

        def is_justified(chosen: tuple[str, ...]) -> bool:
            taken = [sizes[name] for name in chosen]
            return not taken or held - sum(taken) + max(taken) > other_quota

        # A queue may claim what is within its quota, as far as the cluster has so much.
        may_claim = spare >= 0 and own + asked <= total
        possible = [chosen for chosen in _subsets(candidates) if _fits(case, chosen) and is_justified(chosen)]
        found = run_case(case)["actual"]
        victims = {name.rpartition("-")[0] for name in found["evictions"]}
        assert victims <= set(candidates)
        if victims:
            assert victims in map(set, possible)
            counts["evicted with a quota" if other_quota else "evicted"] += 1
        if _fits(case, ()) or (may_claim and possible and not other_quota):
            assert _placed(found) == len(case["jobs"][-1]["tasks"]), (case, found)
            counts["fits at once"] += _fits(case, ())
        elif not (may_claim and possible):
            assert not _placed(found), (case, found)
            counts["no room whatever is evicted" if may_claim else "above its share"] += 1

    check()
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each rule fired
    rules = ("evicted", "evicted with a quota", "above its share", "no room whatever is evicted", "fits at once")
    assert min(counts[what] for what in rules) >= _RARELY, counts


def _may_pack(sizes: list[int], nodes: list[int]) -> bool:
    """Return whether all sizes fit into the nodes, whichever node each takes."""
    for places in product(range(len(nodes)), repeat=len(sizes)):
        left = list(nodes)
        for size, at in zip(sizes, places, strict=True):
            left[at] -= size
        if min(left) >= 0:
            return True
    return False


@st.composite
def scattered_clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Draw nodes with running pods of one queue, and one larger pod that waits."""
    nodes = [
        {"name": f"n{at}", "gpu": draw(st.integers(2, 5)), "cpuMillis": 64000, "maxPods": 110}
        for at in range(draw(st.integers(2, 3)))
    ]
    jobs: list[dict[str, Any]] = []
    largest = draw(st.sampled_from([1, 1, 3]))
    for node in nodes:
        left = node["gpu"] - draw(st.integers(0, 2))
        while left > 0 and len(jobs) < 6:
            gpus = draw(st.integers(1, min(left, largest)))
            left -= gpus
            name = f"r{len(jobs)}"
            task = {"name": f"{name}-0", "gpu": gpus, "state": "Running", "node": node["name"]}
            priority = draw(st.sampled_from([40, 40, 40, 50, 100]))
            jobs.append({"name": name, "queue": "a", "priority": priority, "tasks": [task]})
    task = {"name": "w-0", "gpu": draw(st.sampled_from([1, 2, 2, 3, 3, 4])), "state": "Pending"}
    jobs.append({"name": "w", "queue": "a", "priority": _CLAIM, "tasks": [task]})
    for age, spec in enumerate(jobs):
        spec |= {"createdSecondsAgo": 500 - age, "minMember": 1}
    queue = {"name": "a", "createdSecondsAgo": 1000, "gpu": _FREE, "cpuMillis": _FREE, "memoryBytes": _FREE}
    return {"actions": ["allocate", "consolidation"], "nodes": nodes, "queues": [queue], "jobs": jobs, "args": {}}


@pytest.mark.slow
def test_consolidation_equals_brute_force() -> None:
    """Consolidation makes room for a task only where all running tasks fit beside it on some nodes.

    It always makes room if the running tasks have one GPU each: then no order of placement wastes room.
    """
    counts: Counter[str] = Counter()

    @settings(max_examples=3 * settings.default.max_examples, deadline=None, derandomize=True)
    @given(scattered_clusters())
    def check(case: dict[str, Any]) -> None:
        room = {node["name"]: node["gpu"] for node in case["nodes"]}
        movable = []
        for spec in case["jobs"][:-1]:
            task = spec["tasks"][0]
            if spec["priority"] < 100:
                movable.append(task["gpu"])
            else:
                room[task["node"]] -= task["gpu"]
        possible = _may_pack([case["jobs"][-1]["tasks"][0]["gpu"], *movable], list(room.values()))
        found = run_case(case)["actual"]
        moved = {name.rpartition("-")[0] for name in found["evictions"]}
        assert all(found["jobs"][name].get("pipelined", 0) == 1 for name in moved)
        if max(movable, default=1) == 1:
            assert _placed(found) == possible, (case, found)
        assert possible or not _placed(found)
        kind = "fits at once" if _fits(case, ()) else "no room however all are moved"
        counts["moved" if moved else kind if possible == _placed(found) else "missed by the order of placement"] += 1

    check()
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each rule fired
    assert min(counts[what] for what in ("moved", "fits at once", "no room however all are moved")) >= _OFTEN, counts


def fragmented_cluster(rng: random.Random) -> dict[str, Any]:
    """Return nodes on which jobs of one size leave smaller holes, and a gang of that size that waits."""
    size = rng.choice((2, 3))
    nodes, jobs = [], []
    for at in range(rng.randint(3, 5)):
        count, hole = rng.randint(1, 2), rng.randint(0, size)
        gpus = [size] * count + [1] * rng.randint(hole == size, hole)
        nodes.append({"name": f"n{at}", "gpu": size * count + hole, "cpuMillis": 64000, "maxPods": 110})
        for amount in gpus:
            name = f"r{len(jobs)}"
            task = {"name": f"{name}-0", "gpu": amount, "state": "Running", "node": f"n{at}"}
            facts = {"queue": rng.choice("ab"), "priority": rng.choice((40, 50, 60, 80))}
            jobs.append({"name": name, "tasks": [task], "minMember": 1, **facts})
    members = rng.choice((1, 1, 2))
    tasks = [{"name": f"w-{at}", "gpu": size, "state": "Pending"} for at in range(members)]
    jobs.append({"name": "w", "queue": "a", "priority": _CLAIM, "minMember": members, "tasks": tasks})
    for age, spec in enumerate(jobs):
        spec["createdSecondsAgo"] = 500 - age
    total = sum(node["gpu"] for node in nodes)
    quotas = {"a": rng.randint(0, total), "b": rng.randint(0, 4)}
    queues = [
        {
            "name": name,
            "createdSecondsAgo": 1000,
            "gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1},
            "cpuMillis": _FREE,
            "memoryBytes": _FREE,
        }
        for name, quota in quotas.items()
    ]
    actions = ["allocate", "consolidation", "reclaim", "preempt"]
    return {"actions": actions, "nodes": nodes, "queues": queues, "jobs": jobs, "args": {}}


@pytest.mark.slow
def test_bounds_change_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is not simulated, because a bound says that it lacks room, would have been rejected."""
    # Small sessions simulate plans that lack room, for the reasons.
    monkeypatch.setattr(cycle, "_SMALL", 0)
    counts: Counter[str] = Counter()
    bounds = [(solver, "has_room_for_all"), (_Accumulator, "is_hopeless"), (_Accumulator, "is_hopeless_node")]
    rng = random.Random(1)
    for _ in range(5 * settings.default.max_examples // 2):
        case = fragmented_cluster(rng)
        plain = copy.deepcopy(case)
        with monkeypatch.context() as counting:
            for where, name in bounds:
                counting.setattr(where, name, _counted(getattr(where, name), name, counts))
            found = run_case(case)["actual"]
        with monkeypatch.context() as without:
            for where, name in bounds:
                without.setattr(where, name, lambda *_, name=name: name == "has_room_for_all")
            expected = run_case(plain)["actual"]
        # A simulation leaves a reason on a victim that found no other node.
        assert {**found, "reasons": 0} == {**expected, "reasons": 0}
        counts.update(each[-1]["action"] for each in found["evictions"].values())
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each rule fired
    fired = ("has_room_for_all", "is_hopeless", "is_hopeless_node", "consolidation", "preempt", "reclaim")
    assert min(counts[what] for what in fired) >= _OFTEN // 2, counts


def _counted(bound: Callable[..., bool], name: str, counts: Counter[str]) -> Callable[..., bool]:
    """Return the bound; it counts how often a plan fails by it."""

    def ask(*args: Any) -> bool:
        answer = bound(*args)
        counts[name] += answer != (name == "has_room_for_all")
        return answer

    return ask
