"""The stream of changes: what readers get, slow ones included, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kube_objects.clock import LoopClock
from pyscheduler.api import Pod
from pyscheduler.serving.http_server import HTTPServer
from pyscheduler.serving.listening import listen
from pyscheduler.serving.update_stream import UpdateStream
from pyscheduler.stories.book import StoryBook
from tests.processes import PATIENCE_SECONDS
from tests.serving.test_inspection import led_book, pod_of

pytestmark = pytest.mark.slow


class Served:
    """A stream on a port."""

    def __init__(self, book: StoryBook, *, is_leader: bool = True) -> None:
        self.book = book
        self.stream = UpdateStream(book, lambda: is_leader)
        self.server = HTTPServer(self.stream.answer)

    async def start(self) -> None:
        """Open the port."""
        listening = listen("127.0.0.1", 0, flag="", named=True)
        assert listening is not None
        await self.server.start(listening)

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Reader]:
        """Connect a reader that got its first event."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.server.port}/debug/stream") as answer,
        ):
            reader = Reader(answer)
            if answer.status == 200:
                reader.begin = await reader.event()
            yield reader

    def change(self, number: int) -> Pod:
        """Note another pod that waits."""
        pod = pod_of(f"web/p{number}", str(number))
        self.book.waits(pod, "Unschedulable", "no room", plugins=("NodeResourcesFit",))
        return pod


class Reader:
    """A client of the stream."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.begin: tuple[str, Any] = ("", None)

    async def event(self) -> tuple[str, Any]:
        """Return name and data of the next event; ("", None) at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line := (await self.answer.content.readline()).decode():
                if line == "\n" and fields:
                    return fields["event"], json.loads(fields["data"])
                name, _, value = line.rstrip("\n").partition(": ")
                if name:
                    fields[name] = value
        return "", None


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """Serve the stream of a leader."""
    found = Served(led_book())
    await found.start()
    yield found
    found.stream.close()
    await found.server.stop()


async def test_readers_get_each_change(served: Served) -> None:
    """Each reader has all changes since it came, in order; a change has the fields of a story and its new run."""
    served.change(0)
    async with served.reader() as first, served.reader() as second:
        assert (first.answer.headers["Content-Type"], first.begin) == (
            "text/event-stream",
            ("begin", {"isLeader": True}),
        )
        pod = served.change(1)
        served.book.waits(pod, "Unschedulable", "no room", plugins=("NodeResourcesFit",))  # no change
        served.book.bound(pod, "n1")
        for reader in (first, second):
            name, change = await reader.event()
            assert (name, change["pod"], change["uid"], change["profile"]) == ("change", "web/p1", "1", "batch")
            assert (change["pending"], change["queue"], change["created"]) == (True, "", "")
            run = change["run"]
            assert (run["reason"], run["message"], run["plugins"]) == ("Unschedulable", "no room", ["NodeResourcesFit"])
            assert change["firstSeen"] <= run["first"] == run["last"]
            name, change = await reader.event()
            assert (change["pending"], change["run"]["reason"], change["run"]["node"]) == (False, "Scheduled", "n1")


async def test_slow_reader_is_told_what_it_lost(served: Served) -> None:
    """Of more changes than its queue holds, it gets the newest, after their number."""
    async with served.reader() as reader:
        for number in range(1_234):
            served.change(number)
        assert await reader.event() == ("lost", {"count": 234})
        changes = [await reader.event() for _ in range(1_000)]
        assert [change["pod"] for _, change in changes] == [f"web/p{number}" for number in range(234, 1_234)]
        served.change(9_999)
        assert (await reader.event())[0] == "change"


async def test_nothing_is_encoded_without_readers(served: Served) -> None:
    """The book has a listener only while somebody reads; a reader that is gone is noticed at the next change."""
    async with served.reader():
        assert len(served.book.listeners) == 1
    async with asyncio.timeout(PATIENCE_SECONDS):
        number = 0
        while served.book.listeners:
            served.change(number)
            number += 1
            await asyncio.sleep(0.05)
    served.change(-1)


async def test_number_of_readers_is_limited(served: Served) -> None:
    """The seventeenth reader is refused."""
    async with aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{served.server.port}/debug/stream"
        answers = [await session.get(url) for _ in range(17)]
        assert [answer.status for answer in answers] == [200] * 16 + [429]
        assert (await answers[-1].json())["message"] == "16 readers follow the changes; close one of them"
        for answer in answers:
            answer.close()


async def test_stream_ends_with_the_server(served: Served) -> None:
    """Readers get what is gathered and then the end; the server need not wait for them."""
    async with served.reader() as reader:
        served.change(1)
        served.stream.close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await served.server.stop()
        assert (await reader.event())[0] == "change"
        assert await reader.event() == ("", None)


async def test_standby_says_so() -> None:
    """Its stream has no changes, because another replica decides."""
    served = Served(StoryBook(LoopClock()), is_leader=False)
    await served.start()
    async with served.reader() as reader:
        assert reader.begin == ("begin", {"isLeader": False})
        served.change(1)
        served.stream.close()
        assert await reader.event() == ("", None)
    await served.server.stop()
