"""Groups with sub-groups: the minimums of the tree decide, and no sub-group is bound in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from pyscheduler.api import KubeObject
from pyscheduler.framework import Status
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeCluster
from pyscheduler_coscheduling.plugin import Coscheduling

TABLE = DialectTable(DIALECTS)
KAI, VOLCANO = (TABLE.named(name).kinds[0] for name in ("kai", "volcano"))
TWO_OF_THREE: dict[str, Any] = {
    "minSubGroup": 2,
    "subGroups": [{"name": name, "minMember": 4} for name in ("a", "b", "c")],
}


class Trees:
    """A cluster with groups of KAI and Volcano."""

    def __init__(self, world: Any, *, cpus: int, nodes: int = 1, **args: Any) -> None:
        self.world = world
        self.cluster: FakeCluster = world.cluster
        for kind in (KAI, VOLCANO):
            if not self.cluster.serves(kind):
                self.cluster.serve(kind)
        for number in range(nodes):
            self.cluster.add_node(f"n{number}", allocatable={"cpu": str(cpus), "pods": "110"})
        world.schedule(**{"strategy": "groupCycle", **args})

    def kai(self, **spec: Any) -> None:
        self._add(KAI.type, KAI.api_version, spec)

    def volcano(self, **spec: Any) -> None:
        self._add(VOLCANO.type, VOLCANO.api_version, spec)

    def _add(self, kind: type[KubeObject], api_version: str, spec: dict[str, Any]) -> None:
        metadata = {"name": "g", "namespace": "default"}
        self.cluster.add({"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}, kind)

    def pods(self, counts: Mapping[str, int], **keywords: Any) -> None:
        """Create pods of KAI's sub-groups, in turn: a-0, b-0, c-0, a-1 and so on."""
        keywords.setdefault("requests", {"cpu": "1"})
        for number in range(max(counts.values())):
            for name, count in counts.items():
                if number < count:
                    labels = {"kai.scheduler/subgroup-name": name} if name != "none" else {}
                    annotations = {"pod-group-name": "g"}
                    self.cluster.add_pod(f"{name}-{number}", labels=labels, annotations=annotations, **keywords)

    def bound(self) -> Mapping[str, int]:
        """Count the bound pods by the beginning of their names."""
        return Counter(pod.name.partition("-")[0] for pod in self.cluster.pods() if pod.node_name)

    def message(self, name: str) -> str:
        return str(self.world.result(name).message)


async def test_two_of_three_sub_groups_are_placed_whole(world: Any) -> None:
    """With room for eight of twelve pods, two sub-groups of four are bound, and no pod of the third."""
    trees = Trees(world, cpus=8)
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4, "b": 4, "c": 4})
    await world.settle()
    assert trees.bound() == {"a": 4, "b": 4}
    assert 'sub-group "c" of podGroup default/g has nodes for 0 of 4 pods' in trees.message("c-1")
    assert world.running.scheduler.cycles == 1
    trees.cluster.assert_invariants()


async def test_a_tree_without_its_minimum_binds_nothing(world: Any) -> None:
    """With room for seven pods, no two sub-groups of four fit; the messages name what is short."""
    trees = Trees(world, cpus=7)
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4, "b": 4, "c": 4})
    await world.settle()
    assert not trees.bound()
    text = 'podGroup default/g has nodes for 1 of 2 sub-groups, short: "b" 3/4, "c" 3/4'
    assert text in trees.message("a-0")
    trees.cluster.add_node("more", allocatable={"cpu": "1"})
    await world.settle(30)
    assert trees.bound() == {"a": 4, "b": 4}


async def test_a_third_sub_group_follows_when_there_is_room(world: Any) -> None:
    """A sub-group beyond the minimum is bound later as a whole, not pod by pod."""
    trees = Trees(world, cpus=8)
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4, "b": 4, "c": 4})
    await world.settle()
    trees.cluster.add_node("three", allocatable={"cpu": "3"})
    await world.settle(30)
    assert trees.bound() == {"a": 4, "b": 4}
    trees.cluster.add_node("one", allocatable={"cpu": "1"})
    await world.settle(30)
    assert trees.bound() == {"a": 4, "b": 4, "c": 4}


