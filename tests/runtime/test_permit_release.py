"""Pods that have their verdicts at once go on some at a time: those that were refused first, each kind in order."""

from __future__ import annotations

import asyncio

from pyscheduler.runtime.permit.release import PermitReleases

FEW, MANY = 50, 320


def waits(count: int) -> list[asyncio.Future[None]]:
    """Return so many futures that somebody awaits."""
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


async def test_so_many_go_on_in_a_turn() -> None:
    """In the order in which they came, and nobody waits longer than it takes."""
    releases, futures = PermitReleases(), waits(MANY)
    for future in futures:
        releases.add(future, is_refused=False)
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
    releases = PermitReleases()
    for _ in range(2):
        futures = waits(MANY)
        for future in futures:
            releases.add(future, is_refused=False)
        for future in futures[::2]:
            future.cancel()
        for _ in range(MANY // FEW + 2):
            await asyncio.sleep(0)
        assert all(future.done() for future in futures)
        assert not any(future.cancelled() for future in futures[1::2])


async def test_those_who_give_back_come_before_those_who_go_on() -> None:
    """Who was refused while many are let go is not kept for the last, and others wait for no more than these."""
    releases, allowed, refused = PermitReleases(), waits(MANY), waits(MANY)
    for future in allowed:
        releases.add(future, is_refused=False)
    assert not releases.is_giving_back
    for future in refused:
        releases.add(future, is_refused=True)
    gone: list[asyncio.Future[None]] = []
    for future in refused:
        future.add_done_callback(gone.append)
    assert releases.is_giving_back
    await releases.given_back()
    assert gone == refused
    assert not all(future.done() for future in allowed)
    await asyncio.gather(*allowed)
    assert not releases.is_giving_back


async def test_a_handful_is_waited_for_by_nobody() -> None:
    """What one turn takes is given back before anybody else has a turn of the loop."""
    releases, refused = PermitReleases(), waits(FEW)
    for future in refused:
        releases.add(future, is_refused=True)
    assert all(future.done() for future in refused)
    assert not releases.is_giving_back
    await releases.given_back()


async def test_who_waits_for_the_rest_may_give_up() -> None:
    """It costs others nothing who wait for the same, nor those who have yet to give back."""
    releases, refused = PermitReleases(), waits(MANY)
    for future in refused:
        releases.add(future, is_refused=True)
    waiters = [asyncio.create_task(releases.given_back()) for _ in range(2)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    for future in refused[FEW:]:
        future.cancel()
    await waiters[1]
    assert waiters[0].cancelled()
    assert not releases.is_giving_back
