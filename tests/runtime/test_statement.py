"""Statements on a whole scheduler: a plugin's books, devices and volumes after trials, rollbacks and commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.framework import (
    CycleState,
    FilterPlugin,
    Handle,
    NodeInfo,
    PodInfo,
    ReservePlugin,
    Status,
    TrialKind,
)
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.statement import Statement
from pyscheduler.testing import FakeCluster, FakeFramework, make_pod
from tests.scheduler.in_tree_groups import GATES, group, members, named, states

LICENSED = {"licensed": "yes"}


class Licenses(FilterPlugin, ReservePlugin):
    """Each node has as many licenses as its label says; a licensed pod holds one from Reserve until it is deleted."""

    name = "Licenses"
    #: What was called in a trial, and what for real.
    calls: ClassVar[Counter[tuple[str, bool]]] = Counter()

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls.clear()
        self.held: dict[str, str] = {}
        handle.lister(Pod).add_event_handler(
            on_add=self._seen,
            on_update=lambda _, new: self._seen(new),
            on_delete=lambda pod: self.held.pop(pod.uid, None),
        )

    def _seen(self, pod: Pod) -> None:
        if pod.node_name and "licensed" in pod.labels:
            self.held[pod.uid] = pod.node_name

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if "licensed" not in pod.labels or node.node is None:
            return None
        used = sum(name == node.name for name in self.held.values())
        return Status.unschedulable("no license left") if used >= int(node.node.labels["licenses"]) else None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.calls["reserve", state.trial is not None] += 1
        if "licensed" in pod.labels:
            assert pod.uid not in self.held
            self.held[pod.uid] = node_name
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.calls["unreserve", state.trial is not None] += 1
        self.held.pop(pod.uid, None)

    def release_in_trial(self, pod: Pod, node_name: str) -> Callable[[], None] | None:
        if self.held.get(pod.uid) != node_name:
            return None
        self.calls["release", True] += 1
        del self.held[pod.uid]

        def hold_again() -> None:
            self.calls["hold again", True] += 1
            self.held[pod.uid] = node_name

        return hold_again


class Greedy(Licenses):
    """Keeps what an evicted pod holds until the pod is gone."""

    name = "Greedy"

    def release_in_trial(self, pod: Pod, node_name: str) -> Callable[[], None] | None:
        return None


@pytest.fixture(name="cluster")
def _cluster(cluster: FakeCluster) -> FakeCluster:
    cluster.serve(IN_TREE_PODGROUPS)
    return cluster


def licenses(framework: FakeFramework) -> Licenses:
    """Return the plugin, its books compared with the pods of the cluster."""
    plugin = next(each for each in framework.profile.plugins.values() if isinstance(each, Licenses))
    cluster = framework.cluster
    assert plugin.held == {pod.uid: pod.node_name for pod in cluster.pods() if pod.node_name and pod.labels}
    assert plugin.calls["release", True] == plugin.calls["hold again", True]
    assert plugin.calls["reserve", True] == plugin.calls["unreserve", True]
    framework.assert_invariants()
    return plugin


async def end_victims(cluster: FakeCluster) -> None:
    """Let the pods end that were evicted, and the others be tried."""
    for pod in cluster.pods():
        if pod.is_terminating:
            cluster.delete_pod(pod.name)
    await cluster.clock.advance(60)


async def test_preemption_finds_the_license_of_a_victim(cluster: FakeCluster) -> None:
    """The node has room but no license: a pod of lower priority gives up its own."""
    cluster.add_node("n", allocatable={"cpu": "8"}, labels={"licenses": "1"})
    framework = cluster.framework(enable=[Licenses])
    assert (await framework.schedule("low", labels=LICENSED)).bound
    await framework.schedule("plain")
    await framework.schedule("high", labels=LICENSED, priority=10)
    await end_victims(cluster)
    assert framework.result("high").node == "n"
    assert {pod.name for pod in cluster.pods()} == {"plain", "high"}
    assert licenses(framework).calls["release", True] > 0


async def test_without_the_method_a_victim_keeps_its_license(cluster: FakeCluster) -> None:
    """Nobody is evicted in vain."""
    cluster.add_node("n", allocatable={"cpu": "8"}, labels={"licenses": "1"})
    framework = cluster.framework(enable=[Greedy])
    await framework.schedule("low", labels=LICENSED)
    await framework.schedule("high", labels=LICENSED, priority=10)
    await cluster.clock.advance(40)
    assert framework.result("low").bound
    assert not framework.result("high").bound
    licenses(framework)


async def test_a_search_in_vain_leaves_the_books_as_they_were(cluster: FakeCluster) -> None:
    """Victims' licenses are released and held again on each node."""
    for name in "ab":
        cluster.add_node(name, allocatable={"cpu": "4"}, labels={"licenses": "1"})
        cluster.add_pod(f"keeps-{name}", node_name=name, requests={"cpu": "2"}, priority=10)
    framework = cluster.framework(enable=[Licenses])
    for number in range(2):
        await framework.schedule(f"low{number}", labels=LICENSED, requests={"cpu": "1"})
    await framework.schedule("huge", labels=LICENSED, requests={"cpu": "3"}, priority=10)
    assert not framework.result("huge").bound
    assert licenses(framework).calls["release", True] == 2


