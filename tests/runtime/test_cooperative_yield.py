"""Giving others their turn, and running without a loop."""

from __future__ import annotations

import asyncio

import pytest

from pyscheduler.runtime.cooperative_yield import CooperativeYield, run_now
from pyscheduler.testing import VirtualClock


async def count(turns: int) -> int:
    """Let the loop turn so many times."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return turns


def test_turns_are_not_waited_for_without_a_loop() -> None:
    """The answer comes back as if the coroutine were a function."""
    assert run_now(count(3)) == 3


def test_what_really_waits_needs_a_loop() -> None:
    """A future that nobody will ever set is an error, not a hang; what the coroutine raises passes through."""
    loop = asyncio.new_event_loop()

    async def waits() -> None:
        await loop.create_future()

    async def fails() -> None:
        await count(1)
        raise ValueError("no")

    with pytest.raises(RuntimeError, match="event loop"):
        run_now(waits())
    loop.close()
    with pytest.raises(ValueError, match="no"):
        run_now(fails())


async def test_the_loop_turns_when_it_is_time() -> None:
    """Not before a slice of time is over, and then once a slice."""
    clock = VirtualClock()
    turns = CooperativeYield(clock)
    turned: list[float] = []

    async def other() -> None:
        while True:
            turned.append(clock.now())
            await asyncio.sleep(0)

    await turns.yield_if_due()
    await clock.advance(1)
    task = asyncio.create_task(other())
    before = len(turned)
    await turns.yield_if_due()
    assert len(turned) == before + 1
    await turns.yield_if_due()
    assert len(turned) == before + 1
    task.cancel()
