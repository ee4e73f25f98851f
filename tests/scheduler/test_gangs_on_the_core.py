"""What the core offers plugins for groups, used by a gang plugin as small as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod
from pyscheduler.framework import (
    AFTER_FAILURE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    Handle,
    NodeStatuses,
    PermitPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    Status,
)
from pyscheduler.testing import FakeCluster, FakeFramework


@pytest.fixture(name="cluster")
def _cluster(cluster: FakeCluster) -> FakeCluster:
    """Return the test kit's cluster."""
    return cluster


GATES = pytest.mark.parametrize(
    "gates",
    [
        pytest.param("SchedulerPopFromBackoffQ=false", id="backoff"),
        pytest.param("SchedulerPopFromBackoffQ=true", id="pop from backoff"),
    ],
)


def group_of(pod: Pod) -> str | None:
    """Return the gang a pod is labelled with."""
    return pod.labels.get("gang")


class Tiny(PreFilterPlugin, PostFilterPlugin, ReservePlugin, PermitPlugin, EnqueueExtensions):
    """All or nothing for pods with the label `gang`, which need as many as `min` says; others it leaves alone."""

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        options = args if isinstance(args, dict) else {}
        self.wait_seconds = float(options.get("wait", 60))
        self.is_quiet = bool(options.get("quiet", True))
        self.max_permit_wait_seconds = float(options.get("limit", 900))
        assert handle is not None
        self.waiting = handle.index_waiting_pods(group_of)
        self.attempts: Counter[str] = Counter()
        self.ends: list[tuple[str, str, str]] = []

    def events_to_register(self) -> list[ClusterEventWithHint]:
        # As rash as can be: whatever is released anywhere wakes every pod that was rolled back.
        released = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
        return [
            ClusterEventWithHint(released),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
        ]

    def members(self, group: str) -> list[Pod]:
        return [pod for pod in self.handle.lister(Pod) if group_of(pod) == group]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> PreFilterResult | Status | None:
        group = group_of(pod)
        self.attempts[pod.name] += 1
        if group is not None and self.is_quiet:
            after = state.read(AFTER_FAILURE)
            after.serve_backoff = True
            after.ignored_by = lambda other: group_of(other) == group
        return None

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        self.reject_all(group_of(pod), f"{pod.name} fits nowhere")
        return None, Status.unschedulable("no room for all")

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        group = group_of(pod)
        if group is None:
            return None
        members = self.members(group)
        bound = sum(1 for member in members if member.node_name)
        if bound + self.waiting.count(group) + 1 >= int(pod.labels["min"]):
            for held in self.waiting.of(group):
                held.allow(self.name)
            return None
        self.handle.activate(members)
        return Status.wait(timeout=self.wait_seconds)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        verdict = self.handle.wait_verdict(pod.uid)
        if verdict is not None:
            message = verdict.status.message if verdict.status is not None else ""
            self.ends.append((pod.name, f"{verdict.cause} {verdict.plugin}".strip(), message))
        self.reject_all(group_of(pod), f"{pod.name} gave up its place")

    def reject_all(self, group: str | None, reason: str) -> None:
        for held in self.waiting.of(group):
            held.reject(self.name, reason)


def tiny(framework: FakeFramework) -> Tiny:
    """Return the plugin."""
    plugin = framework.plugin("Tiny")
    assert isinstance(plugin, Tiny)
    return plugin


def gang(cluster: FakeCluster, name: str, count: int, *, minimum: int) -> None:
    """Create pods of 1 CPU."""
    for number in range(count):
        cluster.add_pod(f"{name}{number}", requests={"cpu": "1"}, labels={"gang": name, "min": str(minimum)})


def states(framework: FakeFramework, names: Iterable[str]) -> Counter[str]:
    """Count the pods by what became of them."""
    return Counter(framework.result(name).state for name in names)


