"""An embedded cluster on a clock that only moves when told to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import hypothesis
import msgspec
import pytest

from kube_objects.http import Response
from kube_testserver.access.users import ADMIN, User
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.requests import Request
from kube_testserver.serving.watching import WatchStream
from kube_testserver.virtual_time import VirtualClock, settle

EPOCH = 1_800_000_000.0

if hypothesis.settings.default.deadline is not None:  # run alone; machines may be busy
    hypothesis.settings.register_profile("alone", deadline=None, derandomize=True, max_examples=20)
    hypothesis.settings.load_profile("alone")


class Api:
    """Sends requests to a cluster's router and decodes what comes back."""

    def __init__(self, cluster: EmbeddedCluster, token: str = "") -> None:
        self.cluster = cluster
        self.token = token

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        token: str | None = None,
        **query: str,
    ) -> Response:
        """Send one request; a body that is not bytes is encoded, and query names lose a trailing underscore."""
        token = self.token if token is None else token
        raw = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        asked = {name.rstrip("_"): value for name, value in query.items()}
        answer = await self.cluster.router.handle(
            Request(method, path, asked, raw, content_type, accept, "embedded:80", f"Bearer {token}" if token else "")
        )
        assert isinstance(answer, Response)
        return answer

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """Send one request and return its status and decoded body."""
        answer = await self.send(method, path, body, **options)
        return answer.status, msgspec.json.decode(answer.body)

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send one request that has to succeed; return its decoded body."""
        status, decoded = await self(method, path, body, **options)
        assert status < 300, decoded
        return decoded

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, str, str]:
        """Send one request that has to be refused; return code, reason and message."""
        status, decoded = await self(method, path, body, **options)
        assert decoded["kind"] == "Status", decoded
        assert (decoded["status"], decoded["code"]) == ("Failure", status), decoded
        return status, decoded.get("reason", ""), decoded["message"]

    async def watch(self, path: str, *, accept: str = "", **query: str) -> Watcher:
        """Open a watch that collects its events."""
        request = Request("GET", path, {"watch": "1", **query}, accept=accept)
        answer = await self.cluster.router.handle(request)
        assert isinstance(answer, WatchStream), answer
        return Watcher(answer)


class Watcher:
    """Collects the events of one watch as they come."""

    def __init__(self, stream: WatchStream) -> None:
        self.stream = stream
        self.events: list[dict[str, Any]] = []
        self.ended = False
        self.error: Exception | None = None
        self._task = asyncio.ensure_future(self._collect())

    async def _collect(self) -> None:
        try:
            async for chunk in self.stream:
                assert chunk.endswith(b"\n"), chunk
                self.events += [msgspec.json.decode(line) for line in chunk.splitlines()]
            self.ended = True
        except Exception as error:  # noqa: BLE001 - kept for the test to look at
            self.error = error

    async def seen(self) -> list[tuple[str, str]]:
        """Return type and name of each event so far."""
        await settle()
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in self.events]

    async def stop(self) -> None:
        self.stream.close()
        await settle()
        self._task.cancel()


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock that stands still."""
    return VirtualClock(start=0.0, epoch=EPOCH)


@pytest.fixture
def cluster(clock: VirtualClock) -> Iterator[EmbeddedCluster]:
    """Yield a fresh cluster, checked for contradictions when the test is over."""
    made = EmbeddedCluster(clock=clock, rng=random.Random(7))
    yield made
    made.check_invariants()


@pytest.fixture
def guarded(clock: VirtualClock) -> Iterator[EmbeddedCluster]:
    """Yield a cluster that goes by roles, with tokens for an administrator and for `sched`, who may nothing."""
    tokens = {"admin-token": ADMIN, "sched-token": User("sched", "u-1", ("devs",))}
    made = EmbeddedCluster(clock=clock, rng=random.Random(7), authorization="rbac", tokens=tokens)
    yield made
    made.check_invariants()


@pytest.fixture
async def api(cluster: EmbeddedCluster) -> AsyncIterator[Api]:
    """Yield a sender of requests to the cluster."""
    yield Api(cluster)
    cluster.router.drop_watches()
    await settle()


@pytest.fixture
def api_of() -> type[Api]:
    """Return the maker of senders, for a cluster and a bearer token."""
    return Api


def make_pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """Return a pod manifest with one container; `labels`, `annotations` and `generateName` go into its metadata."""
    metadata: dict[str, Any] = {"name": name} if name else {}
    metadata |= {key: spec.pop(key) for key in ("labels", "annotations", "generateName", "finalizers") if key in spec}
    containers = spec.pop("containers", [{"name": "c", "image": "busybox"}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


@pytest.fixture
def pod() -> Callable[..., dict[str, Any]]:
    """Return the maker of pod manifests."""
    return make_pod
