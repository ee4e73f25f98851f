"""The group cycle: all pods of a `spec.schedulingGroup` on one snapshot, and then all of them or none."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod
from pyscheduler.framework import FilterPlugin, Handle, NodeInfo, PermitPlugin, ReservePlugin, Status
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.podgroup.wire import InTreePodGroup
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.scheduler.in_tree_groups import GATES, condition, group, members, named, states

UNSCHEDULABLE = "pod group is unschedulable"
TOO_FEW = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
WAITING = "pod group is unschedulable, pod group is waiting for preemption to complete"


async def test_a_gang_is_bound_in_one_cycle(cluster: FakeCluster) -> None:
    """All members are popped with the first, bound, and the condition says so."""
    cluster.add_node("a", allocatable={"cpu": "2"})
    cluster.add_node("b", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=4)
    members(cluster, "g", 4)
    await framework.settle()
    assert states(framework, named("g", 4)) == {"bound": 4}
    assert framework.scheduler.cycles == 1
    assert condition(cluster, "g") == ("True", "Scheduled", "")
    cluster.assert_invariants()


async def test_a_gang_that_is_one_place_short_holds_nothing(cluster: FakeCluster) -> None:
    """Members with a place are told what they wait for; a pod that fits in their place is not kept out."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=4)
    members(cluster, "g", 4)
    await framework.settle()
    messages = [framework.result(name).message for name in named("g", 4)]
    assert messages.count(TOO_FEW) == 3
    assert sum(message.startswith("0/1 nodes are available: 1 Insufficient cpu. ") for message in messages) == 1
    assert condition(cluster, "g") == ("False", "Unschedulable", UNSCHEDULABLE)
    assert not framework.scheduler.cache.assumed_count
    cluster.add_pod("plain", requests={"cpu": "3"})
    await framework.settle()
    assert framework.result("plain").bound
    cluster.add_node("m", allocatable={"cpu": "4"})
    await cluster.clock.advance(15)
    assert states(framework, named("g", 4)) == {"bound": 4}
    assert condition(cluster, "g") == ("True", "Scheduled", "")


async def test_a_group_that_does_not_fit_waits_for_an_event(cluster: FakeCluster) -> None:
    """Time is no reason to try it again, and room for fewer members than it needs is none."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=f"{GATES},SchedulerPopFromBackoffQ=true")
    group(cluster, "g", minimum=4)
    members(cluster, "g", 4)
    await framework.settle()
    await cluster.clock.advance(60)
    assert framework.scheduler.cycles == 1
    cluster.add_node("small", allocatable={"cpu": "500m"})
    await cluster.clock.advance(60)
    assert framework.scheduler.cycles == 1
    cluster.add_node("large", allocatable={"cpu": "1"})
    await cluster.clock.advance(1)
    assert states(framework, named("g", 4)) == {"bound": 4}


async def test_more_than_the_minimum_may_be_bound(cluster: FakeCluster) -> None:
    """Every member that has a place goes; the others wait, each with its own reason."""
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2)
    members(cluster, "g", 6)
    await framework.settle()
    assert states(framework, named("g", 6)) == {"bound": 4, "pending": 2}
    assert condition(cluster, "g") == ("True", "Scheduled", "")


async def test_the_condition_never_goes_back(cluster: FakeCluster) -> None:
    """Pods that come later and find no room do not make a group unscheduled that was scheduled."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2)
    members(cluster, "g", 2)
    await framework.settle()
    members(cluster, "g", 2, start=2)
    await cluster.clock.advance(30)
    assert states(framework, named("g", 4)) == {"bound": 2, "pending": 2}
    assert condition(cluster, "g") == ("True", "Scheduled", "")


async def test_other_conditions_stay(cluster: FakeCluster) -> None:
    """Only the group's own condition is replaced."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2)
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    cluster.patch(InTreePodGroup, "g", {"status": {"conditions": [target]}}, status=True)
    members(cluster, "g", 2)
    await framework.settle()
    (item,) = cluster.server.objects("scheduling.k8s.io/v1alpha2", "PodGroup")
    conditions = item["status"]["conditions"]
    assert target in conditions
    assert {each["type"] for each in conditions} == {"DisruptionTarget", "PodGroupScheduled"}


async def test_members_of_a_basic_group_go_as_far_as_they_fit(cluster: FakeCluster) -> None:
    """There is no minimum to reach."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g")
    members(cluster, "g", 3)
    await framework.settle()
    assert states(framework, named("g", 3)) == {"bound": 2, "pending": 1}
    assert framework.scheduler.cycles == 1


