"""The fake framework: whole ways of pods, and single extension points on a cluster where nothing runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest

from pyscheduler import (
    BindPlugin,
    Code,
    ConfigError,
    CycleState,
    FilterPlugin,
    NodeInfo,
    PermitPlugin,
    Plugin,
    PluginError,
    Pod,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    StateKey,
    Status,
)
from pyscheduler.api import KubeObject, PriorityClass, kind_of
from pyscheduler.framework import Handle, Nodes, NodeStatuses, PreBindPreFlightResult, QueuedPodInfo
from pyscheduler.testing import FakeCluster, Fault, make_pod

SEEN = StateKey[list[str]]("test/seen")


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Give a cluster of two nodes."""
    for name in ("n1", "n2"):
        pyscheduler_cluster.add_node(name, allocatable={"cpu": "4"})
    return pyscheduler_cluster


class Trace(PreFilterPlugin, FilterPlugin, ScorePlugin, ReservePlugin, PermitPlugin, PreBindPlugin):
    """Writes into the state where it was called, and holds pods whose label says so."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        state.write(SEEN, ["pre_filter"])

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        state.read(SEEN).append(f"filter {node.name}")
        return Status.unschedulable("not here") if pod.labels.get("not") == node.name else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 100 if node.name == "n2" else 0

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        state.write(SEEN, [*state.get(SEEN, []), "reserve"])
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        state.write(SEEN, [*state.get(SEEN, []), "unreserve"])

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait("patience", timeout=float(pod.labels["wait"])) if "wait" in pod.labels else None

    def pre_bind_pre_flight(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> PreBindPreFlightResult | Status | None:
        return None if "prepare" in pod.labels else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        await asyncio.sleep(0)
        return Status.unschedulable("cannot be prepared") if pod.labels["prepare"] == "no" else None


# --- whole ways ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "state", "node", "message"),
    [
        pytest.param({}, "bound", "n2", "", id="bound"),
        pytest.param({"labels": {"wait": "60"}}, "waiting", "n2", "", id="waiting"),
        pytest.param({"labels": {"not": "n2"}}, "bound", "n1", "", id="filtered"),
        pytest.param(
            {"requests": {"cpu": "8"}},
            "pending",
            None,
            "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="pending",
        ),
        pytest.param(
            {"scheduling_gates": ["a"]},
            "gated",
            None,
            "Scheduling is blocked due to non-empty scheduling gates",
            id="gated",
        ),
        pytest.param({"scheduler_name": "somebody"}, "pending", None, "", id="of another scheduler"),
    ],
)
async def test_result_of_a_pod_in_each_state(
    cluster: FakeCluster, keywords: dict[str, object], state: str, node: str | None, message: str
) -> None:
    """State, node and the message that users read."""
    framework = cluster.framework(enable=[Trace])
    result = await framework.schedule("p", **keywords)
    assert (result.state, result.node, result.message) == (state, node, message)
    assert result.bound == (state == "bound")
    assert result.pod == cluster.pod("p")
    assert framework.result("p") == result


async def test_pod_may_be_an_object_or_exist_already(cluster: FakeCluster) -> None:
    """`schedule` creates what is not there; a pod's namespace is part of its name."""
    framework = cluster.framework()
    cluster.add_pod("there", namespace="ns")
    assert (await framework.schedule("there", namespace="ns")).bound
    assert (await framework.schedule(make_pod("there"))).bound
    assert len(cluster.pods()) == 2
    with pytest.raises(KeyError, match="default/nobody"):
        framework.result("nobody")


async def test_defaults_can_be_disabled(cluster: FakeCluster) -> None:
    """Without NodeResourcesFit nothing looks at CPU."""
    cluster.add_node("tiny", allocatable={"cpu": "1"})
    framework = cluster.framework(disable=["NodeResourcesFit", "NodeResourcesBalancedAllocation"])
    assert "NodeResourcesFit" not in framework.profile.plugins
    assert framework.run_filter(make_pod("p", requests={"cpu": "99"})) == {"n1": None, "n2": None, "tiny": None}


async def test_configuration_text_replaces_the_defaults(cluster: FakeCluster) -> None:
    """With `config` the profiles are those of the text; classes are only made known."""
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
- schedulerName: two
  plugins: {multiPoint: {enabled: [{name: Trace, weight: 50}]}}
