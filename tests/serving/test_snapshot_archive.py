"""Snapshots: what they contain and what not, and how long writing blocks the loop."""

from __future__ import annotations

import asyncio
import io
import json
import random
import time
import zipfile
from collections.abc import AsyncIterator, Iterable
from typing import Any

import attrs
import msgspec
import pytest

from kube_objects.clock import LoopClock
from pyscheduler.api import KubeObject, Node, Pod, decode
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.completed import completed
from pyscheduler.config.load import load, loads
from pyscheduler.config.types import Configuration, Extender, ExtenderTLS
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.serving.snapshot_archive import SnapshotArchive
from pyscheduler.testing import FakeCluster, node_manifest, pod_manifest
from tests.cpu import slowness

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def snapshot_of(scheduler: Scheduler, configuration: Configuration | None = None) -> bytes:
    """Return the bytes of a snapshot."""
    config = configuration or load(None)
    archive = SnapshotArchive(scheduler=scheduler, configuration=lambda: config, is_leader=lambda: True)
    return b"".join([part async for part in archive.parts()])


def members(data: bytes) -> dict[str, Any]:
    """Return the decoded members of a snapshot."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


@pytest.fixture
async def scheduler(cluster: FakeCluster) -> AsyncIterator[Scheduler]:
    """Return a scheduler that knows a node, a bound pod, an assumed pod and one that waits; nothing is scheduled."""
    cluster.add_node("n1", allocatable={"cpu": "4"})
    cluster.add_pod("bound", node_name="n1", requests={"cpu": "1"}, annotations={_LAST_APPLIED: "{}", "a": "b"})
    cluster.add_pod("assumed", requests={"cpu": "1"})
    cluster.add_pod("p", requests={"cpu": "8"})
    made = build(load(None), cluster.transport(), cluster.clock, random.Random(1))
    await made.start()
    pod = made.pods.get("assumed", "default")
    assert pod is not None
    made.cache.assume_pod(pod.with_node_name("n1"))
    yield made
    stop = asyncio.create_task(made.stop())
    await cluster.clock.advance(20)
    await stop


async def test_snapshot_has_objects_queue_and_configuration(scheduler: Scheduler) -> None:
    """Assumed pods have their nodes, waiting pods their sub-queue; the configuration can be read again."""
    found = members(await snapshot_of(scheduler))
    assert found["snapshot.json"]["isLeader"] is True
    (node,) = found["objects/v1/Node.json"]["items"]
    assert (node["kind"], node["metadata"]["name"]) == ("Node", "n1")
    pods = {pod["metadata"]["name"]: pod for pod in found["objects/v1/Pod.json"]["items"]}
    nodes = {name: pod["spec"].get("nodeName", "") for name, pod in pods.items()}
    assert nodes == {"bound": "n1", "assumed": "n1", "p": ""}
    assert pods["bound"]["metadata"]["annotations"] == {"a": "b"}
    queue = {entry["pod"]: entry for entry in found["queue.json"]["items"]}
    assert queue.keys() == {"default/assumed", "default/p"}
    assert (queue["default/p"]["queue"], queue["default/p"]["attempts"]) == ("active", 0)
    text = json.dumps(found["configuration.json"])
    assert loads(text, source="snapshot").profiles == load(None).profiles


async def test_snapshot_has_no_secrets_and_no_keys(scheduler: Scheduler) -> None:
    """Secrets are left out even if a plugin watches them, and so are the credentials of extenders."""

    class Secret(KubeObject):
        api_version = "v1"
        kind = "Secret"

    secrets = [decode(Secret, b'{"metadata":{"name":"s","namespace":"default","uid":"1"}}')]
    tls = ExtenderTLS(cert_data=b"certificate", key_data=b"private", ca_data=b"authority")
    config = attrs.evolve(load(None), extenders=(Extender(url_prefix="https://e", enable_https=True, tls_config=tls),))
    watching = attrs.evolve(scheduler, others=[*scheduler.others, secrets])
    found = members(await snapshot_of(watching, config))
    assert not any("Secret" in name for name in found)
    (extender,) = found["configuration.json"]["extenders"]
    assert [*extender["tlsConfig"]] == ["caData"]


# --- a large cluster -----------------------------------------------------------------------------


def decoded(cls: type[Any], manifests: Iterable[dict[str, Any]]) -> list[KubeObject]:
    """Return objects of manifests."""
    return [
        decode(cls, msgspec.json.encode({**one, "metadata": {**one["metadata"], "uid": one["metadata"]["name"]}}))
        for one in manifests
    ]


async def large() -> Scheduler:
    """Return a scheduler that knows 5,000 nodes, 20,000 bound pods and 10,000 that wait."""
    amounts = {"cpu": "32", "memory": "128Gi"}
    requests = {"cpu": "500m", "memory": "256Mi"}
    nodes = decoded(Node, (node_manifest(f"n{number:04d}", allocatable=amounts) for number in range(5_000)))
    bound = (
        pod_manifest(f"b{number:05d}", node_name=f"n{number % 5_000:04d}", requests=requests)
        for number in range(20_000)
    )
    waiting = (pod_manifest(f"p{number:05d}", requests=requests) for number in range(10_000))
    pods = decoded(Pod, (*bound, *waiting))
    cluster = ReadOnlyCluster(objects_of({Node: nodes, Pod: pods}))
    scheduler = build(load(None), cluster, LoopClock(), random.Random(1))
    await scheduler.start()
    return scheduler


@pytest.mark.slow
async def test_step_blocks_the_loop_for_at_most_10_ms() -> None:
    """With 5,000 nodes and 30,000 pods, of which 10,000 wait."""
    scheduler = await large()
    archive = SnapshotArchive(scheduler=scheduler, configuration=lambda: completed(load(None)), is_leader=lambda: True)
    seconds = []
    began = time.thread_time()
    async for _ in archive.parts():
        now = time.thread_time()
        seconds.append(now - began)
        began = time.thread_time()
    assert len(seconds) > 50
    # The costliest two of a hundred are not counted: they are the machine's, or the garbage collector's.
    assert sorted(seconds)[-1 - len(seconds) // 50] / slowness() <= 0.010
