"""The lease in a thread of its own, over HTTP and in real time: it is renewed while the main loop does not turn."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.cluster.real.lease import LeaderElector
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.errors import ConfigError
from pyscheduler.framework.recorder import NullRecorder
from tests.processes import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

#: Renewed often; what waits for a lease to run out would wait until the test is ended.
CONFIG = LeaderElection(lease_duration_seconds=3600.0, renew_deadline_seconds=1800.0, retry_period_seconds=0.2)
PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pyscheduler"


class Recorder(NullRecorder):
    """Notes on which thread it was called."""

    def __init__(self) -> None:
        self.threads: set[int] = set()

    def warning(self, kind: str) -> None:
        self.threads.add(threading.get_ident())


@pytest.fixture
def server() -> Iterator[str]:
    """Serve an embedded cluster from another thread, as a server elsewhere would; return its URL."""
    ready: list[Any] = []
    up = threading.Event()

    async def serve() -> None:
        server = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1)).server()
        await server.start()
        stop = asyncio.Event()
        ready.extend([server.url, asyncio.get_running_loop(), stop])
        up.set()
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="server")
    thread.start()
    assert up.wait(PATIENCE_SECONDS)
    url, loop, stop = ready
    yield url
    loop.call_soon_threadsafe(stop.set)
    thread.join()


@pytest.fixture
async def elector(server: str) -> AsyncIterator[Callable[..., LeaderElector]]:
    """Make electors that are released at the end; none leaves a thread behind."""
    made: list[LeaderElector] = []

    async def open_transport() -> HTTPTransport:
        return HTTPTransport(auth.plain(server))

    def make(identity: str, **keywords: Any) -> LeaderElector:
        keywords = {"transport": open_transport, "recorder": NullRecorder(), "config": CONFIG, **keywords}
        made.append(LeaderElector(rng=random.Random(identity), identity=identity, **keywords))
        return made[-1]

    yield make
    for each in made:
        await each.release()
    assert "lease" not in {thread.name for thread in threading.enumerate()}


def request(server: str, method: str = "GET", body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Ask without an event loop."""
    data = json.dumps(body).encode() if body is not None else None
    asked = urllib.request.Request(server + PATH, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


async def until_seen(standby: LeaderElector) -> None:
    """Wait until a standby has looked at the lease."""
    while standby.lease is None:  # noqa: ASYNC110 - it is looked at in another thread
        await asyncio.sleep(0.01)


async def test_renews_while_the_main_loop_is_blocked(server: str, elector: Any) -> None:
    """The main thread is busy until the lease has been renewed several times, and the standby waits."""
    a, b = elector("a"), elector("b")
    await a.acquire()
    waiting = asyncio.create_task(b.acquire())
    await until_seen(b)
    renewals = set()
    while len(renewals) < 5:  # the loop does not turn in here
        sum(range(10_000))
        spec = request(server)["spec"]
        assert spec["holderIdentity"] == "a"
        renewals.add(spec["renewTime"])
        assert a.is_leader
        assert not b.is_leader
    await asyncio.sleep(0)
    assert not waiting.done()
    await a.release()
    await waiting  # long before the lease would have run out
    assert (a.is_leader, b.is_leader) == (False, True)
    assert request(server)["spec"]["leaseTransitions"] == 1


async def test_loss_is_seen_before_it_can_be_told(server: str, elector: Any) -> None:
    """While the main loop is blocked, `is_leader` turns false all the same; the callbacks come on the main thread."""
    told: list[int] = []
    recorder = Recorder()
    a = elector("a", on_lost=lambda: told.append(threading.get_ident()), recorder=recorder)
    await a.acquire()
    lost = asyncio.create_task(a.lost())
    await asyncio.sleep(0)
    while a.is_leader:
        body = request(server)
        body["spec"]["holderIdentity"] = "intruder"
        try:
            request(server, "PUT", body)
        except urllib.error.HTTPError as error:  # the leader renewed in between
            error.close()
            continue
        while a.is_leader:
            time.sleep(0.01)  # noqa: ASYNC251 - blocking is the point
    assert told == []
    assert not lost.done()
    await lost
    assert told == [threading.get_ident()]
    assert a.reason == "it is held by intruder"
    assert recorder.threads <= {threading.get_ident()}


async def test_server_that_is_gone(server: str, elector: Any, wire: Any) -> None:
    """A server that takes requests and never answers: leadership ends with the renew deadline, in real time.

    On a machine so busy that no renewal succeeds in time, leadership ends for the same reason.
    """
    silent = False

    async def answer(wire: Any, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        if silent:
            await asyncio.sleep(3600)
        method, path, _ = head.split(" ", 2)
        status, text = await asyncio.to_thread(forward, server + path, method, body)
        wire.reply(writer, text, f"{status} OK")

    def forward(url: str, method: str, body: bytes) -> tuple[int, bytes]:
        asked = urllib.request.Request(url, body or None, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(asked) as found:
                return found.status, found.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    between = await wire(answer)

    async def open_transport() -> HTTPTransport:
        return HTTPTransport(auth.plain(between.url))

    recorder = Recorder()
    config = LeaderElection(lease_duration_seconds=2.0, renew_deadline_seconds=1.5, retry_period_seconds=0.2)
    a = elector("a", transport=open_transport, recorder=recorder, config=config)
    await a.acquire()
    silent = True
    await a.lost()
    assert "no answer in" in a.reason
    assert recorder.threads == {threading.get_ident()}
    silent = False


async def test_transport_that_cannot_be_opened(elector: Any) -> None:
    """What goes wrong in the thread is raised where leadership was asked for."""

    async def open_transport() -> HTTPTransport:
        raise ConfigError("no such kubeconfig")

    a = elector("a", transport=open_transport)
    with pytest.raises(ConfigError, match="no such kubeconfig"):
        await a.acquire()
    assert not a.is_leader


async def test_release_while_waiting(elector: Any) -> None:
    """A standby that is told to stop ends at once, its thread too."""
    a, b = elector("a"), elector("b")
    await a.acquire()
    waiting = asyncio.create_task(b.acquire())
    await until_seen(b)
    waiting.cancel()
    await b.release()
    assert a.is_leader
    with pytest.raises(asyncio.CancelledError):
        await waiting
