"""The client path on an embedded cluster, in virtual time.

With a ledger that checks what handlers are told, and a checker that compares an informer with a list from the store.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from kube_objects.kinds import PODS, kind_of
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.api import KubeObject, Pod, ResourceKind, decode
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.client import RealClient
from pyscheduler.cluster.real.informer import RealInformer
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.ports import ClientSettings, Response
from pyscheduler.testing.builders import node_manifest, pod_manifest
from tests.cluster.real.candidates import Candidate
from tests.processes import PATIENCE_SECONDS


class Warnings(NullRecorder):
    """Counts warnings."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def warning(self, kind: str) -> None:
        self.counts[kind] += 1

    def __getitem__(self, kind: str) -> int:
        return self.counts[kind]


class Ledger:
    """Handlers that keep book: each call must fit what was told before; `told` is what a listener now believes."""

    def __init__(self) -> None:
        self.told: dict[str, KubeObject] = {}
        self.calls: list[str] = []

    def listen(self, informer: RealInformer[Any]) -> Ledger:
        informer.add_event_handler(on_add=self.add, on_update=self.update, on_delete=self.delete)
        return self

    def add(self, item: KubeObject) -> None:
        assert item.key not in self.told, f"{item.key} was added twice"
        self.told[item.key] = item
        self.calls.append(f"add {item.name}")

    def update(self, old: KubeObject, new: KubeObject) -> None:
        assert self.told[old.key] is old, f"{old.key} was updated from a state that was never told"
        assert old.uid == new.uid, f"{old.key} became another object"
        self.told[new.key] = new
        self.calls.append(f"update {new.name}")

    def delete(self, item: KubeObject) -> None:
        assert self.told.pop(item.key) is item, f"{item.key} was deleted in a state that was never told"
        self.calls.append(f"delete {item.name}")

    def take(self) -> list[str]:
        """Return the calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


class Stage:
    """An embedded cluster and a client on it, in virtual time."""

    def __init__(
        self, *, history_limit: int = 20_000, qps: float = 0.0, burst: int = 100, host_name: str = "host-1"
    ) -> None:
        self.clock = VirtualClock()
        self.cluster = EmbeddedCluster(clock=self.clock, rng=random.Random(1), history_limit=history_limit)
        self.warnings = Warnings()
        self.settings = ClientSettings(qps=qps, burst=burst, host_name=host_name)
        self.client = self.connect(InProcessTransport(self.cluster.router))

    def connect(self, transport: Any) -> RealClient:
        """Return a client over any transport."""
        return RealClient(
            transport,
            self.settings,
            clock=self.clock,
            rng=random.Random(2),
            recorder=self.warnings,
        )

    # The cluster

    def add_pod(self, name: str, **keywords: Any) -> dict[str, Any]:
        return self.cluster.add(pod_manifest(name, **keywords))[0]

    def add_pods(self, *names: str) -> None:
        for name in names:
            self.add_pod(name)

    def add_node(self, name: str, **keywords: Any) -> dict[str, Any]:
        return self.cluster.add(node_manifest(name, **keywords))[0]

    def remove_pod(self, name: str) -> None:
        """Delete a pod in one step, as its node does at the end."""
        collection, record = self._record(("v1", "Pod"), name, "default")
        collection.remove(record)

    def change_pod(self, name: str, **labels: str) -> None:
        """Change a pod's labels: a new version."""
        self.change(("v1", "Pod"), name, "default", lambda pod: pod["metadata"].update(labels=labels))

    def change(
        self, what: tuple[str, str], name: str, namespace: str, edit: Callable[[dict[str, Any]], object]
    ) -> None:
        """Change an object in the store itself, past every check."""
        collection, record = self._record(what, name, namespace)
        body = record.decode()
        edit(body)
        collection.replace(record, body)

    def states(self) -> list[Pod]:
        """Return the pods as they are, without a turn of the loop."""
        return [decode(Pod, msgspec.json.encode(pod)) for pod in self.cluster.pods()]

    def _record(self, what: tuple[str, str], name: str, namespace: str) -> tuple[Any, Any]:
        resource = self.cluster.resource(*what)
        collection = self.cluster.registry.collection(resource)
        return collection, collection.get(resource.key(namespace, name))

    def fault(self, **keywords: Any) -> Fault:
        return self.cluster.faults.add(Fault(**keywords))

    def drop_watches(self, how: str = "end") -> int:
        return self.cluster.router.drop_watches(how=how)

    # The client

    def informer(self, kind: ResourceKind = PODS, **keywords: Any) -> RealInformer[Any]:
        return self.client.informer(kind, **keywords)

    async def started(self, kind: ResourceKind = PODS, **keywords: Any) -> tuple[RealInformer[Any], Ledger]:
        """Return an informer that has synced, and the book of what it has told."""
        informer = self.informer(kind, **keywords)
        ledger = Ledger().listen(informer)
        informer.start()
        await settle()
        await informer.wait_synced()
        return informer, ledger

    def assert_equal(self, informer: RealInformer[Any], *ledgers: Ledger, but: Iterable[str] = ()) -> None:
        """Compare the informer, and those who listened to it, with what the API server has.

        `but` names objects that cannot be decoded, of which nothing is expected.
        """
        kind = informer._kind
        passed_over = set(but)
        expected = {}
        for item in self.cluster.objects(kind.api_version, kind.kind):
            metadata = item["metadata"]
            if metadata["name"] not in passed_over:
                key = "/".join(filter(None, (metadata.get("namespace", ""), metadata["name"])))
                expected[key] = (metadata["uid"], metadata["resourceVersion"])
        found = {item.key: (item.uid, item.resource_version) for item in informer if item.name not in passed_over}
        assert found == expected
        for ledger in ledgers:
            assert ledger.told == {item.key: item for item in informer}

    async def close(self) -> None:
        self.cluster.faults.clear()
        await self.client.close()


