"""Pods through the whole scheduler, on an embedded API server and a virtual clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler import Code, CycleState, PermitPlugin, Pod, Status
from pyscheduler.testing import pod_manifest
from tests.scheduler.plugins import Broken, Counting, Holder, Journal, Picky

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster


async def test_a_pod_is_bound_to_the_node_that_fits(cluster: FakeCluster) -> None:
    """The pod gets the node with room; binding, condition and event say so."""
    cluster.add_node("small", allocatable={"cpu": "1"})
    cluster.add_node("large", allocatable={"cpu": "8"})
    result = await cluster.framework().schedule("p", requests={"cpu": "4"})
    assert (result.state, result.node) == ("bound", "large")
    (event,) = cluster.events("Scheduled")
    assert event["note"] == "Successfully assigned default/p to large"
    assert (event["action"], event["type"]) == ("Binding", "Normal")
    assert event["reportingController"] == "pyscheduler"


async def test_an_unschedulable_pod_says_why_and_is_bound_when_a_node_comes(cluster: FakeCluster) -> None:
    """Condition and event carry kube-scheduler's message; a node that fits brings the pod back after its backoff."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    cluster.add_node("n2", unschedulable=True)
    framework = cluster.framework()
    result = await framework.schedule("p", requests={"cpu": "2"})
    assert result.state == "pending"
    assert result.message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. no new claims to deallocate, "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    (event,) = cluster.events("FailedScheduling")
    assert (event["note"], event["action"], event["type"]) == (result.message, "Scheduling", "Warning")
    condition = next(c for c in result.pod.status.conditions if c.type == "PodScheduled")
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    cluster.add_node("n3", allocatable={"cpu": "4"})
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n3"


async def test_an_empty_cluster_leaves_the_pod_pending(cluster: FakeCluster) -> None:
    """Without nodes the message is the one of kube-scheduler."""
    result = await cluster.framework().schedule("p")
    assert (result.state, result.message) == ("pending", "no nodes available to schedule pods")


async def test_a_gated_pod_waits_for_its_gates(cluster: FakeCluster) -> None:
    """A pod with scheduling gates is never tried; removing them is enough to bind it."""
    cluster.add_node("n1")
    framework = cluster.framework()
    result = await framework.schedule("p", scheduling_gates=["example.com/wait"])
    assert (result.state, framework.scheduler.cycles) == ("gated", 0)
    stored = cluster.server.get("v1", "Pod", "p", namespace="default")
    transport = cluster.transport()
    await transport.request(
        "PATCH",
        "/api/v1/namespaces/default/pods/p",
        body=b'{"spec":{"schedulingGates":null}}',
        content_type="application/merge-patch+json",
    )
    assert stored["spec"]["schedulingGates"]
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n1"


async def test_pods_of_other_schedulers_are_counted_and_ignored(cluster: FakeCluster) -> None:
    """A pod of another schedulerName stays as it is."""
    cluster.add_node("n1")
    framework = cluster.framework()
    result = await framework.schedule("theirs", scheduler_name="default-scheduler")
    assert (result.state, result.message) == ("pending", "")
    assert framework.scheduler.handlers.foreign_pods == {result.pod.uid}
    assert cluster.events() == []


