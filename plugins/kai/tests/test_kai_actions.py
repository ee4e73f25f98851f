"""The actions of the preset kai on small clusters, and what holds for all clusters."""

from __future__ import annotations

import asyncio
from collections import Counter
from pkgutil import resolve_name
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from plugins.kai.tests.kai_tables import Log, build_session
from pyscheduler_kai.allocate import Allocate
from pyscheduler_kai.evictions import Consolidation, Preempt, Reclaim, StaleGangEviction
from pyscheduler_kai.preset import KAI
from pyscheduler_kai.switches import ScenarioGenerator
from pyscheduler_kai.system import Kai
from pyscheduler_lab.simulation.batch_cases.kai import run_case

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
ALL = ["allocate", "consolidation", "reclaim", "preempt", "stalegangeviction"]


def queue(name: str, quota: float, limit: float = -1, weight: float = 1, age: float = 1000) -> dict[str, Any]:
    """Return a queue in which only GPUs are limited."""
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    return {"name": name, "createdSecondsAgo": age, "gpu": gpu, "cpuMillis": FREE, "memoryBytes": FREE}


def nodes(*gpus: int) -> list[dict[str, Any]]:
    """Return nodes n0, n1, … with so many GPUs."""
    return [{"name": f"n{at}", "gpu": count, "cpuMillis": 64000, "maxPods": 110} for at, count in enumerate(gpus)]


def job(name: str, in_queue: str, *tasks: str | int, **more: Any) -> dict[str, Any]:
    """Return a job; each task is the node on which it runs with one GPU, or the GPUs that it waits for."""
    specs = [
        {"name": f"{name}-{at}", "gpu": 1, "state": "Running", "node": task}
        if isinstance(task, str)
        else {"name": f"{name}-{at}", "gpu": task, "state": "Pending"}
        for at, task in enumerate(tasks)
    ]
    return {"name": name, "queue": in_queue, "createdSecondsAgo": 500, "minMember": 1, "tasks": specs, **more}


def run(actions: list[str], cluster: list[dict[str, Any]], queues: Any, jobs: Any, **args: Any) -> dict[str, Any]:
    """Run a cycle and return its decisions."""
    case = {"actions": actions, "nodes": cluster, "queues": queues, "jobs": jobs, "args": args}
    actual: dict[str, Any] = run_case(case)["actual"]
    return actual


def test_a_gang_that_does_not_fit_leaves_no_trace() -> None:
    """A smaller job behind it is placed."""
    found = run(["allocate"], nodes(2, 1), [queue("a", 4)], [job("g", "a", 1, 1, 1, 1, minMember=4), job("s", "a", 1)])
    assert found["jobs"] == {"g": {"pending": 4}, "s": {"allocated": 1}}
    assert found["reasons"] == {"g": ["PodSchedulingErrors"]}


@pytest.mark.parametrize(("placement", "node"), [("binpack", "n1"), ("spread", "n0")])
def test_gpu_tasks_fill_nodes_or_avoid_full_ones(placement: str, node: str) -> None:
    """The argument of nodeplacement decides."""
    jobs = [job("r", "a", "n1"), job("w", "a", 1)]
    found = run(["allocate"], nodes(4, 4), [queue("a", 4)], jobs, gpuPlacement=placement)
    assert found["tasks"]["w-0"] == {"state": "allocated", "node": node}


def test_a_gang_with_a_promised_task_waits_as_a_whole() -> None:
    """If too few tasks of a gang could start now, none does."""
    leaving = job("old", "a", "n0")
    leaving["tasks"][0]["state"] = "Releasing"
    found = run(["allocate"], nodes(2), [queue("a", 4)], [leaving, job("g", "a", 1, 1, minMember=2)])
    assert found["jobs"]["g"] == {"pipelined": 2}
    assert found["bindOrder"] == []