async def test_another_sub_group_takes_the_place_of_one_that_does_not_fit(world: Any) -> None:
    """If the pods of one sub-group are too large, the other two make the minimum."""
    trees = Trees(world, cpus=8)
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4}, requests={"cpu": "9"})
    trees.pods({"b": 4, "c": 4})
    await world.settle()
    assert trees.bound() == {"b": 4, "c": 4}


async def test_members_beyond_the_minimum_of_a_sub_group_come_last(world: Any) -> None:
    """Every required sub-group gets its minimum before another gets more."""
    trees = Trees(world, cpus=5)
    trees.kai(subGroups=[{"name": "a", "minMember": 2}, {"name": "b", "minMember": 2}])
    trees.pods({"a": 5})
    await world.settle()
    trees.pods({"b": 2})
    await world.settle(30)
    assert trees.bound() == {"a": 3, "b": 2}


async def test_a_tree_of_trees_is_satisfied_from_below(world: Any) -> None:
    """A branch needs its own children: here one of two replicas, each with a leader and two workers."""
    trees = Trees(world, cpus=5)
    replicas = [{"name": name} for name in ("r", "s")]
    leaves = [
        {"name": f"{replica}{role}", "parent": replica, "minMember": count}
        for replica in ("r", "s")
        for role, count in (("lead", 1), ("work", 2))
    ]
    trees.kai(minSubGroup=1, subGroups=[*replicas, *leaves])
    trees.pods({"rlead": 1, "rwork": 1, "slead": 1, "swork": 2})
    await world.settle()
    assert trees.bound() == {"slead": 1, "swork": 2}
    trees.cluster.add_pod(
        "rwork-9",
        labels={"kai.scheduler/subgroup-name": "rwork"},
        annotations={"pod-group-name": "g"},
        requests={"cpu": "1"},
    )
    await world.settle(30)
    assert trees.bound() == {"slead": 1, "swork": 2}
    trees.cluster.add_node("one", allocatable={"cpu": "1"})
    await world.settle(30)
    assert trees.bound() == {"slead": 1, "swork": 2, "rlead": 1, "rwork": 2}


async def test_too_few_pods_of_a_sub_group_hold_the_group(world: Any) -> None:
    """Enough pods in all do not help if one sub-group has too few; the last one starts the group."""
    trees = Trees(world, cpus=20)
    trees.kai(subGroups=[{"name": "a", "minMember": 2}, {"name": "b", "minMember": 2}])
    trees.pods({"a": 5, "b": 1})
    await world.settle()
    assert not trees.bound()
    assert "current pods number: 6, minMember of group: 4, sub-groups: b 1/2" in trees.message("a-0")
    trees.cluster.add_pod(
        "b-1", labels={"kai.scheduler/subgroup-name": "b"}, annotations={"pod-group-name": "g"}, requests={"cpu": "1"}
    )
    await world.settle(30)
    assert trees.bound() == {"a": 5, "b": 2}


@pytest.mark.parametrize("strategy", ["groupCycle", "permit"])
async def test_a_pod_outside_the_tree_is_refused_by_itself(world: Any, strategy: str) -> None:
    """A pod that names no sub-group, or an unknown one, does not count and is told so; the others start."""
    trees = Trees(world, cpus=20, strategy=strategy)
    trees.kai(subGroups=[{"name": "a", "minMember": 2}])
    trees.pods({"a": 2, "none": 1, "z": 1})
    await world.settle(30)
    assert trees.bound() == {"a": 2}
    assert "has sub-groups, and pod none-0 names none" in trees.message("none-0")
    assert 'names the sub-group "z"' in trees.message("z-0")


async def test_members_at_permit_wait_for_their_own_sub_group(world: Any) -> None:
    """With waits at Permit as well, a sub-group beyond the minimum starts whole or not at all."""
    trees = Trees(world, cpus=11, strategy="permit")
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4})
    trees.pods({"b": 4})
    trees.pods({"c": 4})
    await world.settle()
    assert trees.bound() == {"a": 4, "b": 4}
    trees.cluster.add_node("one", allocatable={"cpu": "1"})
    await world.settle(30)
    assert trees.bound() == {"a": 4, "b": 4, "c": 4}


