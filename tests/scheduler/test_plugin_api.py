"""What plugins do with the API: kinds whose definitions come and go, and writes that meet what all writes meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import numpy as np
import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler import (
    ActionType,
    APIError,
    ClusterEvent,
    ClusterEventWithHint,
    ConflictError,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    Pod,
    PreBindPlugin,
    Status,
    TransportError,
)
from pyscheduler.api import KubeObject, Wire, kind_of
from pyscheduler.cluster.real.base_transport import ConnectingTransport
from pyscheduler.framework import event_resource
from pyscheduler.scheduler.ports import Response, Stream, Transport
from pyscheduler.testing import FakeCluster

STAMP = "example.com/placed-on"


class ClosureSpec(Wire):
    node_name: str = ""


class Closure(KubeObject):
    """A node that takes no pods."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "Closure"

    spec: ClosureSpec = ClosureSpec()


CLOSURES = kind_of(Closure, "closures", namespaced=False)


class Closed(FilterPlugin, EnqueueExtensions):
    """Keeps pods off closed nodes, and writes down what it is told."""

    watches = (CLOSURES,)

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.told: list[str] = []
        self.closures = self.handle.lister(Closure)
        self.closures.add_event_handler(
            on_add=lambda item: self.told.append(f"add {item.name}"),
            on_delete=lambda item: self.told.append(f"delete {item.name}"),
        )

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        names = {closure.spec.node_name for closure in self.closures}
        closed = np.array([node.name in names for node in nodes], dtype=np.bool_)
        return NodeStatuses.failing(closed, Status.unresolvable("node(s) were closed"))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(event_resource(CLOSURES), ActionType.DELETE))]


class Named(FilterPlugin, EnqueueExtensions):
    """Refuses pods until it is told otherwise, waits for a kind that it only names, and for a name that is none."""

    is_shut: ClassVar[bool] = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("node(s) were shut") if self.is_shut else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        added = ClusterEvent("closures.v1.example.com", ActionType.ADD)
        return [ClusterEventWithHint(added), ClusterEventWithHint(ClusterEvent("closures.v1", ActionType.ADD))]


class Stamp(PreBindPlugin):
    """Writes on the pod where it goes, under a condition where the test gives one."""

    condition: ClassVar[Mapping[str, object]] = {}

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.errors: list[Exception] = []

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        patch = {"metadata": {"annotations": {STAMP: node_name}, **self.condition}}
        try:
            await self.handle.client.patch(Pod, pod.name, pod.namespace, patch=patch)
        except (APIError, TransportError) as error:
            self.errors.append(error)
            raise
        return None


class Counting(ConnectingTransport):
    """Counts the requests for one collection."""

    def __init__(self, inner: Transport, path: str) -> None:
        self.inner = inner
        self.path = path
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **keywords: Any) -> Response:
        self.asked += [method] if path.startswith(self.path) else []
        return await self.inner.request(method, path, **keywords)

    def stream(self, path: str, **keywords: Any) -> AbstractAsyncContextManager[Stream]:
        self.asked += ["WATCH"] if path.startswith(self.path) else []
        return self.inner.stream(path, **keywords)

    async def close(self) -> None:
        await self.inner.close()


def closure(cluster: FakeCluster, name: str, node: str) -> None:
    """Close a node."""
    manifest = {"apiVersion": "example.com/v1", "kind": "Closure", "metadata": {"name": name}}
    cluster.add(manifest | {"spec": {"nodeName": node}}, Closure)


def undefine(cluster: FakeCluster) -> None:
    """Delete the definition, and with it all objects of the kind; the API server ends the kind's watches then."""
    definition = "apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{CLOSURES.plural}.{CLOSURES.group}"
    cluster.server.remove(*definition)


