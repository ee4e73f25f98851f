"""Warnings of the test kit: a plugin that works, and yet is slow, or was never really tried."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import ClassVar

import pytest

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    FilterPlugin,
    Handle,
    NodeStatuses,
    Pod,
    PostBindPlugin,
    PreFilterPlugin,
    Status,
)
from pyscheduler.api import KubeObject, ResourceKind, kind_of
from pyscheduler.framework import NodeInfo, Nodes, PolicyRule, PreBindPlugin
from pyscheduler.testing import Draft, FakeCluster, PluginWarning, Step, check_plugin, watched_calls
from pyscheduler.testing.checks import check
from pyscheduler.testing.plugin_errors import unawaited_coroutines


class Booking(KubeObject, frozen=True):
    """An object of a custom kind."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Booking"


BOOKINGS = kind_of(Booking, "bookings")


class OnlyTeams(FilterPlugin):
    """Concerns pods with a label that random pods do not have."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("no team here") if "example.com/team" in pod.labels else None


class NeverThere(PreFilterPlugin, FilterPlugin):
    """Skips its filter for each pod without the label."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return None if "example.com/team" in pod.labels else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return None


class Patches(PostBindPlugin):
    """Writes a label, and declares no permission."""

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        await self.handle.client.patch(Pod, pod.name, pod.namespace, patch={"metadata": {"labels": {"seen": "yes"}}})


class Declared(Patches):
    """Declares it."""

    rbac = (PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",)),)


#: So many histories warn here, so that a test need not run twenty.
HISTORIES = 6


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `HISTORIES` histories be enough for a warning."""
    monkeypatch.setattr(check, "_ENOUGH", HISTORIES)


def draw_teams(rng: random.Random, draft: Draft) -> None:
    """Give pods the label."""
    draft.pod_labels["example.com/team"] = ["a", "b"]


@pytest.mark.slow
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("plugin", "warning"),
    [
        pytest.param(OnlyTeams, "gave only the default answer at Filter", id="default answer"),
        pytest.param(NeverThere, "was never called at Filter", id="never called"),
    ],
)
def test_check_plugin_warns_of_a_plugin_that_no_pod_concerned(plugin: type[FilterPlugin], warning: str) -> None:
    """All checks pass, and the warning says how to draw pods that concern the plugin."""
    with pytest.warns(PluginWarning, match=f'plugin "{plugin.name}" {warning}.* in a test, let draw= add'):
        check_plugin(plugin, histories=HISTORIES, checks=["statuses"])


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_check_plugin_counts_calls_and_answers() -> None:
    """With the right pods there is no warning, and the result has the numbers of each extension point."""
    result = check_plugin(OnlyTeams, histories=HISTORIES, checks=["statuses"], draw=draw_teams)
    assert result.calls["Filter"] > result.acted["Filter"] > 0
    assert not result.advice
    assert f"Filter: {result.calls['Filter']:,} calls, {result.acted['Filter']:,} with an answer" in str(result)


def test_check_plugin_warns_of_requests_without_permission() -> None:
    """The advice names verb, resource and rule; a plugin that declares the rule gets none."""
    history = [Step("add_node", "n1"), Step("add_pod", "p1")]
    result = check_plugin(Patches, histories=[history], checks=["statuses"])
    (advice,) = result.advice
    assert advice == (
        'plugin "Patches" sends "patch" requests for pods, which no `rbac` grants, so a cluster refuses them; '
        'add PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",)) to its `rbac`'
    )
    assert not check_plugin(Declared, histories=[history], checks=["statuses"]).advice


def test_few_histories_need_not_try_everything() -> None:
    """A short run does not warn; its result has the advice."""
    assert 1 < HISTORIES < check._ENOUGH
    result = check_plugin(NeverThere, histories=1, checks=["statuses"])
    assert "was never called at Filter" in result.advice[0]


@pytest.mark.parametrize(
    ("watches", "resource", "words"),
    [
        pytest.param((), "configmap.v1.", 'which is no plural.version.group.*did you mean "configmaps.v1."', id="core"),
        pytest.param((), "bookings.v1", "declare the kind in `watches`", id="without group"),
        pytest.param(
            (BOOKINGS,), "booking.v1.example.com", 'which no plugin watches; did you mean "bookings.v1.', id="singular"
        ),
        pytest.param((BOOKINGS,), "bookings.v1.example.com", "", id="right"),
        pytest.param((), "bookings.v1.example.com", "", id="by name"),
    ],
)
async def test_a_misspelt_resource_of_events_is_a_warning(
    pyscheduler_cluster: FakeCluster, watches: Sequence[ResourceKind], resource: str, words: str
) -> None:
    """Events of a kind that nobody watches never come; the warning names the plugin and the nearest name."""

    class Booked(FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None

        def events_to_register(self) -> Sequence[ClusterEventWithHint]:
            return [ClusterEventWithHint(ClusterEvent(resource, ActionType.ADD))]

    Booked.watches = watches
    framework = pyscheduler_cluster.framework(enable=[Booked])
    if not words:
        assert not framework.plugin_warnings
        return
    with pytest.warns(PluginWarning, match=f'plugin "Booked" registers events of "{resource}", .*{words}'):
        pyscheduler_cluster.warn_of_plugins()
    framework.allow_plugin_errors = True


async def test_slow_calls_are_named(pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock stands still in a call, and the kit still tells how long the call took."""
    now = SimpleNamespace(wall=0.0, cpu=0.0, pauses=0)
    clock = SimpleNamespace(perf_counter=lambda: now.wall, thread_time=lambda: now.cpu)
    monkeypatch.setattr(watched_calls, "time", clock)
    monkeypatch.setattr(watched_calls, "_pauses", lambda: now.pauses)
    #: Wall time, CPU time and pauses of the next call.
    costs = iter([(0.15, 0.0, 1), (0.5, 0.0, 0), (0.3, 0.3, 0), (0.05, 0.05, 5)])

    class Slow(FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            wall, cpu, pauses = next(costs)
            now.wall, now.cpu, now.pauses = now.wall + wall, now.cpu + cpu, now.pauses + pauses
            return None

    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Slow], allow_plugin_errors=True)
    for name in "abcd":
        await framework.schedule(name)

    # The second call was delayed by the machine, the last is fast.
    (text,) = framework.plugin_warnings
    assert text.startswith('plugin "Slow" is slow at Filter: 300 ms in one call, 2 calls of over 100 ms; the scheduler')


