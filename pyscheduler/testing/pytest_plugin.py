"""Fixtures for plugin authors, found by pytest through its `pytest11` entry point.

Imports nothing of pyscheduler until a fixture is used: it is loaded in every pytest run on the machine. An
`async def` test that uses one of the fixtures is run here, on a loop of its own, unless another plugin (pytest-asyncio,
anyio) has taken it over; so it runs as it stands, whatever is installed.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler.testing.clock import VirtualClock
    from pyscheduler.testing.fake_cluster import FakeCluster

__all__ = ["pyscheduler_clock", "pyscheduler_cluster"]


@pytest.fixture
def pyscheduler_clock() -> VirtualClock:
    """Give a virtual clock at rest; `await clock.advance(seconds)` moves it."""
    from pyscheduler.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def pyscheduler_cluster(pyscheduler_clock: VirtualClock) -> Iterator[FakeCluster]:
    """Give an empty fake cluster on the virtual clock; its invariants are checked when the test is over."""
    from pyscheduler.testing.fake_cluster import FakeCluster

    cluster = FakeCluster(clock=pyscheduler_clock)
    yield cluster
    cluster.assert_invariants()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test that uses our fixtures, where nobody else has wrapped it."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test) or "pyscheduler_cluster" not in pyfuncitem.fixturenames:
        return None
    names = inspect.signature(test).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
    asyncio.run(_run(test, arguments))
    return True


async def _run(test: Any, arguments: dict[str, Any]) -> None:
    """Run a test, then stop what its cluster started, on the same loop."""
    cluster = arguments.get("pyscheduler_cluster")
    try:
        await test(**arguments)
    finally:
        if cluster is not None:
            await cluster.close()
