"""Workload-aware preemption: PodGroups as preemptors and as victims.

The cases named after situations of Kubernetes are those of its own test, `TestPodGroupPreemption` of 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import PodDisruptionBudget
from pyscheduler.framework import PostFilterPlugin, PostFilterResult, Status
from pyscheduler.podgroup.wire import InTreePodGroup
from pyscheduler.runtime.preemption.place_counts import PlaceCounts
from pyscheduler.runtime.preemption.victim_units import VictimUnit
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.testing import FakeCluster
from tests.plugins.test_default_preemption import budget, gone
from tests.scheduler.in_tree_groups import condition, group, members, named, states

GATES = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
UNSCHEDULABLE = "pod group is unschedulable"
NOT_BY_ITSELF = "no new claims to deallocate, preemption: not eligible due to workload aware preemption enabled"


def pod_group(
    cluster: FakeCluster,
    name: str,
    *,
    priority: int | None,
    minimum: int | None = None,
    whole: bool = False,
    **spec: Any,
) -> None:
    """Create a PodGroup: a gang of that minimum, or one with the policy `basic`; `whole` for its disruption mode."""
    if priority is not None:
        spec["priority"] = priority
    group(cluster, name, minimum=minimum, disruptionMode="PodGroup" if whole else "Pod", **spec)


def member_of(group: str) -> dict[str, Any]:
    """Return the spec of a member that leaves at once when it is deleted."""
    return {"schedulingGroup": {"podGroupName": group}, "terminationGracePeriodSeconds": 0}


def low(cluster: FakeCluster, node: str, *names: str, priority: int = 10, cpu: str = "1", **keywords: Any) -> None:
    """Create bound pods that leave at once when they are deleted."""
    spec = {"terminationGracePeriodSeconds": 0}
    for name in names:
        cluster.add_pod(name, requests={"cpu": cpu}, priority=priority, node_name=node, spec=spec, **keywords)


def notes(cluster: FakeCluster) -> dict[str, str]:
    """Return what the events say about the victims, by their names."""
    return {event["regarding"]["name"]: event["note"] for event in cluster.events("Preempted")}


def uid_of(cluster: FakeCluster, name: str) -> str:
    """Return the uid of a PodGroup."""
    return next(each.uid for each in cluster.objects(InTreePodGroup) if each.name == name)


def left(cluster: FakeCluster) -> set[str]:
    """Return the names of all pods."""
    return {pod.name for pod in cluster.pods()}


async def test_full_preemption(cluster: FakeCluster) -> None:
    """A gang evicts as many pods as it needs; its events, conditions and metrics are kube-scheduler's."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=GATES)
    metrics = framework.scheduler.scheduling.recorder = Metrics()
    framework.scheduler.profiles["pyscheduler"].handle.recorder = metrics
    spec = {"terminationGracePeriodSeconds": 30}
    for number in range(3):
        cluster.add_pod(f"low{number}", requests={"cpu": "1"}, priority=10, node_name="n", spec=spec)
    pod_group(cluster, "g", priority=100, minimum=3)
    members(cluster, "g", 3, priority=100)
    await framework.settle()
    uid = uid_of(cluster, "g")
    assert notes(cluster) == dict.fromkeys(named("low", 3), f"Preempted by podgroup {uid} on node cluster")
    related = cluster.events("Preempted")[0]["related"]
    assert (related["kind"], related["apiVersion"]) == ("PodGroup", "scheduling.k8s.io/v1alpha2")
    assert (related["name"], related["uid"]) == ("g", uid)
    for name in named("low", 3):
        target = cluster.pod(name).status.conditions[-1]
        assert (target.type, target.status, target.reason) == ("DisruptionTarget", "True", "PreemptionByScheduler")
        assert target.message == "pyscheduler: preempting to accommodate a higher priority podgroup"
    message = f"0/1 nodes are available: 1 Insufficient cpu. {NOT_BY_ITSELF}"
    assert {framework.result(name).message for name in named("g", 3)} == {message}
    assert {cluster.pod(name).status.nominated_node_name for name in named("g", 3)} == {"n"}
    assert condition(cluster, "g") == ("False", "Unschedulable", UNSCHEDULABLE)
    text = metrics.render()[0].decode()
    assert "scheduler_preemption_victims_sum 3.0" in text
    line = 'scheduler_podgroup_schedule_attempts_total{profile="pyscheduler",result="waiting_on_preemption"} 1.0'
    assert line in text
    for name in named("low", 3):
        cluster.delete_pod(name)
    await cluster.clock.advance(15)
    assert states(framework, named("g", 3)) == {"bound": 3}
    assert condition(cluster, "g") == ("True", "Scheduled", "")
    cluster.assert_invariants()