async def test_members_wait_for_their_group_and_their_number(cluster: FakeCluster) -> None:
    """Neither without the PodGroup nor with too few of them they stand in line; the last to come brings all along."""
    cluster.add_node("n", allocatable={"cpu": "8"})
    framework = cluster.framework(feature_gates=GATES)
    members(cluster, "g", 3)
    await framework.settle()
    assert framework.scheduler.queue.sub_queues.counts()["gated"] == 3
    group(cluster, "g", minimum=4)
    await framework.settle()
    assert framework.scheduler.queue.sub_queues.counts()["gated"] == 3
    members(cluster, "g", 1, start=3)
    await framework.settle()
    assert states(framework, named("g", 4)) == {"bound": 4}
    assert framework.scheduler.cycles == 1


async def test_members_of_several_profiles_are_refused(cluster: FakeCluster) -> None:
    """Each fails with an error that names two of the profiles."""
    cluster.add_node("n", allocatable={"cpu": "8"})
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "one"}, {"schedulerName": "two"}],
    }
    framework = cluster.framework(feature_gates=GATES, config=json.dumps(config))
    group(cluster, "g", minimum=2)
    members(cluster, "g", 1, scheduler_name="one")
    members(cluster, "g", 1, start=1, scheduler_name="two")
    await framework.settle()
    message = 'all pods in a single pod group should have the same .spec.schedulerName set, got: "one" and "two"'
    assert {framework.result(name).message for name in named("g", 2)} == {message}
    assert framework.scheduler.cache.pod_count == 0


async def test_without_the_plugin_there_is_one_cycle_and_no_minimum(cluster: FakeCluster) -> None:
    """GenericWorkload alone: what a gang is, nobody knows."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates="GenericWorkload=true")
    group(cluster, "g", minimum=3)
    members(cluster, "g", 3)
    await framework.settle()
    assert states(framework, named("g", 3)) == {"bound": 2, "pending": 1}
    assert framework.scheduler.cycles == 1


async def test_with_the_gates_off_the_field_means_nothing(cluster: FakeCluster) -> None:
    """Pods are scheduled one by one, as kube-scheduler does."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework()
    members(cluster, "g", 2)
    await framework.settle()
    assert states(framework, named("g", 2)) == {"bound": 2}
    assert framework.scheduler.cycles == 2