def test_reclaim_takes_the_youngest_job_of_a_queue_above_its_share() -> None:
    """The victim is released, and its GPU promised."""
    jobs = [job("old", "a", "n0"), job("new", "a", "n0", createdSecondsAgo=10), job("w", "b", 1)]
    found = run(ALL, nodes(2), [queue("a", 1), queue("b", 1)], jobs)
    assert found["evictions"] == {"new-0": [{"action": "reclaim", "by": "w"}]}
    assert found["jobs"]["w"] == {"pipelined": 1}


def test_preempt_needs_a_higher_priority() -> None:
    """Jobs of one priority do not preempt each other."""
    queues = [queue("a", 4)]
    for priority, evicted in ((60, 1), (50, 0)):
        found = run(ALL, nodes(1), queues, [job("r", "a", "n0", priority=50), job("w", "a", 1, priority=priority)])
        assert found["evictedTotal"] == evicted


def test_consolidation_moves_jobs_to_make_one_node_free() -> None:
    """Every victim gets another place; with 0 allowed victims nothing moves."""
    jobs = [job("x", "a", "n0"), job("y", "a", "n1"), job("w", "a", 2)]
    assert run(["consolidation"], nodes(2, 2), [queue("a", 4)], jobs)["movedTotal"] == 1
    assert run(["consolidation"], nodes(2, 2), [queue("a", 4)], jobs, maxConsolidationVictims=0)["movedTotal"] == 0


def test_a_broken_gang_is_evicted_after_its_grace_period() -> None:
    """A negative grace period means never."""
    for grace, evicted in ((60, 1), (7200, 0), (-1, 0)):
        broken = job("g", "a", "n0", minMember=2, staleSinceSecondsAgo=600, stalenessGraceSeconds=grace)
        assert run(ALL, nodes(1), [queue("a", 1)], [broken])["evictedTotal"] == evicted


def test_a_job_within_its_preemption_delay_evicts_nobody() -> None:
    """The reason says so; allocate is not delayed."""
    late = job("w", "b", 1, preemptionDelaySeconds=1000)
    found = run(ALL, nodes(1), [queue("a", 0), queue("b", 1)], [job("r", "a", "n0"), late])
    assert found["evictedTotal"] == 0
    assert found["reasons"]["w"] == ["PodSchedulingErrors", "PreemptionDelayNotElapsed"]


def reclaiming(*, without: type[Any] | None = None, elapsed: Any = None, arguments: Any = None) -> Log:
    """Run reclaim where two jobs could each reclaim one GPU, and return what was decided."""
    jobs = [job("r", "a", "n0"), job("s", "a", "n1"), job("w", "b", 1), job("v", "b", 1)]
    log = Log()
    case = {"nodes": nodes(1, 1), "queues": [queue("a", 0, weight=0), queue("b", 2)], "jobs": jobs}
    session = build_session(case, log)
    if without is not None:
        session.tiers = [[entry for entry in tier if not isinstance(entry.policy, without)] for tier in session.tiers]
    if elapsed is not None:
        session.elapsed = elapsed
    asyncio.run(session.run([Reclaim(arguments)]))
    return log


def test_without_generators_nothing_is_evicted() -> None:
    """The policies sg-nodelocalgreedy and sg-multinodegang propose all victims."""
    assert len(reclaiming().evictions) == 2
    assert not reclaiming(without=ScenarioGenerator).evictions


def test_a_spent_time_limit_ends_the_action() -> None:
    """The first search is carried out, and the limit of the action stops the next one."""
    ticks = iter(range(0, 100_000, 20))
    log = reclaiming(elapsed=lambda: float(next(ticks)), arguments={"maxActionSearchDuration": "150"})
    assert len(log.evictions) == 1


