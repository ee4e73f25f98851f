"""DefaultPreemption in a whole scheduler: who goes, who comes, what is written about it, and what may go wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler import (
    Candidate,
    Code,
    CycleState,
    EventResource,
    Handle,
    NodeStatuses,
    PermitPlugin,
    Pod,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreemptionRules,
    PreFilterPlugin,
    QueueingHint,
    Status,
)
from pyscheduler.framework.preemption import start_time
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.plugins.default_preemption import DefaultPreemption
from pyscheduler.queue.sub_queues import QueuePlace
from pyscheduler.testing import FakeCluster, FakeFramework, make_pod

DELETE = r"/pods/[^/]+$"
NOMINATED = "0/1 nodes are available: 1 Insufficient cpu."


class Counts(NullRecorder):
    """Remembers what is measured of preemption."""

    def __init__(self) -> None:
        self.attempts = 0
        self.victims: list[int] = []
        self.runs: list[str] = []
        self.warnings: list[str] = []

    def count(self, family: str, *labels: str) -> None:
        """Count attempts."""
        self.attempts += family == "scheduler_preemption_attempts_total"

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Keep victims and runs."""
        assert value >= 0
        if family == "scheduler_preemption_victims":
            self.victims.append(int(value))
        elif family == "scheduler_preemption_goroutines_duration_seconds":
            self.runs += labels

    def warning(self, kind: str) -> None:
        """Keep."""
        self.warnings.append(kind)


def measured(framework: FakeFramework) -> Counts:
    """Let the profile's measurements go where the test sees them."""
    counts = framework.scheduler.profiles["pyscheduler"].handle.recorder = Counts()
    return counts


def budget(name: str, labels: dict[str, str], allowed: int) -> dict[str, Any]:
    """Return a disruption budget as somebody's controller has filled it in."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }


def gone(cluster: FakeCluster) -> set[str]:
    """Return the names of the pods that are on their way out."""
    return {pod.name for pod in cluster.pods() if pod.is_terminating}


def preempted(cluster: FakeCluster) -> dict[str, str]:
    """Return what events say of victims, by their names."""
    return {event["regarding"]["name"]: event["note"] for event in cluster.events("Preempted")}


@pytest.mark.parametrize("gates", ["", "SchedulerAsyncPreemption=false"], ids=["in the background", "in the cycle"])
async def test_room_is_made_and_taken(cluster: FakeCluster, gates: str) -> None:
    """The victim is told and deleted with its grace, the preemptor nominated, and bound once the victim is gone."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=gates)
    counts = measured(framework)
    assert (await framework.schedule("low", requests={"cpu": "2"})).bound
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert (high.state, high.message) == ("pending", NOMINATED)
    assert high.pod.status.nominated_node_name == "n1"
    low = cluster.pod("low")
    assert low.metadata.deletion_timestamp == "2026-01-01T00:00:30Z"
    condition = low.status.conditions[-1]
    assert (condition.type, condition.status, condition.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
    assert condition.message == "pyscheduler: preempting to accommodate a higher priority pod"
    assert preempted(cluster) == {"low": f"Preempted by pod {high.pod.uid} on node n1"}
    assert (counts.attempts, counts.victims, counts.warnings) == (1, [1], [])
    assert counts.runs == ([] if gates else ["success"])
    await cluster.clock.advance(20)
    # Nobody else gets the room, and nobody else has to go, while the victim ends.
    assert not (await framework.schedule("late", requests={"cpu": "1"}, priority=5)).bound
    assert len(cluster.events("Preempted")) == 1
    cluster.delete_pod("low")
    await framework.settle()
    assert framework.result("high").node == "n1"
    assert framework.result("high").pod.status.nominated_node_name == ""
    cluster.assert_invariants()


async def test_a_victim_without_grace_brings_its_preemptor_at_once(cluster: FakeCluster) -> None:
    """Its end is heard of while the request that caused it is not answered yet; the preemptor does not miss it."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    for number in range(2):
        spec = {"terminationGracePeriodSeconds": 0}
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, spec=spec)
    cluster.server.faults.add(Fault(method="DELETE", path=DELETE, delay_seconds=3.0))
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(60)
    assert framework.result("high").bound
    assert [pod.name for pod in cluster.pods()] == ["high"]


async def test_the_preemptor_is_gated_until_all_victims_were_told(cluster: FakeCluster) -> None:
    """An end that comes before wakes it in vain; when the last was told, the end of that one brings it."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    # The last victim is the least important: the one that was started last.
    for number in range(2):
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=1 - number)
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low1$", delay_seconds=5.0))
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(1)
    assert gone(cluster) == {"low0"}
    cluster.delete_pod("low0")
    await framework.settle()
    queued = framework.scheduler.queue.get(high.pod.uid)
    assert queued is not None
    assert queued.gating_plugin == "DefaultPreemption"
    status = framework.run_pre_enqueue(high.pod)
    assert status is not None
    assert status.message == "waiting for the preemption for this pod to be finished"
    await cluster.clock.advance(5)
    assert gone(cluster) == {"low1"}
    assert framework.run_pre_enqueue(high.pod) is None
    cluster.delete_pod("low1")
    await cluster.clock.advance(10)
    assert framework.result("high").bound