@attrs.frozen(kw_only=True)
class Case:
    """Nodes by name with their cores; pods that are bound, (name, node, priority, group); a preemptor group."""

    nodes: Mapping[str, int]
    bound: Sequence[tuple[str, str, int, str]]
    #: By name of the group that victims belong to: its priority, and whether it is evicted as a whole.
    groups: Mapping[str, tuple[int, bool]] = attrs.field(factory=dict)
    priority: int = 100
    minimum: int | None
    count: int
    cpu: str = "1"
    evicted: set[str]


CASES = {
    "basic policy": Case(
        nodes={"n": 3},
        bound=[("low0", "n", 10, ""), ("low1", "n", 10, ""), ("low2", "n", 10, "")],
        minimum=None,
        count=3,
        evicted={"low0", "low1", "low2"},
    ),
    "partial": Case(
        nodes={"a": 2, "b": 2},
        bound=[("low0", "a", 10, ""), ("low1", "a", 10, ""), ("low2", "b", 9, "")],
        minimum=3,
        count=3,
        evicted={"low1", "low2"},
    ),
    "partial with basic policy": Case(
        nodes={"a": 2, "b": 1},
        bound=[("low", "a", 10, ""), ("lowest", "b", 5, "")],
        minimum=None,
        count=2,
        evicted={"lowest"},
    ),
    "several nodes": Case(
        nodes={"a": 2, "b": 2},
        bound=[("a0", "a", 10, ""), ("a1", "a", 10, ""), ("b0", "b", 10, ""), ("b1", "b", 10, "")],
        minimum=4,
        count=4,
        evicted={"a0", "a1", "b0", "b1"},
    ),
    "not enough of lower priority": Case(
        nodes={"n": 3},
        bound=[("mid", "n", 500, ""), ("low0", "n", 10, ""), ("low1", "n", 10, "")],
        minimum=3,
        count=3,
        evicted=set(),
    ),
    "the lowest priority first": Case(
        nodes={"n": 3},
        bound=[("low0", "n", 10, ""), ("mid", "n", 50, ""), ("low1", "n", 10, "")],
        minimum=2,
        count=2,
        evicted={"low0", "low1"},
    ),
    "a whole group where one pod would do": Case(
        nodes={"n": 3},
        bound=[(f"v{number}", "n", 10, "v") for number in range(3)],
        groups={"v": (10, True)},
        minimum=1,
        count=1,
        evicted={"v0", "v1", "v2"},
    ),
    "one member where the disruption mode is Pod": Case(
        nodes={"n": 3},
        bound=[(f"v{number}", "n", 10 + number, "v") for number in range(3)],
        groups={"v": (10, False)},
        minimum=1,
        count=1,
        evicted={"v0"},
    ),
    "the group's priority counts, not its pods'": Case(
        nodes={"n": 3},
        bound=[(f"v{number}", "n", 100, "v") for number in range(3)],
        groups={"v": (10, True)},
        priority=20,
        minimum=1,
        count=1,
        evicted={"v0", "v1", "v2"},
    ),
    "a group of higher priority is no victim": Case(
        nodes={"n": 3},
        bound=[(f"v{number}", "n", 10, "v") for number in range(3)],
        groups={"v": (100, True)},
        priority=20,
        minimum=1,
        count=1,
        evicted=set(),
    ),
    "single pods before groups": Case(
        nodes={"n": 4},
        bound=[("v0", "n", 10, "v"), ("v1", "n", 10, "v"), ("p0", "n", 10, ""), ("p1", "n", 10, "")],
        groups={"v": (10, True)},
        minimum=2,
        count=2,
        evicted={"p0", "p1"},
    ),
    "the smaller group": Case(
        nodes={"a": 3, "b": 2},
        bound=[*((f"v{number}", "a", 10, "v") for number in range(3)), ("w0", "b", 10, "w"), ("w1", "b", 10, "w")],
        groups={"v": (10, True), "w": (10, True)},
        minimum=2,
        count=2,
        evicted={"w0", "w1"},
    ),
    "a group over several nodes": Case(
        nodes={"a": 2, "b": 2},
        bound=[("v0", "a", 10, "v"), ("v1", "b", 10, "v"), ("h0", "a", 200, ""), ("h1", "b", 200, "")],
        groups={"v": (10, True)},
        minimum=1,
        count=1,
        evicted={"v0", "v1"},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_victims(cluster: FakeCluster, case: Case) -> None:
    """The victims are evicted for the group; all members are bound, or nobody is evicted."""
    for name, cores in case.nodes.items():
        cluster.add_node(name, allocatable={"cpu": str(cores)})
    framework = cluster.framework(feature_gates=GATES)
    for name, (priority, whole) in case.groups.items():
        pod_group(cluster, name, priority=priority, minimum=1, whole=whole)
    pod_group(cluster, "g", priority=case.priority, minimum=case.minimum)
    for name, node, priority, of in case.bound:
        spec = member_of(of) if of else {"terminationGracePeriodSeconds": 0}
        cluster.add_pod(name, requests={"cpu": "1"}, priority=priority, node_name=node, spec=spec)
    members(cluster, "g", case.count, priority=case.priority, cpu=case.cpu)
    await framework.settle()
    await cluster.clock.advance(60)
    uid = uid_of(cluster, "g")
    assert notes(cluster) == dict.fromkeys(case.evicted, f"Preempted by podgroup {uid} on node cluster")
    assert {name for name, *_ in case.bound} - left(cluster) == case.evicted
    assert states(framework, named("g", case.count)) == {"bound" if case.evicted else "pending": case.count}
    cluster.assert_invariants()


async def test_a_single_pod_evicts_single_members(cluster: FakeCluster) -> None:
    """As in kube-scheduler, the disruption mode counts for the preemption of pod groups only."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=GATES)
    pod_group(cluster, "v", priority=10, minimum=1, whole=True)
    for number in range(3):
        cluster.add_pod(f"v{number}", requests={"cpu": "1"}, priority=30 - number, node_name="n", spec=member_of("v"))
    high = await framework.schedule("high", requests={"cpu": "1"}, priority=100)
    await framework.settle()
    assert notes(cluster) == {"v2": f"Preempted by pod {high.pod.uid} on node n"}
    assert "related" not in cluster.events("Preempted")[0]
    await cluster.clock.advance(15)
    assert framework.result("high").bound


@pytest.mark.slow
@pytest.mark.parametrize(
    ("allowed", "evicted"), [(0, {"other"}), (1, {"foo1"})], ids=["used up", "one disruption is allowed"]
)
async def test_disruption_budgets(cluster: FakeCluster, allowed: int, evicted: set[str]) -> None:
    """Units whose eviction violates a budget are put back first, whatever their rank."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=GATES)
    cluster.add(budget("foo", {"app": "foo"}, allowed), PodDisruptionBudget)
    low(cluster, "n", "foo0", labels={"app": "foo"}, priority=5)
    low(cluster, "n", "foo1", labels={"app": "foo"}, priority=4)
    low(cluster, "n", "other", priority=10)
    pod_group(cluster, "g", priority=100, minimum=2)
    members(cluster, "g", 2, priority=100, cpu="500m")
    await framework.settle()
    # With one disruption left, foo0 uses it up and foo1 violates the budget: foo0 is evicted in its place.
    assert set(notes(cluster)) == ({"foo0"} if allowed else evicted)


async def test_a_unit_that_holds_one_protected_pod_is_protected(cluster: FakeCluster) -> None:
    """All pods of a group count for its budgets together."""
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    cluster.add(budget("foo", {"app": "foo"}, 0), PodDisruptionBudget)
    pod_group(cluster, "v", priority=5, minimum=1, whole=True)
    cluster.add_pod("v0", requests={"cpu": "1"}, priority=5, node_name="n", spec=member_of("v"), labels={"app": "foo"})
    cluster.add_pod("v1", requests={"cpu": "1"}, priority=5, node_name="n", spec=member_of("v"))
    low(cluster, "n", "p0", "p1", priority=10)
    pod_group(cluster, "g", priority=100, minimum=2)
    members(cluster, "g", 2, priority=100)
    await framework.settle()
    assert set(notes(cluster)) == {"p0", "p1"}


def text(reason: str) -> str:
    """Return the message of the group's condition when it cannot preempt."""
    return f"{UNSCHEDULABLE}, {reason}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("nobody", text("No preemption victims found for incoming preemptor")),
        ("too large", text(UNSCHEDULABLE)),
        ("never", text("not eligible due to preemptionPolicy=Never.")),
        ("no priority", text("No preemption victims found for incoming preemptor")),
        ("constraints", text("workload aware preemption is not supported for pod groups with scheduling constraints")),
    ],
)
async def test_why_a_group_does_not_preempt(cluster: FakeCluster, case: str, message: str) -> None:
    """The condition of the PodGroup says why; nobody is evicted, and no member is nominated."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=GATES)
    low(cluster, "n", *named("low", 3), priority=500 if case == "nobody" else 10)
    spec: dict[str, Any] = {}
    if case == "constraints":
        spec = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    pod_group(cluster, "g", priority=None if case == "no priority" else 100, minimum=2, **spec)
    for name in named("g", 2):
        policy = {"preemptionPolicy": "Never"} if case == "never" and name == "g1" else {}
        cpu = "2" if case == "too large" else "1"
        cluster.add_pod(name, requests={"cpu": cpu}, priority=100, spec=member_of("g") | policy)
    await framework.settle()
    await cluster.clock.advance(30)
    assert not notes(cluster)
    assert condition(cluster, "g") == ("False", "Unschedulable", message)
    assert not any(pod.status.nominated_node_name for pod in cluster.pods())
    assert states(framework, named("g", 2)) == {"pending": 2}


async def test_reasons_with_topology_aware_scheduling(cluster: FakeCluster) -> None:
    """The placement of a group without constraints is the whole cluster, and reasons speak of placements."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=f"{GATES},TopologyAwareWorkloadScheduling=true")
    low(cluster, "n", *named("low", 3))
    pod_group(cluster, "large", priority=100, minimum=2)
    members(cluster, "large", 2, priority=100, cpu="2")
    await framework.settle()
    reason = f"0/1 placements are available, first placement status: {UNSCHEDULABLE}"
    assert condition(cluster, "large") == ("False", "Unschedulable", f"{reason}, {reason}")
    pod_group(cluster, "small", priority=100, minimum=2)
    members(cluster, "small", 2, priority=100)
    await framework.settle()
    assert set(notes(cluster)) == {"low1", "low2"}
    assert condition(cluster, "small") == ("False", "Unschedulable", reason)


