"""Other schedulers are measured beside ours on one API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import click
import pytest

from benchmarks import beside
from benchmarks.plan import make_plan
from kube_testserver import TestServer
from pyscheduler.scheduler.ports import Transport

OTHER = beside.Program("other", f"{sys.executable} -m pyscheduler run --config {{config}}")


def test_each_program_has_its_turns_and_its_row() -> None:
    """All pods are bound anew in each round, and nothing is left on the server."""
    ours = beside.Program(beside.OURS, OTHER.command)
    with TestServer() as server:
        found = asyncio.run(beside.compare("SchedulingBasic", 20, [ours, OTHER], server.kubeconfig, 2))
        assert not server.objects("v1", "Node")
    pods = make_plan("SchedulingBasic", 20, distinct=False).measured_count
    assert list(found) == ["beside/SchedulingBasic-20/pyscheduler", "beside/SchedulingBasic-20/other"]
    for figures in found.values():
        assert figures["rounds"] == 2
        assert figures["pods"] == 2 * pods
        assert figures["pods_per_second"] > 0
        assert figures["first_bind_seconds"] > 0
        assert figures["peak_mib"] > 20


def test_a_program_that_ends_is_told_with_its_words() -> None:
    """The run stops at once, with what the program said."""
    broken = beside.Program("broken", f"""{sys.executable} -c "raise SystemExit('no such flag')" {{config}}""")
    with (
        TestServer() as server,
        pytest.raises(click.ClickException, match=r"bound 0 of 40 pods; it said:\nno such flag"),
    ):
        asyncio.run(beside.compare("SchedulingBasic", 20, [broken], server.kubeconfig, 1))


@pytest.mark.parametrize("text", ["kube-scheduler", "=x {config}", "name=command"])
def test_a_program_without_name_or_configuration_is_refused(text: str) -> None:
    """It would be measured on other pods, or not at all."""
    with pytest.raises(click.BadParameter, match="NAME=COMMAND"):
        beside.Program.read(text)


class Cut:
    """A transport whose watches end after some bytes; `versions` has where each of them began."""

    def __init__(self, *watches: list[bytes]) -> None:
        self.versions: list[str] = []
        self._watches = [*watches]

    @asynccontextmanager
    async def stream(self, _: str, *, query: Mapping[str, str], **__: Any) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open the next watch."""
        self.versions.append(query["resourceVersion"])
        chunks = self._watches.pop(0)

        async def read() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        yield read()


def event(version: int, kind: str = "ADDED") -> bytes:
    """Return an event of a pod."""
    return b'{"type":"%s","object":{"metadata":{"resourceVersion":"%d"}}}\n' % (kind.encode(), version)


async def test_a_watch_that_ends_goes_on_behind_its_last_whole_event() -> None:
    """No binding counts twice or is lost, wherever the bytes are cut."""
    transport = Cut([event(5) + event(6)[:30], event(6)[30:] + event(7, "MODIFIED") + event(8)[:40]], [event(8)])
    count = beside.BindingCount(cast("Transport", transport), "default", "1")
    await count.until(3)
    assert len(count.moments) == 3
    assert transport.versions == ["1", "7"]


async def test_a_watch_that_ends_at_once_is_an_error() -> None:
    """Otherwise the benchmark would ask for ever."""
    count = beside.BindingCount(cast("Transport", Cut([event(5)], [])), "default", "1")
    with pytest.raises(click.ClickException, match="ended after 1 of 2 bindings"):
        await count.until(2)