@pytest.mark.parametrize("path", [r"/status$", DELETE], ids=["the condition", "the deletion"])
async def test_a_victim_that_cannot_be_told_is_tried_again(cluster: FakeCluster, path: str) -> None:
    """The preemptor is retried after its backoff, and finds its victim where it was."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    counts = measured(framework)
    await framework.schedule("low", requests={"cpu": "2"})
    method = "PATCH" if "status" in path else "DELETE"
    cluster.server.faults.add(
        Fault(method=method, path=r"/pods/low" if method == "DELETE" else r"/low/status$", status=403, times=1)
    )
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(30)
    assert counts.runs == ["error", "success"]
    assert counts.warnings == ["eviction_failed"]
    assert gone(cluster) == {"low"}


async def test_a_preemptor_backs_off_while_evictions_fail(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """If the API server refuses every deletion, the preemptor is tried after each backoff and not all the time."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    counts = measured(framework)
    await framework.schedule("low", requests={"cpu": "2"})
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low", status=403, times=None))
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert counts.runs == ["error"]
    assert framework.scheduler.queue.place_of(high.pod.uid) is QueuePlace.BACKOFF
    await cluster.clock.advance(60)
    # Backoffs of 1, 2, 4, 8 and then 10 s, and each ends with a whole second.
    assert counts.runs == ["error"] * 8
    assert counts.warnings == ["eviction_failed"] * 8
    queued = framework.scheduler.queue.get(high.pod.uid)
    assert queued is not None
    assert queued.attempts == 8
    assert "Victim could not be preempted plugin=DefaultPreemption preemptor=default/high victim=default/low" in (
        caplog.text
    )

    cluster.server.faults.clear()
    await cluster.clock.advance(30)
    assert gone(cluster) == {"low"}


async def test_where_one_cannot_be_told_the_last_is_not_told_either(cluster: FakeCluster) -> None:
    """The preemptor comes back the sooner, and tells those who are left."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    counts = measured(framework)
    for number in range(2):
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=number)
    # low1 is the more important one, and told first.
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low1", status=403, times=1))
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert counts.runs[0] == "error"
    await cluster.clock.advance(30)
    assert gone(cluster) == {"low0", "low1"}
    assert preempted(cluster).keys() == {"low0", "low1"}
    assert counts.runs == ["error", "success"]
    assert framework.scheduler.queue.place_of(high.pod.uid) is not None


async def test_in_the_cycle_a_failure_is_the_attempts(cluster: FakeCluster) -> None:
    """Without background evictions the pod is told why room could not be made, and is tried again."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates="SchedulerAsyncPreemption=false")
    await framework.schedule("low", requests={"cpu": "2"})
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low", status=403, times=1))
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert "preemption: " in high.message
    assert "injected fault" in high.message
    assert not gone(cluster)
    framework.scheduler.queue.activate([high.pod])
    await framework.settle()
    assert gone(cluster) == {"low"}
    # The condition stood there from the first time: it was not written again.
    assert len([each for each in cluster.pod("low").status.conditions if each.type == "DisruptionTarget"]) == 1


