"""The token bucket, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.cluster.real.rate_limit import TokenBucket


async def served(clock: VirtualClock, bucket: TokenBucket, count: int, seconds: float) -> list[float]:
    """Ask `count` times at once; return when each was served, within `seconds`."""
    began = clock.now()
    times: list[float] = []

    async def ask() -> None:
        await bucket.acquire()
        times.append(round(clock.now() - began, 6))

    asking = [asyncio.create_task(ask()) for _ in range(count)]
    await clock.advance(seconds)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    return times


async def test_burst_then_rate() -> None:
    """`burst` requests go at once, the others at `qps` a second, in the order they came."""
    clock = VirtualClock()
    bucket = TokenBucket(qps=10.0, burst=5, clock=clock)
    times = await served(clock, bucket, 25, 10)
    assert times[:5] == [0.0] * 5
    assert times[5:] == pytest.approx([number / 10 for number in range(1, 21)])


async def test_bucket_refills_no_further_than_its_burst() -> None:
    """A long rest does not save up more than one burst."""
    clock = VirtualClock()
    bucket = TokenBucket(qps=10.0, burst=5, clock=clock)
    await served(clock, bucket, 5, 1000)
    assert (await served(clock, bucket, 10, 10)).count(0.0) == 5


@pytest.mark.parametrize("qps", [0.0, -1.0])
async def test_without_a_rate_nobody_waits(qps: float) -> None:
    """Zero and below mean unlimited."""
    clock = VirtualClock()
    bucket = TokenBucket(qps=qps, burst=1, clock=clock)
    assert bucket.unlimited
    assert await served(clock, bucket, 100, 0) == [0.0] * 100


async def test_burst_is_at_least_one() -> None:
    """A burst of nothing would let nobody through, ever."""
    clock = VirtualClock()
    bucket = TokenBucket(qps=1.0, burst=0, clock=clock)
    assert await served(clock, bucket, 2, 5) == [0.0, 1.0]
    await settle()