@pytest.fixture
async def make_stage() -> AsyncIterator[Callable[..., Stage]]:
    """Make stages that are closed at the end."""
    stages: list[Stage] = []

    def make(**keywords: Any) -> Stage:
        stages.append(Stage(**keywords))
        return stages[-1]

    yield make
    for stage in stages:
        await stage.close()


@pytest.fixture
async def stage(make_stage: Callable[..., Stage]) -> Stage:
    """Return a client on a cluster with nothing in it yet."""
    return make_stage()


@pytest.fixture
async def candidate(stage: Any) -> AsyncIterator[Callable[..., Candidate]]:
    """Make candidates on the stage's cluster; they end with the test."""
    made: list[Candidate] = []

    def make(name: str = "a", *args: Any, **keywords: Any) -> Candidate:
        made.append(Candidate(stage, name, *args, **keywords))
        return made[-1]

    yield make
    for each in made:
        await each.die()


@pytest.fixture
def stage_type() -> type[Stage]:
    """Return the stage itself, for tests that make many."""
    return Stage


@pytest.fixture
def ledger_type() -> type[Ledger]:
    """Return the ledger itself, for the same."""
    return Ledger


@pytest.fixture
def warnings() -> Warnings:
    """Count warnings, for tests that need no stage."""
    return Warnings()


@pytest.fixture
def ledger() -> Ledger:
    """Return an empty book."""
    return Ledger()