async def test_a_victim_is_told_once(cluster: FakeCluster) -> None:
    """A preemptor that is back before its victim's end is heard of nominates itself again and tells nobody."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    await framework.schedule("low", requests={"cpu": "2"})
    low = cluster.pod("low")
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    counts = measured(framework)
    evictions: Any = framework.profile.preemptors["DefaultPreemption"]._evictions
    # As if the watch had not brought the deletion yet.
    lister = evictions._pods
    evictions._pods = Behind(lister, low)
    victim = Candidate(node_name="n1", victims=(PodInfo.of(low),))
    assert await evictions.evict(victim, high.pod) is None
    assert counts.victims == []
    assert len(cluster.events("Preempted")) == 1
    evictions._pods = lister
    cluster.delete_pod("low")
    await cluster.clock.advance(10)
    assert framework.result("high").bound


class Behind:
    """A lister that shows an old version of one pod."""

    def __init__(self, lister: Any, old: Pod) -> None:
        self.lister, self.old = lister, old

    def get(self, name: str, namespace: str = "") -> Pod | None:
        """Return what it knows."""
        found: Pod | None = self.old if name == self.old.name else self.lister.get(name, namespace)
        return found


async def test_a_victim_that_is_gone_by_then_is_no_failure(cluster: FakeCluster) -> None:
    """Whoever has its name now is spared."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    counts = measured(framework)
    await framework.schedule("low", requests={"cpu": "2"})
    cluster.server.faults.add(Fault(method="PATCH", path=r"/low/status$", delay_seconds=2.0, times=1))
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    cluster.delete_pod("low")
    cluster.add_pod("low", requests={"cpu": "1"})
    await cluster.clock.advance(10)
    assert counts.runs == ["success"]
    assert not gone(cluster)
    assert not preempted(cluster)
    assert framework.result("high").bound


async def test_a_disruption_budget_decides_between_nodes(cluster: FakeCluster) -> None:
    """Where the victim of one node is protected and that of another is not, the other goes."""
    framework = cluster.framework()
    for name in ("kept", "free"):
        cluster.add_node(f"node-{name}", allocatable={"cpu": "1"}, labels={"for": name})
        await framework.settle()
        labels = {"app": name}
        await framework.schedule(name, requests={"cpu": "1"}, labels=labels, node_selector={"for": name})
    cluster.server.plant(budget("pdb", {"app": "kept"}, 0))
    await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    assert gone(cluster) == {"free"}
    # A budget makes a node worse, it does not rule it out.
    await framework.schedule("higher", requests={"cpu": "1"}, priority=20, node_selector={"for": "kept"})
    assert gone(cluster) == {"free", "kept"}


