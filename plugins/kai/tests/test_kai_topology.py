"""Jobs of the preset kai in topology domains: required and preferred levels of jobs and sub-groups."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases.kai import run_case
from pyscheduler_lab.simulation.batch_cases.kai_objects import args_of, objects_of
from pyscheduler_lab.simulation.batch_cases.objects import run_pass

FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
LEVELS = ["zone", "rack"]


def node(name: str, rack: str, *, gpu: int = 8, zone: str = "z1") -> dict[str, Any]:
    """Return a node of a rack; with rack "" it is in no rack."""
    labels = {"zone": zone, "rack": rack} if rack else {"zone": zone}
    return {"name": name, "gpu": gpu, "cpuMillis": 64000, "memoryBytes": 10**12, "maxPods": 110, "labels": labels}


def job(name: str, count: int, gpu: int = 1, *, least: int | None = None, **more: Any) -> dict[str, Any]:
    """Return a waiting job of equal tasks; `required` and `preferred` are levels."""
    constraint = {"topology": more.pop("topology", "t")}
    for field in ("required", "preferred"):
        if field in more:
            constraint[f"{field}TopologyLevel"] = more.pop(field)
    tasks = more.pop("tasks", [{"name": f"{name}-{at}", "gpu": gpu} for at in range(count)])
    return {
        "name": name,
        "queue": more.pop("queue", "q"),
        "priority": more.pop("priority", 50),
        "minMember": count if least is None else least,
        "tasks": tasks,
        **({"topologyConstraint": constraint} if len(constraint) > 1 else {}),
        **more,
    }


def running(name: str, on: str, gpu: int = 1, **more: Any) -> dict[str, Any]:
    """Return a job of one running task."""
    return job(name, 1, tasks=[{"name": f"{name}-0", "gpu": gpu, "state": "Running", "node": on}], **more)


def case(nodes: list[dict[str, Any]], jobs: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return a case with one queue without limits and the topology `t`."""
    queue = {"name": "q", "createdSecondsAgo": 1000, "gpu": FREE, "cpuMillis": FREE, "memoryBytes": FREE}
    for age, each in enumerate(jobs):
        each.setdefault("createdSecondsAgo", 500 - age)
    return {
        "actions": ["allocate"],
        "args": {},
        "nodes": nodes,
        "queues": [queue],
        "jobs": jobs,
        "topologies": [{"name": "t", "levels": LEVELS}],
        **more,
    }


def placed(answer: dict[str, Any], name: str) -> list[str]:
    """Return the nodes of a job's tasks, sorted; "" for a task without a node."""
    tasks = answer["actual"]["tasks"]
    return sorted(tasks[uid].get("node", "") for uid in tasks if uid.rpartition("-")[0] == name)


RACKS = [node("a0", "a", gpu=2), node("a1", "a", gpu=2), node("b0", "b", gpu=3), node("b1", "b", gpu=3)]


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(3, "a", id="fullest"),
        pytest.param(5, "b", id="the-only-one"),
        pytest.param(7, "", id="none"),
    ],
)
def test_a_required_rack_holds_all_tasks(count: int, expected: str) -> None:
    """The rack with the least room that holds the job is used; a job that fits on no rack waits."""
    answer = run_case(case(RACKS, [job("j", count, required="rack")]))
    assert {each[:1] for each in placed(answer, "j")} == {expected}


def test_a_running_job_makes_its_rack_the_fullest() -> None:
    """The room of a rack is what is free of it."""
    answer = run_case(case(RACKS, [running("r", "b0", 3), job("j", 2, required="rack")]))
    assert {each[:1] for each in placed(answer, "j")} == {"b"}


def test_a_required_zone_may_use_several_racks() -> None:
    """The zone is wide enough; the preferred rack is left if no rack holds the job."""
    nodes = [node("a0", "a", gpu=2), node("b0", "b", gpu=2), node("c0", "c", gpu=2, zone="z2")]
    answer = run_case(case(nodes, [job("j", 4, required="zone", preferred="rack")]))
    assert placed(answer, "j") == ["a0", "a0", "b0", "b0"]


def test_a_preferred_rack_is_tried_first_and_then_the_cluster() -> None:
    """Without a required level the job may use all nodes of the topology."""
    nodes = [node("a0", "a", gpu=2), node("b0", "b", gpu=2), node("c0", "c", gpu=2, zone="z2"), node("d0", "", gpu=9)]
    answer = run_case(case(nodes, [job("j", 2, preferred="rack"), job("k", 4, preferred="rack")]))
    assert placed(answer, "j") in (["a0"] * 2, ["b0"] * 2, ["c0"] * 2)
    assert "" not in placed(answer, "k")
    assert "d0" not in placed(answer, "k")


def test_later_tasks_stay_in_the_domain_of_the_first() -> None:
    """An elastic job grows in its rack only."""
    tasks = [{"name": "j-0", "gpu": 1, "state": "Running", "node": "a0"}]
    tasks += [{"name": f"j-{at}", "gpu": 1} for at in range(1, 6)]
    answer = run_case(case(RACKS, [job("j", 6, least=1, tasks=tasks, required="rack")]))
    assert placed(answer, "j") == ["", "", "a0", "a0", "a1", "a1"]


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ({"topology": "other", "required": "rack"}, "Requested topology other does not exist"),
        ({"required": "block"}, "specified 'block' as the required topology constraint level"),
        ({"required": "rack", "preferred": "zone"}, "specified 'zone' as the preferred topology constraint level"),
    ],
)
def test_a_wrong_constraint_keeps_the_job_waiting(constraint: dict[str, str], text: str) -> None:
    """The reason names the topology or the level that does not exist."""
    assert text in reason_of(case(RACKS, [job("j", 1, **constraint)]))