class Blocking(PreBindPlugin, PostBindPlugin):
    """Calls `block` in one of the places that are no extension point up to Permit."""

    place: ClassVar[str] = ""
    clock: ClassVar[SimpleNamespace]

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_add=self.pod_added)

    def block(self, place: str) -> None:
        """Take 300 ms of CPU time in the place of this test."""
        if place == self.place:
            self.clock.wall += 0.3
            self.clock.cpu += 0.3

    def pod_added(self, pod: Pod) -> None:
        self.block("EventHandler")
        self.handle.spawn(self.work())

    async def work(self) -> None:
        await self.handle.clock.sleep(0)
        self.block("Task")

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        await self.handle.clock.sleep(0)
        self.block("PreBind")

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.block("PostBind")

    async def run(self) -> None:
        while True:
            await self.handle.clock.sleep(1)
            self.block("run")


@pytest.mark.parametrize("place", ["EventHandler", "Task", "PreBind", "PostBind", "run"])
async def test_blocking_outside_of_the_scheduling_cycle_is_named(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The warning names the place, whether a plain method blocks or one step of a coroutine; waiting is no blocking."""
    now = SimpleNamespace(wall=0.0, cpu=0.0)
    clock = SimpleNamespace(perf_counter=lambda: now.wall, thread_time=lambda: now.cpu)
    monkeypatch.setattr(watched_calls, "time", clock)
    monkeypatch.setattr(Blocking, "place", place)
    monkeypatch.setattr(Blocking, "clock", now, raising=False)
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[Blocking], allow_plugin_errors=True)
    assert (await framework.schedule("p")).bound
    await pyscheduler_cluster.clock.advance(1)

    (text,) = framework.plugin_warnings
    assert text.startswith(f'plugin "Blocking" is slow at {place}: 300 ms in one call; the scheduler does nothing else')


async def never_awaited() -> None:
    """Do nothing."""


def leave_coroutine() -> None:
    """Leave a coroutine in a cycle, which only the garbage collector frees."""
    cycle: list[object] = [never_awaited()]
    cycle.append(cycle)


def test_a_coroutine_in_a_cycle_is_reported_in_its_own_test() -> None:
    """What an earlier test left is not reported, and what this one leaves is reported before the next begins."""
    gc.disable()
    try:
        leave_coroutine()
        with unawaited_coroutines() as earlier:
            pass
        with unawaited_coroutines() as own:
            leave_coroutine()
    finally:
        gc.enable()
    assert not earlier
    assert len(own) == 1
    assert "never_awaited" in own[0]