async def test_who_never_preempts_waits(cluster: FakeCluster) -> None:
    """With `preemptionPolicy: Never` the message says so, and nobody goes."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    await framework.schedule("low", requests={"cpu": "2"})
    cluster.server.add(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "polite"},
            "value": 100,
            "preemptionPolicy": "Never",
        }
    )
    polite = await framework.schedule("polite", requests={"cpu": "2"}, spec={"priorityClassName": "polite"})
    assert (
        polite.message
        == f"{NOMINATED} no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    )
    assert not gone(cluster)


async def test_while_victims_end_nobody_else_has_to_go(cluster: FakeCluster) -> None:
    """A pod that comes back before its victims are gone waits; if its node is out of question, it preempts anew."""
    framework = cluster.framework()
    for name in ("n1", "n2"):
        cluster.add_node(name, allocatable={"cpu": "1"})
        await framework.settle()
        await framework.schedule(f"low-{name}", requests={"cpu": "1"})
    high = await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    (victim,) = gone(cluster)
    framework.scheduler.queue.activate([high.pod])
    await framework.settle()
    assert gone(cluster) == {victim}
    message = "preemption: not eligible due to a terminating pod on the nominated node."
    assert framework.result("high").message.endswith(message)
    nominated = high.pod.status.nominated_node_name
    node = next(node for node in cluster.server.nodes() if node["metadata"]["name"] == nominated)
    node["spec"]["unschedulable"] = True
    cluster.patch(type(cluster.nodes()[0]), nominated, {"spec": {"unschedulable": True}})
    await framework.settle()
    framework.scheduler.queue.activate([high.pod])
    await framework.settle()
    assert gone(cluster) == {"low-n1", "low-n2"}
    assert cluster.pod("high").status.nominated_node_name != nominated


async def test_lower_nominations_on_the_node_are_taken_back(cluster: FakeCluster) -> None:
    """Who was promised the node and is less important has to look elsewhere, and is told so."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    for number in range(2):
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=number)
    await framework.schedule("middle", requests={"cpu": "1"}, priority=5)
    assert cluster.pod("middle").status.nominated_node_name == "n1"
    assert gone(cluster) == {"low0"}
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert high.pod.status.nominated_node_name == "n1"
    assert gone(cluster) == {"low0", "low1"}
    assert cluster.pod("middle").status.nominated_node_name == ""
    assert [info.pod.name for info in framework.scheduler.queue.nominator.pods_on("n1")] == ["high"]
    for number in range(2):
        cluster.delete_pod(f"low{number}")
    await cluster.clock.advance(15)
    assert framework.result("high").bound
    assert not framework.result("middle").bound


async def test_a_nomination_that_cannot_be_taken_back_is_counted(cluster: FakeCluster) -> None:
    """The victims go all the same, and the preemptor is tried again."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    for number in range(2):
        await framework.schedule(f"low{number}", requests={"cpu": "1"}, priority=number)
    await framework.schedule("middle", requests={"cpu": "1"}, priority=5)
    counts = measured(framework)
    cluster.server.faults.add(Fault(method="PATCH", path=r"/middle/status$", status=403, times=1))
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert counts.warnings == ["nomination_not_cleared"]
    assert counts.runs == ["error"]
    assert gone(cluster) == {"low0", "low1"}


class Holder(PermitPlugin):
    """Holds pods that ask for it for an hour."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait(timeout=3600) if pod.metadata.labels.get("hold") else None


class Slow(PreBindPlugin):
    """Prepares pods that ask for it for an hour, or as long as it is let."""

    cancelled = 0

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None if pod.metadata.labels.get("slow") else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        try:
            await self.handle.clock.sleep(3600)
        except asyncio.CancelledError:
            type(self).cancelled += 1
            raise
        return None


@pytest.mark.parametrize("label", ["hold", "slow"])
async def test_a_victim_that_is_not_bound_yet_is_turned_away(cluster: FakeCluster, label: str) -> None:
    """At Permit or in PreBind nothing is deleted: the victim goes back to the queue, its preemptor takes the room."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(enable=[Holder, Slow])
    before = Slow.cancelled
    await framework.schedule("low", requests={"cpu": "2"}, labels={label: "yes"})
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(5)
    assert framework.result("high").bound
    assert preempted(cluster) == {"low": f"Preempted by pod {high.pod.uid} on node n1 (in kube-scheduler memory)."}
    assert Slow.cancelled - before == (label == "slow")
    low = framework.result("low")
    assert (low.state, gone(cluster)) == ("pending", set())
    assert not len(framework.scheduler.profiles["pyscheduler"]._dependencies.pods_in_pre_bind)
    told = [event["note"] for event in cluster.events("FailedScheduling") if event["regarding"]["name"] == "low"]
    why = {
        "hold": "waiting on permit for pod: preempted",
        "slow": 'running PreBind plugin "Slow": preempted by DefaultPreemption',
    }
    assert why[label] in told
    cluster.add_node("n2", allocatable={"cpu": "2"})
    await cluster.clock.advance(30)
    assert framework.scheduler.queue.place_of(low.pod.uid) is not QueuePlace.UNSCHEDULABLE
    framework.assert_invariants()


class Hopeful(PreFilterPlugin):
    """Rejects pods in PreFilter, in a way that may change when pods go."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> Status | None:
        return Status.unschedulable("not now") if pod.priority else None


