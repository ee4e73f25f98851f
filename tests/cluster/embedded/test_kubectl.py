"""The real kubectl against the embedded server: what people will type first."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
from pyscheduler.framework.clock import LoopClock

KUBECTL = shutil.which("kubectl")

pytestmark = [
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on this machine: its view of the server is not tested"),
    pytest.mark.slow,
]

Kubectl = Callable[..., Awaitable[str]]

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: second, labels: {app: t}}
spec: {containers: [{name: c, image: busybox}]}
"""


@pytest.fixture
async def kubectl(tmp_path: Path, pod: Any) -> AsyncIterator[Kubectl]:
    """Run kubectl against a cluster of one node and one bound pod; return what it prints."""
    cluster = EmbeddedCluster(clock=LoopClock())
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    ready = [{"type": "Ready", "status": "True"}]
    cluster.add({**node, "status": {"capacity": {"cpu": "4", "pods": "110"}, "conditions": ready}})
    cluster.add(pod("first", nodeName="node-1"))
    server = cluster.server()
    await server.start()
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: e\n"
        f"clusters: [{{name: e, cluster: {{server: '{server.url}'}}}}]\n"
        "contexts: [{name: e, context: {cluster: e, user: u}}]\nusers: [{name: u, user: {}}]\n"
    )

    async def run(*arguments: str, stdin: str = "", code: int = 0) -> str:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            f"--kubeconfig={config}",
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(stdin.encode()), 30)
        assert process.returncode == code, err.decode()
        return (out if code == 0 else err).decode()

    yield run
    await server.stop()
    cluster.check_invariants()


def columns(text: str) -> list[list[str]]:
    """Return the words of each line."""
    return [line.split() for line in text.splitlines() if line]


async def test_get_pods_and_nodes(kubectl: Kubectl) -> None:
    """`kubectl get pods,nodes`, plain, wide and as JSON."""
    plain = columns(await kubectl("get", "pods,nodes"))
    assert plain[1][:4] == ["pod/first", "0/1", "Pending", "0"]
    assert plain[3][:3] == ["node/node-1", "Ready", "<none>"]
    wide = columns(await kubectl("get", "pods", "-o", "wide"))
    assert wide[0][-5:] == ["NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert wide[1][6] == "node-1"
    as_json = json.loads(await kubectl("get", "pods,nodes", "-o", "json"))
    assert [item["kind"] for item in as_json["items"]] == ["Pod", "Node"]
    assert "first" in await kubectl("get", "po", "--field-selector=spec.nodeName=node-1", "-A")


async def test_what_is_not_there(kubectl: Kubectl) -> None:
    """A missing object is told in kubectl's usual words."""
    assert await kubectl("get", "pod", "nope", code=1) == 'Error from server (NotFound): pods "nope" not found\n'
    assert "the server doesn't have a resource type" in await kubectl("get", "nonsense", code=1)


async def test_changing_things(kubectl: Kubectl) -> None:
    """create, label, annotate, patch, cordon, taint, delete."""
    created = await kubectl("create", "-f", "-", "--validate=false", stdin=MANIFEST)
    assert created == "pod/second created\n"
    assert await kubectl("label", "pod", "second", "a=b") == "pod/second labeled\n"
    assert "second" in await kubectl("get", "pods", "-l", "app=t,a=b", "--no-headers")
    assert await kubectl("annotate", "pod", "second", "note=1") == "pod/second annotated\n"
    assert await kubectl("cordon", "node-1") == "node/node-1 cordoned\n"
    assert await kubectl("taint", "node", "node-1", "k=v:NoSchedule") == "node/node-1 tainted\n"
    node = json.loads(await kubectl("get", "node", "node-1", "-o", "json"))
    assert node["spec"] == {"unschedulable": True, "taints": [{"effect": "NoSchedule", "key": "k", "value": "v"}]}
    assert await kubectl("uncordon", "node-1") == "node/node-1 uncordoned\n"
    await kubectl("delete", "pod", "second")
    assert await kubectl("get", "pods", "-o", "name") == "pod/first\n"


async def test_apply(kubectl: Kubectl) -> None:
    """Applying creates, then changes, then finds nothing to do, with kubectl's validation on."""
    assert await kubectl("apply", "-f", "-", stdin=MANIFEST) == "pod/second created\n"
    changed = MANIFEST.replace("app: t", "app: u")
    assert await kubectl("apply", "-f", "-", stdin=changed) == "pod/second configured\n"
    assert await kubectl("apply", "-f", "-", stdin=changed) == "pod/second unchanged\n"
    assert await kubectl("get", "pod", "second", "-o", "jsonpath={.metadata.labels.app}") == "u"
    assert await kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST) == "pod/second serverside-applied\n"
    assert "second" in await kubectl("apply", "--dry-run=server", "-f", "-", stdin=changed)


async def test_describing_things(kubectl: Kubectl) -> None:
    """Describing finds the pod's events; discovery lists what is served."""
    uid = await kubectl("get", "pod", "first", "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "first.1"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "pyscheduler",
        "reportingInstance": "host",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned default/first to node-1",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "first", "uid": uid},
    }
    await kubectl("create", "-f", "-", "--validate=false", stdin=json.dumps(event))
    described = await kubectl("describe", "pod", "first")
    assert "Successfully assigned default/first to node-1" in described
    assert "pod/first" in await kubectl("get", "events")
    assert "Allocated resources" in await kubectl("describe", "node", "node-1")
    names = await kubectl("api-resources", "-o", "name")
    assert {"pods", "nodes", "leases.coordination.k8s.io", "events.events.k8s.io"} <= set(names.split())
    assert "v1.36" in await kubectl("version")