"""
    framework = cluster.framework(enable=[Trace], config=text)
    assert list(framework.scheduler.profiles) == ["one", "two"]
    assert (await framework.schedule("p", scheduler_name="two")).node == "n2"
    assert (await framework.schedule("q", scheduler_name="one")).bound
    with pytest.raises(KeyError):
        framework.plugin("Trace")


async def test_the_same_seed_gives_the_same_choices() -> None:
    """Two clusters with one seed place the same pods on the same nodes; another seed may not."""
    found = []
    for seed in (1, 1, 2):
        cluster = FakeCluster(seed=seed)
        for number in range(10):
            cluster.add_node(f"n{number}")
        framework = cluster.framework()
        found.append([(await framework.schedule(f"p{number}")).node for number in range(6)])
        await cluster.close()
    assert found[0] == found[1] != found[2]


def test_mistakes_of_a_test_are_raised_at_once(cluster: FakeCluster) -> None:
    """Wrong args, names and gates are the errors that a user's file would meet."""
    for keywords, words in (
        ({"enable": ["Nonsense"]}, 'plugin "Nonsense" does not exist'),
        ({"args": {"NodeAffinity": {"nonsense": 1}}}, "nonsense"),
        ({"feature_gates": "Nonsense=true"}, "Nonsense"),
        ({"config": "kind: Nonsense"}, "framework configuration: "),
    ):
        with pytest.raises(ConfigError, match=words):
            cluster.framework(**keywords)  # type: ignore[arg-type]  # tables are of mixed types


async def test_error_that_ends_the_scheduler_is_raised(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that stops the scheduling loop is raised to the test, not swallowed at its end."""
    framework = cluster.framework()
    await framework.start()

    def broken() -> None:
        raise RuntimeError("no more pods")

    monkeypatch.setattr(framework.scheduler.queue, "pop", broken)
    # The pod wakes the loop up, which then meets the broken queue.
    cluster.add_pod("p")
    with pytest.raises(RuntimeError, match="no more pods"):
        await framework.settle()
    # Told once: the end of the test is not another failure.
    await framework.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"lose": "request"}, id="lost request"),
        pytest.param({"status": 503}, id="status 503"),
        pytest.param({"delay_seconds": 60.0}, id="late answer"),
    ],
)
@pytest.mark.parametrize("crash", [False, True], ids=["close", "crash"])
async def test_a_framework_stops_while_a_binding_is_retried(
    cluster: FakeCluster, fault: dict[str, Any], crash: bool
) -> None:
    """`close` advances the clock for the retries of a binding; `crash` cancels the binding, and no time passes."""
    framework = cluster.framework()
    cluster.server.faults.add(Fault(method="POST", path="/binding", **fault))
    assert (await framework.schedule("p")).state == "pending"
    begun = cluster.clock.now()
    async with asyncio.timeout(60):
        await (framework.crash() if crash else framework.close())
    assert framework.scheduler.binding_count == 0
    assert (cluster.clock.now() == begun) == crash
    assert cluster.pod("p").node_name == ""

    cluster.server.faults.clear()
    framework = cluster.framework()
    assert (await framework.schedule("p")).bound


async def test_close_finishes_a_binding(cluster: FakeCluster) -> None:
    """A binding whose first request was lost is sent again before `close` returns; after `crash` it is not."""
    for name, stop, bound in (("p", "close", True), ("q", "crash", False)):
        framework = cluster.framework()
        cluster.server.faults.add(Fault(method="POST", path="/binding", lose="request", times=1))
        await framework.schedule(name)
        await getattr(framework, stop)()
        await cluster.clock.advance(30)
        assert bool(cluster.pod(name).node_name) == bound


class Swapped(BindPlugin):
    """Passes the arguments of the handle in the wrong order, or one pod for several."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        handle: Any = self.handle
        if pod.name == "bind":
            await handle.client.bind(node_name, pod)
        getattr(handle, pod.name)(pod)
        return None


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        pytest.param("bind", "not (str, Pod); write bind(pod, node_name)", id="bind"),
        pytest.param("activate", "activate() takes several pods; write handle.activate([pod])", id="activate"),
        pytest.param("resort", "resort() takes several pods; write handle.resort([pod])", id="resort"),
    ],
)
async def test_wrong_arguments_of_the_handle_are_explained(cluster: FakeCluster, method: str, remedy: str) -> None:
    """The error of the plugin says what to write."""
    framework = cluster.framework(enable=[Swapped], disable=["DefaultBinder"], allow_plugin_errors=True)
    await framework.schedule(method)
    assert remedy in str(framework.plugin_errors[0])


