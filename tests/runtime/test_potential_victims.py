"""`PreemptionRules.potential_victims`: each victim is taken off before the rules name the next one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pyscheduler import CycleState, FilterPlugin, NodeInfo, Nodes, NodeStatuses, Pod, PodInfo, PreemptionRules
from pyscheduler.testing import CHECKS, FakeCluster, PluginCheckError, Step, check_plugin
from tests.testing.quota_ports import PortByEvents, PortBySnapshot, PortByState, PortInTurn, _Port

IN_PROCESS = [check for check in CHECKS if check != "hash-seed"]
ALONE: dict[str, Any] = {"disable": ["DefaultPreemption"]}


def fill(cluster: FakeCluster) -> None:
    """Put three pods of 4 cpu of namespace `b`, which is guaranteed 8, on one node."""
    cluster.add_node("n1", allocatable={"cpu": "12"})
    for number in range(3):
        cluster.add_pod(f"b{number}", namespace="b", node_name="n1", requests={"cpu": "4"}, priority=number)


def victims(cluster: FakeCluster) -> list[str]:
    """Return the pods that were evicted."""
    return sorted(pod.name for pod in cluster.pods() if pod.is_terminating)


async def test_victims_are_named_until_a_quota_is_at_its_minimum(cluster: FakeCluster) -> None:
    """A sum in the cycle state lacks each victim before the rules name the next one."""
    fill(cluster)
    framework = cluster.framework(enable=[PortInTurn], **ALONE)
    await framework.schedule("a0", namespace="a", requests={"cpu": "4"})
    assert victims(cluster) == ["b0"]


async def test_a_guaranteed_minimum_is_not_taken(cluster: FakeCluster) -> None:
    """A preemptor that needs two victims of which one is guaranteed its room gets none."""
    fill(cluster)
    framework = cluster.framework(enable=[PortInTurn], **ALONE)
    await framework.schedule("a0", namespace="a", requests={"cpu": "8"})
    assert victims(cluster) == []


async def test_a_preemptor_waits_for_victims_that_are_no_potential_victims_any_more(cluster: FakeCluster) -> None:
    """The preemptor evicts nobody else while its victim ends, though the quota is at its minimum without it."""
    fill(cluster)
    cluster.add_node("n2", allocatable={"cpu": "12"})
    for number in range(3):
        cluster.add_pod(f"b{number + 3}", namespace="b", node_name="n2", requests={"cpu": "4"})
    framework = cluster.framework(enable=[PortInTurn], **ALONE)
    await framework.schedule("a0", namespace="a", requests={"cpu": "4"})
    first = victims(cluster)
    framework.scheduler.queue.activate(framework.scheduler.queue.pending_pods())
    await cluster.clock.advance(15)
    assert victims(cluster) == first
    assert len(first) == 1


HISTORY = [
    Step("add_node", "n1", allocatable={"cpu": "12"}),
    *(Step("add_pod", f"b{number}", namespace="b", requests={"cpu": "4"}, priority=number) for number in range(3)),
    Step("add_pod", "a0", namespace="a", requests={"cpu": "8"}, priority=10),
]


@pytest.mark.parametrize("port", [PortByEvents, PortBySnapshot, PortByState])
def test_rules_that_judge_all_pods_at_once_fail_the_check(port: type[_Port]) -> None:
    """Once the first victim is gone, the second pod is no victim any more, wherever the plugin keeps its sums."""
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(port, histories=[HISTORY], checks=IN_PROCESS, **ALONE)
    error = caught.value
    assert (error.check, error.remedy) == ("victims", CHECKS["victims"])
    assert "Rules.may_evict (" in error.place
    assert "allows all of b/b0, b/b1 as victims on node n1; once b/b0 is gone, not b/b1" in str(error)


def test_rules_that_judge_pods_in_turn_pass_the_check() -> None:
    """The right port evicts nobody here, and all other checks hold."""
    check_plugin(PortInTurn, histories=[HISTORY], checks=IN_PROCESS, **ALONE)


@pytest.mark.slow
def test_priorities_pass_the_check() -> None:
    """Victims by priority are victims whichever others are gone."""
    smaller = [*HISTORY[:-1], Step("add_pod", "c0", requests={"cpu": "8"}, priority=10)]
    result = check_plugin("DefaultPreemption", histories=[smaller], checks=IN_PROCESS)
    assert result.acted["PostFilter"] >= 1


def answering(answer: Any) -> type[_Port]:
    """Return a port whose rules answer so."""

    class Rules(PreemptionRules):
        def potential_victims(self, node: NodeInfo, preemptor: Pod, state: CycleState) -> Iterable[PodInfo]:
            return answer(node)  # type: ignore[no-any-return]

    return type("Wrong", (_Port,), {"rules": Rules})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(lambda _node: None, "returned None; return or yield pods of the node", id="nothing"),
        pytest.param(lambda node: [node.pods[0].pod], "which is no PodInfo", id="pod"),
        pytest.param(lambda node: [node.pods[0], node.pods[0]], "not on the node, or a second time", id="twice"),
    ],
)
async def test_wrong_answers_name_the_method(cluster: FakeCluster, answer: Any, said: str) -> None:
    """The message names the value that the rules returned, and the file of the rules."""
    fill(cluster)
    framework = cluster.framework(enable=[answering(answer)], allow_plugin_errors=True, **ALONE)
    await framework.schedule("a0", namespace="a", requests={"cpu": "12"})
    errors = [str(each.error) for each in framework.plugin_errors]
    assert any("Rules.potential_victims" in each and said in each for each in errors), errors


async def test_a_list_is_taken_at_once(cluster: FakeCluster) -> None:
    """Rules may return all potential victims when they know them."""
    fill(cluster)
    framework = cluster.framework(enable=[answering(lambda node: list(node.pods))], **ALONE)
    await framework.schedule("a0", namespace="a", requests={"cpu": "12"})
    assert victims(cluster) == ["b0", "b1", "b2"]


async def test_the_search_ends_at_a_tenth_of_the_nodes() -> None:
    """By default, rules look at as many nodes as DefaultPreemption does; all filters run once for each pod there."""
    calls = 0

    class Counting(PortBySnapshot, FilterPlugin):
        def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
            nonlocal calls
            calls += 1
            return None

    cluster = FakeCluster()
    for number in range(200):
        cluster.add_node(f"n{number}", allocatable={"cpu": "12"})
        cluster.add_pod(f"b{number}", namespace="b", node_name=f"n{number}", requests={"cpu": "12"})
    framework = cluster.framework(enable=[Counting], **ALONE)
    await framework.schedule("a0", namespace="a", requests={"cpu": "4"})
    assert len(victims(cluster)) == 1
    # Once for each node, without its pod; otherwise filters before it have rejected all nodes.
    assert calls == 100
    await cluster.close()
