"""Volcano's `preempt` with `enableTopologyAwarePreemption`: nodes are compared by their victims."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pyscheduler.api import Pod, PriorityClass
from pyscheduler_lab.simulation.batch_cases.runs import Run, open_session
from pyscheduler_volcano.preempt_candidates import CandidateLimits

GIB = 1024**3
TIERS = [
    [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}],
    [{"name": "predicates"}, {"name": "proportion"}],
]


def pod(group: str, number: int, cpu: int, at: str = "", **fields: Any) -> dict[str, Any]:
    """Make a pod of a group; with `at` it runs there."""
    place = {"state": "Running", "node": at} if at else {"state": "Pending"}
    return {"name": f"{group}-{number}", "group": group, "requests": {"cpu": cpu}, **place, **fields}


def run_of(
    nodes: dict[str, int], priorities: dict[str, int], members: list[dict[str, Any]], first: int = 0, **arguments: str
) -> Run:
    """Run `preempt` for the group `high` and return the session. `first`: the node that is tried first."""
    groups = [
        {"name": name, "queue": "q", "minMember": 1, "phase": "Inqueue", "priority": priority}
        for name, priority in {**priorities, "high": 100}.items()
    ]
    run = open_session(
        "volcano",
        {
            "configuration": {"actions": ["preempt"], "tiers": TIERS},
            "nodes": [
                {"name": name, "allocatable": {"cpu": cpu, "memory": 64 * GIB, "pods": 20}}
                for name, cpu in nodes.items()
            ],
            "queues": [{"name": "q"}],
            "podGroups": groups,
            "pods": members,
            "now": 1000.0,
        },
    )
    run.actions[0].arguments = {"enableTopologyAwarePreemption": "true", **arguments}

    class _First(random.Random):
        def randrange(self, *_: Any) -> int:
            return first

    run.session.rng = _First()
    run.act()
    return run


COSTS = [
    pytest.param({"a": [(5, 2000)], "b": [(1, 2000)]}, "b", id="the lower priority"),
    pytest.param({"a": [(1, 1000), (3, 1000)], "b": [(2, 1000), (3, 1000)]}, "a", id="the lower sum"),
    pytest.param({"a": [(1, 1000), (1, 1000)], "b": [(1, 2000)]}, "b", id="fewer pods"),
    pytest.param({"a": [(1, 2000)], "b": [(1, 2000)]}, "a", id="the first of equals"),
]


@pytest.mark.parametrize(("running", "node"), COSTS)
def test_the_node_of_the_least_cost_loses_its_pods(running: dict[str, list[tuple[int, int]]], node: str) -> None:
    """The priority of the first victim counts most, then the sum of priorities, then the number."""
    members, priorities = [pod("high", 0, 2000, priority=100)], {}
    for name, found in running.items():
        for number, (priority, cpu) in enumerate(found):
            priorities[f"{name}{number}"] = priority
            members.append(pod(f"{name}{number}", 0, cpu, name, priority=priority))
    everything = {"minCandidateNodesPercentage": "100"}
    run = run_of(dict.fromkeys(running, 2000), priorities, members, **everything)
    assert run.effects.nominated == {"high-0": list(running).index(node)}
    assert sorted(run.effects.evicted) == [f"{node}{number}-0" for number in range(len(running[node]))]
    assert run.effects.evicted[0][1] == str(len(running[node]) - 1), "the most important victim is named first"


@pytest.mark.parametrize("is_on", [True, False])
def test_a_pod_that_can_stay_is_spared(*, is_on: bool) -> None:
    """The small pod is evicted first and then not needed: only the usual way evicts it."""
    members = [
        pod("small", 0, 1000, "a", priority=1),
        pod("large", 0, 4000, "a", priority=5),
        pod("high", 0, 4000, priority=100),
    ]
    run = run_of({"a": 5000}, {"small": 1, "large": 5}, members, enableTopologyAwarePreemption=str(is_on).lower())
    assert sorted(run.effects.evicted) == (["large-0"] if is_on else ["large-0", "small-0"])
    assert run.effects.nominated == {"high-0": 0}


def test_a_node_without_victims_is_no_candidate() -> None:
    """The room of the empty node is for `allocate`: the other node loses a pod."""
    members = [pod("low", 0, 2000, "a", priority=1), pod("high", 0, 2000, priority=100)]
    run = run_of({"a": 2000, "b": 2000}, {"low": 1}, members)
    assert run.effects.evicted == ["low-0"]
    assert run_of({"b": 2000}, {}, members[1:]).effects.nominated == {}


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        pytest.param({}, 1, id="a tenth of the nodes, at least one"),
        pytest.param({"minCandidateNodesPercentage": "50"}, 5, id="a percentage"),
        pytest.param({"minCandidateNodesAbsolute": "3"}, 3, id="at least"),
        pytest.param({"minCandidateNodesPercentage": "90", "maxCandidateNodesAbsolute": "2"}, 2, id="at most"),
        pytest.param({"minCandidateNodesAbsolute": "99"}, 10, id="all nodes"),
    ],
)
@pytest.mark.parametrize("first", [0, 7])
def test_enough_candidates_end_the_search(arguments: dict[str, str], number: int, first: int) -> None:
    """The best of so many nodes is taken, counted from a random one; later nodes cost less."""
    nodes = {f"n{at}": 1000 for at in range(10)}
    order = [*range(first, 10), *range(first)]
    priorities = {f"g{at}": 50 - step for step, at in enumerate(order)}
    members = [pod(f"g{at}", 0, 1000, f"n{at}", priority=priorities[f"g{at}"]) for at in range(10)]
    run = run_of(nodes, priorities, [*members, pod("high", 0, 1000, priority=100)], first, **arguments)
    assert run.effects.evicted == [f"g{order[number - 1]}-0"]


def test_the_usual_way_is_the_default() -> None:
    """Without the argument, or with another value, nodes are not compared."""
    assert CandidateLimits.of({}) is None
    assert CandidateLimits.of({"enableTopologyAwarePreemption": "false"}) is None
    assert CandidateLimits.of({"enableTopologyAwarePreemption": "true"}) == CandidateLimits(10, 1, 100)


@pytest.mark.slow
async def test_arguments_of_actions_are_read_from_the_file(volcano: Any, caplog: pytest.LogCaptureFixture) -> None:
    """`configurations` turns the comparison on: of the pods of the lowest priority, the one that started last goes."""
    for name, value in (("small", 1), ("large", 5), ("urgent", 100)):
        manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        volcano.cluster.add({**manifest, "value": value}, PriorityClass)
    volcano.nodes(4, cpu="1")
    volcano.queue("default")
    arguments = "enableTopologyAwarePreemption: true, minCandidateNodesPercentage: 100, minCandidateNodesAbsolute: some"
    await volcano.start(
        "actions: 'enqueue, allocate, preempt', "
        f"configurations: [{{name: preempt, arguments: {{{arguments}}}}}], "
        "tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}]}, "
        "{plugins: [{name: predicates}, {name: proportion}]}]"
    )
    assert 'configurations[0].arguments.minCandidateNodesAbsolute: "some" is not an integer' in caplog.text
    for at, name in enumerate(("large", "small", "small", "large")):
        volcano.group(f"g{at}", "default", 1, priorityClassName=name)
        volcano.pods(f"g{at}", 1, priority=5 if name == "large" else 1, node_name=f"n{at}")
        status = {"phase": "Running", "startTime": f"2026-01-01T0{at}:00:00Z"}
        volcano.cluster.patch(Pod, f"g{at}-0", {"status": status}, status=True)
    await volcano.pass_time()
    volcano.group("urgent", "default", 1, priorityClassName="urgent")
    volcano.pods("urgent", 1, priority=100)
    await volcano.pass_time()
    gone = [each.name for each in volcano.cluster.pods() if each.is_terminating]
    assert gone == ["g2-0"]