async def test_error_is_raised_at_close(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that died unnoticed makes `close` raise."""
    framework = cluster.framework()
    await framework.start()

    def broken() -> None:
        raise RuntimeError("no more pods")

    monkeypatch.setattr(framework.scheduler.queue, "pop", broken)
    cluster.add_pod("p")
    await cluster.clock.advance(0)
    with pytest.raises(RuntimeError, match="no more pods"):
        await cluster.close()


# --- one extension point at a time ----------------------------------------------------------------


class Last(QueueSortPlugin):
    """Youngest first."""

    def sort_key(self, info: QueuedPodInfo) -> tuple[float]:
        return (-info.enqueued_at,)


class MakesRoom(PostFilterPlugin):
    """Notes what it was told, and nominates."""

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        self.told = {name: status.message for name, status in statuses.items()}
        return PostFilterResult.nominated("n1"), Status(Code.SUCCESS)


def test_run_filter_returns_each_nodes_status(cluster: FakeCluster) -> None:
    """Every node of the cluster as it is now is in the answer; a rejection at PreFilter is every node's."""
    framework = cluster.framework(enable=[Trace])
    statuses = framework.run_filter(make_pod("p", labels={"not": "n1"}))
    assert statuses == {"n1": Status.unschedulable("not here").with_plugin("Trace"), "n2": None}
    cluster.add_pod("full", node_name="n2", requests={"cpu": "4"})
    cluster.add_node("n3")
    statuses = framework.run_filter(make_pod("p", requests={"cpu": "1"}))
    assert [(name, status is None) for name, status in statuses.items()] == [("n1", True), ("n2", False), ("n3", True)]
    here_and_there = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n1", "n2")]
    terms = {"nodeSelectorTerms": [{"matchFields": here_and_there}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    rejected = framework.run_filter(make_pod("p", affinity=affinity))
    assert {status.plugin for status in rejected.values() if status is not None} == {"NodeAffinity"}
    assert len(rejected) == 3
    assert framework.run_pre_filter(make_pod("p", spec={"resourceClaims": [{"name": "c"}]})) is not None


def test_scores_are_weighted_and_added_up(cluster: FakeCluster) -> None:
    """The answer has every plugin's weighted score by node, and their sum."""
    framework = cluster.framework(enable=[Trace])
    scores = framework.run_score(make_pod("p"))
    assert (scores["n1"]["Trace"], scores["n2"]["Trace"]) == (0, 100)
    for by_plugin in scores.values():
        assert by_plugin["total"] == sum(score for name, score in by_plugin.items() if name != "total")


def test_one_state_can_be_passed_to_several_points(cluster: FakeCluster) -> None:
    """A state that is given, be it empty, is the one that plugins write into."""
    framework = cluster.framework(enable=[Trace])
    pod, state = make_pod("p"), CycleState()
    framework.run_filter(pod, state)
    assert state.read(SEEN) == ["pre_filter", "filter n1", "filter n2"]
    framework.run_reserve(pod, "n1", state)
    framework.run_unreserve(pod, "n1", state)
    assert state.read(SEEN)[-2:] == ["reserve", "unreserve"]


def test_run_permit_returns_the_timeout(cluster: FakeCluster) -> None:
    """A wait carries its timeout, and nobody is made to wait."""
    framework = cluster.framework(enable=[Trace])
    status = framework.run_permit(make_pod("p", labels={"wait": "30"}), "n1")
    assert status is not None
    assert (status.code, status.timeout_seconds) == (Code.WAIT, 30)
    assert framework.run_permit(make_pod("p"), "n1") is None
    assert list(framework.profile.handle.waiting_pods()) == []


async def test_the_points_of_the_binding_cycle(cluster: FakeCluster) -> None:
    """PreBind, Bind and PostBind run alone as well; Bind really binds."""
    framework = cluster.framework(enable=[Trace])
    pod = cluster.add_pod("p")
    assert framework.run_pre_bind_pre_flight(pod, "n1") == Status.skip()
    bad = make_pod("q", labels={"prepare": "no"})
    assert framework.run_pre_bind_pre_flight(bad, "n1") is None
    status = await framework.run_pre_bind(bad, "n1")
    assert status is not None
    assert status.message == "cannot be prepared"
    assert await framework.run_pre_bind(make_pod("q", labels={"prepare": "yes"}), "n1") is None
    assert await framework.run_bind(pod, "n1") is None
    await framework.run_post_bind(pod, "n1")
    assert cluster.pod("p").node_name == "n1"


def test_run_post_filter_passes_the_statuses(cluster: FakeCluster) -> None:
    """PostFilter gets the statuses of the filters."""
    framework = cluster.framework(enable=[MakesRoom, Trace], disable=["DefaultPreemption"])
    result, status = framework.run_post_filter(make_pod("p", labels={"not": "n2"}, requests={"cpu": "1"}))
    assert (result, status.code) == (PostFilterResult.nominated("n1"), Code.SUCCESS)
    plugin = framework.plugin("MakesRoom")
    assert isinstance(plugin, MakesRoom)
    assert plugin.told == {"n2": "not here"}
    framework.run_post_filter(make_pod("p", spec={"resourceClaims": [{"name": "c"}]}))
    assert plugin.told == {}


def test_pre_enqueue_and_order(cluster: FakeCluster) -> None:
    """A gate holds a pod back, and the key is that of the profile's queue."""
    framework = cluster.framework(enable=[Last], disable=["PrioritySort"])
    status = framework.run_pre_enqueue(make_pod("p", scheduling_gates=["a"]))
    assert status is not None
    assert status.plugin == "SchedulingGates"
    assert framework.run_pre_enqueue(make_pod("p")) is None
    assert framework.sort_key(make_pod("p"), enqueued_at=5.0) < framework.sort_key(make_pod("q"), enqueued_at=4.0)


# --- what plugins reach through their handle ------------------------------------------------------


class Reads(FilterPlugin):
    """Reads a built-in kind and a custom one."""

    watches: ClassVar[Sequence[object]]

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.handle.add_route("/reads", lambda query: {"classes": len(self.handle.lister(PriorityClass)), **query})

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        closed = {each.name for each in self.handle.lister(Closed)}
        rows = np.array([name in closed for name in (nodes.name(row) for row in range(len(nodes)))])
        return NodeStatuses.failing(rows, Status.unschedulable("closed"))


class Closed(KubeObject):
    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Closed"


CLOSED = kind_of(Closed, "closed", namespaced=False)
Reads.watches = (kind_of(PriorityClass, "priorityclasses", namespaced=False), CLOSED)


def test_watched_kinds_are_listed_without_a_scheduler(cluster: FakeCluster) -> None:
    """A plugin that is driven by hand reads what the cluster has now, of every kind that it watches."""
    framework = cluster.framework(enable=[Reads])
    assert framework.run_filter(make_pod("p")) == {"n1": None, "n2": None}
    cluster.serve(CLOSED)
    cluster.add({"apiVersion": "example.com/v1", "kind": "Closed", "metadata": {"name": "n1"}}, Closed)
    statuses = framework.run_filter(make_pod("p"))
    assert [name for name, status in statuses.items() if status] == ["n1"]
    cluster.delete(Closed, "n1")
    assert framework.run_filter(make_pod("p"))["n1"] is None
    assert framework.get_route("/reads", a="b") == {"classes": 2, "a": "b"}
    with pytest.raises(KeyError):
        framework.get_route("/nothing")


async def test_watched_kinds_are_listed_with_a_scheduler(cluster: FakeCluster) -> None:
    """The same through list and watch: a definition that appears later is found."""
    framework = cluster.framework(enable=[Reads])
    await framework.start()
    cluster.serve(CLOSED)
    cluster.add({"apiVersion": "example.com/v1", "kind": "Closed", "metadata": {"name": "n1"}}, Closed)
    await cluster.clock.advance(120)
    assert (await framework.schedule("p")).node == "n2"


def test_an_undeclared_kind_is_a_mistake(cluster: FakeCluster) -> None:
    """Reading what no `watches` names says what to do."""

    class Forgets(Plugin):
        def __init__(self, args: object = None, handle: Handle | None = None) -> None:
            super().__init__(args, handle)
            self.handle.lister(Closed)

    with pytest.raises((ConfigError, PluginError), match=r"add kind_of.Closed, .* to the plugin's `watches`"):
        cluster.framework(enable=[Forgets])


def test_args_reach_the_plugin(cluster: FakeCluster) -> None:
    """Args are given as a file would, and arrive as the plugin's class."""

    @attrs.frozen
    class Args:
        how_much: int = 1

    class Takes(ScorePlugin):
        args_type = Args

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            return 0

    assert cluster.framework(enable=[Takes]).plugin("Takes").args == Args()
    framework = cluster.framework(enable=[Takes], args={"Takes": {"howMuch": 7}})
    assert framework.plugin("Takes").args == Args(7)


async def test_scheduling_one_pod_reads_no_other_pods(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """`schedule` and `result` cost the same in a cluster of thousands of pods: they read only the pod in question."""
    framework = cluster.framework()
    cluster.add_pod("other", node_name="n1")
    await framework.start()

    def read_all(*_: object, **__: object) -> None:
        raise AssertionError("all pods were read")

    monkeypatch.setattr(type(cluster.server), "objects", read_all)
    assert (await framework.schedule("p")).bound
    assert framework.result("p").bound
    with pytest.raises(KeyError, match="default/missing"):
        framework.result("missing")
    monkeypatch.undo()


async def test_weights_of_new_and_default_plugins(cluster: FakeCluster) -> None:
    """`weights` sets the weight of any plugin by name; other default plugins keep theirs, and their order."""
    expected = cluster.framework().run_score(make_pod("p"))["n2"]
    framework = cluster.framework(enable=[Trace], weights={"Trace": 7, "NodeResourcesFit": 5})
    assert list(framework.profile.plugins)[:-1] == list(cluster.framework().profile.plugins)
    scores = framework.run_score(make_pod("p"))["n2"]
    assert expected["NodeResourcesFit"]
    expected |= {"Trace": 700, "NodeResourcesFit": 5 * expected["NodeResourcesFit"]}
    del expected["total"], scores["total"]
    assert scores == expected


class Gate(PreEnqueuePlugin):
    """Gates each pod."""

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return Status.unschedulable("no budget", "no approval")


async def test_a_gated_pod_shows_its_gate(pyscheduler_cluster: FakeCluster) -> None:
    """The message names the PreEnqueue plugin and its reasons."""
    result = await pyscheduler_cluster.framework(enable=[Gate]).schedule("p")
    assert (result.state, result.message) == ("gated", "gated by Gate: no budget, no approval")


class Forgetful(BindPlugin):
    """Binds the pods with the label `bind` only."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if "bind" in pod.labels:
            await self.handle.client.bind(pod, node_name)
        return None


async def test_a_success_without_a_binding_fails_the_test(pyscheduler_cluster: FakeCluster) -> None:
    """The fixture compares what a Bind plugin says with the API server, without half a minute's wait."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Forgetful], disable=["DefaultBinder"])
    assert (await framework.schedule("p", labels={"bind": "yes"})).bound
    cluster.raise_plugin_errors()
    assert not (await framework.schedule("q")).bound
    with pytest.raises(PluginError, match="returned success, but the pod is not bound to n1"):
        cluster.raise_plugin_errors()
    assert [str(each.plugin) for each in framework.plugin_errors] == ["Forgetful"]
    framework.plugin_errors.clear()
    await cluster.clock.advance(60)
    assert not framework.plugin_errors, "a pod is reported once"


class AsksThread(PreBindPlugin):
    """Awaits a thread, which the test kit does not wait for."""

    asked: ClassVar[threading.Event]

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        await asyncio.to_thread(self.asked.wait)


async def test_a_pod_whose_plugin_awaits_a_thread_says_so(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result names the node of the binding and what to do; the pod is bound when the thread has answered."""
    asked = threading.Event()
    monkeypatch.setattr(AsksThread, "asked", asked, raising=False)
    pyscheduler_cluster.add_node("n1")
    framework = pyscheduler_cluster.framework(enable=[AsksThread])
    result = await framework.schedule("p")
    asked.set()
    assert (result.state, result.node) == ("pending", None)
    assert result.message.startswith("binding to n1 is under way: a plugin or the API server has not answered yet")
    while not framework.result("p").bound:
        await framework.settle()  # the loop notices the thread's answer


class Counted(Plugin):
    """Has a gauge, and warns once."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.recorder.gauge("held", lambda: {(("kind", "a"),): 2.0, (("kind", "b"),): 3.0})
        handle.recorder.warning("odd")


def test_a_hook_need_not_be_installed(cluster: FakeCluster) -> None:
    """`register` offers plugins as the hook of a distribution does; their gauges and warnings can be read."""
    framework = cluster.framework(register=lambda registry: registry.add("Counted", Counted), enable=["Counted"])
    assert (framework.metric("held"), framework.metric("held", kind="b"), framework.metric("held", kind="c")) == (
        5,
        3,
        0,
    )
    assert framework.warnings == {"odd": 1}
    with pytest.raises(KeyError, match="no plugin has a metric lost"):
        framework.metric("lost")