async def test_without_the_plugin_nobody_preempts(cluster: FakeCluster) -> None:
    """The condition names the missing plugin."""
    cluster.add_node("n", allocatable={"cpu": "1"})
    framework = cluster.framework(feature_gates=GATES, disable=["DefaultPreemption"])
    low(cluster, "n", "low")
    pod_group(cluster, "g", priority=100, minimum=1)
    members(cluster, "g", 1, priority=100)
    await framework.settle()
    reason = "default preemption plugin is not registered, workload aware preemption is disabled"
    assert condition(cluster, "g")[2] == text(reason)


async def test_members_are_nominated_to_the_nodes_that_they_will_have(cluster: FakeCluster) -> None:
    """Members with a node say that the group is unschedulable; members that wait for victims name what they lack."""
    cluster.add_node("a", allocatable={"cpu": "1"})
    cluster.add_node("b", allocatable={"cpu": "1"})
    framework = cluster.framework(feature_gates=GATES)
    cluster.add_pod("low", requests={"cpu": "1"}, priority=1, node_name="b")
    pod_group(cluster, "g", priority=100, minimum=2)
    members(cluster, "g", 2, priority=100)
    await framework.settle()
    assert set(notes(cluster)) == {"low"}
    nominated = {pod.name: pod.status.nominated_node_name for pod in cluster.pods() if pod.name.startswith("g")}
    assert sorted(nominated.values()) == ["a", "b"]
    messages = {nominated[name]: framework.result(name).message for name in named("g", 2)}
    assert messages["a"] == f"{UNSCHEDULABLE}"
    assert messages["b"].startswith("0/2 nodes are available: 2 Insufficient cpu. ")