async def test_a_pod_held_at_permit_is_bound_when_it_is_allowed(cluster: FakeCluster) -> None:
    """While it waits it keeps its reservation and soon carries its node as a nomination; allow lets it go on."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(enable=[Holder])
    result = await framework.schedule("p", requests={"cpu": "2"}, labels={"hold": "yes"})
    assert (result.state, result.node) == ("waiting", "n1")
    await cluster.clock.advance(0.5)
    assert cluster.pod("p").status.nominated_node_name == "n1"
    other = await framework.schedule("q", requests={"cpu": "1"})
    assert other.message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    (waiting,) = framework.profile.handle.waiting_pods()
    assert list(waiting.pending_plugins) == ["Holder"]
    waiting.allow("Holder")
    await framework.settle()
    assert framework.result("p").bound
    assert cluster.pod("p").status.nominated_node_name == ""


async def test_a_wait_at_permit_that_times_out_frees_the_node(cluster: FakeCluster) -> None:
    """After the timeout the reservation is undone, the message names the plugin, and others may have the room."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(enable=[Holder, Journal])
    await framework.schedule("p", requests={"cpu": "2"}, labels={"hold": "yes"})
    await framework.schedule("q", requests={"cpu": "2"})
    await cluster.clock.advance(10.5)
    notes = [event["note"] for event in cluster.events("FailedScheduling") if event["regarding"]["name"] == "p"]
    assert "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin Holder." in notes
    await cluster.clock.advance(2)
    assert framework.result("q").node == "n1"
    journal = framework.plugin("Journal")
    assert isinstance(journal, Journal)
    assert journal.lines[:2] == ["reserve p n1", "unreserve p n1"]


@pytest.mark.parametrize("status", [Status(Code.WAIT), Status.wait(timeout=0)], ids=["none", "zero"])
async def test_a_wait_without_a_timeout_is_an_error(cluster: FakeCluster, status: Status) -> None:
    """It names the plugin and backs off; a wait that is over as it begins would be tried again for ever."""

    class Timeless(PermitPlugin):
        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return status

    cluster.add_node("n1")
    framework = cluster.framework(enable=[Timeless], allow_plugin_errors=True)
    result = await framework.schedule("p")
    assert result.state == "pending"
    assert "Timeless" in result.message
    await cluster.clock.advance(20)
    assert framework.scheduler.cycles < 10


async def test_a_pod_deleted_while_it_waits_gives_its_room_back(cluster: FakeCluster) -> None:
    """Deletion ends the wait and wakes the pods that the reservation kept out."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(enable=[Holder])
    await framework.schedule("p", requests={"cpu": "2"}, labels={"hold": "yes"})
    await framework.schedule("q", requests={"cpu": "2"})
    cluster.delete_pod("p")
    await cluster.clock.advance(2)
    assert framework.result("q").node == "n1"
    assert framework.scheduler.cache.assumed_count == 0
    assert len(framework.scheduler.waiting_pods) == 0


async def test_a_rejection_at_reserve_undoes_and_names_the_plugin(cluster: FakeCluster) -> None:
    """Unreserve runs, the cache forgets the pod, and the message is a fit error of one node."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Journal])
    result = await framework.schedule("p", labels={"refuse": "reserve"})
    assert result.message == "0/1 nodes are available: 1 no seat left."
    journal = framework.plugin("Journal")
    assert isinstance(journal, Journal)
    # The plugin does not say which events matter to it, so the pod's own new condition earns it a second attempt.
    assert journal.lines == ["reserve p n1", "unreserve p n1"] * 2
    assert framework.scheduler.cache.pod_count == 0


async def test_a_failure_before_binding_is_retried(cluster: FakeCluster) -> None:
    """PreBind raises once: the pod is unreserved, waits for its backoff, and is bound by the second attempt."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Journal], allow_plugin_errors=True)
    result = await framework.schedule("p", labels={"prepare": "fails-once"})
    assert result.state == "pending"
    assert "disk on fire" in result.message
    condition = next(c for c in result.pod.status.conditions if c.type == "PodScheduled")
    assert condition.reason == "SchedulerError"
    await cluster.clock.advance(5)
    assert framework.result("p").bound
    journal = framework.plugin("Journal")
    assert isinstance(journal, Journal)
    assert journal.lines == [
        "reserve p n1", "pre_bind p", "unreserve p n1", "reserve p n1", "pre_bind p", "post_bind p",
    ]  # fmt: skip


async def test_a_plugin_that_raises_costs_its_pod_only(cluster: FakeCluster) -> None:
    """The pod is retried with the plugin named; the next pod is scheduled as if nothing had been."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Broken], allow_plugin_errors=True)
    result = await framework.schedule("bad", labels={"break": "yes"})
    assert result.state == "pending"
    assert "Broken" in result.message
    assert "no such luck" in result.message
    assert (await framework.schedule("good")).bound


