"""A profile as a whole: its handle, its measurements, its life, and what a cycle costs."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.api import Node, Pod
from pyscheduler.framework import (
    Code,
    CycleState,
    ExtensionPoint,
    FilterPlugin,
    Handle,
    NodeInfo,
    PermitPlugin,
    Plugin,
    PluginError,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Status,
)
from pyscheduler.framework.profile import EnabledPlugin, PluginSet, ProfileSpec
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.profile import Profile
from pyscheduler.testing.builders import make_node, make_pod

#: The default profile's plugins that look at nodes, in its order.
IN_TREE = (
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "DefaultBinder",
)


def as_handle(profile: Profile) -> Handle:
    """Return the handle of a profile's plugins; mypy checks it."""
    return profile.handle


def test_a_plugin_reaches_the_services_through_its_handle(kit: Any) -> None:
    """What the scheduler handed to the profile is what its plugins see."""
    profile = kit.profile()
    handle = as_handle(profile)
    assert handle.profile_name == "pyscheduler" == profile.name
    assert handle.snapshot is kit.snapshot
    assert handle.clock is kit.clock
    assert handle.recorder is kit.recorder
    assert handle.nominator is kit.nominator
    assert handle.client is kit.services.client
    assert handle.feature_gates is kit.services.feature_gates
    assert handle.event_recorder.controller == "pyscheduler"  # type: ignore[attr-defined]  # the kit's own
    pod = make_pod("p")
    handle.activate([pod])
    assert kit.activated == [pod]
    with pytest.raises(PluginError, match="Node is not watched"):
        handle.lister(Node)
    handle.add_route("/x", dict)
    assert kit.services.routes.answer("/x", {"a": "b"}) == {"a": "b"}


def test_waiting_pods_of_all_profiles_are_seen(kit: Any) -> None:
    """The map is one per process: a plugin may allow or reject pods of another profile."""
    one = kit.profile(name="one")
    two = Profile.build(kit.spec("Sort", "Binder", name="two"), kit.registry, kit.services)
    pod = make_pod("p")
    held = one.add_waiting_pod(pod, "n1", {"A": 10.0})
    assert held.profile_name == "one"
    assert two.handle.get_waiting_pod(pod.uid) is held
    assert list(two.handle.waiting_pods()) == [held]
    assert one.will_wait_on_permit(pod)
    assert two.handle.reject_waiting_pod(pod.uid, plugin="X", reason="no")
    assert not two.handle.reject_waiting_pod("nobody")


async def test_unreserve_can_ask_how_the_wait_ended(kit: Any) -> None:
    """The verdict is known while Unreserve runs, and forgotten with the binding cycle."""
    seen: list[str] = []

    class Group(ReservePlugin):
        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
            return None

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            verdict = self.handle.wait_verdict(pod.uid)
            seen.append(verdict.cause if verdict is not None else "")

    profile = kit.profile(Group)
    pod, state = make_pod("p"), CycleState()
    profile.add_waiting_pod(pod, "n1", {"A": 10.0})
    wait = asyncio.create_task(profile.wait_on_permit(pod))
    await kit.clock.advance(10)
    status = await wait
    assert status is not None
    profile.run_unreserve(state, pod, "n1")
    assert seen == ["timeout"]
    assert profile.handle.wait_verdict(pod.uid) is None


async def test_a_bound_pod_leaves_nothing_behind(kit: Any) -> None:
    """After PostBind nothing is remembered of the wait."""
    profile = kit.profile()
    pod = make_pod("p")
    profile.add_waiting_pod(pod, "n1", {"A": 10.0}).allow("A")
    assert await profile.wait_on_permit(pod) is None
    assert profile.handle.wait_verdict(pod.uid) is not None
    await profile.run_post_bind(CycleState(), pod, "n1")
    assert profile.handle.wait_verdict(pod.uid) is None