def gadget_crd() -> dict[str, Any]:
    """Return the definition of a kind that clusters do not have by themselves."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


class Gadget(KubeObject):
    """A custom resource."""

    api_version = "example.com/v1"
    kind = "Gadget"

    spec: Mapping[str, Any] = msgspec.field(default_factory=dict)
    status: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Gadgets:
    """The custom kind: its row, its type, its definition."""

    KIND = kind_of(Gadget, "gadgets")
    TYPE = Gadget

    @staticmethod
    def install(stage: Stage) -> None:
        stage.cluster.add(gadget_crd())

    @staticmethod
    def uninstall(stage: Stage) -> None:
        stage.cluster.remove("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gadgets.example.com")

    @staticmethod
    def add(stage: Stage, name: str, **spec: Any) -> None:
        stage.cluster.add(
            {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": dict(spec)}
        )


@pytest.fixture
def gadgets() -> type[Gadgets]:
    """Return a custom kind that tests may install and uninstall."""
    return Gadgets


class Script:
    """A transport whose answers are written down beforehand; asked for more, it fails the test.

    Requests are answered in order by `answers`, watches by `streams`: an exception is raised, a stream is a list of
    chunks and exceptions. What was asked is kept in `asked`.
    """

    def __init__(self, *answers: object, streams: Iterable[object] = ()) -> None:
        self.answers = list(answers)
        self.streams = list(streams)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> Response:
        self.asked.append((method, path, dict(query or {}), body or b""))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Response):
            return answer
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        assert isinstance(body, bytes)
        return Response(status=status, body=body, headers={})

    def stream(self, path: str, *, query: dict[str, str] | None = None, timeout_seconds: float | None = None) -> Any:
        self.asked.append(("WATCH", path, dict(query or {}), b""))
        return _ScriptedStream(self.streams.pop(0))

    async def close(self) -> None:
        """Nothing to close."""


class _ScriptedStream:
    def __init__(self, parts: Any) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self._parts = list(parts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            if isinstance(part, BaseException):
                raise part
            if callable(part):
                await part()
                continue
            yield part


@pytest.fixture
def script() -> type[Script]:
    """Return the scripted transport."""
    return Script


class Meddler:
    """A transport between client and cluster that does things to the lines of watches.

    `meddle` gets each line and returns what is passed on: any number of lines, or parts of them.
    """

    def __init__(self, inner: Any, meddle: Callable[[bytes], Iterable[bytes]], clock: VirtualClock) -> None:
        self._inner = inner
        self._meddle = meddle
        self._clock = clock
        self.request = inner.request
        self.close = inner.close
        #: The query of each watch, and when it was opened.
        self.watches: list[dict[str, str]] = []
        self.opened: list[float] = []

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: dict[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AsyncIterator[Any]:
        self.watches.append(dict(query or {}))
        self.opened.append(self._clock.now())
        async with self._inner.stream(path, query=query, timeout_seconds=timeout_seconds) as stream:
            yield _MeddledStream(stream, self._meddle)


class _MeddledStream:
    def __init__(self, inner: Any, meddle: Callable[[bytes], Iterable[bytes]]) -> None:
        self._inner = inner
        self._meddle = meddle
        self.status = inner.status
        self.headers = inner.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            for line in chunk.splitlines(keepends=True):
                for part in self._meddle(line):
                    yield part


@pytest.fixture
def meddled() -> Callable[[Stage, Callable[[bytes], Iterable[bytes]]], Meddler]:
    """Put a meddler between a stage's client and its cluster."""

    def put(stage: Stage, meddle: Callable[[bytes], Iterable[bytes]]) -> Meddler:
        meddler = Meddler(InProcessTransport(stage.cluster.router), meddle, stage.clock)
        stage.client = stage.connect(meddler)
        return meddler

    return put


@pytest.fixture
def turn_until() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Let the event loop turn until something is so; for what `settle` would wait out."""

    async def turn(so: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not so():  # noqa: ASYNC110 - caches and pools ring no bell
                await asyncio.sleep(0)

    return turn


class Wire:
    """A server that is just good enough to misbehave: it reads requests and lets `answer` write what it likes.

    `answer(wire, head, body, writer)` is called for each request; afterwards the connection stays open unless it
    closed the writer. Each head (request line and headers) is kept in `heads`.
    """

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.heads: list[str] = []
        self.connections = 0
        self.url = ""

    async def start(self, context: ssl.SSLContext | None = None) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # it runs in one
        self.connections += 1
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length.group(1))) if length else b""
                self.heads.append(head)
                await self._answer(self, head, body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went, or the test is over
        finally:
            writer.close()

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @staticmethod
    def reply(writer: asyncio.StreamWriter, body: bytes, status: str = "200 OK", **headers: str) -> None:
        """Write a whole answer."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)


@pytest.fixture
async def wire() -> AsyncIterator[Callable[..., Awaitable[Wire]]]:
    """Start servers that answer as told; they end with the test."""
    wires: list[Wire] = []

    async def start(answer: Callable[..., Any], *, context: ssl.SSLContext | None = None) -> Wire:
        wires.append(await Wire(answer).start(context))
        return wires[-1]

    yield start
    for each in wires:
        await each.stop()


@pytest.fixture
def pki() -> Path:
    """Return the folder of keys and certificates; `make.sh` in it says what is what."""
    return Path(__file__).parent / "pki"
