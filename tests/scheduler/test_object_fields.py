"""Fields of pods and nodes that pyscheduler does not decode, and kinds that are only listed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from pyscheduler import CycleState, FilterPlugin, Handle, NodeInfo, Pod, Status
from pyscheduler.api import DecodeError, KubeObject, Node, Wire, kind_of
from pyscheduler.framework.errors import ConfigError, PluginError
from pyscheduler.testing import FakeCluster


class SecurityContext(Wire):
    run_as_user: int | None = None


class SecuritySpec(Wire):
    security_context: SecurityContext = SecurityContext()


class PodSecurity(Wire):
    """The user as whom a pod runs."""

    spec: SecuritySpec = SecuritySpec()


class NodeSystem(Wire):
    architecture: str = ""


class NodeReport(Wire):
    node_info: NodeSystem = NodeSystem()
    addresses: tuple[Mapping[str, str], ...] = ()


class NodeSystemStatus(Wire):
    """The report of a node about itself."""

    status: NodeReport = NodeReport()


class Undeclared(Wire):
    """Fields that no plugin declares."""


class RootOnArm(FilterPlugin):
    """Lets pods that run as root run on nodes of one architecture only."""

    pod_fields = (PodSecurity,)
    node_fields = (NodeSystemStatus,)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        assert node.node is not None
        user = self.handle.fields(pod, PodSecurity).spec.security_context.run_as_user
        system = self.handle.fields(node.node, NodeSystemStatus).status.node_info.architecture
        return Status.unschedulable("no root here") if user == 0 and system != "arm64" else None


def reporting(architecture: str) -> dict[str, Any]:
    """Return the status of a node."""
    addresses = [{"type": "InternalIP", "address": "10.0.0.1"}]
    return {"nodeInfo": {"architecture": architecture}, "addresses": addresses}


async def test_declared_fields_are_those_of_the_newest_version(cluster: FakeCluster) -> None:
    """Both kinds are read from the text that the API server sent, and again after a change."""
    cluster.add_node("n1", status=reporting("amd64"))
    framework = cluster.framework(enable=[RootOnArm])
    fields = framework.profile.handle.fields
    result = await framework.schedule("root", spec={"securityContext": {"runAsUser": 0}})
    assert result.message.startswith("0/1 nodes are available: 1 no root here.")
    assert (await framework.schedule("plain", spec={"securityContext": {"runAsUser": 7}})).bound
    assert fields(cluster.nodes()[0], NodeSystemStatus).status.addresses[0]["address"] == "10.0.0.1"

    cluster.patch(Node, "n1", {"status": {"nodeInfo": {"architecture": "arm64"}}}, status=True)
    framework.scheduler.queue.activate([result.pod])
    await framework.settle()
    assert framework.result("root").bound
    cluster.delete_pod("root")
    await framework.settle()
    # Gone, so only what pyscheduler itself decoded is left.
    assert fields(result.pod, PodSecurity).spec.security_context.run_as_user is None


async def test_a_type_that_is_not_declared_names_the_attribute(cluster: FakeCluster) -> None:
    """The error says what to add, and where."""
    cluster.add_node("n1")
    handle = cluster.framework(enable=[RootOnArm]).profile.handle
    with pytest.raises(PluginError, match="Undeclared is read but not declared; add it to the plugin's `node_fields`"):
        handle.fields(cluster.nodes()[0], Undeclared)


class WrongFields(RootOnArm):
    """Forgets the comma."""

    pod_fields = PodSecurity  # type: ignore[assignment] # the mistake


def test_fields_that_are_no_tuple_are_refused(cluster: FakeCluster) -> None:
    """The error shows the form."""
    with pytest.raises(ConfigError, match=r"write pod_fields = \(Type,\)"):
        cluster.framework(enable=[WrongFields])


class Unreadable(FilterPlugin):
    """Declares a type that does not fit."""

    class Status(Wire):
        """A text where the API has an object."""

        status: str = ""

    node_fields = (Status,)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> None:
        assert node.node is not None
        self.handle.fields(node.node, self.Status)


async def test_fields_that_cannot_be_read_fail_the_plugin(cluster: FakeCluster) -> None:
    """Watching goes on; the error is the plugin's, where it asks."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Unreadable], allow_plugin_errors=True)
    await framework.schedule("p")
    assert isinstance(framework.plugin_errors[0].error, DecodeError)
    assert framework.plugin_errors[0].plugin == "Unreadable"