async def test_members_go_by_priority_then_by_age(cluster: FakeCluster) -> None:
    """The most important ones get the places there are."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2)
    for number, priority in enumerate((0, 5, 0, 9)):
        members(cluster, "g", 1, start=number, priority=priority)
    await framework.settle()
    bound = [name for name in named("g", 4) if framework.result(name).bound]
    assert bound == ["g1", "g3"]


def zone_affinity(zone: str, *, required: bool) -> dict[str, Any]:
    """Return a node affinity that requires, or prefers, a zone."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    if required:
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    preferred = [{"weight": 100, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


async def test_the_pod_that_completes_its_gang_is_tried_first(cluster: FakeCluster) -> None:
    """It enters the queue before the members that waited for it, and takes the only node that it can use."""
    cluster.add_node("na", allocatable={"cpu": "1"}, labels={"zone": "a"})
    cluster.add_node("nb", allocatable={"cpu": "8"}, labels={"zone": "b"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "m", minimum=2)
    await framework.settle()
    for number in range(2):
        spec = {
            "schedulingGroup": {"podGroupName": "m"},
            "affinity": zone_affinity("a", required=number == 1),
        }
        cluster.add_pod(f"m{number}", requests={"cpu": "800m"}, spec=spec)
        await cluster.clock.advance(1.0)
    assert {name: framework.result(name).node for name in named("m", 2)} == {"m0": "nb", "m1": "na"}


class Choosy(FilterPlugin, ReservePlugin, PermitPlugin):
    """Refuses or fails at any extension point, for pods that are labelled so."""

    name = "Choosy"

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.reserved: list[str] = []

    @staticmethod
    def _answer(pod: Pod, point: str) -> Status | None:
        match pod.labels.get(point):
            case "refuse":
                return Status.unschedulable(f"refused at {point}")
            case "fail":
                raise RuntimeError(f"failed at {point}")
            case _:
                return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self._answer(pod, "filter")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved.append(pod.name)
        return self._answer(pod, "reserve")

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if pod.name in self.reserved:
            self.reserved.remove(pod.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._answer(pod, "permit")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["filter", "reserve", "permit"])
@pytest.mark.parametrize("minimum", [pytest.param(2, id="enough others"), pytest.param(3, id="too few others")])
async def test_a_member_that_is_refused_costs_the_others_nothing(
    cluster: FakeCluster, point: str, minimum: int
) -> None:
    """Where they are enough without it they start; what was reserved for the others is given back."""
    cluster.add_node("n", allocatable={"cpu": "8"})
    framework = cluster.framework(enable=[Choosy], feature_gates=GATES)
    group(cluster, "g", minimum=minimum)
    members(cluster, "g", 1, labels={point: "refuse"}, priority=1)
    members(cluster, "g", 2, start=1)
    await framework.settle()
    assert f"refused at {point}" in framework.result("g0").message
    plugin = framework.plugin("Choosy")
    assert isinstance(plugin, Choosy)
    if minimum == 2:
        assert states(framework, named("g", 3)) == {"bound": 2, "pending": 1}
    else:
        assert states(framework, named("g", 3)) == {"pending": 3}
        assert plugin.reserved == []
    framework.scheduler.snapshot.check_invariants()


@pytest.mark.parametrize("point", ["filter", "reserve", "permit"])
async def test_an_error_ends_the_cycle_for_all(cluster: FakeCluster, point: str) -> None:
    """The member that failed says so, and each of the others that it was another's failure."""
    cluster.add_node("n", allocatable={"cpu": "8"})
    framework = cluster.framework(enable=[Choosy], feature_gates=GATES, allow_plugin_errors=True)
    group(cluster, "g", minimum=1)
    members(cluster, "g", 1, priority=2)
    members(cluster, "g", 1, start=1, labels={point: "fail"}, priority=1)
    members(cluster, "g", 1, start=2)
    await framework.settle()
    assert states(framework, named("g", 3)) == {"pending": 3}
    assert f"failed at {point}" in framework.result("g1").message
    for name in ("g0", "g2"):
        assert framework.result(name).message.startswith("failed to schedule other pod from a pod group: ")
    status, reason, message = condition(cluster, "g")
    assert (status, reason) == ("False", "SchedulerError")
    assert message.startswith("failed to schedule other pod from a pod group: ")
    plugin = framework.plugin("Choosy")
    assert isinstance(plugin, Choosy)
    assert plugin.reserved == []


async def test_victims_go_when_the_whole_group_can_be_placed(cluster: FakeCluster) -> None:
    """Members are nominated while the victims go, those with a place of their own, too; then all are bound."""
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    for number in range(3):
        cluster.add_pod(f"low{number}", requests={"cpu": "1"}, node_name="n")
    group(cluster, "g", minimum=4)
    members(cluster, "g", 4, priority=10)
    await framework.settle()
    notes = Counter(event["note"] for event in cluster.events("FailedScheduling"))
    assert notes[WAITING] == 1
    low = [pod for pod in cluster.pods() if pod.name.startswith("low")]
    assert all(pod.is_terminating for pod in low)
    assert {pod.status.nominated_node_name for pod in cluster.pods() if pod.name.startswith("g")} == {"n"}
    for pod in low:
        cluster.delete_pod(pod.name)
    await cluster.clock.advance(15)
    assert states(framework, named("g", 4)) == {"bound": 4}
    cluster.assert_invariants()


async def test_nobody_is_evicted_for_a_group_that_cannot_be_placed(cluster: FakeCluster) -> None:
    """Room for some of the members would cost victims for nothing."""
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    for number in range(4):
        cluster.add_pod(f"low{number}", requests={"cpu": "1"}, node_name="n")
    group(cluster, "g", minimum=5)
    members(cluster, "g", 5, priority=10)
    await framework.settle()
    await cluster.clock.advance(30)
    assert states(framework, named("g", 5)) == {"pending": 5}
    assert len([pod for pod in cluster.pods() if pod.node_name]) == 4
    assert not [pod for pod in cluster.pods() if pod.status.nominated_node_name]
    # The member that completed the gang took the first place, and the last one found none.
    assert {framework.result(name).message for name in ("g0", "g1", "g2", "g4")} == {TOO_FEW}


async def test_a_bind_that_fails_is_tried_again_by_itself(cluster: FakeCluster) -> None:
    """The others are bound by then and count."""
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    cluster.server.faults.add(Fault(method="POST", path=r"/pods/g2/binding$", status=400, times=1))
    group(cluster, "g", minimum=3)
    members(cluster, "g", 3)
    await framework.settle()
    assert states(framework, named("g", 3)) == {"bound": 2, "pending": 1}
    await cluster.clock.advance(15)
    assert states(framework, named("g", 3)) == {"bound": 3}


class Meddler(FilterPlugin):
    """Does something to the cluster while a group is being decided about."""

    name = "Meddler"
    act: Any = None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        act, type(self).act = type(self).act, None
        if act is not None:
            act()
        return None


def meddle(cluster: FakeCluster, framework: FakeFramework, what: str) -> None:
    """Change cluster and caches as a watch would in between two members."""
    scheduler = framework.scheduler
    if what == "node gone":
        scheduler.handlers.delete_node(scheduler.nodes.get("n"))  # type: ignore[arg-type]
    elif what == "node filled":
        pod = cluster.pod("plain")
        scheduler.handlers.add_pod(pod.with_node_name("n"))
    else:
        pod = cluster.pod("g1")
        scheduler.handlers.update_pod(pod, pod.with_node_name("n"))


@pytest.mark.parametrize("what", ["node gone", "node filled", "member bound"])
async def test_what_happens_meanwhile_is_seen_before_anybody_is_bound(cluster: FakeCluster, what: str) -> None:
    """Members whose node is not as it was are held against the cluster as it is, and none goes if too few are left."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    cluster.add_pod("plain", requests={"cpu": "2"}, scheduler_name="other")
    framework = cluster.framework(enable=[Meddler], feature_gates=GATES)
    await framework.start()
    Meddler.act = lambda: meddle(cluster, framework, what)
    group(cluster, "g", minimum=3)
    members(cluster, "g", 3)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not [pod for pod in cluster.pods() if pod.node_name]
    assert framework.scheduler.binding_count == 0
    framework.scheduler.snapshot.check_invariants()
    framework.scheduler.queue.check_invariants()
    if what != "member bound":
        assert framework.scheduler.cache.assumed_count == 0


async def test_it_counts_cycles_by_their_outcome(cluster: FakeCluster) -> None:
    """The three metrics of pod groups are kube-scheduler's, and are not there before the first group."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    metrics = Metrics()
    framework.scheduler.scheduling.recorder = metrics
    assert b"podgroup" not in metrics.render()[0]
    group(cluster, "g", minimum=2)
    group(cluster, "h", minimum=2)
    members(cluster, "g", 2)
    await framework.settle()
    members(cluster, "h", 2)
    await framework.settle()
    text = metrics.render()[0].decode()
    for outcome in ("scheduled", "unschedulable"):
        line = f'scheduler_podgroup_schedule_attempts_total{{profile="pyscheduler",result="{outcome}"}} 1.0'
        assert line in text
    assert "scheduler_podgroup_scheduling_algorithm_duration_seconds_count 2.0" in text
    assert "scheduler_podgroup_scheduling_attempt_duration_seconds_count" in text


async def test_a_member_that_was_deleted_meanwhile_does_not_come_back(cluster: FakeCluster) -> None:
    """It is out of the queue, and the rest waits for another."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=3)
    members(cluster, "g", 3)
    await framework.settle()
    cluster.delete_pod("g1")
    await cluster.clock.advance(30)
    counts = framework.scheduler.queue.sub_queues.counts()
    assert (counts["active"], counts["backoff"], counts["unschedulable"] + counts["gated"]) == (0, 0, 2)
    cluster.add_node("m", allocatable={"cpu": "2"})
    members(cluster, "g", 1, start=3)
    await cluster.clock.advance(15)
    assert states(framework, ["g0", "g2", "g3"]) == {"bound": 3}


async def test_members_that_succeeded_count_for_the_last_pods(cluster: FakeCluster) -> None:
    """A Job with three completions and a parallelism of two creates its last pod alone."""
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2)
    members(cluster, "g", 2)
    await framework.settle()
    for name in named("g", 2):
        cluster.patch(Pod, name, {"status": {"phase": "Succeeded"}}, namespace="default", status=True)
    members(cluster, "g", 1, start=2)
    await framework.settle()
    assert framework.result("g2").bound


@pytest.mark.parametrize(
    ("with_group", "text"),
    [
        pytest.param(True, "waiting for minCount pods from a gang", id="too few members"),
        pytest.param(False, 'pod group "g" to appear in scheduling queue', id="no PodGroup"),
    ],
)
async def test_members_of_an_incomplete_gang_say_what_they_wait_for(
    cluster: FakeCluster, with_group: bool, text: str
) -> None:
    """A condition and an event after half a second; a gang that is complete by then has neither."""
    cluster.add_node("n", allocatable={"cpu": "8"})
    framework = cluster.framework(feature_gates=GATES)
    if with_group:
        group(cluster, "g", minimum=3)
    group(cluster, "whole", minimum=2)
    members(cluster, "g", 2)
    members(cluster, "whole", 2)
    await framework.settle()
    await cluster.clock.advance(2)
    for name in named("g", 2):
        (found,) = [each for each in cluster.pod(name).status.conditions if each.type == "PodScheduled"]
        assert (found.status, found.reason) == ("False", "Unschedulable")
        assert text in found.message
        assert text in framework.result(name).message
    assert states(framework, named("whole", 2)) == {"bound": 2}
