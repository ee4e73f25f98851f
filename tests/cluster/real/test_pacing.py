"""Backoff, watchdog and slices, on the injected clock."""

from __future__ import annotations

import asyncio
import random

import pytest

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.cluster.real.pacing import Backoff, Slices, Watchdog


class Middle(random.Random):
    """No luck either way: spreads become factors of one."""

    def random(self) -> float:
        return 0.5


async def test_delays_double_up_to_a_limit() -> None:
    """Each failure doubles the wait until the limit."""
    backoff = Backoff(low=1.0, high=10.0, clock=VirtualClock(), rng=Middle())
    assert [backoff.next() for _ in range(6)] == [1, 2, 4, 8, 10, 10]


async def test_delays_are_spread() -> None:
    """Many clients that failed together do not come back together."""
    clock, rng = VirtualClock(), random.Random(0)
    delays = [Backoff(low=1.0, high=10.0, clock=clock, rng=rng).next() for _ in range(100)]
    assert 0.5 <= min(delays) < 0.6
    assert 1.4 < max(delays) <= 1.5


async def test_good_service_resets_the_delay() -> None:
    """After a quiet time, counted from the end of the last wait, the first delay is short again."""
    clock = VirtualClock()
    backoff = Backoff(low=1.0, high=100.0, reset_seconds=60.0, clock=clock, rng=Middle())
    delays = []
    for _ in range(4):
        delays.append(backoff.next())
        await clock.advance(delays[-1] + 50)
    assert delays == [1, 2, 4, 8]
    await clock.advance(20)
    assert backoff.next() == 1


async def test_watchdog_barks_after_silence() -> None:
    """Nothing heard for so long: what is awaited is ended with a timeout."""
    clock = VirtualClock()

    async def wait() -> float:
        try:
            async with Watchdog(clock, 10.0):
                await clock.sleep(1000)
        except TimeoutError:
            return clock.now()
        return -1.0

    began = clock.now()
    waiting = asyncio.create_task(wait())
    await clock.advance(60)
    assert await waiting - began == 10.0


async def test_watchdog_is_kept_quiet_by_signs_of_life() -> None:
    """Each sign of life begins the wait anew."""
    clock = VirtualClock()
    heard = []

    async def live() -> None:
        async with Watchdog(clock, 10.0) as dog:
            for _ in range(5):
                await clock.sleep(9)
                dog.heard()
                heard.append(clock.now())
            await clock.sleep(1000)

    living = asyncio.create_task(live())
    await clock.advance(45)
    assert len(heard) == 5
    await clock.advance(9)
    assert not living.done()
    await clock.advance(2)
    with pytest.raises(TimeoutError):
        await living


async def test_watchdog_leaves_other_endings_alone() -> None:
    """What ends by itself, with an error or by cancellation is not turned into a timeout, and no timer stays."""
    clock = VirtualClock()
    async with Watchdog(clock, 10.0):
        pass
    with pytest.raises(ValueError, match="mine"):
        async with Watchdog(clock, 10.0):
            raise ValueError("mine")

    async def wait() -> None:
        async with Watchdog(clock, 10.0):
            await clock.sleep(1000)

    waiting = asyncio.create_task(wait())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await clock.advance(100)


class Slow(VirtualClock):
    """A clock on which 6 ms pass between two readings."""

    readings = 0

    def now(self) -> float:
        self.readings += 1
        return self.readings * 0.006


async def test_a_slice_ends_after_25_objects_or_10_ms() -> None:
    """Many quick objects and few slow ones both let the loop turn."""
    slices = Slices(VirtualClock())
    for _ in range(2):
        assert [slices.is_over() for _ in range(25)] == [False] * 24 + [True]
        await slices.turn()
    assert not slices.is_over()
    slices = Slices(Slow())
    for _ in range(2):
        assert [slices.is_over() for _ in range(2)] == [False, True]
        await slices.turn()


async def test_a_slice_begins_whenever_the_loop_has_turned() -> None:
    """Single objects with turns between them never fill a slice."""
    slices = Slices(VirtualClock())
    for _ in range(50):
        assert not slices.is_over()
        await asyncio.sleep(0)