def test_a_search_takes_turns() -> None:
    """Other work may run between jobs."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        turns += 1

    jobs = [job("r", "a", "n0"), job("w", "b", 1), job("v", "b", 1)]
    session = build_session({"nodes": nodes(1), "queues": [queue("a", 0), queue("b", 2)], "jobs": jobs}, Log())
    session.turn = turn
    asyncio.run(session.run([Allocate(), Reclaim()]))
    assert turns >= 4


@st.composite
def clusters(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a cluster with running jobs that fit, and pending jobs of all kinds."""
    free = {f"n{at}": draw(st.integers(1, 4)) for at in range(draw(st.integers(1, 4)))}
    cluster = nodes(*free.values())
    queues = [
        queue(
            f"q{at}",
            draw(st.integers(0, 4)),
            limit=draw(st.sampled_from([-1, -1, 3, 6])),
            weight=draw(st.integers(0, 2)),
            age=1000 - at,
        )
        for at in range(draw(st.integers(1, 3)))
    ]
    held: Counter[str] = Counter()
    jobs = []
    for at in range(draw(st.integers(1, 9))):
        name = draw(st.sampled_from([each["name"] for each in queues]))
        tasks: list[str | int] = []
        limit = next(each["gpu"]["limit"] for each in queues if each["name"] == name)
        for _ in range(draw(st.integers(1, 3))):
            open_nodes = [node for node, left in free.items() if left]
            if open_nodes and draw(st.booleans()) and (limit < 0 or held[name] < limit):
                node = draw(st.sampled_from(open_nodes))
                free[node] -= 1
                held[name] += 1
                tasks.append(node)
            else:
                tasks.append(draw(st.integers(1, 2)))
        running = sum(isinstance(task, str) for task in tasks)
        minimum = draw(st.integers(1, running or len(tasks)))
        priority = draw(st.sampled_from([40, 50, 60, 100]))
        jobs.append(job(f"j{at}", name, *tasks, minMember=minimum, priority=priority, createdSecondsAgo=500 - at))
    return {"actions": ALL, "nodes": cluster, "queues": queues, "jobs": jobs}