class Everything(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    PostBindPlugin,
):
    """Takes part everywhere and objects to nothing."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> Status | None:
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None

    def post_filter(self, state: CycleState, pod: Pod, statuses: object) -> tuple[PostFilterResult | None, Status]:
        return None, Status.unschedulable("no")

    def pre_score(self, state: CycleState, pod: Pod, nodes: object) -> Status | None:
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 1

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        return


async def run_everything(kit: Any, profile: Profile) -> None:
    """Run every extension point once."""
    pod, state, nodes = make_pod("p"), CycleState(), kit.snapshot.nodes
    assert profile.run_pre_enqueue(pod) is None
    assert profile.run_pre_filter(state, pod, nodes).status is None
    found = profile.find_feasible(state, pod, nodes)
    await profile.run_post_filter(state, pod, profile.run_filters(state, pod, nodes))
    assert profile.run_pre_score(state, pod, nodes) is None
    assert profile.run_score(state, pod, nodes.take(found.rows)).status is None
    assert profile.run_reserve(state, pod, "n1") is None
    assert profile.run_permit(state, pod, "n1")[0] is None
    assert profile.run_pre_bind_pre_flights(state, pod, "n1") is None
    assert await profile.run_pre_bind(state, pod, "n1") is None
    assert await profile.run_bind(state, pod, "n1") is None
    await profile.run_post_bind(state, pod, "n1")
    profile.run_unreserve(state, pod, "n1")


POINTS = [
    "PreEnqueue",
    "PreFilter",
    "Filter",
    "PostFilter",
    "PreScore",
    "Score",
    "Reserve",
    "Permit",
    "PreBindPreFlight",
    "PreBind",
    "Bind",
    "PostBind",
    "Unreserve",
]


async def test_each_extension_point_is_measured_once_per_cycle(kit: Any) -> None:
    """Labels are kube-scheduler's; however many plugins and nodes there are, one measurement is taken."""
    kit.add_nodes("n1", "n2", "n3")
    await run_everything(kit, kit.profile(Everything))
    assert [point for point, _, _ in kit.recorder.points] == POINTS
    assert {point: status for point, status, _ in kit.recorder.points} == {
        **dict.fromkeys(POINTS, "Success"),
        "PostFilter": "Unschedulable",
    }


async def test_plugins_are_timed_in_sampled_cycles(kit: Any) -> None:
    """In a sampled cycle each plugin is measured once per extension point, not once per node."""
    kit.add_nodes("n1", "n2", "n3")
    profile = kit.profile(Everything)
    kit.sample_all()
    await run_everything(kit, profile)
    measured = Counter((plugin, point) for plugin, point, _, _ in kit.recorder.plugins)
    assert measured == dict.fromkeys(
        [*((("Everything", point)) for point in POINTS if point != "Bind"), ("Binder", "Bind")], 1
    )


