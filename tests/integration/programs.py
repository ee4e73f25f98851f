"""The program as its users have it: processes of their own, their output read line by line, and the API over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pyscheduler.testing import node_manifest, pod_manifest
from tests import forked, processes
from tests.forked import Forked
from tests.processes import PATIENCE_SECONDS

#: A ready-made configuration that does not hold requests back.
FAST = Path(__file__).parents[2] / "configs" / "default.yaml"


class Program:
    """One `pyscheduler` process and all the lines it has written so far."""

    def __init__(self, process: asyncio.subprocess.Process | Forked) -> None:
        self.process = process
        self.out: list[str] = []
        self.err: list[str] = []
        self._news = asyncio.Condition()
        #: Streams that may still say something. Their end may be seen before the process's.
        self._open = 2
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(process.stdout, self.out)),
            asyncio.create_task(self._read(process.stderr, self.err)),
        ]

    async def _read(self, stream: asyncio.StreamReader, lines: list[str]) -> None:
        async for line in stream:
            lines.append(line.decode().rstrip("\n"))
            async with self._news:
                self._news.notify_all()
        self._open -= 1
        async with self._news:
            self._news.notify_all()

    async def said(self, text: str, *, times: int = 1) -> str:
        """Wait until `text` has been written on so many lines; return the last of them."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._news:
            while True:
                found = [line for line in (*self.out, *self.err) if text in line]
                if len(found) >= times:
                    return found[times - 1]
                assert self._open, f"ended without saying {text!r}: {self.err[-5:]}"
                await self._news.wait()

    def count(self, text: str) -> int:
        """Return on how many lines of stderr `text` stands."""
        return sum(text in line for line in self.err)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Wait for the end; return the exit code, once all that was written has been read."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.process.wait()
            await asyncio.gather(*self._readers)
        assert self.process.returncode is not None
        return self.process.returncode

    async def kill(self) -> None:
        """End it at once, if it runs still, and what it has started."""
        processes.kill(self.process)
        await self.ended()


@asynccontextmanager
async def program(
    *arguments: str, env: Mapping[str, str] | None = None, launcher: Sequence[str] = (), patch: str = ""
) -> AsyncIterator[Program]:
    """Run `pyscheduler` with these arguments while the block runs; a launcher is a command that is given all of it.

    With no launcher, the program is forked from a process that has imported it. `patch` is code that runs before the
    program, for tests of what takes seconds: it changes how many.
    """
    environment = {**os.environ, **(env or {})}
    code = f"{patch}\nfrom kube_pyscheduler import main\nmain()" if patch else ""
    if forked.IS_POSSIBLE and not launcher:
        running = Program(await forked.start(*arguments, env=environment, code=code))
    else:
        begin = ("-c", code) if code else ("-m", "pyscheduler")
        running = Program(await processes.start(*launcher, sys.executable, *begin, *arguments, env=environment))
    try:
        yield running
    finally:
        await running.kill()


@asynccontextmanager
async def served(
    folder: Path, objects: Sequence[Mapping[str, Any]] = (), *, options: Sequence[str] = ()
) -> AsyncIterator[Api]:
    """Serve `objects` from a process of its own while the block runs."""
    file = folder / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    arguments = ("cluster", "--port", "0", "--load", str(file), "--reject-only", *options)
    async with program(*arguments) as server:
        line = await server.said("serving ")
        assert line.endswith(f"objects={len(objects)}")
        yield Api(line.split()[1], server)


class Api:
    """Requests to an API server, one at a time, decoded."""

    def __init__(self, url: str, server: Program | None = None, *, token: str = "") -> None:
        self.url = url
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    @property
    def server(self) -> Program:
        """Return the server's process."""
        assert self._server is not None
        return self._server

    async def __call__(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send one request; return status and decoded answer (text, where it is no JSON)."""
        return await asyncio.to_thread(self._send, method, path, body)

    def _send(self, method: str, path: str, body: object) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data=data, method=method, headers={"Content-Type": "application/json", **self._headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _decoded(error.read())

    async def items(self, path: str) -> list[dict[str, Any]]:
        """Return everything in a collection."""
        status, answer = await self("GET", path)
        assert status == 200, answer
        found: list[dict[str, Any]] = answer["items"]
        return found

    async def placements(self) -> dict[str, str]:
        """Return the node of every pod that has one, by the pod's uid."""
        pods = await self.items("/api/v1/pods")
        return {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}

    async def pod(self, name: str) -> dict[str, Any]:
        """Return one pod of the namespace `default`."""
        status, answer = await self("GET", f"/api/v1/namespaces/default/pods/{name}")
        assert status == 200, answer
        found: dict[str, Any] = answer
        return found

    async def until_refused(self, name: str) -> dict[str, Any]:
        """Wait until a pod's status says that it was not scheduled; return that condition. Events may come before."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for condition in (await self.pod(name))["status"].get("conditions", ()):
                    if condition["type"] == "PodScheduled" and condition["status"] == "False":
                        refused: dict[str, Any] = condition
                        return refused
                await asyncio.sleep(0.05)

    async def create_pod(self, name: str, **keywords: Any) -> None:
        """Create a pod of the namespace `default`."""
        status, answer = await self("POST", "/api/v1/namespaces/default/pods", pod_manifest(name, **keywords))
        assert status == 201, answer

    async def until_bound(self, count: int) -> dict[str, str]:
        """Wait until so many pods have a node; return all placements."""
        pause = 0.05
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                placements = await self.placements()
                if len(placements) >= count:
                    return placements
                # A long list costs the server what it should spend on the scheduler.
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, 0.5)

    async def events(self, reason: str) -> list[dict[str, Any]]:
        """Return the events of that reason."""
        found = await self.items("/apis/events.k8s.io/v1/events")
        return [event for event in found if event["reason"] == reason]

    async def until_told(self, reason: str, count: int) -> list[dict[str, Any]]:
        """Wait for so many events of that reason; return them."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await self.events(reason)
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.05)


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def nodes(count: int) -> list[dict[str, Any]]:
    """Return nodes of 32 CPUs."""
    return [
        node_manifest(f"node-{number:03d}", allocatable={"cpu": "32", "memory": "128Gi"}) for number in range(count)
    ]


def pods(count: int, *, scheduler_name: str = "pyscheduler", prefix: str = "pod") -> list[dict[str, Any]]:
    """Return pods of five sizes that fit twice on a hundred nodes of `nodes`."""
    return [
        pod_manifest(
            f"{prefix}-{number:04d}",
            scheduler_name=scheduler_name,
            requests={"cpu": f"{200 + 100 * (number % 5)}m", "memory": "256Mi"},
        )
        for number in range(count)
    ]