async def test_a_rejection_at_pre_filter_makes_every_node_worth_a_look(cluster: FakeCluster) -> None:
    """No filter said anything of the nodes; preemption finds that the pod fits without a victim, which is no use."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(enable=[Hopeful])
    await framework.schedule("low", requests={"cpu": "1"})
    high = await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    assert high.message.endswith('preemption: expected at least one victim pod on node "n1"')
    assert not gone(cluster)


async def test_stopping_does_not_wait_for_victims(cluster: FakeCluster) -> None:
    """A scheduler that ends leaves an eviction where it is; the next one begins anew."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    await framework.schedule("low", requests={"cpu": "2"})
    cluster.server.faults.add(Fault(method="PATCH", path=r"/low/status$", delay_seconds=3600.0, times=1))
    high = await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    preemptor = framework.profile.preemptors["DefaultPreemption"]
    assert preemptor.is_preempting(high.pod.uid)
    assert framework.profile.running_tasks() == {"DefaultPreemption": 1}
    await cluster.close()
    assert not preemptor.is_preempting(high.pod.uid)
    cluster._frameworks.clear()
    again = cluster.framework()
    await again.settle()
    assert gone(cluster) == {"low"}


@pytest.mark.parametrize(("gates", "registered"), [("", 1), ("SchedulerAsyncPreemption=false", 0)])
async def test_events_are_registered_to_be_asked_again(cluster: FakeCluster, gates: str, registered: int) -> None:
    """A pod that ended opens the gate, and says nothing about room; without background evictions there is no gate."""
    framework = cluster.framework(feature_gates=gates)
    plugin: Any = framework.plugin("DefaultPreemption")
    events = plugin.events_to_register()
    assert len(events) == registered
    for each in events:
        assert each.event.resource == EventResource.POD
        assert each.queueing_hint is not None
        assert each.queueing_hint(make_pod("p"), make_pod("q"), None) is QueueingHint.SKIP
    assert framework.run_pre_enqueue(make_pod("p")) is None


class OldestFirst(PreemptionRules):
    """Evicts only pods that say so, whatever their priority, and spares those that started last."""

    def may_evict(self, victim: PodInfo, preemptor: Pod) -> bool:
        return victim.pod.metadata.labels.get("spot") == "yes"

    def importance(self, victim: PodInfo, now: float) -> tuple[float, ...]:
        return (-start_time(victim.pod, now),)


class Spot(PostFilterPlugin):
    """A plugin of somebody else's that preempts by rules of its own."""

    rbac = DefaultPreemption.rbac

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.preemptor = handle.preemptor(self.name, OldestFirst())

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return await self.preemptor.preempt(state, pod, statuses)


async def test_another_plugin_preempts_by_rules_of_its_own(cluster: FakeCluster) -> None:
    """It gets the search and the evictions from its handle, and without watching budgets it does not go by them."""
    cluster.add_node("n1", allocatable={"cpu": "3"})
    framework = cluster.framework(enable=[Spot], disable=["DefaultPreemption"])
    cluster.server.plant(budget("pdb", {"spot": "yes"}, 0))
    for number, spot in enumerate(("no", "yes", "yes")):
        cluster.add_pod(
            f"p{number}",
            node_name="n1",
            requests={"cpu": "1"},
            labels={"spot": spot},
            status={"startTime": f"2026-01-01T00:0{number}:00Z"},
        )
    result = await framework.schedule("new", requests={"cpu": "1"}, priority=-5)
    assert result.pod.status.nominated_node_name == "n1"
    assert gone(cluster) == {"p1"}


async def test_a_refusal_is_told_in_the_plugins_words(cluster: FakeCluster) -> None:
    """What the search says comes after `preemption: `, and a nomination is cleared."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework(disable=["DynamicResources"])
    pod = cluster.add_pod("p", requests={"cpu": "9"}, priority=10)
    result, status = framework.run_post_filter(pod)
    assert result is not None
    assert result.nominating_info is not None
    assert (result.nominating_info.node_name, status.code) == ("", Code.UNSCHEDULABLE)
    assert status.message == "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