# Kinds that are only listed


class NodeMetrics(KubeObject):
    """The use of a node; the API server computes it at each request."""

    api_version: ClassVar[str] = "metrics.k8s.io/v1beta1"
    kind: ClassVar[str] = "NodeMetrics"

    usage: Mapping[str, str] = msgspec.field(default_factory=dict)


NODE_METRICS = kind_of(NodeMetrics, "nodes", namespaced=False, watch=False)


class Busy(FilterPlugin):
    """Lists the metrics before the first pod."""

    watches = (NODE_METRICS,)

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.usage: dict[str, str] = {}

    async def prepare(self) -> None:
        """Fetch the metrics."""
        self.usage = {each.name: each.usage["cpu"] for each in await self.handle.client.list(NodeMetrics)}

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("busy") if self.usage.get(node.name) == "4" else None


async def test_a_kind_that_cannot_be_watched_is_listed(cluster: FakeCluster) -> None:
    """No informer is made for it; its role has `get` and `list`."""
    cluster.serve(NODE_METRICS)
    manifest = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "NodeMetrics", "usage": {"cpu": "4"}}
    for name in ("n1", "n2"):
        cluster.add_node(name)
    cluster.add({**manifest, "metadata": {"name": "n1"}}, NodeMetrics)
    framework = cluster.framework(enable=[Busy])
    assert (await framework.schedule("p")).node == "n2"
    scheduler = framework.scheduler
    rules = [need.rule for need in scheduler.needs() if need.rule.api_groups == ("metrics.k8s.io",)]
    assert [(rule.resources, rule.verbs) for rule in rules] == [(("nodes",), ("get", "list"))]
    with pytest.raises(PluginError, match=r"watch=False; read it with handle.client.list\(NodeMetrics\)"):
        framework.profile.handle.lister(NodeMetrics)


async def test_a_kind_that_is_not_declared_names_watches(cluster: FakeCluster) -> None:
    """The error of the client says which attribute of the plugin lacks it."""
    client = cluster.framework().profile.handle.client
    with pytest.raises(DecodeError, match=r'add kind_of\(NodeMetrics, "nodemetricss"\) to the `watches` of the plugin'):
        await client.list(NodeMetrics)


def test_explain_reads_declared_fields_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation of objects from a file sees what the plugin declares."""
    from pyscheduler.cluster.manifest_objects import manifest_objects
    from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster

    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": reporting("arm64")}
    texts: dict[str, bytes] = {}
    read = manifest_objects(
        [json.loads(json.dumps(node))], source="file", keep=lambda item, text: texts.__setitem__(item.uid, text)
    )
    cluster = ReadOnlyCluster(read, texts=texts)
    assert asyncio.run(_architecture(cluster)) == "arm64"


async def _architecture(cluster: Any) -> str:
    import random

    from kube_objects.clock import LoopClock
    from pyscheduler.framework.recorder import NullRecorder
    from pyscheduler.scheduler.object_fields import ObjectFields

    client = cluster.connect(None, clock=LoopClock(), rng=random.Random(0), recorder=NullRecorder())
    nodes, pods = client.informer(kind_of(Node, "nodes", namespaced=False)), client.informer(kind_of(Pod, "pods"))
    fields = ObjectFields()
    fields.follow([RootOnArm.__new__(RootOnArm)], pods=pods, nodes=nodes)
    await nodes.wait_synced()
    return fields.of(next(iter(nodes)), NodeSystemStatus).status.node_info.architecture