@GATES
async def test_a_gang_one_place_short_costs_at_most_two_attempts_per_pod_and_event(
    cluster: FakeCluster, gates: str
) -> None:
    """Its own rollback wakes nobody of it, however rash the hints; an event from outside does, once more."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(enable=[Tiny], feature_gates=gates)
    gang(cluster, "g", 4, minimum=4)
    await framework.settle()
    await cluster.clock.advance(120)
    names = [f"g{number}" for number in range(4)]
    plugin = tiny(framework)
    assert states(framework, names) == {"pending": 4}
    assert max(plugin.attempts.values()) <= 2, plugin.attempts
    for event in range(3):
        plugin.attempts.clear()
        cluster.add_node(f"too-small-{event}", allocatable={"cpu": "500m"})
        await cluster.clock.advance(120)
        assert states(framework, names) == {"pending": 4}
        assert max(plugin.attempts.values()) <= 2, plugin.attempts
    assert plugin.attempts["g0"] > 0, "an event from outside is worth an attempt"
    cluster.add_node("enough", allocatable={"cpu": "1"})
    await cluster.clock.advance(60)
    assert states(framework, names) == {"bound": 4}


async def test_without_quiet_a_gang_wakes_itself_for_ever(cluster: FakeCluster) -> None:
    """The trap that `ignored_by` is there for: with the gate off the same gang is tried again after every backoff."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(
        enable=[Tiny], args={"Tiny": {"quiet": False}}, feature_gates="SchedulerPopFromBackoffQ=false"
    )
    gang(cluster, "g", 4, minimum=4)
    await framework.settle()
    await cluster.clock.advance(120)
    assert max(tiny(framework).attempts.values()) > 5


@pytest.mark.slow
@GATES
async def test_two_gangs_that_wake_each_other_serve_their_backoff(cluster: FakeCluster, gates: str) -> None:
    """What one gives back is news to the other; no instant has more than one attempt of a pod, popped early or not."""
    cluster.add_node("n", allocatable={"cpu": "3"})
    framework = cluster.framework(enable=[Tiny], feature_gates=gates)
    gang(cluster, "a", 4, minimum=4)
    gang(cluster, "b", 4, minimum=4)
    await framework.settle()
    plugin = tiny(framework)
    assert max(plugin.attempts.values()) <= 2, plugin.attempts
    await cluster.clock.advance(60)
    assert states(framework, plugin.attempts) == {"pending": 8}
    # 1 + 2 + 4 + 8 seconds of backoff, then 10 each; and whoever waits first activates its siblings.
    assert max(plugin.attempts.values()) <= 16, plugin.attempts


@pytest.mark.slow
@GATES
async def test_a_plugin_may_allow_from_permit_and_reject_from_unreserve(cluster: FakeCluster, gates: str) -> None:
    """Three hundred members end each other's waits without recursion, each once, and later bind in one go."""
    cluster.add_node("n", allocatable={"cpu": "299", "pods": "1000"})
    framework = cluster.framework(enable=[Tiny], feature_gates=gates)
    gang(cluster, "g", 299, minimum=300)
    await framework.settle()
    plugin = tiny(framework)
    assert plugin.waiting.count("g") == 299
    cluster.delete_pod("g7")
    await framework.settle()
    assert plugin.waiting.count("g") == 0
    assert Counter(name for name, _, _ in plugin.ends) == {f"g{number}": 1 for number in range(299)}
    assert Counter(cause for _, cause, _ in plugin.ends) == {"deleted": 1, "rejected Tiny": 298}
    cluster.add_node("m", allocatable={"cpu": "2", "pods": "10"})
    cluster.add_pod("g7", requests={"cpu": "1"}, labels={"gang": "g", "min": "300"})
    cluster.add_pod("g299", requests={"cpu": "1"}, labels={"gang": "g", "min": "300"})
    await cluster.clock.advance(30)
    assert states(framework, [f"g{number}" for number in range(300)]) == {"bound": 300}


async def test_unreserve_is_told_why_a_wait_ended(cluster: FakeCluster) -> None:
    """Allowed and then not bound, rejected and by whom, out of time, deleted, preempted, stopped."""
    cluster.add_node("n", allocatable={"cpu": "10"})
    framework = cluster.framework(enable=[Tiny], args={"Tiny": {"wait": 30}})
    plugin = tiny(framework)
    for name in ("allowed", "rejected", "late", "deleted", "preempted", "stopped"):
        gang(cluster, name, 1, minimum=2)
    await framework.settle()
    held = {group: plugin.waiting.of(group)[0] for group in plugin.waiting.groups()}
    assert len(held) == 6
    cluster.server.faults.add(Fault(path=r"/allowed0/binding$", status=400, times=1))
    held["allowed"].allow("Tiny")
    held["allowed"].reject("NodeName", "too late")
    held["rejected"].reject("NodeName", "not you")
    held["rejected"].allow("Tiny")
    held["preempted"].preempt("DefaultPreemption", "make room")
    cluster.delete_pod("deleted0")
    await framework.settle()
    ends = {name: (cause, message) for name, cause, message in plugin.ends}
    assert ends == {
        "allowed0": ("allowed Tiny", ""),
        "rejected0": ("rejected NodeName", "not you"),
        "preempted0": ("preempted DefaultPreemption", "make room"),
        "deleted0": ("deleted", "removed"),
    }
    plugin.ends.clear()
    await cluster.clock.advance(30)
    ends = {name: (cause, message) for name, cause, message in plugin.ends}
    assert ends["late0"] == ("timeout Tiny", "rejected due to timeout after waiting 30s at plugin Tiny")
    await cluster.clock.advance(20)
    assert plugin.waiting.count("stopped") == 1
    plugin.ends.clear()
    await cluster.close()
    ends = {name: (cause, message) for name, cause, message in plugin.ends}
    assert ends["stopped0"] == ("stopped", "the scheduler has stopped")