async def test_the_message_names_the_first_plugin_in_profile_order(cluster: FakeCluster) -> None:
    """A one-node plugin that stands before a columnar one is blamed, though the columnar one ran first."""
    for number in range(3):
        cluster.add_node(f"n{number}", allocatable={"cpu": "1"})
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins:
    filter:
      enabled: [{name: Picky}, {name: NodeResourcesFit}]
      disabled: [{name: "*"}]
"""
    framework = cluster.framework(enable=[Picky], config=config)
    result = await framework.schedule("p", requests={"cpu": "2"}, labels={"picky": "yes"})
    assert result.message.startswith("0/3 nodes are available: 3 node(s) were not pretty enough. ")
    # A pod that fits somewhere costs no call for the nodes that a columnar plugin has ruled out.
    cluster.add_node("big", allocatable={"cpu": "8"})
    await framework.settle()
    Picky.calls.clear()
    assert (await framework.schedule("q", requests={"cpu": "2"})).node == "big"
    assert [call for call in Picky.calls if call[0] == "q"] == [("q", "big")]


async def test_a_percentage_of_nodes_bounds_the_calls(cluster: FakeCluster) -> None:
    """With 10 % of 300 nodes a search ends at 100 feasible ones, the least there is; the next goes on there."""
    for number in range(300):
        cluster.add_node(f"n{number:03d}")
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 10
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Counting}]}}
"""
    framework = cluster.framework(enable=[Counting], config=config)
    await framework.schedule("p")
    counting = framework.plugin("Counting")
    assert isinstance(counting, Counting)
    first = list(counting.calls)
    await framework.schedule("q")
    assert len(first) == 100
    assert len(counting.calls) == 200
    assert not set(first) & set(counting.calls[100:])


async def test_two_profiles_schedule_side_by_side(cluster: FakeCluster) -> None:
    """Each pod goes by the plugins of its own profile, and events carry the profile's name."""
    cluster.add_node("n1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: strict
- schedulerName: lax
  plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}
"""
    framework = cluster.framework(config=config)
    strict = await framework.schedule("a", scheduler_name="strict")
    lax = await framework.schedule("b", scheduler_name="lax")
    assert strict.message.startswith("0/1 nodes are available: 1 node(s) had untolerated taint(s). ")
    assert lax.node == "n1"
    assert {event["reportingController"] for event in cluster.events()} == {"strict", "lax"}


async def test_scoring_does_without_pre_score(cluster: FakeCluster) -> None:
    """A profile may disable PreScore of plugins that can work out at Score what they need."""
    cluster.add_node("small", allocatable={"cpu": "2"}, labels={"disk": "ssd"})
    cluster.add_node("large", allocatable={"cpu": "64", "memory": "64Gi"})
    names = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity")
    config = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {{preScore: {{disabled: [{", ".join(f"{{name: {name}}}" for name in names)}]}}}}
"""
    framework = cluster.framework(config=config)
    assert (await framework.schedule("roomy", requests={"cpu": "1"})).node == "large"
    wish = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    assert (await framework.schedule("choosy", affinity=affinity)).node == "small"
    assert (await framework.schedule("silent")).node == "large"