@pytest.mark.filterwarnings("ignore:Incorrect event registration")
async def test_a_kind_that_is_only_named_in_an_event_wakes_pods(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in kube-scheduler it is watched by `plural.version.group`; what is no such name is said, and costs nothing."""
    cluster.serve(CLOSURES)
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Named])
    await framework.start()
    text = 'Incorrect event registration: plugin "Named" registers events of "closures.v1", which is no plural.version'
    assert text in caplog.text
    await framework.schedule("p")
    monkeypatch.setattr(Named, "is_shut", False)
    closure(cluster, "c", "elsewhere")
    await framework.settle()
    assert framework.result("p").bound
    needed = {need.rule.resources for need in framework.scheduler.needs() if need.who == "Named"}
    assert needed == {("closures",)}


async def test_a_kind_whose_definition_comes_and_goes(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent it costs next to nothing; soon after it appears it is listed and watched; it is emptied when it goes."""
    counting = Counting(cluster.transport(), CLOSURES.path())
    monkeypatch.setattr(cluster, "transport", lambda: counting)
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Closed])
    plugin = framework.plugin("Closed")
    assert isinstance(plugin, Closed)

    # Absent from the start: the scheduler is ready all the same, and asks a few times a minute.
    assert (await framework.schedule("before")).bound
    assert (plugin.closures.synced, len(plugin.closures)) == (False, 0)
    await cluster.clock.advance(600)
    assert 10 <= len(counting.asked) <= 60
    assert set(counting.asked) == {"GET"}

    for life in ("first", "second"):
        cluster.serve(CLOSURES)
        closure(cluster, f"{life}-a", "n1")
        await cluster.clock.advance(45)
        assert plugin.closures.synced
        closure(cluster, f"{life}-b", "n2")
        await cluster.clock.advance(1)
        assert plugin.told == [f"add {life}-a", f"add {life}-b"]
        counting.asked.clear()
        result = await framework.schedule(f"{life}-pod")
        assert result.message.startswith("0/1 nodes are available: 1 node(s) were closed.")

        # With the definition go the objects: the copy is empty, handlers are told, and the pod's time has come.
        undefine(cluster)
        await cluster.clock.advance(60)
        assert (plugin.closures.synced, len(plugin.closures)) == (False, 0)
        assert sorted(plugin.told[2:]) == [f"delete {life}-a", f"delete {life}-b"]
        assert framework.result(f"{life}-pod").bound
        plugin.told.clear()
    counting.asked.clear()
    await cluster.clock.advance(600)
    assert len(counting.asked) <= 60


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 409}, id="it lost against another writer"),
        pytest.param({"status": 429, "retry_after_seconds": 3}, id="too many requests"),
        pytest.param({"status": 500}, id="a fault of the server"),
        pytest.param({"status": 503}, id="not ready"),
        pytest.param({"lose": "request"}, id="the connection broke"),
        pytest.param({"lose": "answer"}, id="the answer was lost"),
    ],
)
async def test_a_plugins_write_is_tried_again(cluster: FakeCluster, fault: dict[str, Any]) -> None:
    """What may be over in a moment costs a plugin's write some time, and the plugin no thought."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Stamp])
    armed = cluster.server.faults.add(Fault(method="PATCH", path="/pods/p$", times=2, **fault))
    await framework.schedule("p")
    await cluster.clock.advance(30)
    pod = framework.result("p").pod
    assert (armed.hits, pod.node_name, pod.annotations[STAMP]) == (2, "n1", "n1")
    plugin = framework.plugin("Stamp")
    assert isinstance(plugin, Stamp)
    assert plugin.errors == []


async def test_a_condition_of_the_plugins_own_is_its_own_to_settle(cluster: FakeCluster) -> None:
    """A patch that names a version conflicts once and for all; the plugin is told, and the pod is tried again."""

    class Conditional(Stamp):
        condition: ClassVar[Mapping[str, object]] = {"resourceVersion": "1"}

    cluster.add_node("n1")
    framework = cluster.framework(enable=[Conditional], allow_plugin_errors=True)
    await framework.schedule("p")
    plugin = framework.plugin("Conditional")
    assert isinstance(plugin, Conditional)
    assert [type(error) for error in plugin.errors] == [ConflictError]
    assert not framework.result("p").bound
    Conditional.condition = {}
    await cluster.clock.advance(5)
    assert framework.result("p").bound


async def test_a_plugins_write_is_not_sent_by_who_does_not_lead(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes of plugins pass the same fence as bindings: nothing reaches the server, and the plugin is told."""
    cluster.add_node("n1")
    leads = False
    counting = Counting(cluster.transport(), "/api/v1/namespaces/default/pods")
    counting.fence(lambda: leads)
    monkeypatch.setattr(cluster, "transport", lambda: counting)
    framework = cluster.framework(enable=[Stamp], allow_plugin_errors=True)
    await framework.schedule("p")
    plugin = framework.plugin("Stamp")
    assert isinstance(plugin, Stamp)
    await cluster.clock.advance(4)
    assert "this replica does not lead" in str(plugin.errors[0])
    assert [method for method in counting.asked if method != "GET"] == []
    leads = True
    await cluster.clock.advance(30)
    assert framework.result("p").pod.annotations[STAMP] == "n1"
    assert framework.result("p").bound


async def test_plugins_writes_share_the_rate(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten requests a second, twenty pods whose plugin writes keep to ten a second, the writes included."""
    counting = Counting(cluster.transport(), "/api/v1/namespaces/default/pods/")
    monkeypatch.setattr(cluster, "transport", lambda: counting)
    cluster.add_node("n1", allocatable={"cpu": "64"})
    config = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        clientConnection: {qps: 10, burst: 1}
        profiles: [{schedulerName: pyscheduler, plugins: {multiPoint: {enabled: [{name: Stamp}]}}}]
    """
    framework = cluster.framework(enable=[Stamp], config=config)
    await framework.start()
    for number in range(20):
        cluster.add_pod(f"p{number}", requests={"cpu": "100m"})
    for second in range(1, 10):
        await cluster.clock.advance(1)
        assert len(counting.asked) <= 10 * second + 1
    assert sum(bool(pod.node_name) for pod in cluster.pods()) == 20
    assert (counting.asked.count("PATCH") >= 20, counting.asked.count("POST")) == (True, 20)