@pytest.mark.parametrize(
    ("limit", "seconds", "text"),
    [pytest.param(900, 900, "15m0s", id="cut"), pytest.param(7200, 3600, "1h0m0s", id="in full")],
)
async def test_koordinator_1919_a_wait_lasts_as_long_as_was_asked_for(
    cluster: FakeCluster, limit: int, seconds: int, text: str
) -> None:
    """An hour is an hour for a plugin that says it needs more than 15 minutes, and 15 minutes for one that does not."""
    cluster.add_node("n", allocatable={"cpu": "10"})
    framework = cluster.framework(enable=[Tiny], args={"Tiny": {"wait": 3600, "limit": limit}})
    gang(cluster, "g", 1, minimum=2)
    await framework.settle()
    await cluster.clock.advance(seconds - 1)
    assert framework.result("g0").state == "waiting"
    await cluster.clock.advance(1)
    assert tiny(framework).ends == [
        ("g0", "timeout Tiny", f"rejected due to timeout after waiting {text} at plugin Tiny")
    ]


async def test_koordinator_1544_nothing_is_scheduled_before_every_watch_has_synchronised(cluster: FakeCluster) -> None:
    """A node that is full is not taken for an empty one because its pods are listed late."""
    cluster.add_node("n", allocatable={"cpu": "1"})
    cluster.add_pod("there", requests={"cpu": "1"}, node_name="n")
    cluster.add_pod("new", requests={"cpu": "1"})
    late = cluster.server.faults.add(Fault(method="GET", path=r"/pods$", status=503, times=4))
    framework = cluster.framework()
    scheduler = framework.scheduler
    began = cluster.clock.now()
    synced: list[tuple[float, int]] = []
    scheduler.pods.add_event_handler(
        on_add=lambda _pod: synced.append((cluster.clock.now(), scheduler.cycles)),
        on_update=lambda _old, _new: None,
        on_delete=lambda _pod: None,
    )
    await framework.settle()
    assert late.hits == 4
    assert all(moment > began and cycles == 0 for moment, cycles in synced)
    assert len(synced) == 2
    assert framework.result("new").state == "pending"
    assert scheduler.cycles == 1


async def test_activating_what_waits_is_bound_or_unknown_does_nothing(cluster: FakeCluster) -> None:
    """A waiting pod does not remember that it was named: when its wait ends badly, it stays unschedulable."""
    cluster.add_node("n", allocatable={"cpu": "10"})
    framework = cluster.framework(enable=[Tiny])
    plugin = tiny(framework)
    gang(cluster, "g", 1, minimum=2)
    cluster.add_pod("bound", requests={"cpu": "1"})
    cluster.add_pod("gated", requests={"cpu": "1"}, scheduling_gates=["example.com/later"])
    await framework.settle()
    attempts = dict(plugin.attempts)
    queue = framework.scheduler.queue
    pods = {pod.name: pod for pod in cluster.pods()}
    events = len(queue.in_flight.counts())
    for _ in range(3):
        plugin.handle.activate([*pods.values(), cluster.pod("g0").with_node_name("elsewhere")])
    await framework.settle()
    assert plugin.attempts == attempts
    assert len(queue.in_flight.counts()) == events
    assert states(framework, pods) == {"waiting": 1, "bound": 1, "gated": 1}
    plugin.reject_all("g", "enough")
    await cluster.clock.advance(60)
    assert plugin.attempts == attempts
    assert framework.result("g0").state == "pending"