async def test_nominations_found_at_start_are_honoured(cluster: FakeCluster) -> None:
    """A pending pod of higher priority that was nominated to a node before the start keeps its room there."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    manifest = pod_manifest("first", requests={"cpu": "2"}, priority=10, node_selector={"not": "here"})
    manifest["status"] = {"nominatedNodeName": "n1"}
    cluster.server.plant({**manifest, "metadata": {**manifest["metadata"], "uid": "first-uid"}})
    # Preemption would find that it cannot help the first, and take its nomination back.
    result = await cluster.framework(disable=["DefaultPreemption"]).schedule("second", requests={"cpu": "1"})
    assert result.message == "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"


async def test_a_pod_recreated_under_its_name_is_scheduled_anew(cluster: FakeCluster) -> None:
    """Deleting a pending pod and making it again leaves one pod, bound once."""
    framework = cluster.framework()
    first = await framework.schedule("p")
    cluster.delete_pod("p")
    cluster.add_pod("p")
    cluster.add_node("n1")
    await cluster.clock.advance(15)
    again = framework.result("p")
    assert again.bound
    assert again.pod.uid != first.pod.uid
    assert len(cluster.events("Scheduled")) == 1


@pytest.mark.slow
async def test_the_snapshot_keeps_up_while_nothing_is_scheduled(cluster: FakeCluster) -> None:
    """Where much changes at once, the next cycle does not have to catch up on all of it."""
    framework = cluster.framework()
    await framework.start()
    scheduler = framework.scheduler
    cycles = scheduler.cycles
    for number in range(600):
        cluster.add_node(f"n{number}")
    await cluster.clock.advance(1)
    assert (scheduler.cycles, scheduler.cache.node_count) == (cycles, 600)
    assert scheduler.cache.generation - scheduler.snapshot.generation < 250
    assert len(scheduler.snapshot.nodes) >= 350
    scheduler.check_invariants()


async def test_a_leader_begins_although_a_watch_stays_broken(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It waits ten seconds for the news of its predecessor, and says so when they did not come."""
    framework = cluster.framework()
    await framework.start()
    scheduler = framework.scheduler
    cluster.server.faults.add(Fault(path="/nodes$", lose="request"))
    cluster.server.router.drop_watches(how="cut")
    await cluster.clock.advance(30)
    catching_up = asyncio.ensure_future(scheduler.catch_up())
    await cluster.clock.advance(9)
    assert not catching_up.done()
    await cluster.clock.advance(2)
    assert catching_up.done()
    assert "Scheduling begins though not all watches are open missing=1" in caplog.text


@pytest.mark.parametrize(
    ("labels", "longest"),
    [pytest.param({}, 8, id="plain"), pytest.param({"refuse": "yes"}, 1, id="refused")],
)
async def test_the_loop_yields_after_a_few_cycles(cluster: FakeCluster, labels: dict[str, str], longest: int) -> None:
    """Up to eight pods that find a node share a turn of the loop; after one that does not, the loop turns at once."""

    class Turns(PermitPlugin):
        turn = 0
        cycles: ClassVar[Counter[int]] = Counter()

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            if not self.cycles[Turns.turn]:
                asyncio.get_running_loop().call_soon(self.next_turn)
            self.cycles[Turns.turn] += 1
            return Status.unschedulable("no seat left") if pod.labels else None

        @classmethod
        def next_turn(cls) -> None:
            cls.turn += 1

    cluster.add_node("n1")
    framework = cluster.framework(enable=[Turns])
    await framework.settle()
    for number in range(20):
        cluster.add_pod(f"p{number}", labels=labels)
    await framework.settle()
    assert Turns.cycles.total() >= 20
    assert max(Turns.cycles.values()) == longest


async def test_the_loop_yields_after_each_cycle_while_a_pod_waits(cluster: FakeCluster) -> None:
    """What a pod at Permit gives back when it is refused must be there for the next pod."""

    class Refusing(PermitPlugin):
        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            if pod.name == "first":
                return Status.wait("held", timeout=10)
            for waiting in self.handle.waiting_pods():
                waiting.reject("Refusing", "make room")
            return None

    cluster.add_node("n1", allocatable={"cpu": "3", "pods": "9"})
    framework = cluster.framework(enable=[Refusing])
    for name in ("first", "second", "third"):
        cluster.add_pod(name, requests={"cpu": "2" if name == "first" else "1"})
    cluster.add_pod("last", requests={"cpu": "1"})
    await framework.settle()
    assert [framework.result(name).state for name in ("second", "third", "last")] == ["bound"] * 3
