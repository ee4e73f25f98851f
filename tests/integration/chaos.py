"""What makes trouble for schedulers in other processes, and what keeps the record that they are judged by.

All of it is on the server's side of the wire: the schedulers are the program as it ships, and talk HTTP.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import attrs
import msgspec

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.requests import Request
from kube_testserver.serving.faults import Fault
from pyscheduler.cli.demo.audit import audit
from tests.integration.programs import pods
from tests.processes import PATIENCE_SECONDS

__all__ = ["Binding", "Books", "Holding", "arm_bindings", "arrive", "dropped_watches", "nothing_lost", "until"]

_BINDING = r"/pods/[^/]+/binding$"
_CREATED = 201


@attrs.frozen
class Holding:
    """The lease as somebody wrote it, and when that was; an empty holder is nobody."""

    holder: str
    at: float


@attrs.frozen
class Binding:
    """A binding that arrived: when, at which address, and whether it was made (its answer may be lost)."""

    pod: str
    at: float
    host: str
    is_made: bool


class Books:
    """What an API server notes of itself: every binding that arrived, and every write of the lease."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.bindings: list[Binding] = []
        self.lease: list[Holding] = []
        self._answer = cluster.router.answer
        self._handle = cluster.router.handle
        cluster.router.answer = self._note_answer  # type: ignore[method-assign]  # the server's own ear
        cluster.router.handle = self._note_request  # type: ignore[method-assign]  # same

    async def _note_request(self, request: Request) -> Any:
        made = len(self.bindings)
        answer = await self._handle(request)
        if request.path.endswith("/binding") and len(self.bindings) == made:
            self._note_binding(request, is_made=False)  # refused by a fault
        return answer

    def _note_answer(self, request: Request) -> Any:
        answer = self._answer(request)
        if request.path.endswith("/binding"):
            self._note_binding(request, is_made=answer.status == _CREATED)
        elif request.method in {"POST", "PUT"} and "/leases" in request.path and answer.status in {200, _CREATED}:
            holder = msgspec.json.decode(answer.body)["spec"].get("holderIdentity") or ""
            self.lease.append(Holding(holder, time.monotonic()))
        return answer

    def _note_binding(self, request: Request, *, is_made: bool) -> None:
        pod = request.path.split("/")[-2]
        self.bindings.append(Binding(pod, time.monotonic(), request.host, is_made))

    @property
    def made(self) -> Counter[str]:
        """Return how often each pod was bound."""
        return Counter(each.pod for each in self.bindings if each.is_made)

    def holder(self, at: float) -> str:
        """Return who held the lease at a moment, as the server had it."""
        return next((each.holder for each in reversed(self.lease) if each.at <= at), "")


def arm_bindings(cluster: EmbeddedCluster) -> list[Fault]:
    """Let one binding in ten go wrong, in one of five ways."""
    ways: list[dict[str, Any]] = [
        {"status": 409},
        {"status": 429, "retry_after_seconds": 1},
        {"status": 500},
        {"lose": "answer"},
        {"lose": "request"},
    ]
    return [cluster.faults.add(Fault(method="POST", path=_BINDING, probability=0.02, **way)) for way in ways]


async def arrive(url: str, count: int, *, rate: float) -> None:
    """Create so many pods over HTTP, so many a second."""
    begun = time.monotonic()
    async with aiohttp.ClientSession() as session:
        for number, pod in enumerate(pods(count)):
            await asyncio.sleep(max(begun + number / rate - time.monotonic(), 0))
            async with session.post(f"{url}/api/v1/namespaces/default/pods", json=pod) as answer:
                assert answer.status == _CREATED, await answer.text()


@asynccontextmanager
async def dropped_watches(cluster: EmbeddedCluster, rng: random.Random) -> AsyncIterator[Counter[str]]:
    """Break the watches every now and then while the block runs, in every way there is; yield how often."""
    counts: Counter[str] = Counter()

    async def drop() -> None:
        while True:
            await asyncio.sleep(rng.uniform(0.2, 1.0))
            how = rng.choice(["end", "cut", "within"])
            counts[how] += cluster.router.drop_watches(how=how)

    task = asyncio.create_task(drop())
    try:
        yield counts
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def nothing_lost(url: str, books: Books, count: int) -> None:
    """Check that so many pods are there, each bound exactly once, and no node has more than it can hold."""
    twice = {pod: times for pod, times in books.made.items() if times != 1}
    assert not twice, f"bound more than once: {twice}"
    report = await asyncio.to_thread(audit, url)
    assert not report.problems, report.problems
    assert (report.bound, report.pending, len(books.made)) == (count, 0, count), report


async def until(so: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not so():  # noqa: ASYNC110 - books and counters ring no bell
            await asyncio.sleep(0.02)