async def test_a_tenth_of_the_cycles_is_sampled(kit: Any) -> None:
    """Nine cycles of ten pay nothing for the times of single plugins."""
    kit.add_nodes("n1")
    profile = kit.profile(Everything)
    for _ in range(1000):
        profile.run_pre_filter(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert 60 < len(kit.recorder.plugins) < 140


async def test_background_work_runs_between_start_and_close(kit: Any) -> None:
    """`run()` begins with `start_background` and is cancelled by `close`, which then closes the plugins."""
    said: list[str] = []

    class Worker(Plugin):
        async def run(self) -> None:
            said.append("runs")
            try:
                await asyncio.Event().wait()
            finally:
                said.append("ends")

        def close(self) -> None:
            said.append("closes")

    class Later(Plugin):
        async def close(self) -> None:
            await asyncio.sleep(0)
            said.append("closes later")

    class Broken(Plugin):
        def close(self) -> None:
            raise ValueError("stuck")

    profile = kit.profile(Worker, Broken, Later)
    await settle()
    assert said == []
    profile.start_background()
    await settle()
    assert said == ["runs"]
    await profile.close()
    await profile.close()
    assert said == ["runs", "ends", "closes", "closes later"]
    assert kit.recorder.warnings == {"plugin_error": 1}


async def test_spawned_work_is_named_after_its_profile(kit: Any) -> None:
    """Whoever looks at the tasks of the process sees whose they are."""

    async def count() -> None:
        return

    profile = kit.profile()
    assert profile.handle.spawn(count(), name="counting").get_name() == "pyscheduler counting"
    assert "count" in profile.handle.spawn(count()).get_name()
    await profile.close()


def test_what_a_profile_has(kit: Any) -> None:
    """The scheduler asks whether anybody ranks nodes or makes room."""
    assert not kit.profile().has_score
    assert not kit.profile().has_post_filter
    full = kit.profile(Everything, weights={"Everything": 3})
    assert full.has_score
    assert full.has_post_filter
    assert full.score_weights == {"Everything": 3}
    assert repr(full) == "Profile(pyscheduler, ['Everything', 'Sort', 'Binder'])"


def test_a_plugin_may_run_the_filters_itself(kit: Any) -> None:
    """`run_filters` works on any view and on a state that no PreFilter has seen."""
    kit.add_nodes("n1", "n2")

    class OnlyFirst(FilterPlugin):
        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            return None if node.name == "n1" else Status.unschedulable("no")

    profile = kit.profile(OnlyFirst)
    statuses = as_handle(profile).run_filters(CycleState(), make_pod("p"), kit.snapshot.nodes)
    assert statuses.get("n1") is None
    assert statuses.get("n2") == Status(Code.UNSCHEDULABLE, "no", plugin="OnlyFirst")


def in_tree_profile(kit: Any) -> Profile:
    """Build a profile of kube-scheduler's plugins, found as anybody's."""
    spec = ProfileSpec(
        scheduler_name="pyscheduler", multi_point=PluginSet(enabled=tuple(EnabledPlugin(name) for name in IN_TREE))
    )
    return Profile.build(spec, discover(), kit.services)


def calls_of(kit: Any, profile: Profile, pod: Pod) -> int:
    """Count the Python functions that one cycle of a pod calls."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    nodes = kit.snapshot.nodes
    gc.disable()  # lest somebody who is told of collections is counted
    sys.setprofile(count)
    try:
        state = CycleState()
        profile.run_pre_filter(state, pod, nodes)
        found = profile.find_feasible(state, pod, nodes)
        if len(found.rows):
            profile.run_pre_score(state, pod, nodes)
            profile.run_score(state, pod, nodes)
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("pod", "nominated"),
    [
        pytest.param(make_pod("p", requests={"cpu": "100m"}), 0, id="fits"),
        pytest.param(make_pod("p", requests={"cpu": "100"}), 0, id="fits nowhere"),
        pytest.param(make_pod("p", host_ports=[80], node_selector={"zone": "z1"}), 0, id="ports and labels"),
        pytest.param(make_pod("p", requests={"cpu": "100m"}), 2, id="with pods nominated elsewhere"),
    ],
)
def test_a_cycle_costs_the_same_number_of_calls_on_any_cluster(new_kit: Any, pod: Pod, nominated: int) -> None:
    """In-tree no Python function is called per node: 5,000 nodes cost as many calls as 100."""
    calls = []
    for size in (100, 5000):
        kit = new_kit()
        kit.add_nodes(*(make_node(f"n{number}", labels={"zone": f"z{number % 3}"}) for number in range(size)))
        for number in range(nominated):
            kit.nominate(make_pod(f"q{number}"), f"n{number}")
        profile = in_tree_profile(kit)
        # What is kept of a kind of pod is worked out for its second pod, and made use of for the third.
        calls.append([calls_of(kit, profile, pod) for _ in range(3)][1:])
    assert calls[0] == calls[1]


def test_kube_scheduler_plugins_make_a_profile(kit: Any) -> None:
    """The in-tree plugins fit together, and stand in the order of the profile."""
    profile = in_tree_profile(kit)
    assert profile.points[ExtensionPoint.FILTER] == IN_TREE[2:8]
    assert profile.queue_sort_name == "PrioritySort"
