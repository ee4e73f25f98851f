"""`pyscheduler run` with extenders that are programs of their own: everything over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pyscheduler.cli.demo.audit import audit
from tests.integration.conftest import Served
from tests.integration.programs import nodes, pods, program

Handler = Callable[[dict[str, Any]], Any]


class ExtenderServer:
    """An extender: `verbs` answer with data, text, or a `web.Response`; `calls` counts what was asked."""

    def __init__(self) -> None:
        self.verbs: dict[str, Handler] = {}
        self.calls: Counter[str] = Counter()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/{verb}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        """Stop listening."""
        assert self._runner is not None
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        verb = request.match_info["verb"]
        self.calls[verb] += 1
        answer = self.verbs[verb](await request.json())
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.Response(text=answer if isinstance(answer, str) else json.dumps(answer))


@pytest.fixture
async def extender() -> AsyncIterator[ExtenderServer]:
    """Yield an extender that listens."""
    server = ExtenderServer()
    await server.start()
    yield server
    await server.stop()


def config(folder: Path, *extenders: dict[str, Any]) -> str:
    """Write a configuration with these extenders; return its path."""
    file = folder / "config.json"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 5000, "burst": 10000},
        "profiles": [{"schedulerName": "pyscheduler"}],
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "extenders": extenders,
    }
    file.write_text(json.dumps(content))
    return str(file)


def run(url: str, file: str) -> tuple[str, ...]:
    """Return the arguments of a scheduler on that server."""
    return ("run", "--config", file, "--seed", "1", "--health-port", "0", "--master", url, "--leader-elect=false")


def even(args: dict[str, Any]) -> dict[str, Any]:
    """Let nodes with an even number pass."""
    items = args["Nodes"]["items"]
    passing = [node for node in items if int(node["metadata"]["name"][-3:]) % 2 == 0]
    odd = {node["metadata"]["name"]: "odd" for node in items if node not in passing}
    return {"Nodes": {"items": passing}, "FailedNodes": odd}


async def test_filter_score_and_bind(served_cluster: Served, extender: ExtenderServer, tmp_path: Path) -> None:
    """One extender narrows, another scores and binds; all pods land where the two want them, each bound once."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(20), *pods(60))

    async def bind(args: dict[str, Any]) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
        metadata = {"name": args["PodName"], "uid": args["PodUID"]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": args["Node"]}}
        status, answer = await api("POST", path, body)
        return {} if status == 201 else {"Error": str(answer)}

    extender.verbs = {
        "filter": even,
        "prioritize": lambda args: [
            {"Host": name, "Score": 10 if name > "node-009" else 0} for name in args["NodeNames"]
        ],
        "bind": bind,
    }
    file = config(
        tmp_path,
        {"urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": "20s"},
        {
            "urlPrefix": f"{extender.url}/",
            "prioritizeVerb": "prioritize",
            "weight": 100,
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "httpTimeout": "20s",
        },
    )
    async with program(*run(api.url, file)) as scheduler:
        await api.until_bound(60)
        await scheduler.said("Successfully bound", times=60)
        scheduler.send(signal.SIGTERM)
        assert await scheduler.ended() == 0
    assert extender.calls == {"filter": 60, "prioritize": 60, "bind": 60}
    assert set((await api.placements()).values()) <= {f"node-{number:03d}" for number in (10, 12, 14, 16, 18)}
    report = await asyncio.to_thread(audit, api.url)
    assert (report.problems, report.bound, report.pending) == ([], 60, 0)
    assert len(await api.events("Scheduled")) == 60


async def test_explain_asks_a_live_clusters_extenders(
    served_cluster: Served, extender: ExtenderServer, tmp_path: Path
) -> None:
    """Its refusals are shown under a name of their own; about a cluster in a file nobody is asked, and that is said."""
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(4), *pods(1))

    def filtered(args: dict[str, Any]) -> dict[str, Any]:
        assert all(node["status"]["capacity"] for node in args["Nodes"]["items"])
        assert args["Pod"]["spec"]["terminationGracePeriodSeconds"] == 30
        assert args["Pod"]["spec"]["dnsPolicy"] == "ClusterFirst"
        return even(args)

    extender.verbs = {"filter": filtered}
    file = config(tmp_path, {"urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": "20s"})
    async with program("explain", "--config", file, "--master", api.url, "pod-0000") as explain:
        assert await explain.ended() == 0
        assert "best of 2 feasible nodes" in "\n".join(explain.out)
        assert any(
            line.startswith("Extender ") and "2 of 4 nodes (node-001, node-003): odd" in line for line in explain.out
        )
    objects = tmp_path / "objects.json"
    objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes(4), *pods(1)]}))
    async with program("explain", "--config", file, "--objects", str(objects), "pod-0000") as explain:
        assert await explain.ended() == 0
        assert "best of 4 feasible nodes" in "\n".join(explain.out)
        assert any("extenders of the configuration are not called" in line for line in explain.err)
    assert extender.calls == {"filter": 1}
