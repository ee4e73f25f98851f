"""Fixtures for plugin authors, found by pytest through its `pytest11` entry point.

Imports nothing of pyscheduler until a fixture is used: it is loaded in every pytest run on the machine. An
`async def` test that uses one of the fixtures is run here, on a loop of its own, unless another plugin (pytest-asyncio,
anyio) takes it over; so it runs as it stands, whatever is installed. Who runs it or not, the schedulers that it started
are stopped on the loop that they ran on.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from pyscheduler.testing.clock import VirtualClock
    from pyscheduler.testing.fake_cluster import FakeCluster

__all__ = ["pyscheduler_clock", "pyscheduler_cluster"]

_FIXTURES: Final = frozenset({"pyscheduler_clock", "pyscheduler_cluster"})


@pytest.fixture
def pyscheduler_clock() -> VirtualClock:
    """Give a virtual clock at rest; `await clock.advance(seconds)` moves it."""
    from pyscheduler.testing.clock import VirtualClock

    return VirtualClock()


@pytest.fixture
def pyscheduler_cluster(pyscheduler_clock: VirtualClock) -> Iterator[FakeCluster]:
    """Give an empty fake cluster on the virtual clock.

    When the test is over, what it started is stopped, and the invariants are checked.
    """
    from pyscheduler.testing.fake_cluster import FakeCluster

    cluster = FakeCluster(clock=pyscheduler_clock)
    yield cluster
    cluster.assert_invariants()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Let a coroutine test stop what its cluster started, on the loop that it ran on, whoever runs it."""
    if not isinstance(item, pytest.Function) or not _is_ours(item):
        return (yield)
    test = item.obj
    item.obj = _closing(test, item.funcargs)
    try:
        return (yield)
    finally:
        item.obj = test


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test that uses our fixtures, where no other plugin does."""
    if not _is_ours(pyfuncitem):
        return None
    names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - what pytest itself passes to a test
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _is_ours(item: pytest.Function) -> bool:
    """Tell whether the test is a coroutine that uses one of our fixtures."""
    return not _FIXTURES.isdisjoint(item.fixturenames) and inspect.iscoroutinefunction(item.obj)


def _closing(test: Callable[..., Awaitable[None]], arguments: Mapping[str, Any]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def closing(**keywords: Any) -> None:
        try:
            await test(**keywords)
        finally:
            cluster = arguments.get("pyscheduler_cluster")
            if cluster is not None:
                await cluster.close()

    return closing
