"""The preset `volcano` on nodes with pods that leave, are evicted, or are spared after all."""

from __future__ import annotations

from plugins.volcano.tests.test_volcano_rules import group, node, pods, start, states
from pyscheduler_lab.simulation.batch_cases.volcano import run_case


def test_a_leaving_pod_keeps_its_place_on_the_node() -> None:
    """A node that offers three pods and runs one and a leaving one takes one pod more, and promises no place."""
    leaving = [{**pods("old", 1, at="n")[0], "state": "Terminating"}]
    members = [*leaving, *pods("run", 1, 0, at="n"), *pods("free", 2, 0), *pods("late", 1)]
    case = {
        "id": "places",
        "family": "backfill",
        "configuration": {
            "actions": ["backfill", "allocate"],
            "tiers": [[{"name": "priority"}, {"name": "gang"}], [{"name": "predicates"}]],
        },
        "nodes": [node("n", pods=3)],
        "queues": [{"name": "q"}],
        "podGroups": [group("old"), group("run"), group("free"), group("late")],
        "pods": members,
    }
    assert run_case(case)["actual"]["pods"] == {"freex0": {"result": "bound", "node": "n"}}


def test_an_evicted_pod_frees_its_place_on_the_node() -> None:
    """Preempt makes room on a node that has as many pods as it offers."""
    run = start(
        [group("old"), group("new", priority=5)],
        [*pods("old", 2, at="n"), *pods("new", 1)],
        nodes=[node("n", pods=2)],
        actions=("preempt",),
        tiers=[["priority", "gang"], ["predicates"]],
    )
    run.act()
    assert len(run.effects.evicted) == 1
    assert states(run, "new") == ["PIPELINED"]


def test_backfill_does_not_bind_to_the_place_of_an_evicted_pod() -> None:
    """On a full node a pod preempts another one; it is bound in a later pass, when the evicted pod is gone."""
    run = start(
        [group("old"), group("new", 2, priority=5)],
        [*pods("old", 2, 0, at="n"), *pods("new", 2, 0)],
        nodes=[node("n", pods=3)],
        actions=("preempt", "backfill"),
        tiers=[["priority", "gang"], ["predicates"]],
    )
    run.act()
    assert len(run.effects.evicted) == 1
    assert len(run.effects.bound) == 1
    assert sorted(states(run, "new")) == ["ALLOCATED", "BINDING"]


def test_scores_do_not_count_a_pod_whose_eviction_was_undone() -> None:
    """A gang takes both victims of a node, but does not fit as a whole: the next pod then finds the node empty."""
    case = {
        "id": "spared",
        "family": "preempt",
        "configuration": {
            "actions": ["preempt", "backfill"],
            "tiers": [[{"name": "priority"}, {"name": "gang"}], [{"name": "predicates"}, {"name": "nodeorder"}]],
        },
        "nodes": [node("a"), node("b")],
        "queues": [{"name": "q"}],
        "podGroups": [group("old"), group("kept"), group("gang", 2, priority=5), group("free")],
        "pods": [
            *pods("old", 3, at="a"),
            *pods("kept", 2, at="b", preemptable=False),
            *pods("gang", 2, 3000),
            *pods("free", 1, 0),
        ],
    }
    assert run_case(case)["actual"]["pods"] == {"freex0": {"result": "bound", "node": "a"}}
    case["configuration"]["actions"] = ["backfill"]
    assert run_case(case)["actual"]["pods"] == {"freex0": {"result": "bound", "node": "b"}}
