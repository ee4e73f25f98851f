"""Admission of pods beside reservations: what counts, and how long a decision waits for pods admitted before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from plugins.quota.tests.test_reservations import annotated, cpus, quota
from pyscheduler.api import Pod
from pyscheduler.podgroup import DialectTable
from pyscheduler.testing import VirtualClock
from pyscheduler_quota.admission import QuotaAdmission


class World:
    """A quota of so many CPUs, of which a group has reserved 4, and the API server that charges it."""

    def __init__(self, hard: int) -> None:
        self.clock = VirtualClock()
        self.admission = QuotaAdmission(DialectTable(), self.clock)
        self.hard, self.used = hard, 0
        self.admission.put(quota(hard, 0))
        self.admission.put(annotated("g", "4"))

    def begin(self, name: str, cpu: int = 1, group: str = "", **keywords: Any) -> asyncio.Task[str]:
        """Send a review."""
        return asyncio.create_task(self.admission.decide(cpus(name, group, cpu), **keywords))

    async def answer(self, name: str, cpu: int = 1, group: str = "", *, wait: float = 0, **keywords: Any) -> bool:
        """Send a review; return whether the pod is admitted, after `wait` seconds and not before."""
        task = self.begin(name, cpu, group, **keywords)
        await asyncio.sleep(0)
        if wait:
            await asyncio.sleep(0)
            assert not task.done(), "decided at once"
            await self.clock.advance(wait)
        await asyncio.sleep(0)
        assert task.done(), "it waits"
        return not await task

    def charge(self, *pods: Pod, cpu: int) -> None:
        """Let the quota count pods, before they are created, and then create them."""
        self.used += cpu
        self.admission.put(quota(self.hard, self.used))
        for pod in pods:
            self.admission.put(pod)


async def test_a_charged_pod_counts_once() -> None:
    """A pod that the quota counts already, and whose creation is not seen, does not make the next one too large."""
    world = World(10)
    assert await world.answer("five", 5)
    world.charge(cpu=5)
    assert not await world.answer("four", 4)
    assert await world.answer("one", 1)


async def test_a_pod_waits_for_those_that_were_admitted_before() -> None:
    """It is refused as soon as the quota counts them."""
    world = World(10)
    assert await world.answer("five", 5)
    waiting = world.begin("four", 4)
    await asyncio.sleep(0)
    assert not waiting.done()
    world.charge(cpus("five", "", 5), cpu=5)
    assert "requested 4, limit 10, used 5, reserved by groups 4" in await waiting


async def test_pods_that_are_never_created_do_not_count() -> None:
    """Six pods pass, and another check refuses them: a pod of 8 is refused still, and one of 1 is admitted."""
    world = World(10)
    assert not await world.answer("eight", 8)
    for number in range(6):
        assert await world.answer(f"one-{number}")
    assert not await world.answer("eight", 8)
    assert await world.answer("one-more", wait=1)


async def test_no_decision_waits_longer_than_the_api_server() -> None:
    """Pods that are admitted meanwhile, and never created, do not put off a decision for ever."""
    world = World(10)
    for number in range(5):
        assert await world.answer(f"early-{number}")
    waiting = world.begin("six", 6)
    await world.clock.advance(0.9)
    assert await world.answer("late")
    await world.clock.advance(0.5)
    assert not waiting.done()
    await world.clock.advance(0.1)
    assert await asyncio.wait_for(waiting, 1) == ""


async def test_dry_runs_and_pods_that_never_fit_do_not_count() -> None:
    """The quota itself refuses a pod that alone exceeds it."""
    world = World(6)
    assert await world.answer("dry", 2, is_dry_run=True)
    assert await world.answer("huge", 9)
    assert await world.answer("a", 2)
    world.charge(cpus("a", "", 2), cpu=2)
    assert not await world.answer("b")


async def test_members_draw_on_their_reservation_at_once() -> None:
    """Four members of one CPU each are admitted beside two other pods, and give back what they drew if they fail."""
    world = World(6)
    for name in ("a", "b"):
        assert await world.answer(name)
    for number in range(4):
        assert await world.answer(f"g-{number}", 1, "g"), number
    await world.clock.advance(1)
    assert not await world.answer("large", 3), "none of them was created"
    assert await world.answer("small", 2)


async def test_reservation_follows_the_annotation() -> None:
    """It ends with the annotation, with the object, and with the quota."""
    world = World(6)

    async def refused() -> bool:
        return not await world.answer("p", 3, is_dry_run=True)

    assert await refused()
    world.admission.put(annotated("g", "3"))
    assert not await refused()
    world.admission.put(annotated("g", "4"))
    assert await refused()
    world.admission.remove(annotated("g", "4"))
    assert not await refused()
    world.admission.put(annotated("g", "4"))
    world.admission.remove(quota(6, 0))
    assert not await refused()


_STEP = st.tuples(st.integers(1, 8), st.sampled_from(["charged", "created", "refused"]), st.sampled_from([0, 0.3]))


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(_STEP, max_size=12))
def test_random_pods_against_the_free_amount(steps: list[tuple[int, str, float]]) -> None:
    """A pod is admitted if and only if it fits beside the reservation and the pods that are charged in the end."""

    async def play() -> None:
        world = World(10)
        for number, (cpu, fate, pause) in enumerate(steps):
            task = world.begin(f"p-{number}", cpu)
            for _ in range(20):
                await world.clock.advance(0.1)
                if task.done():
                    break
            assert (await task == "") is (world.used + cpu + 4 <= 10), (number, world.used)
            # Afterwards the quota itself, or another check, decides.
            if not task.result() and fate != "refused":
                world.charge(*([cpus(f"p-{number}", "", cpu)] if fate == "created" else []), cpu=cpu)
            await world.clock.advance(pause)

    asyncio.run(play())