async def test_a_group_cycle_books_in_its_trial_and_once_for_real(cluster: FakeCluster) -> None:
    """A gang that is one license short leaves no trace; a complete one holds what its members hold."""
    cluster.add_node("n", allocatable={"cpu": "8"}, labels={"licenses": "2"})
    framework = cluster.framework(enable=[Licenses], feature_gates=GATES)
    group(cluster, "g", minimum=3)
    members(cluster, "g", 3, labels=LICENSED)
    await framework.settle()
    assert states(framework, named("g", 3)) == {"pending": 3}
    assert licenses(framework).calls["reserve", True] >= 2
    assert not licenses(framework).calls["reserve", False]
    cluster.patch(Node, "n", {"metadata": {"labels": {"licenses": "3"}}})
    await cluster.clock.advance(30)
    assert states(framework, named("g", 3)) == {"bound": 3}
    assert licenses(framework).calls["reserve", False] == 3


async def test_a_group_finds_the_licenses_of_its_victims(cluster: FakeCluster) -> None:
    """Its members see each other's victims gone, and the books are right before, while and after these end."""
    cluster.add_node("n", allocatable={"cpu": "8"}, labels={"licenses": "2"})
    framework = cluster.framework(enable=[Licenses], feature_gates=GATES)
    for name in ("low0", "low1"):
        await framework.schedule(name, labels=LICENSED)
    group(cluster, "g", minimum=2)
    members(cluster, "g", 2, labels=LICENSED, priority=10)
    await framework.settle()
    licenses(framework)
    await end_victims(cluster)
    assert states(framework, named("g", 2)) == {"bound": 2}
    assert {pod.name for pod in cluster.pods()} == {"g0", "g1"}
    licenses(framework)


# --- the object itself -----------------------------------------------------------------------------


async def started(cluster: FakeCluster) -> FakeFramework:
    """Return a scheduler with two nodes of one license each; the pod `old` holds that of `a`."""
    cluster.add_node("a", allocatable={"cpu": "8"}, labels={"licenses": "1", "name": "a"})
    cluster.add_node("b", allocatable={"cpu": "8"}, labels={"licenses": "1"})
    framework = cluster.framework(enable=[Licenses])
    await framework.schedule("old", labels=LICENSED, node_selector={"name": "a"})
    framework.nodes()
    return framework


def infos(framework: FakeFramework) -> Iterator[tuple[str, str]]:
    """Yield the pods of the snapshot with their nodes, by name."""
    for node in framework.scheduler.snapshot.nodes:
        yield from ((info.pod.name, node.name) for info in node.pods)


def reserve(statement: Statement, framework: FakeFramework, pod: Pod, node_name: str) -> Status | None:
    """Place a pod and reserve it."""
    state = CycleState(statement.trial)
    statement.place(PodInfo.of(pod.with_node_name(node_name)), node_name)
    return statement.reserve(framework.profile, state, pod, node_name, group="g")


