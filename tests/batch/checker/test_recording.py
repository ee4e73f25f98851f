"""The writes of a server become the same log, read over HTTP or from its store, and the checker reads both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.testing import node_manifest, pod_manifest
from pyscheduler_lab.audit import History, Options, check
from pyscheduler_lab.demo.api_recording import ApiRecording
from tests.batch.write_log import WriteLog
from tests.processes import PATIENCE_SECONDS

DEFINITION = Path(__file__).parents[3] / "configs" / "crds" / "podgroups.scheduling.run.ai.yaml"
PODS = "/api/v1/namespaces/default/pods"
QUEUES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "queues.scheduling.run.ai"},
    "spec": {
        "group": "scheduling.run.ai",
        "scope": "Cluster",
        "names": {"kind": "Queue", "plural": "queues", "singular": "queue"},
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}
UNLIMITED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def pod(name: str) -> dict[str, Any]:
    """Return a pod of the group ``j``."""
    manifest = pod_manifest(name, scheduler_name="batch")
    manifest["metadata"]["annotations"] = {"pod-group-name": "j"}
    return manifest


async def bind(cluster: EmbeddedCluster, name: str) -> None:
    """Bind a pod to the node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    answer = await InProcessTransport(cluster.router).request(
        "POST", f"{PODS}/{name}/binding", body=json.dumps(body).encode()
    )
    assert answer.status == 201


async def write(cluster: EmbeddedCluster, recorded: Collection[str]) -> None:
    """Define the kinds, create a queue and a gang of two, bind a part of the gang, and delete the rest.

    `recorded` are the kinds that the recording has seen; it asks again for those that were not served at first.
    """
    cluster.load(DEFINITION.read_text(encoding="utf-8"))
    cluster.add(QUEUES)
    resources = dict.fromkeys(("cpu", "memory", "gpu"), UNLIMITED)
    spec = {"resources": resources}
    cluster.add({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": spec})
    group = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "j"}}
    cluster.add(group | {"spec": {"queue": "q", "minMember": 2}}, pod("j-0"), pod("j-1"))
    await bind(cluster, "j-0")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not {"Queue", "PodGroup"}.issubset(recorded):  # noqa: ASYNC110 - threads record
            await asyncio.sleep(0.01)
    await InProcessTransport(cluster.router).request("DELETE", f"{PODS}/j-1")


def outline(history: History) -> list[tuple[int, str, str, str]]:
    """Return what was written, in order."""
    return [(one.revision, one.type, one.kind, one.obj["metadata"]["name"]) for one in history.changes]


@pytest.mark.slow
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
async def test_both_recordings_are_equal(cut: bool) -> None:
    """A recording over HTTP has the writes of the store, also if watches are cut; the checker finds the half gang."""
    cluster = EmbeddedCluster(clock=LoopClock())
    cluster.add(node_manifest("n1"))
    log = WriteLog(cluster)
    log.start()
    server = cluster.server()
    await server.start()
    recorded: set[str] = set()
    recording = ApiRecording(server.url, on_change=lambda change: recorded.add(change.kind))
    await asyncio.to_thread(recording.start)
    if cut:
        cluster.faults.add(Fault(method="GET", lose="answer", times=8))
    try:
        await write(cluster, recorded)
        over_http = await asyncio.to_thread(recording.stop)
    finally:
        log.stop()
        await server.stop()
    assert recording.problems == []
    assert outline(over_http) == outline(log.history())
    assert {one.kind for one in over_http.changes} >= {"Node", "Pod", "PodGroup", "PriorityClass", "Queue"}
    for history in (over_http, log.history()):
        history.end = history.changes[-1].at + 600.0
        verdict = check(history, Options(status_seconds=None))
        assert [(one.rule, one.objects) for one in verdict.violations] == [(1, ("default/j",))]


@pytest.mark.slow
async def test_a_dead_server_is_a_problem() -> None:
    """A recording whose server does not answer at the end says so."""
    server = EmbeddedCluster(clock=LoopClock()).server()
    await server.start()
    recording = ApiRecording(server.url, ["/api/v1/pods"])
    await server.stop()
    recording.start()
    await asyncio.to_thread(recording.stop)
    assert "record /api/v1/pods: the end is missing" in recording.problems[0]
