"""Pods that are allowed at once go on some at a time, in order."""

from __future__ import annotations

import asyncio

from pyscheduler.runtime.releases import Releases

FEW, MANY = 50, 320


async def test_so_many_go_on_in_a_turn() -> None:
    """In the order in which they came, and nobody waits longer than it takes."""
    releases, loop = Releases(), asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(MANY)]
    for future in futures:
        releases.add(future)
    counts = [sum(future.done() for future in futures)]
    while not all(future.done() for future in futures):
        await asyncio.sleep(0)
        done = [future.done() for future in futures]
        assert done == sorted(done, reverse=True)
        counts.append(sum(done))
    assert all(after - before <= FEW for before, after in zip([0, *counts], counts, strict=False))
    assert len(counts) <= MANY // FEW + 2


async def test_who_gave_up_costs_nobody_the_turn() -> None:
    """A waiter may be cancelled while it is due; later ones go on, and after a pause all begins anew."""
    releases, loop = Releases(), asyncio.get_running_loop()
    for _ in range(2):
        futures = [loop.create_future() for _ in range(MANY)]
        for future in futures:
            releases.add(future)
        for future in futures[::2]:
            future.cancel()
        for _ in range(MANY // FEW + 2):
            await asyncio.sleep(0)
        assert all(future.done() for future in futures)
        assert not any(future.cancelled() for future in futures[1::2])
