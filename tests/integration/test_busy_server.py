"""A whole scheduler against an API server that refuses what is too much for it, or becomes slow.

The server is the embedded one; only how much it takes at a time is limited, where a real one has its priority and
fairness. Time is virtual and the transport is in process, because on a busy machine real requests take long, too.
"""

from __future__ import annotations

import asyncio
import random
import statistics
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from kube_testserver import errors
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.requests import Request
from kube_testserver.serving.router import Router, refusal
from kube_testserver.serving.watching import WatchStream
from pyscheduler.api import Node
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.cluster.real.concurrency import FULL
from pyscheduler.config.load import loads
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.ports import Response
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.telemetry.metrics import Metrics
from pyscheduler.testing import VirtualClock, node_manifest, pod_manifest
from tests.processes import PATIENCE_SECONDS

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 5000, burst: 10000}
profiles: [{schedulerName: pyscheduler}]
"""
BUSY = "the server has received too many requests and has asked us to try again later"


class BusyRouter(Router):
    """Takes so many writes at a time, each for so long; further ones are refused, or wait where it `queues`."""

    places = 8
    seconds = 0.004
    queues = False
    #: So many writes at once must have come before one is answered.
    awaited = 0

    def prepare(self) -> None:
        """Begin to count."""
        self.under_way = 0
        self.refused = 0
        self.most = 0
        self.room = asyncio.Semaphore(self.places)
        #: How often each pod was bound.
        self.bindings: Counter[str] = Counter()
        #: How many places were busy when a request ended, for each.
        self.busy: list[int] = []

    async def handle(self, request: Request) -> Response | WatchStream:
        """Answer reads at once, and writes as far as there is room."""
        if request.method == "GET":
            return await super().handle(request)
        if self.under_way >= self.places and not self.queues:
            self.refused += 1
            return refusal(errors.too_many_requests(BUSY, 1))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            while self.most < self.awaited:  # noqa: ASYNC110 - it is a server, which sees requests when they come
                await asyncio.sleep(0)
            async with self.room:
                await self._clock.sleep(self.seconds)
            answer = await super().handle(request)
        finally:
            self.busy.append(min(self.under_way, self.places))
            self.under_way -= 1
        if request.path.endswith("/binding") and answer.status == 201:
            self.bindings[request.path] += 1
        return answer


class Site:
    """A scheduler at work on a busy server."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.cluster = EmbeddedCluster(clock=self.clock, rng=random.Random(1))
        self.cluster.router.__class__ = BusyRouter
        self.metrics = Metrics()
        self.scheduler: Scheduler

    @property
    def router(self) -> BusyRouter:
        """Return the router that counts."""
        assert isinstance(self.cluster.router, BusyRouter)
        return self.cluster.router

    async def start(self) -> None:
        """Serve twenty nodes to a scheduler."""
        self.cluster.add(*(node_manifest(f"n{i}", allocatable={"cpu": "64", "pods": "1000"}) for i in range(20)))
        config = loads(CONFIG, source="test")
        self.scheduler = build(
            config, InProcessTransport(self.cluster.router), self.clock, random.Random(1), recorder=self.metrics
        )
        starting = asyncio.create_task(self.scheduler.start())
        await self.until(starting.done)
        await starting

    async def bind(self, count: int, name: str) -> int:
        """Create pods and wait until all are bound; return how many requests were refused meanwhile."""
        before, refused = self.router.bindings.total(), self.router.refused
        self.cluster.add(*(pod_manifest(f"{name}-{i}", scheduler_name="pyscheduler") for i in range(count)))
        await self.until(lambda: self.router.bindings.total() >= before + count and not self.scheduler.binding_count)
        return self.router.refused - refused

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not so():
                await self.clock.advance(0.005)

    def shown(self, name: str) -> dict[str, float]:
        """Return a metric's samples by their labels, as they are scraped."""
        lines = self.metrics.render()[0].decode().splitlines()
        found = (line.rpartition(" ") for line in lines if line.split("{")[0].split(" ")[0] == name)
        return {key.removeprefix(name): float(value) for key, _, value in found}


@asynccontextmanager
async def at_work() -> AsyncIterator[Site]:
    """Run a scheduler; at the end every pod is bound, and none was bound twice."""
    site = Site()
    site.router.prepare()
    await site.start()
    running = asyncio.create_task(site.scheduler.run())
    try:
        yield site
        assert set(site.router.bindings.values()) == {1}
    finally:
        stopping = asyncio.create_task(site.scheduler.stop(grace_seconds=PATIENCE_SECONDS))
        await site.until(stopping.done)
        await running


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Yield a scheduler at work on a server that takes eight writes at a time."""
    async with at_work() as found:
        yield found


async def test_a_server_that_takes_eight_at_a_time(site: Site) -> None:
    """One burst is refused; afterwards hardly any, and once there is room the full width comes back."""

    def cuts() -> float:
        return site.shown("pyscheduler_request_window_cuts_total")['{reason="429"}']

    first = await site.bind(200, "first")
    assert 1 <= first <= FULL
    first_cuts = cuts()
    later = await site.bind(400, "later")
    print({"refused of the first 200": first, "of 400 later": later})  # noqa: T201 - the figures behind the bound
    assert later <= 20
    assert site.router.most == 8
    assert site.shown("pyscheduler_request_window")[""] < FULL
    assert cuts() - first_cuts <= later
    assert 1 <= first_cuts <= first
    attempts = site.shown("scheduler_schedule_attempts_total")
    assert attempts == {'{profile="pyscheduler",result="scheduled"}': 600.0}

    site.router.places, site.router.room = 1000, asyncio.Semaphore(1000)
    assert await site.bind(200, "roomy") == 0
    await asyncio.gather(*(site.scheduler.client.get(Node, "n1") for _ in range(2000)))
    assert site.shown("pyscheduler_request_window") == {"": 64.0}


async def test_a_server_that_becomes_slow() -> None:
    """It is sent fewer, not so few that it would idle, and no pod waits in vain."""
    async with at_work() as site:
        site.router.queues, site.router.seconds = True, 0.5
        site.router.places, site.router.room = 5, asyncio.Semaphore(5)
        site.router.awaited = FULL
        assert await site.bind(128, "slow") == 0
        busy = statistics.mean(site.router.busy)
        cuts = site.shown("pyscheduler_request_window_cuts_total")
        print({"busy": busy, "cuts": cuts, "most": site.router.most})  # noqa: T201 - the figures behind the bounds
        assert site.router.most == FULL
        assert cuts['{reason="slow"}'] >= 1
        assert set(cuts) == {'{reason="slow"}'}
        # A cut halves it, and it grows slowly.
        assert 8 <= site.shown("pyscheduler_request_window")[""] < FULL
        # One by one it would be 1.
        assert busy > 2.5
        site.router.seconds = 0.0


async def test_a_server_that_refuses_everything() -> None:
    """It hears of the scheduler once a second, not of every pod that waits."""
    async with at_work() as site:
        site.router.places = 0
        began = site.clock.now()
        binding = asyncio.create_task(site.bind(300, "refused"))
        await site.until(lambda: site.router.refused > 0)
        await site.clock.advance(1.0)
        before = site.router.refused
        await site.clock.advance(5.0)
        later, seconds = site.router.refused - before, site.clock.now() - began
        print({"refused at first": before, "later": later, "in seconds": seconds})  # noqa: T201 - behind the bounds
        assert later >= 1
        assert before + later <= 80 + seconds
        site.router.places = 8
        await binding
