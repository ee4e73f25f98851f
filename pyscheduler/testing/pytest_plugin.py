"""Pytest fixtures for plugin authors, registered by the `pytest11` entry point."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from kube_testserver.virtual_time import VirtualClock
    from pyscheduler.testing.fake_cluster import FakeCluster

__all__ = ["pyscheduler_clock", "pyscheduler_cluster"]

_FIXTURES: Final = frozenset({"pyscheduler_clock", "pyscheduler_cluster"})


@pytest.fixture
def pyscheduler_clock() -> VirtualClock:
    """Give a virtual clock at rest; `await clock.advance(seconds)` moves it."""
    from kube_testserver.virtual_time import VirtualClock

    return VirtualClock()


@pytest.fixture
def pyscheduler_cluster(pyscheduler_clock: VirtualClock) -> Iterator[FakeCluster]:
    """Give an empty fake cluster on the virtual clock.

    `framework.schedule`, `settle` and `start` start the scheduler and with it `run()` of each plugin, as a task. They
    await what plugins start at the current time: `async def` methods and coroutines of `handle.spawn`. A test awaits
    only the methods of the framework; `await cluster.clock.advance(seconds)` lets `clock.sleep` in `run()` end.

    After the test, the fixture stops its frameworks: it cancels `run()` and calls `close()`. It raises the exception
    of a plugin that failed, unless its framework was made with `allow_plugin_errors=True`, and checks the invariants.
    A `PluginWarning` names calls that took over 100 ms, and methods that nobody calls.
    """
    from pyscheduler.testing.fake_cluster import FakeCluster
    from pyscheduler.testing.plugin_errors import unawaited_coroutines

    cluster = FakeCluster(clock=pyscheduler_clock, watch_plugins=True)
    with unawaited_coroutines() as unawaited:
        yield cluster
    cluster.raise_plugin_errors(unawaited)
    cluster.assert_invariants()
    cluster.warn_of_plugins()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Wrap a coroutine test so that its cluster is closed on the loop of the test."""
    if not isinstance(item, pytest.Function) or not _is_ours(item):
        return (yield)
    test = item.obj
    item.obj = _closing(test, item.funcargs)
    try:
        return (yield)
    finally:
        item.obj = test


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test that uses these fixtures, if no other plugin runs it."""
    if not _is_ours(pyfuncitem):
        return None
    names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - what pytest itself passes to a test
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _is_ours(item: pytest.Function) -> bool:
    """Return True if the test is a coroutine that uses one of these fixtures."""
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
