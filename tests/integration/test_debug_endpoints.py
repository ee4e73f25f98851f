"""The debugging endpoints of scheduler processes, on a cluster with roles: what tenants and operators may read."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import ssl
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import attrs
import yaml

from pyscheduler.testing import pod_manifest
from tests.integration.programs import Program, free_port, nodes, program, served
from tests.processes import PATIENCE_SECONDS

_RBAC = "rbac.authorization.k8s.io"
_READER = Path(__file__).parents[2] / "configs/rbac/debug-reader.yaml"
_TOKENS = 'tenant-token,tenant,1\noperator-token,operator,2,"operators"\n'
_NEWS_SECONDS = 0.1


def bound(kind: str, name: str, role: str, subject: dict[str, str], **metadata: str) -> dict[str, Any]:
    """Return a RoleBinding or ClusterRoleBinding to a ClusterRole."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "subjects": [{"apiGroup": _RBAC, **subject}],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
    }


def objects() -> list[dict[str, Any]]:
    """Return nodes of 32 CPUs, pods of two namespaces that fit nowhere, and what tenant and operators may do."""
    large = {"cpu": "100"}
    return [
        *nodes(2),
        pod_manifest("mine", namespace="web", requests=large),
        pod_manifest("theirs", namespace="ml", requests=large),
        yaml.safe_load(_READER.read_text()),
        bound(
            "ClusterRoleBinding", "debug-readers", "pyscheduler-debug-reader", {"kind": "Group", "name": "operators"}
        ),
        bound("RoleBinding", "tenant", "view", {"kind": "User", "name": "tenant"}, namespace="web"),
    ]


@attrs.frozen
class Port:
    """The HTTPS port of a scheduler."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str, token: str) -> tuple[int, bytes]:
        """Return status and body."""
        async with self.open(path, token) as answer:
            return answer.status, await answer.read()

    def open(self, path: str, token: str) -> Any:
        """Return the request as an asynchronous context."""
        return self.session.get(f"{self.url}{path}", headers={"Authorization": f"Bearer {token}"})

    async def story(self, pod: str, token: str) -> Any:
        """Return the answer about a pod, once its story has a run."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                status, body = await self.get(f"/debug/story/{pod}", token)
                answer = json.loads(body)
                if status == 200 and any(story["runs"] for story in answer["stories"]):
                    return answer
                await asyncio.sleep(_NEWS_SECONDS)


def replica(kubeconfig: Path, port: int) -> Sequence[str]:
    """Return the arguments of a replica that asks the cluster about users."""
    flags = ("--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig")
    return [
        *("run", "--bind-address=127.0.0.1", "--leader-elect=true", f"--secure-port={port}", "-v=2"),
        *(f"{flag}={kubeconfig}" for flag in flags),
    ]


async def test_tenants_read_their_stories_and_operators_all_else(tmp_path: Path) -> None:
    """A tenant with the role `view` in a namespace gets its stories; a standby knows the pods, and no reason."""
    (tmp_path / "tokens.csv").write_text(_TOKENS)
    kubeconfig = tmp_path / "kubeconfig"
    access = ("--authorization", "rbac", "--token-auth-file", str(tmp_path / "tokens.csv"))
    ports = free_port(), free_port()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with (
        served(tmp_path, objects(), options=(*access, "--write-kubeconfig", str(kubeconfig))),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        program(*replica(kubeconfig, ports[0])) as leader,
    ):
        port = Port(f"https://127.0.0.1:{ports[0]}", session)
        await leader.said("Unable to schedule pod; no fit", times=2)
        answer = await port.story("web/mine", "tenant-token")
        (story,) = answer["stories"]
        run = story["runs"][-1]
        assert (answer["isLeader"], story["pending"], run["reason"]) == (True, True, "Unschedulable")
        assert run["plugins"] == ["NodeResourcesFit"]
        assert run["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
        for path in ("story/ml/theirs", "story/ml/none", "state", "stream", "snapshot"):
            assert (await port.get(f"/debug/{path}", "tenant-token"))[0] == 403
        assert (await port.get("/debug/story/web/mine", "operator-token"))[0] == 403
        await _check_operator(port, tmp_path)
        async with program(*replica(kubeconfig, ports[1])) as standby:
            await standby.said("Caches are synced")
            other = Port(f"https://127.0.0.1:{ports[1]}", session)
            status, body = await other.get("/debug/story/web/mine", "tenant-token")
            answer = json.loads(body)
            assert (status, answer["isLeader"], answer["stories"][0]["runs"]) == (200, False, [])
        await _check_stream(port, leader)


async def _check_operator(port: Port, folder: Path) -> None:
    status, body = await port.get("/debug/state", "operator-token")
    state = json.loads(body)
    assert (status, [row["pod"] for row in state["pods"]], state["nodeCount"]) == (200, ["ml/theirs", "web/mine"], 2)
    status, body = await port.get("/debug/snapshot", "operator-token")
    assert status == 200
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.testzip() is None
    file = folder / "snapshot.zip"
    file.write_bytes(body)
    async with program("explain", "ml/theirs", "--objects", str(file), "--config", str(file)) as explain:
        assert await explain.ended() == 0
        assert any("0/2 nodes are available: 2 Insufficient cpu." in line for line in explain.out)


async def _check_stream(port: Port, leader: Program) -> None:
    """Check that the stream ends with the scheduler, which does not wait for its readers."""
    async with asyncio.timeout(PATIENCE_SECONDS), port.open("/debug/stream", "operator-token") as answer:
        assert (answer.status, await answer.content.readline()) == (200, b"event: begin\n")
        leader.send(signal.SIGTERM)
        await answer.content.read()
    assert await leader.ended() == 0
