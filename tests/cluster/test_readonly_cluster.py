"""A cluster that stands still: read once, never written."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kube_objects.clock import LoopClock
from kube_objects.kinds import NODES, PODS, ResourceKind
from pyscheduler.api import BUILT_IN_KINDS, KubeObject, Node, Pod, PriorityClass, decode
from pyscheduler.cluster.manifest_objects import admit, manifest_objects, read_manifests
from pyscheduler.cluster.object_sources import live_objects
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.load import load
from pyscheduler.config.types import Extender
from pyscheduler.framework.errors import ConfigError, ForbiddenError, NotFoundError, TransportError
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.scheduler.ports import ClientSettings
from pyscheduler.testing import make_node, make_pod, node_manifest, pod_manifest


def client(cluster: ReadOnlyCluster) -> Any:
    """Connect; Any, so that what is forbidden can be tried."""
    return cluster.connect(ClientSettings(), clock=LoopClock(), rng=random.Random(0), recorder=NullRecorder())


async def test_a_scheduler_on_it_has_the_cluster_and_changes_nothing() -> None:
    """Cache and queue are filled by the event handlers; the pod is evaluated, and still waits."""
    waits = make_pod("waits", requests={"cpu": "2"})
    pods = [make_pod("here", node_name="n1"), waits]
    objects: dict[type[KubeObject], list[Any]] = {Node: [make_node("n1")], Pod: pods}
    scheduler = build(load(None), ReadOnlyCluster(objects_of(objects)), LoopClock(), random.Random(0))
    await scheduler.start()
    assert (scheduler.cache.node_count, scheduler.cache.pod_count, len(scheduler.queue)) == (1, 1, 1)
    profile = scheduler.profiles["pyscheduler"]
    found = await evaluate(scheduler, profile, waits)
    assert found.feasible is not None
    assert found.feasible.name(0) == "n1"
    assert found.message == ""
    assert len(scheduler.queue) == 1
    await scheduler.stop()


async def test_every_write_is_refused() -> None:
    """The error names the request and its object; events and conditions are dropped."""
    cluster = ReadOnlyCluster(objects_of({}))
    pod = make_pod("p")
    path = client(cluster)
    refused = {
        "bind default/p to n1": path.bind(pod, "n1"),
        "evict default/p": path.evict(pod, grace_seconds=1),
        "get Pod default/p": path.get(Pod, "p", "default"),
        "list Pod": path.list(Pod, "default", label_selector="a=b"),
        "patch Pod default/p": path.patch(Pod, "p", "default", patch={}, status=True),
        "create Pod": path.create(Pod, {"spec": {}}, "default"),
        "delete Pod default/p": path.delete(Pod, "p", namespace="default", uid="u"),
        "POST /api/v1/pods": cluster.request("POST", "/api/v1/pods", body=b"{}"),
        "POST http://extender/filter": cluster.extender(Extender(url_prefix="http://extender")).post(
            "http://extender/filter", [b"{}"]
        ),
    }
    for what, attempt in refused.items():
        with pytest.raises(TransportError) as caught:
            await attempt
        assert str(caught.value) == f"{what}: refused, because this cluster is read-only"
    with pytest.raises(TransportError, match=r"^watch /api/v1/pods: refused"):
        cluster.stream("/api/v1/pods")
    with pytest.raises(TransportError, match=r"^list Pod: refused"):
        path.pages(Pod)
    await path.patch_pod_status(pod, {"status": {}})
    path.event_recorder("x").event(pod, type="Normal", reason="R", action="A", note="n")


async def test_manifests_may_be_as_short_as_people_write_them() -> None:
    """Namespace, uid, scheduler and requests are filled in; pods that have ended are left out."""
    text = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {limits: {cpu: 2}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c}]}, status: {phase: Succeeded}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: ignored}}
"""
    read = manifest_objects(read_manifests(text.encode(), source="f"), source="f")
    (pod,) = await read(PODS)
    assert isinstance(pod, Pod)
    assert (pod.key, pod.scheduler_name, bool(pod.uid)) == ("default/a", "default-scheduler", True)
    assert pod.spec.containers[0].resources.requests == {"cpu": 2}
    assert list(await read(NODES)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no object"),
        (b"- 1", "not an object"),
        (b"{kind: Pod}", "no metadata.name"),
        (b"metadata: {name: a}", "no kind"),
        (b"a: [", "YAML"),
        (b"\xff\xfe\x00", "YAML"),
    ],
)
def test_a_file_without_objects_is_a_mistake(text: bytes, words: str) -> None:
    """Told with the file's name."""
    with pytest.raises(ConfigError, match=words) as caught:
        read_manifests(text, source="cluster.yaml")
    assert "cluster.yaml" in str(caught.value)


async def test_an_object_that_cannot_be_read_is_a_mistake() -> None:
    """Its kind and name are told."""
    read = manifest_objects([{**node_manifest("n1"), "spec": {"taints": 7}}], source="f")
    with pytest.raises(ConfigError, match="Node n1"):
        await read(NODES)


async def test_a_pod_is_admitted_as_the_api_server_would() -> None:
    """Its class gives it a priority; a pod that would be refused is, with the server's words."""
    high = decode(PriorityClass, json.dumps({"metadata": {"name": "high"}, "value": 7}).encode())
    manifest = pod_manifest("p")
    manifest["spec"]["priorityClassName"] = "high"
    (pod,) = admit([manifest], [high], clock=LoopClock())
    assert pod.priority == 7
    with pytest.raises(ConfigError, match="no PriorityClass with name high was found"):
        admit([manifest], [], clock=LoopClock())
    with pytest.raises(ConfigError, match=r"spec\.containers"):
        admit([{**manifest, "spec": {}}], [high], clock=LoopClock())


async def test_each_admitted_pod_has_its_own_uid() -> None:
    """A pod keeps the uid of its manifest, and a version from a server is no mistake; other pods get new uids."""
    known = pod_manifest("known")
    known["metadata"] |= {"uid": "one", "resourceVersion": "7"}
    pods = admit([known, pod_manifest("a"), pod_manifest("b")], [], clock=LoopClock())
    assert pods[0].uid == "one"
    assert len({pod.uid for pod in pods}) == 3


class _Lists:
    """A client that can list some kinds, those that it was told of."""

    def __init__(self) -> None:
        self.known: set[type] = set()

    def informer(self, kind: ResourceKind, *, optional: bool) -> None:
        """Know the kind; one that is not served must not be waited for."""
        assert optional
        self.known.add(kind.type)

    async def list(self, kind: type, namespace: str = "") -> list[object]:
        """Answer for pods alone; refuse nodes and one other kind."""
        assert kind in self.known
        assert not namespace
        if kind is Pod:
            return [make_pod("a"), make_pod("b", status={"phase": "Failed"})]
        if kind is Node or kind.__name__ == "Service":
            raise ForbiddenError("no", status=403)
        raise NotFoundError("none", status=404)


async def test_a_live_cluster_is_listed_once() -> None:
    """What is not served is absent; what may not be read is, too, and is told; without nodes there is no picture."""
    unread: list[str] = []
    read = live_objects(_Lists(), unread=unread)  # type: ignore[arg-type]  # it lists
    assert [pod.name for pod in await read(PODS)] == ["a"]
    for kind in BUILT_IN_KINDS:
        if kind not in {PODS, NODES}:
            assert list(await read(kind)) == []
    assert unread == ["services"]
    with pytest.raises(ForbiddenError):
        await read(NODES)