@pytest.mark.slow
@settings(max_examples=5 * settings.default.max_examples // 2, deadline=None)
@given(clusters())
def test_every_decision_is_sound(case: dict[str, Any]) -> None:
    """No node is overbooked, gangs are whole, limits hold, and each victim makes room for a job that gets it."""
    found = run_case(case)["actual"]
    gpus = {task["name"]: task["gpu"] for spec in case["jobs"] for task in spec["tasks"]}
    starts_now: Counter[str] = Counter()
    finally_there: Counter[str] = Counter()
    before = {task["name"]: task for spec in case["jobs"] for task in spec["tasks"]}
    for name, task in found["tasks"].items():
        # Evicted and moved tasks still hold their former node; a promise holds nothing yet.
        holds = task["node"] if task["state"] == "allocated" else before[name].get("node")
        if holds is not None:
            starts_now[holds] += gpus[name]
        if task["state"] in {"running", "allocated", "pipelined"}:
            finally_there[task["node"]] += gpus[name]
    for node in case["nodes"]:
        assert starts_now[node["name"]] <= node["gpu"]
        assert finally_there[node["name"]] <= node["gpu"]
    for spec in case["jobs"]:
        counts = Counter(found["jobs"][spec["name"]])
        placed = counts["running"] + counts["allocated"] + counts["pipelined"]
        assert placed == 0 or placed >= spec["minMember"]
    by = {entry["by"] for entries in found["evictions"].values() for entry in entries}
    assert all(found["jobs"][name].get("pipelined") or name in _victims(found) for name in by)
    assert set(_protected(case)).isdisjoint(found["evictions"])
    for spec in case["queues"]:
        limit = spec["gpu"]["limit"]
        assert limit < 0 or found["queues"][spec["name"]]["allocated"]["gpu"] <= limit


def _victims(found: dict[str, Any]) -> set[str]:
    """Return the jobs that lost tasks."""
    return {task.rpartition("-")[0] for task in found["evictions"]}


def _protected(case: dict[str, Any]) -> list[str]:
    """Return the tasks of non-preemptible jobs."""
    return [task["name"] for spec in case["jobs"] if spec["priority"] >= 100 for task in spec["tasks"]]


@pytest.mark.slow
@settings(max_examples=settings.default.max_examples, deadline=None)
@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_lists_does_not_matter(case: dict[str, Any], random: Any) -> None:
    """Decisions depend on ages and names, not on the order in which objects are listed."""
    shuffled = {key: list(value) for key, value in case.items()}
    for key in ("nodes", "queues", "jobs"):
        random.shuffle(shuffled[key])
    first, second = run_case(case)["actual"], run_case(shuffled)["actual"]
    assert {key: first[key] for key in ("tasks", "bindOrder")} == {key: second[key] for key in ("tasks", "bindOrder")}


def test_actions_have_the_names_of_the_original() -> None:
    """Files of KAI-Scheduler list actions by these names."""
    assert [each.name for each in (Allocate, Consolidation, Reclaim, Preempt, StaleGangEviction)] == ALL


def test_an_action_looks_at_so_many_jobs_of_each_queue() -> None:
    """The argument queueDepth counts the first jobs in order."""
    jobs = [job("x", "a", 1, createdSecondsAgo=9), job("y", "a", 1), job("z", "b", 1)]
    session = build_session({"nodes": nodes(8), "queues": [queue("a", 4), queue("b", 4)], "jobs": jobs}, log := Log())
    asyncio.run(session.run([Allocate({"queueDepth": "1"})]))
    assert sorted(log.bound) == ["y-0", "z-0"]


@pytest.mark.parametrize(("skips", "tried"), [("true", 1), ("false", 2)])
def test_a_job_like_one_that_failed_is_not_tried_again(skips: str, tried: int) -> None:
    """The argument schedulingSignatures turns that off."""
    jobs = [job("r", "a", "n0", priority=100), job("w", "b", 1), job("v", "b", 1)]
    session = build_session({"nodes": nodes(1), "queues": [queue("a", 0), queue("b", 2)], "jobs": jobs}, Log())
    searches = 0

    class Counted(Preempt):
        """Counts the searches."""

        def is_worth_it(self, *_: Any) -> bool:
            """Count a search, and give it up."""
            nonlocal searches
            searches += 1
            return False

    asyncio.run(session.run([Counted({"schedulingSignatures": skips})]))
    assert searches == tried


def test_a_job_is_of_the_kind_that_it_was_at_the_begin_of_the_pass() -> None:
    """A waiting task that was promised a node in the pass still counts when jobs are compared with a failed one."""
    half = job("half", "a", "n0", 1, minMember=2, createdSecondsAgo=900)
    jobs = [job("first", "b", 1), half, job("late", "a", 1)]
    found = run(["consolidation"], nodes(4), [queue("a", 4), queue("b", 4)], jobs)
    # The search for `first` finds a node for the other task of `half`, too; so the search for `half` has no task to
    # place, and fails. Both `half` and `late` began with one waiting task.
    assert found["jobs"]["half"] == {"running": 1, "pipelined": 1}
    assert found["jobs"]["late"] == {"pending": 1}


def test_a_sub_group_without_waiting_tasks_does_not_make_a_job_another_kind() -> None:
    """A job with a running sub-group and a waiting one is like a job with one waiting task."""
    groups = [{"name": "one", "minMember": 1}, {"name": "two", "minMember": 0}]
    split = job("split", "a", "n1", 2, priority=60, subGroups=groups, minMember=None)
    for task, group in zip(split["tasks"], groups, strict=True):
        task["subGroup"] = group["name"]
    waiting = job("waiting", "a", 1, createdSecondsAgo=10)
    # More CPU than the failed job asks for: the job is not easier to place.
    waiting["tasks"][0]["cpuMillis"] = 1000
    jobs = [split, job("own", "a", "n0"), job("other", "b", "n0"), waiting]
    found = run(["reclaim"], nodes(2, 1), [queue("a", 4), queue("b", 0)], jobs)
    assert found["evictions"] == {}


def test_a_queue_whose_jobs_were_evicted_comes_before_a_queue_that_was_next() -> None:
    """The order of queues follows the evictions of the pass, also for queues without a turn so far."""
    large = job("large", "b", "n0", "n1", "n1", minMember=3, createdSecondsAgo=100)
    for task in large["tasks"]:
        task["gpu"] = 2
    queues = [queue("a", 2, age=900), queue("b", 1, age=800), queue("c", 4, age=700)]
    jobs = [job("a0", "a", "n1"), job("a1", "a", 1), job("b1", "b", 1), job("c0", "c", "n0"), large]
    found = run(["reclaim"], nodes(4, 5), queues, [*jobs, job("c1", "c", 3, priority=100)])
    # `a` is behind `c` until `c1` evicts `large`; then `b` has nothing.
    assert {each["by"] for name in large["tasks"] for each in found["evictions"][name["name"]]} == {"c1"}
    assert found["evictions"]["c0-0"] == [{"action": "reclaim", "by": "b1"}]


def test_shares_are_judged_by_what_the_job_asks_for_although_it_is_placed() -> None:
    """The fair share of a queue counts the reclaiming job, also if nothing else asked for its size in the search."""
    large, two = job("large", "b", "n2", createdSecondsAgo=800), job("two", "a", "n1", createdSecondsAgo=600)
    large["tasks"][0]["gpu"], two["tasks"][0]["gpu"] = 4, 2
    jobs = [
        large,
        job("old", "b", "n1", "n0", createdSecondsAgo=750),
        job("new", "b", "n1", "n0", createdSecondsAgo=700),
        two,
        job("w2", "a", 2, createdSecondsAgo=400),
        job("w3", "a", 3, createdSecondsAgo=300),
        job("w1", "a", 1, createdSecondsAgo=200),
        # `a` has 6 of its 6 GPUs when `first` asks for one more, and `b` has 8 of 7: it may lose one task, not two.
        job("first", "a", "n0", 1, createdSecondsAgo=900),
    ]
    queues = [queue("a", 6, age=900), queue("b", 6, age=800)]
    found = run(["reclaim"], nodes(4, 4, 4, 2), queues, jobs, consolidatingReclaim=False)
    assert found["jobs"]["first"] == {"running": 1, "pending": 1}
    assert found["evictions"] == {}


def test_a_victim_without_another_node_gets_a_reason() -> None:
    """Consolidation says of each job that it tried to move, and that found no other node, why it stays."""
    jobs = [job("x", "a", "n0"), job("y", "a", "n1"), job("w", "b", 2)]
    for each in jobs[:2]:
        each["tasks"][0]["gpu"] = 2
    found = run(["consolidation"], nodes(3, 3), [queue("a", 4, age=900), queue("b", 4)], jobs)
    assert found["reasons"] == {"x": ["PodSchedulingErrors"], "y": ["PodSchedulingErrors"]}


def test_a_promise_that_stays_on_its_node_begins_no_preemption_delay() -> None:
    """A delay counts from the last eviction; a victim that gets its promised node back was not evicted."""
    large = job("large", "b", "n1", createdSecondsAgo=100)
    large["tasks"][0]["gpu"] = 4
    jobs = [
        large,
        job("w", "b", 1, createdSecondsAgo=900),
        job("gang", "a", 1, 1, minMember=2, createdSecondsAgo=800),
        job("late", "a", 1, 1, createdSecondsAgo=700, preemptionDelaySeconds=600),
    ]
    found = run(["reclaim", "preempt"], nodes(2, 4), [queue("a", -1, age=900), queue("b", 3, age=800)], jobs)
    # `late` gets a node by reclaim. The search for `w` takes it as a victim, and gives it the same node again.
    assert found["evictions"] == {"large-0": [{"action": "reclaim", "by": "late"}]}
    assert "late" not in found["reasons"]


def test_every_name_of_the_preset_can_be_loaded() -> None:
    """Each action and policy has the name under which it is listed, and files may use all names of KAI-Scheduler."""
    for listed in (Kai.actions, Kai.policies):
        assert {name: resolve_name(target).name for name, target in listed.items()} == {name: name for name in listed}
    assert set(KAI.known_policies) == set(Kai.policies)
    assert tuple(Kai.actions) == KAI.actions