async def test_a_broken_tree_leaves_the_group_undeclared(world: Any) -> None:
    """A sub-group with an unknown parent is a mistake: no pod starts until it is mended."""
    trees = Trees(world, cpus=20)
    trees.kai(subGroups=[{"name": "a", "parent": "x", "minMember": 1}])
    trees.pods({"a": 2})
    await world.settle(5)
    assert not trees.bound()
    trees.cluster.patch(KAI.type, "g", {"spec": {"subGroups": [{"name": "a", "minMember": 1}]}}, namespace="default")
    await world.settle(30)
    assert trees.bound() == {"a": 2}


async def test_volcano_sub_groups_follow_labels(world: Any) -> None:
    """Two slices of the label `slice`, of three pods each, are bound whole; the third finds too little room."""
    trees = Trees(world, cpus=8)
    policy = {"name": "tp", "matchLabelKeys": ["slice"], "subGroupSize": 3, "minSubGroups": 2}
    trees.volcano(minMember=1, subGroupPolicy=[policy])
    for number in range(9):
        trees.cluster.add_pod(
            f"s{number % 3}-{number}",
            labels={"slice": str(number % 3)},
            annotations={"scheduling.k8s.io/group-name": "g"},
            requests={"cpu": "1"},
        )
    await world.settle()
    assert trees.bound() == {"s0": 3, "s1": 3}
    assert 'sub-group "tp/2" of podGroup default/g has nodes for 2 of 3 pods' in trees.message("s2-2")


@pytest.mark.parametrize(("minimum", "bound"), [(3, {}), (1, {"worker": 3})])
async def test_volcano_roles_have_minimums(world: Any, minimum: int, bound: Mapping[str, int]) -> None:
    """A role below its minimum holds the group, unless the minimums add up to more than that of the group."""
    trees = Trees(world, cpus=20)
    trees.volcano(minMember=minimum, minTaskMember={"master": 1, "worker": 2})
    for number in range(3):
        trees.cluster.add_pod(
            f"worker-{number}",
            annotations={"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": "worker"},
            requests={"cpu": "1"},
        )
    await world.settle(5)
    assert trees.bound() == bound


async def test_preemption_evicts_for_whole_sub_groups_only(world: Any) -> None:
    """With eleven pods of lower priority, eight are evicted for two sub-groups, and none for a part of the third."""
    trees = Trees(world, cpus=11, preemption=True)
    for number in range(11):
        trees.cluster.add_pod(f"low-{number}", requests={"cpu": "1"}, priority=0)
    await world.settle()
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4, "b": 4, "c": 4}, priority=100)
    await world.settle()
    leaving = [pod.name for pod in trees.cluster.pods() if pod.is_terminating]
    assert len(leaving) == 8
    for name in leaving:
        trees.cluster.delete_pod(name)
    await world.settle(30)
    assert trees.bound() == {"a": 4, "b": 4, "low": 3}
    trees.cluster.assert_invariants()


async def test_a_surplus_sub_group_that_loses_a_member_holds_no_node(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one of its pods cannot be reserved after the trial, the rest of that sub-group gives its nodes back."""
    original = Coscheduling.permit
    refused: list[str] = []

    def permit(self: Coscheduling, state: Any, pod: Any, node_name: str) -> Any:
        if state.trial is None and pod.name == "c-2" and not refused:
            refused.append(pod.name)
            return Status.unschedulable("not now")
        return original(self, state, pod, node_name)

    monkeypatch.setattr(Coscheduling, "permit", permit)
    trees = Trees(world, cpus=12)
    trees.kai(**TWO_OF_THREE)
    trees.pods({"a": 4, "b": 4, "c": 4})
    await world.settle()
    assert trees.bound() == {"a": 4, "b": 4}
    assert "lost members" in trees.message("c-0")
    assert not world.running.scheduler.cache.assumed_count
    await world.settle(60)
    assert trees.bound() == {"a": 4, "b": 4, "c": 4}
    trees.cluster.assert_invariants()