class Counting(PostFilterPlugin):
    """Counts its calls."""

    name = "Counting"
    calls = 0

    async def post_filter(self, state: object, pod: object, statuses: object) -> tuple[PostFilterResult | None, Status]:
        """Reject."""
        type(self).calls += 1
        return None, Status.unschedulable()


async def test_post_filter_runs_once_for_each_member(cluster: FakeCluster) -> None:
    """The search for victims does not run it again."""
    Counting.calls = 0
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES, enable=[Counting])
    for name in named("low", 4):
        cluster.add_pod(name, requests={"cpu": "1"}, priority=10, node_name="n")
    pod_group(cluster, "g", priority=100, minimum=3, whole=True)
    members(cluster, "g", 3, priority=100)
    await framework.settle()
    assert len(gone(cluster)) == 3
    assert Counting.calls == 3


async def test_members_wait_for_the_evictions_of_their_group(cluster: FakeCluster) -> None:
    """PreEnqueue holds them back while an eviction is under way, and the end of the eviction wakes them."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    low(cluster, "n", "low0", "low1")
    pod_group(cluster, "g", priority=100, minimum=2)
    preemption = framework.scheduler.profiles["pyscheduler"].preemptors["DefaultPreemption"]
    uid = uid_of(cluster, "g")
    members(cluster, "g", 2, priority=100)
    held: list[str] = []
    profile = framework.scheduler.profiles["pyscheduler"]
    client = profile.handle.client
    delete = client.delete

    async def look(kind: Any, name: str, namespace: str, **keywords: Any) -> Any:
        status = profile.run_pre_enqueue(cluster.pod("g0"))
        held.append(status.message if status is not None else "")
        assert preemption.is_preempting(uid) == (status is not None)
        return await delete(kind, name, namespace, **keywords)

    client.delete = look  # type: ignore[method-assign]
    await framework.settle()
    assert held == ["waiting for the preemption for this pod group to be finished"] * 2
    await cluster.clock.advance(15)
    assert states(framework, named("g", 2)) == {"bound": 2}


async def test_a_retry_while_victims_end_keeps_victims_and_nodes(cluster: FakeCluster) -> None:
    """A group that is retried before its victims are gone evicts nobody else, and its members stay nominated."""
    for name in ("a", "b", "c"):
        cluster.add_node(name, allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=f"{GATES},SchedulerAsyncPreemption=false")
    for number in range(5):
        cluster.add_pod(f"low{number}", requests={"cpu": "1"}, priority=number, node_name="abc"[number // 2])
    pod_group(cluster, "g", priority=100, minimum=3)
    members(cluster, "g", 3, priority=100)
    await framework.settle()
    assert gone(cluster) == {"low0", "low1"}

    def nominated() -> list[str]:
        return sorted(cluster.pod(name).status.nominated_node_name for name in named("g", 3))

    assert nominated() == ["a", "a", "c"]
    await cluster.clock.advance(20)
    assert nominated() == ["a", "a", "c"]
    assert set(notes(cluster)) == {"low0", "low1"}
    cluster.delete_pod("low0")
    cluster.delete_pod("low1")
    await cluster.clock.advance(20)
    assert states(framework, named("g", 3)) == {"bound": 3}


async def test_a_failed_eviction_wakes_all_members(cluster: FakeCluster) -> None:
    """Members that came during the evictions are activated, too; the next cycle evicts what is left."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(feature_gates=GATES)
    low(cluster, "n", *named("low", 3))
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low", delay_seconds=3.0, status=403, times=3))
    pod_group(cluster, "g", priority=100, minimum=2)
    members(cluster, "g", 2, priority=100)
    await framework.settle()
    await cluster.clock.advance(1)
    cluster.add_pod("late", requests={"cpu": "1"}, priority=100, spec=member_of("g"))
    await framework.settle()
    queued = framework.scheduler.queue.get(cluster.pod("late").uid)
    assert queued is not None
    assert queued.gating_plugin == "DefaultPreemption"
    await cluster.clock.advance(45)
    assert states(framework, [*named("g", 2), "late"]) == {"bound": 3}
    assert left(cluster) == {*named("g", 2), "late"}


