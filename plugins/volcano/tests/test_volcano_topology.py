"""Jobs of the preset volcano in HyperNodes: modes, tiers, selectors of members, and growth."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_lab.simulation.batch_cases.volcano import run_case

Json = dict[str, Any]

_TIERS = [
    [{"name": "priority"}, {"name": "gang"}],
    [{"name": "predicates"}, {"name": "nodeorder"}, {"name": "network-topology-aware"}],
]


def exact(name: str, kind: str = "Node") -> Json:
    """Return a member by its name."""
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def hyper_node(name: str, tier: int, *members: Json, **more: Any) -> Json:
    """Return a HyperNode."""
    return {"name": name, "spec": {"tier": tier, "members": [*members], **more}}


def case(jobs: list[Json], pods: list[Json], hyper_nodes: list[Json], cpus: dict[str, int]) -> Json:
    """Return a session that allocates; `cpus` are those of each node."""
    nodes = [
        {"name": name, "allocatable": {"cpu": 1000 * cpu, "memory": 10**10, "pods": 110}, "labels": {"rack": name[:2]}}
        for name, cpu in cpus.items()
    ]
    return {
        "id": "case",
        "family": "topology",
        "configuration": {"actions": ["enqueue", "allocate", "backfill", "preempt", "reclaim"], "tiers": _TIERS},
        "nodes": nodes,
        "queues": [{"name": "q", "weight": 1}],
        "podGroups": jobs,
        "pods": pods,
        "hyperNodes": hyper_nodes,
    }


def job(name: str, least: int, **topology: Any) -> Json:
    """Return a group; keywords are fields of `networkTopology`."""
    return {"name": name, "queue": "q", "minMember": least, "phase": "Inqueue", "networkTopology": topology}


def pods(group: str, count: int, cpu: int = 1) -> list[Json]:
    """Return waiting pods."""
    requests = {"cpu": 1000 * cpu, "memory": 1000}
    return [{"name": f"{group}-{at}", "group": group, "requests": requests, "state": "Pending"} for at in range(count)]


def running(group: str, name: str, node: str, cpu: int = 1) -> Json:
    """Return a running pod."""
    return {
        "name": name,
        "group": group,
        "requests": {"cpu": 1000 * cpu, "memory": 1000},
        "state": "Running",
        "node": node,
    }


def nodes_of(answer: Json, group: str) -> list[str]:
    """Return the nodes of the pods of a group that were bound, sorted."""
    found = answer["actual"]["pods"]
    return sorted(each["node"] for name, each in found.items() if name.startswith(f"{group}-"))


#: Two racks below one block, and a rack beside it.
CPUS = {"r1-0": 2, "r1-1": 2, "r2-0": 2, "r2-1": 2, "r2-2": 2, "r3-0": 2, "r3-1": 2}
RACKS = [hyper_node(rack, 1, *(exact(name) for name in CPUS if name.startswith(rack))) for rack in ("r1", "r2", "r3")]
BLOCK = hyper_node("b1", 2, exact("r1", "HyperNode"), exact("r2", "HyperNode"), tierName="block")
TREE = [*RACKS, BLOCK]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("count", "topology", "expected"),
    [
        pytest.param(3, {"mode": "hard", "highestTierAllowed": 1}, {"r1", "r3"}, id="the-fullest-rack-afterwards"),
        pytest.param(5, {"mode": "hard", "highestTierAllowed": 1}, {"r2"}, id="the-only-rack"),
        pytest.param(7, {"mode": "hard", "highestTierAllowed": 1}, set(), id="no-rack"),
        pytest.param(7, {"mode": "hard", "highestTierAllowed": 2}, {"r1", "r2"}, id="the-block"),
        pytest.param(7, {"mode": "hard", "highestTierName": "block"}, {"r1", "r2"}, id="the-block-by-name"),
        pytest.param(4, {"highestTierAllowed": 2}, {"r1", "r3"}, id="hard-is-the-default"),
        pytest.param(12, {"mode": "soft"}, {"r1", "r2", "r3"}, id="soft-may-use-the-cluster"),
        pytest.param(5, {"mode": "soft"}, {"r2"}, id="soft-prefers-a-rack"),
    ],
)
def test_a_job_runs_in_one_hyper_node(count: int, topology: Json, expected: set[str]) -> None:
    """The lowest tier that holds the job is used, up to the highest one that is allowed."""
    answer = run_case(case([job("j", count, **topology)], pods("j", count), TREE, CPUS))
    racks = {name[:2] for name in nodes_of(answer, "j")}
    assert racks <= expected
    assert len(nodes_of(answer, "j")) == (count if expected else 0)
    if len(expected) == 3:
        assert racks == expected
    elif topology.get("highestTierAllowed") == 1:
        assert len(racks) == bool(expected)


def test_members_by_pattern_and_by_label() -> None:
    """A HyperNode may select its nodes by a pattern of names, or by labels."""
    hyper_nodes = [
        hyper_node("x", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "^r2-"}}}),
        hyper_node("y", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}}),
    ]
    hard = {"mode": "hard", "highestTierAllowed": 1}
    jobs = [job("j", 6, **hard), job("k", 4, **hard), job("l", 2, **hard)]
    answer = run_case(case(jobs, [*pods("j", 6), *pods("k", 4), *pods("l", 2)], hyper_nodes, CPUS))
    assert {name[:2] for name in nodes_of(answer, "j")} == {"r2"}
    assert {name[:2] for name in nodes_of(answer, "k")} == {"r1"}
    assert nodes_of(answer, "l") == []


@pytest.mark.slow
def test_a_job_grows_where_it_runs() -> None:
    """Later pods stay below the highest allowed HyperNode of the first ones, although another rack is empty."""
    waiting = [*pods("j", 4), running("j", "j-9", "r1-0")]
    answer = run_case(case([job("j", 1, mode="hard", highestTierAllowed=1)], waiting, TREE, CPUS))
    assert {name[:2] for name in nodes_of(answer, "j")} == {"r1"}
    assert len(nodes_of(answer, "j")) == 3


def test_a_job_with_a_topology_does_not_preempt() -> None:
    """Evictions on single nodes would not make room in one HyperNode."""
    full = [running("low", f"low-{name}-{at}", name) for name in CPUS for at in range(2)]
    jobs = [{"name": "low", "queue": "q", "minMember": 1, "phase": "Running", "priority": 1}]
    jobs += [job("j", 2, mode="hard", highestTierAllowed=1) | {"priority": 100}]
    answer = run_case(case(jobs, [*full, *pods("j", 2)], TREE, CPUS))
    assert answer["actual"]["pods"] == {}


def test_other_pods_fill_hyper_nodes() -> None:
    """A pod without a topology prefers a node of the fullest rack."""
    busy = [running("old", "old-0", "r2-0", 2), running("old", "old-1", "r2-1", 2)]
    jobs = [{"name": "old", "queue": "q", "minMember": 1, "phase": "Running"}]
    jobs += [{"name": "j", "queue": "q", "minMember": 1, "phase": "Inqueue"}]
    answer = run_case(case(jobs, [*busy, *pods("j", 1)], RACKS, CPUS))
    assert nodes_of(answer, "j") == ["r2-2"]