async def test_a_rollback_undoes_the_snapshot_and_the_books_in_order(cluster: FakeCluster) -> None:
    """Each checkpoint has its own books; the trial counts only pods that still have a node."""
    framework = await started(cluster)
    snapshot, plugin = framework.scheduler.snapshot, licenses(framework)
    (old,) = next(node for node in snapshot.nodes if node.name == "a").pods
    before = dict(plugin.held)
    with Statement(snapshot, TrialKind.ATTEMPT, release=framework.profile.release()) as statement:
        assert reserve(statement, framework, make_pod("one", labels=LICENSED), "b") is None
        checkpoint = statement.checkpoint()
        statement.evict(old, "a")
        assert old.pod.uid not in plugin.held
        assert reserve(statement, framework, make_pod("two", labels=LICENSED), "a") is None
        assert len(statement.trial.placed("g")) == 2
        statement.rollback(checkpoint)
        assert sorted(infos(framework)) == [("old", "a"), ("one", "b")]
        assert plugin.held.keys() == before.keys() | statement.trial.placed("g").keys()
        with statement.undo_at_end():
            statement.evict(old, "a")
            statement.place(old, "a")
            assert plugin.held[old.pod.uid] == "a"
            statement.evict(old, "a")
            statement.place(old, "b")
            assert old.pod.uid not in plugin.held
    assert plugin.held == before
    assert sorted(infos(framework)) == [("old", "a")]
    licenses(framework)


@pytest.mark.parametrize("verdict", [None, Status.unschedulable("not here")], ids=["undone", "rejected"])
async def test_unreserve_finds_a_pod_that_has_no_node_any_more(cluster: FakeCluster, verdict: Status | None) -> None:
    """The trial does not count the pod when Unreserve runs, after a rejection as at the end of the statement."""
    framework = await started(cluster)
    pod, counted = make_pod("new"), list[int]()

    class Profile:
        def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return None

        def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, dict[str, float]]:
            return verdict, {}

        def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            counted.append(len(statement.trial.placed("g")))

    with Statement(framework.scheduler.snapshot, TrialKind.ATTEMPT) as statement:
        statement.place(PodInfo.of(pod), "b")
        assert statement.reserve(Profile(), CycleState(statement.trial), pod, "b", group="g") is verdict
        assert counted == ([] if verdict is None else [0])
    assert counted == [0]


async def test_books_are_restored_on_each_node(cluster: FakeCluster) -> None:
    """A pod that moves within a statement and is evicted there, too, holds what it held on both nodes afterwards."""
    framework = await started(cluster)
    (old,) = next(node for node in framework.scheduler.snapshot.nodes if node.name == "a").pods
    restored: list[str] = []
    with Statement(
        framework.scheduler.snapshot,
        TrialKind.ATTEMPT,
        release=lambda _pod, node_name: [lambda: restored.append(node_name)],
    ) as statement:
        statement.evict(old, "a")
        statement.place(old, "b")
        statement.evict(old, "b")
    assert restored == ["b", "a"]


async def test_a_commit_undoes_the_trial_and_says_what_to_do(cluster: FakeCluster) -> None:
    """Net changes only: a pod that moves is evicted and placed, one that came back is neither."""
    framework = await started(cluster)
    snapshot, plugin = framework.scheduler.snapshot, licenses(framework)
    (old,) = next(node for node in snapshot.nodes if node.name == "a").pods
    generation = next(node for node in snapshot.nodes if node.name == "a").generation
    waits = PodInfo.of(make_pod("waits"))
    statement = Statement(snapshot, TrialKind.ATTEMPT, release=framework.profile.release())
    new = make_pod("new", labels=LICENSED)
    statement.evict(old, "a")
    assert reserve(statement, framework, new, "a") is None
    statement.place(old, "b")
    statement.nominate(waits, "b")
    gone = PodInfo.of(make_pod("gone", node_name="b"))
    statement.place(gone, "b")
    statement.evict(gone, "b")
    changes = await statement.commit(CooperativeYield(framework.cluster.clock))
    assert {uid: name for uid, (_, name) in changes.placed.items()} == {new.uid: "a", old.pod.uid: "b"}
    assert {uid: name for uid, (_, name) in changes.evicted.items()} == {old.pod.uid: "a"}
    assert changes.nominated == {waits.pod.uid: (waits, "b")}
    assert changes.generations["a"] == generation
    assert sorted(infos(framework)) == [("old", "a")]
    assert plugin.held == {old.pod.uid: "a"}
    statement.discard()
    licenses(framework)