async def test_with_evictions_in_the_cycle_a_failure_is_an_error_of_the_group(cluster: FakeCluster) -> None:
    """All members get the error, and the group is retried after its backoff."""
    cluster.add_node("n", allocatable={"cpu": "1"})
    framework = cluster.framework(feature_gates=f"{GATES},SchedulerAsyncPreemption=false")
    low(cluster, "n", "low")
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low", status=403, times=1))
    pod_group(cluster, "g", priority=100, minimum=1)
    members(cluster, "g", 1, priority=100)
    await framework.settle()
    assert "injected fault" in framework.result("g0").message
    assert condition(cluster, "g")[1] == "SchedulerError"
    await cluster.clock.advance(15)
    assert framework.result("g0").bound
    assert condition(cluster, "g")[0] == "True"


async def test_a_count_that_misleads_is_not_used(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the last of the counted victims is not needed, the search tries the units."""

    async def victims(_self: object, units: Sequence[VictimUnit], _turns: object) -> list[VictimUnit]:
        return list(units)

    monkeypatch.setattr(PlaceCounts, "victims", victims)
    cluster.add_node("n", allocatable={"cpu": "4"})
    framework = cluster.framework(feature_gates=GATES)
    low(cluster, "n", *named("low", 4))
    pod_group(cluster, "g", priority=100, minimum=2)
    members(cluster, "g", 2, priority=100)
    await framework.settle()
    assert set(notes(cluster)) == {"low2", "low3"}