def reason_of(waiting: dict[str, Any]) -> str:
    """Return why the job j waits after a pass."""
    reasons: dict[str, str] = {}
    run_pass(
        args_of(waiting),
        objects_of(waiting, 1e9),
        now=1e9,
        at_opening=lambda _: None,
        at_close=lambda session: reasons.update(session.reasons["j"]),
    )
    return reasons["PodSchedulingErrors"]


def test_each_sub_group_has_a_rack_of_its_own() -> None:
    """The constraint of a sub-group holds for its tasks, within the zone that the job requires."""
    nodes = [node("a0", "a", gpu=2), node("b0", "b", gpu=2), node("c0", "c", gpu=2, zone="z2")]
    rack = {"topology": "t", "requiredTopologyLevel": "rack"}
    tasks = [{"name": f"j-{name}{at}", "gpu": 1, "subGroup": name} for name in ("x", "y") for at in range(2)]
    groups = [{"name": name, "minMember": 2, "topologyConstraint": rack} for name in ("x", "y")]
    answer = run_case(case(nodes, [job("j", 0, tasks=tasks, subGroups=groups, required="zone")]))
    found = {uid: each["node"] for uid, each in answer["actual"]["tasks"].items()}
    assert found["j-x0"] == found["j-x1"] != found["j-y0"] == found["j-y1"]
    assert {found["j-x0"], found["j-y0"]} == {"a0", "b0"}


def test_unlike_tasks_are_judged_by_their_sum() -> None:
    """Tasks without GPUs run in the rack of those with GPUs."""
    tasks = [{"name": "j-0", "gpu": 3}, {"name": "j-1", "gpu": 0, "cpuMillis": 1000}]
    answer = run_case(case(RACKS, [job("j", 2, tasks=tasks, required="rack")]))
    assert {each[:1] for each in placed(answer, "j")} == {"b"}


def full(racks: int, per_rack: int, gpu: int = 2) -> list[dict[str, Any]]:
    """Return nodes in racks `a`, `b` and so on."""
    return [node(f"{chr(97 + rack)}{at}", chr(97 + rack), gpu=gpu) for rack in range(racks) for at in range(per_rack)]


def test_a_required_rack_is_freed_as_a_whole() -> None:
    """Preempt evicts pods of one rack only, the one that costs the fewest."""
    nodes = full(3, 2)
    jobs = [running(f"r{each['name']}{at}", each["name"], 1, priority=40) for each in nodes for at in range(2)]
    jobs += [job("j", 3, priority=60, required="rack")]
    del jobs[4]  # rack b has a free GPU
    answer = run_case(case(nodes, jobs, actions=["allocate", "preempt"]))["actual"]
    assert {each["state"] for uid, each in answer["tasks"].items() if uid.startswith("j-")} == {"pipelined"}
    assert {each["node"][:1] for uid, each in answer["tasks"].items() if uid.startswith("j-")} == {"b"}
    assert answer["evictedTotal"] == 2
    assert all(answer["tasks"][uid]["node"].startswith("b") for uid in answer["evictions"])


@pytest.mark.parametrize(("share", "evicted"), [(4, 4), (3, 0)])
def test_reclaim_frees_one_rack_if_the_shares_allow_it(share: int, evicted: int) -> None:
    """A starved queue gets a whole rack, or nothing if that exceeds its share; no other rack loses a pod."""
    nodes = full(3, 2)
    jobs = [running(f"r{each['name']}{at}", each["name"], 1, queue="rich") for each in nodes for at in range(2)]
    jobs += [job("j", 4, required="rack", queue="poor")]
    queues = [
        {"name": name, "createdSecondsAgo": 1000, "gpu": gpu, "cpuMillis": FREE, "memoryBytes": FREE}
        for name, gpu in (
            ("rich", {"quota": 12 - share, "limit": -1, "overQuotaWeight": 0}),
            ("poor", {"quota": share, "limit": -1, "overQuotaWeight": 0}),
        )
    ]
    answer = run_case(case(nodes, jobs, actions=["allocate", "reclaim"], queues=queues))["actual"]
    assert answer["evictedTotal"] == evicted
    racks = {answer["tasks"][uid]["node"][:1] for uid in answer["evictions"]}
    assert len(racks) == bool(evicted)
    promised = {each.get("node", "")[:1] for uid, each in answer["tasks"].items() if uid.startswith("j-")}
    assert promised == (racks or {""})


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        pytest.param({"required": "row"}, "workload specified 'row' as the", id="level"),
        pytest.param({"preferred": "row"}, "workload specified 'row' as the", id="preferred"),
        pytest.param({"required": "rack", "topology": "u"}, "Requested topology u does not exist", id="topology"),
        pytest.param({"required": "rack"}, "no node has room for", id="none"),
    ],
)
def test_a_wrong_topology_is_the_reason_in_a_full_cluster(constraint: dict[str, Any], expected: str) -> None:
    """A job that cannot be placed whatever ends says so, although no node has room for any job."""
    full = [running(f"r{at}", name, gpu=2) for at, name in enumerate(("a0", "a1"))]
    jobs = [*full, job("plain", 1), job("j", 1, **constraint)]
    assert expected in reason_of(case(RACKS[:2], jobs))
