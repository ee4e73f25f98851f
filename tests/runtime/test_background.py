"""Tasks that plugins start."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.framework.plugin_failures import PluginFailures
from pyscheduler.runtime.background import Background


@pytest.fixture
def background(kit: Any) -> Background:
    """Give an empty one."""
    return Background(clock=kit.clock, failures=PluginFailures(kit.recorder))


async def test_work_runs_as_a_task(background: Background) -> None:
    """What is spawned runs, under its name, and is forgotten when it is over."""
    done = asyncio.Event()

    async def work() -> None:
        done.set()

    task = background.spawn(work(), name="work")
    assert (task.get_name(), len(background.names())) == ("work", 1)
    await task
    await settle()
    assert done.is_set()
    assert len(background.names()) == 0


async def test_a_failure_is_logged_and_counted(
    kit: Any, background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody awaits a background task, so its failure is told where people look."""

    async def work() -> None:
        raise ValueError("no table")

    with caplog.at_level(logging.ERROR):
        await background.spawn(work(), name="work")
    assert 'task="work" place="test_background.py:' in caplog.text
    assert 'err="ValueError: no table"' in caplog.text
    assert kit.recorder.warnings == {"plugin_task_failed": 1}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(asyncio.CancelledError(), "CancelledError", id="something that it awaited was cancelled"),
        pytest.param(SystemExit(3), "SystemExit: 3", id="a library wants to end the program"),
    ],
)
async def test_no_failure_goes_further_than_its_task(
    kit: Any, background: Background, caplog: pytest.LogCaptureFixture, error: BaseException, said: str
) -> None:
    """What nobody cancelled has failed, and what wants to exit ends itself and nobody else."""

    async def work() -> None:
        raise error

    with caplog.at_level(logging.ERROR):
        await background.spawn(work(), name="work")
    assert 'extensionPoint=Task task="work"' in caplog.text
    assert f'err="{said}"' in caplog.text
    assert kit.recorder.warnings == {"plugin_task_failed": 1}


async def test_closing_cancels_and_waits(kit: Any, background: Background) -> None:
    """At the end every task is over, what was started last moment included."""
    said: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            said.append("cleaned up")

    background.spawn(work(), name="started")
    await settle()
    background.spawn(work(), name="never began")
    await background.close()
    assert said == ["cleaned up"]
    assert len(background.names()) == 0
    assert not kit.recorder.warnings


async def test_nothing_starts_after_the_end(background: Background) -> None:
    """Work that comes too late is refused, not left unawaited."""

    async def work() -> None:
        raise AssertionError("too late")

    await background.close()
    with pytest.raises(RuntimeError, match="cannot start work: the profile is closed"):
        background.spawn(work(), name="work")


def test_without_an_event_loop_nothing_starts(background: Background) -> None:
    """A plugin that spawns while nothing runs hears of it."""

    async def work() -> None:
        raise AssertionError("nowhere to run")

    with pytest.raises(RuntimeError, match="no running event loop"):
        background.spawn(work(), name="work")


async def _work() -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("work", "message"),
    [
        pytest.param(_work, r"takes a coroutine, not a function; write handle.spawn(_work(...))", id="a function"),
        pytest.param(print, r"write `async def print` and handle.spawn(print(...))", id="a plain function"),
        pytest.param(None, r"takes a coroutine, not NoneType; call an `async def` method", id="the answer of one"),
    ],
)
async def test_only_a_coroutine_can_be_spawned(background: Background, work: Any, message: str) -> None:
    """Anything else is refused at once, and the error says what to write."""
    with pytest.raises(TypeError, match=re.escape(message)):
        background.spawn(work, name="work")


async def test_a_future_cannot_be_spawned(background: Background) -> None:
    """A future runs by itself; the error says how to await it."""
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(TypeError, match="not Future; await it in an `async def` method"):
        background.spawn(future, name="work")  # type: ignore[arg-type] # that is what is tested
