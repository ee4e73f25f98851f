"""What is done with a wrong plugin, and the text that its author gets from it."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Mapping
from unittest import mock

import attrs

from pyscheduler import ConfigError, Plugin
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.testing import FakeCluster, PluginCheckError, check_plugin

__all__ = [
    "Row",
    "add_node",
    "bind",
    "block",
    "build",
    "check",
    "fixture",
    "load",
    "schedule",
    "schedule_two",
    "wait",
    "warned",
]


async def schedule(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod; return what the plugin did wrong and what the pod says."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    result = await framework.schedule("p")
    return "\n".join([*map(str, framework.plugin_errors), result.message])


async def schedule_two(cluster: FakeCluster, row: Row) -> str:
    """Schedule two pods; return what the plugin did wrong."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    await framework.schedule("p")
    await framework.schedule("q")
    return "\n".join(map(str, framework.plugin_errors))


async def bind(cluster: FakeCluster, row: Row) -> str:
    """Bind a pod and wait a minute; return what the plugin did wrong."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[row.plugin], disable=["DefaultBinder"], allow_plugin_errors=True)
    await framework.schedule("p")
    await cluster.clock.advance(60)
    return "\n".join(map(str, framework.plugin_errors))


async def wait(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod and let an hour pass; return the same."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    await framework.schedule("p")
    await cluster.clock.advance(3600)
    return "\n".join([*map(str, framework.plugin_errors), *(each["note"] for each in cluster.events())])


async def add_node(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod that is rejected, and add a node; return the same."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[row.plugin], args=row.args, allow_plugin_errors=True)
    await framework.schedule("p")
    cluster.add_node("n2")
    await framework.settle()
    return "\n".join(map(str, framework.plugin_errors))


async def build(cluster: FakeCluster, row: Row) -> str:
    """Make the framework; return the error."""
    try:
        cluster.framework(enable=[row.plugin], args=row.args)
    except ConfigError as error:
        return str(error)
    return ""


async def block(cluster: FakeCluster, row: Row) -> str:
    """Schedule two pods, where `time.sleep` moves the virtual clock; return the log."""
    cluster.add_node("n1")
    lines = _Lines()
    log = logging.getLogger("pyscheduler")
    log.addHandler(lines)
    try:
        with mock.patch("time.sleep", lambda seconds: setattr(cluster.clock, "_now", cluster.clock.now() + seconds)):
            framework = cluster.framework(enable=[row.plugin], args=row.args)
            await framework.schedule("p")
            await framework.schedule("q")
    finally:
        log.removeHandler(lines)
    return "\n".join(lines.found)


async def load(cluster: FakeCluster, row: Row) -> str:
    """Call the hook as a distribution's, and load what it registered; return the error."""
    registry = discover()
    row.code(registry)  # type: ignore[operator] # of this row it is a function
    try:
        registry.load("Rack")
    except ConfigError as error:
        return str(error)
    return ""


async def check(cluster: FakeCluster, row: Row) -> str:
    """Run `check_plugin`, which needs a thread without an event loop; return the failure."""
    try:
        await asyncio.to_thread(check_plugin, row.plugin, histories=20, checks=[row.check])
    except PluginCheckError as error:
        return str(error)
    return ""


class _Lines(logging.Handler):
    """Keeps the lines of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


async def fixture(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod as in a test of the author; return why the fixture fails the test."""
    from pyscheduler.testing.plugin_errors import unawaited_coroutines

    cluster.add_node("n1")
    with unawaited_coroutines() as unawaited:
        await cluster.framework(enable=[row.plugin], args=row.args).schedule("p")
    try:
        cluster.raise_plugin_errors(unawaited)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raised
        return str(error)
    return ""


async def warned(cluster: FakeCluster, row: Row) -> str:
    """Schedule a pod as in a test of the author; return the warnings of the fixture."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[row.plugin], args=row.args)
    await framework.schedule("p")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        cluster.warn_of_plugins()
    framework.allow_plugin_errors = True
    return "\n".join(f"{each.category.__name__}: {each.message}" for each in found)


@attrs.frozen(kw_only=True)
class Row:
    """One wrong plugin.

    `symptom` is a heading of the page. `run` returns the text in which `message` must be. `code` is what the page
    shows: a class, or a function. `check` is the check of `check_plugin` that finds the mistake, if `run` is `check`.
    """

    symptom: str
    code: type[Plugin] | Callable[..., None]
    run: Callable[[FakeCluster, Row], Awaitable[str]]
    message: str
    remedy: str
    args: Mapping[str, Mapping[str, object]] = attrs.Factory(dict)
    check: str = ""

    @property
    def plugin(self) -> type[Plugin]:
        """Return the class."""
        assert isinstance(self.code, type)
        return self.code

    @property
    def name(self) -> str:
        """Return the name of the class or function, which is the id of the test."""
        return self.code.__name__
