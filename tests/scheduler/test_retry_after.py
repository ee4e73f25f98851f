"""`Status.retry_after_seconds`: a rejected pod is retried at the moment that its plugin gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from pyscheduler.api import Pod
from pyscheduler.cli.explain_json import answer_json
from pyscheduler.framework import (
    ClusterEventWithHint,
    Code,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    GroupCyclePlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PermitPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    Reuse,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import FakeCluster, FakeFramework


@pytest.fixture(name="cluster")
def _cluster(cluster: FakeCluster) -> FakeCluster:
    """Give a cluster of two nodes."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    return cluster


class Timed(EnqueueExtensions):
    """Opens at the wall time in the pod's label, by point and node; no event helps its pods."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.tries: Counter[str] = Counter()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return []

    def closed(self, pod: Pod, what: str, code: Code = Code.UNSCHEDULABLE) -> Status | None:
        """Return the rejection while `what` is closed for the pod, with the seconds until it opens."""
        self.tries[pod.name] += 1
        opens = float(pod.labels.get(what, "0"))
        missing = opens - (self.handle.clock.now() - 1000.0)
        return Status(code, f"{what} is closed", retry_after_seconds=missing) if missing > 0 else None


class Doors(Timed, PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, PermitPlugin):
    """Opens later at each extension point whose name the pod has as a label."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return self.closed(pod, "queue")

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return self.closed(pod, "pod")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self.closed(pod, node.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self.closed(pod, "permit")


class Patient(Timed, FilterPlugin):
    """Rejects as PENDING."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return self.closed(pod, "pending", Code.PENDING)


def count_incoming(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[str, str]]:
    """Count what scheduler_queue_incoming_pods_total counts, by queue and event."""
    counts: Counter[tuple[str, str]] = Counter()

    def count(_self: NullRecorder, family: str, *labels: str) -> None:
        if family == "scheduler_queue_incoming_pods_total":
            queue, event = labels
            counts[queue, event] += 1

    monkeypatch.setattr(NullRecorder, "count", count)
    return counts


def at(framework: FakeFramework) -> float:
    """Return the seconds since the start of the test."""
    return framework.cluster.clock.now() - 1000.0


async def bound_at(framework: FakeFramework, name: str, times: Iterable[float]) -> float | None:
    """Return the first of these moments at which the pod is bound."""
    for moment in times:
        await framework.cluster.clock.advance(moment - at(framework))
        if framework.result(name).bound:
            return moment
    return None


@pytest.mark.parametrize("point", ["queue", "pod", "permit"])
async def test_pod_is_retried_when_the_time_has_come(cluster: FakeCluster, point: str) -> None:
    """A pod that a plugin rejects until a moment is bound at this moment, without an event, and not earlier."""
    framework = cluster.framework(enable=[Doors])
    first = await framework.schedule("p", labels={point: "90.25"})
    assert first.state == ("gated" if point == "queue" else "pending")
    tries = framework.plugin("Doors").tries["p"]  # type: ignore[attr-defined] # its own counter
    assert await bound_at(framework, "p", (60, 90.24)) is None
    assert framework.plugin("Doors").tries["p"] == tries, "nothing retried it earlier"  # type: ignore[attr-defined] # same
    assert await bound_at(framework, "p", (90.25,)) == 90.25


async def test_the_earliest_node_counts(cluster: FakeCluster) -> None:
    """Of several nodes that open at different times, the first one gets the pod when it opens."""
    framework = cluster.framework(enable=[Doors])
    await framework.schedule("p", labels={"n1": "200", "n2": "100"})
    assert await bound_at(framework, "p", (99, 100)) == 100
    assert framework.result("p").node == "n2"


async def test_the_earliest_plugin_counts(cluster: FakeCluster) -> None:
    """If two plugins reject nodes until different moments, the pod is retried at the earlier one, then at the later."""

    class Other(Timed, FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return self.closed(pod, f"other-{node.name}")

    framework = cluster.framework(enable=[Doors, Other])
    await framework.schedule("p", labels={"n1": "120", "n2": "0", "other-n2": "60", "other-n1": "150", "permit": "100"})
    retried = framework.plugin("Doors").tries  # type: ignore[attr-defined] # its own counter
    before = retried["p"]
    await cluster.clock.advance(60)
    assert retried["p"] > before
    assert await bound_at(framework, "p", (99, 100)) == 100


async def test_retry_is_an_event_of_the_queue(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The move counts in scheduler_queue_incoming_pods_total, under the event RetryAfter."""
    incoming = count_incoming(monkeypatch)
    framework = cluster.framework(enable=[Doors])
    await framework.schedule("p", labels={"pod": "30"})
    await cluster.clock.advance(30)
    assert framework.result("p").bound
    assert incoming["active", "RetryAfter"] == 1


@pytest.mark.parametrize("after", [0.0, -5.0, 0.001])
async def test_immediate_retry_does_not_spin(cluster: FakeCluster, after: float) -> None:
    """A plugin that asks for a retry at once gets one attempt a second at most."""

    class Hasty(Timed, PreFilterPlugin):
        def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
            self.tries[pod.name] += 1
            return Status.unschedulable("never", retry_after=after)

    framework = cluster.framework(enable=[Hasty])
    await framework.schedule("p")
    await cluster.clock.advance(20)
    tries = framework.plugin("Hasty").tries["p"]  # type: ignore[attr-defined] # its own counter
    assert 2 <= tries <= 21


async def test_pending_pod_skips_its_backoff_at_the_moment(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After several failures, a pod that was rejected as PENDING goes to activeQ at its moment and not to backoffQ."""
    incoming = count_incoming(monkeypatch)
    framework = cluster.framework(enable=[Patient])
    await framework.schedule("p", labels={"pending": "5"})
    for _ in range(4):
        framework.profile.handle.activate([framework.result("p").pod])
        await framework.settle()
    assert framework.scheduler.queue.get(framework.result("p").pod.uid).unschedulable_count == 5  # type: ignore[union-attr] # it waits
    await cluster.clock.advance(5)
    assert framework.result("p").bound
    assert incoming["active", "RetryAfter"] == 1
    assert incoming["backoff", "RetryAfter"] == 0


async def test_moment_is_dropped_with_the_pod(cluster: FakeCluster) -> None:
    """A pod that is deleted before its moment is not retried; a pod of the same name has its own moment."""
    framework = cluster.framework(enable=[Doors])
    await framework.schedule("p", labels={"pod": "50"})
    cluster.delete_pod("p")
    await framework.schedule("p", labels={"pod": "80"})
    tries = framework.plugin("Doors").tries["p"]  # type: ignore[attr-defined] # its own counter
    await cluster.clock.advance(79)
    assert framework.plugin("Doors").tries["p"] == tries  # type: ignore[attr-defined] # same
    await cluster.clock.advance(1)
    assert framework.result("p").bound


async def test_event_before_the_moment_replaces_it(cluster: FakeCluster) -> None:
    """A retry for another reason sets a new moment, or none; the old one has no effect."""
    framework = cluster.framework(enable=[Doors])
    await framework.schedule("p", labels={"pod": "50"})
    cluster.patch(Pod, "p", {"metadata": {"labels": {"pod": "70"}}})
    framework.profile.handle.activate([framework.result("p").pod])
    await framework.settle()
    tries = framework.plugin("Doors").tries["p"]  # type: ignore[attr-defined] # its own counter
    await cluster.clock.advance(60)
    assert framework.plugin("Doors").tries["p"] == tries  # type: ignore[attr-defined] # same
    await cluster.clock.advance(10)
    assert framework.result("p").bound


async def test_group_is_retried_when_the_time_of_one_member_has_come(cluster: FakeCluster) -> None:
    """In a group cycle, the moment of the member that does not fit yet brings the whole group back."""

    class Together(Timed, GroupCyclePlugin, FilterPlugin, PermitPlugin):
        tries_again = False

        def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
            return {"all": [each for each in self.handle.lister(Pod) if not each.node_name]}

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return self.closed(pod, "member")

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            if state.trial is None:
                return None
            return None if len(state.trial.placed("all")) == 3 else Status.wait("others", timeout=60)

    framework = cluster.framework(enable=[Together])
    cluster.add_pod("a")
    cluster.add_pod("b", labels={"member": "40"})
    await framework.schedule("c")
    assert [framework.result(name).state for name in "abc"] == ["pending"] * 3
    await cluster.clock.advance(39)
    assert [framework.result(name).state for name in "abc"] == ["pending"] * 3
    await cluster.clock.advance(1)
    assert [framework.result(name).state for name in "abc"] == ["bound"] * 3


async def test_answers_with_a_retry_are_not_cached(cluster: FakeCluster) -> None:
    """A filter that declares `reuse` is called for each pod while its rejections say when to retry."""

    class Cached(FilterPlugin, SignPlugin):
        reuse = Reuse.WHILE_NODE_STAYS

        def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
            missing = 100 - (self.handle.clock.now() - 1000)
            closed = np.full(len(nodes), missing > 0)
            return NodeStatuses.failing(closed, Status.unschedulable("closed", retry_after=missing))

        def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
            return ()

    framework = cluster.framework(enable=[Cached])
    await framework.schedule("a")
    await cluster.clock.advance(60)
    await framework.schedule("b")
    await cluster.clock.advance(40)
    assert framework.result("a").bound
    assert framework.result("b").bound, "its moment is 40 s after its attempt and not 100"


async def test_explain_and_the_queue_show_the_moment(cluster: FakeCluster) -> None:
    """The answer of `explain` and the dump of the queue say in how many seconds the pod is retried."""
    framework = cluster.framework(enable=[Doors])
    pod = (await framework.schedule("p", labels={"n1": "200", "n2": "100"})).pod
    answer: dict[str, Any] = answer_json(await evaluate(framework.scheduler, framework.profile, pod))
    assert answer["filter"]["n1"]["retryAfterSeconds"] == 200
    assert answer["filter"]["n2"]["retryAfterSeconds"] == 100
    (line,) = framework.scheduler.queue.dump()
    assert line["retrySeconds"] == 100.0


def test_seconds_must_be_a_number() -> None:
    """NaN is refused where the status is made, because no timer could be set for it."""
    with pytest.raises(ValueError, match="not a number"):
        Status.unschedulable(retry_after=float("nan"))
    assert Status.unschedulable("x", retry_after=1) != Status.unschedulable("x")
    assert Status.unresolvable("x", retry_after=1).with_plugin("P").retry_after_seconds == 1


class MakesRoom(PostFilterPlugin):
    """Begins to make room, and says when it will be there; `after` by plugin."""

    after = 40.0

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return None, Status.unschedulable("room is being made", retry_after=self.after)


class MakesRoomSooner(MakesRoom):
    """The same, sooner."""

    after = 25.0


class Full(FilterPlugin):
    """Rejects all nodes for half a minute, and registers no event."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if self.handle.clock.now() >= 1024 else Status.unschedulable("full")

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []


async def test_post_filter_says_when_its_room_is_there(cluster: FakeCluster) -> None:
    """The pod is retried at the earliest moment that a PostFilter plugin gave."""
    framework = cluster.framework(enable=[Full, MakesRoom, MakesRoomSooner], disable=["DefaultPreemption"])
    await framework.schedule("p")
    await cluster.clock.advance(24)
    assert not framework.result("p").bound
    await cluster.clock.advance(2)
    assert framework.result("p").bound
