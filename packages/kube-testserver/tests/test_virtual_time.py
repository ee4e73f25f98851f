"""The virtual clock: time passes in `advance` and nowhere else, timer by timer."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
from hypothesis import given, strategies as st

from kube_testserver.virtual_time import VirtualClock, settle


def test_clock_does_not_advance_by_itself() -> None:
    """A new clock shows a fixed time, the same on every machine."""
    clock = VirtualClock()
    assert (clock.now(), clock.wall()) == (1000.0, 1_767_225_600.0)


async def test_monotonic_and_wall_time_advance_together() -> None:
    """Monotonic time and wall clock advance by the same seconds."""
    clock = VirtualClock(start=5.0, epoch=100.0)
    await clock.advance(2.5)
    assert (clock.now(), clock.wall()) == (7.5, 102.5)


async def test_sleepers_wake_in_order() -> None:
    """A coroutine that sleeps in a loop sees every step, and what it sets off is finished before time goes on."""
    clock = VirtualClock(start=0.0)
    seen: list[tuple[str, float]] = []

    async def sleeper(name: str, step: float) -> None:
        for _ in range(2):
            await clock.sleep(step)
            await asyncio.sleep(0)
            seen.append((name, clock.now()))

    tasks = [asyncio.create_task(sleeper("two", 2.0)), asyncio.create_task(sleeper("three", 3.0))]
    await clock.advance(6.0)
    assert seen == [("two", 2.0), ("three", 3.0), ("two", 4.0), ("three", 6.0)]
    assert all(task.done() for task in tasks)


async def test_cancelled_sleep_leaves_no_timer() -> None:
    """Cancellation ends a sleep at once; advancing past its end wakes nobody."""
    clock = VirtualClock()
    task = asyncio.create_task(clock.sleep(5.0))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await clock.advance(10.0)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_sleep_of_zero_does_not_wait_for_the_clock(seconds: float) -> None:
    """Sleeping for nothing lets others run, and needs no advance."""
    clock = VirtualClock()
    before = clock.now()
    await asyncio.wait_for(clock.sleep(seconds), timeout=300)
    assert clock.now() == before


async def test_two_tasks_may_advance_the_clock() -> None:
    """Each waits for the other instead of for rest, which two at once would never see."""
    clock = VirtualClock(start=0.0)
    seen: list[float] = []
    for when in (1.0, 3.0, 5.0):
        clock.call_at(when, lambda: seen.append(clock.now()))
    await asyncio.gather(clock.advance(2.0), clock.advance(3.0))
    assert (clock.now(), seen) == (5.0, [1.0, 3.0, 5.0])


async def test_time_does_not_go_back() -> None:
    """Advancing by a negative time is a mistake of the test's, and said so."""
    clock = VirtualClock()
    with pytest.raises(ValueError, match="-1"):
        await clock.advance(-1)
    assert clock.now() == 1000.0


@pytest.mark.slow
async def test_a_task_that_never_waits_is_named() -> None:
    """The error names the task, which has the name of the plugin if it runs `run()`."""

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - the mistake
            await asyncio.sleep(0)

    task = asyncio.create_task(spin(), name="pyscheduler Spinning.run")
    with pytest.raises(TimeoutError, match=r"without waiting, in pyscheduler Spinning\.run$"):
        await settle()
    task.cancel()


@given(st.lists(st.floats(0, 100, allow_nan=False), max_size=20), st.lists(st.floats(0, 50), max_size=6))
def test_timers_run_once_and_in_order_for_any_steps(delays: list[float], steps: list[float]) -> None:
    """One long advance and many short ones run the same timers, each at its own time."""

    async def run() -> None:
        clock = VirtualClock(start=0.0)
        seen: list[float] = []
        for delay in delays:
            clock.call_later(delay, lambda: seen.append(clock.now()))
        for step in (0.0, *steps):
            await clock.advance(step)
        assert seen == sorted(delay for delay in delays if delay <= clock.now())

    asyncio.run(run())


@pytest.mark.slow
async def test_endless_timers_at_one_instant_are_stopped() -> None:
    """A timer that sets another for the same moment, for ever, ends in an error instead of a hanging test."""
    clock = VirtualClock()

    def again() -> None:
        clock.call_later(0, again)

    again()
    with pytest.raises(TimeoutError, match="time does not pass"):
        await clock.advance(1)


async def test_settle_looks_longer_beside_a_thread_or_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, the loop is at rest after one turn in which nothing is ready; others may make callbacks ready later."""
    turns = 0
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        nonlocal turns
        turns += 1
        await sleep(seconds)

    async def count() -> int:
        nonlocal turns
        turns = 0
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", counted)
            await settle()
        return turns

    await settle()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert await count() == 1
    left, right = socket.socketpair()
    with left, right:
        asyncio.get_running_loop().add_reader(left, lambda: None)
        assert await count() == 3
        asyncio.get_running_loop().remove_reader(left)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert await count() == 3
