"""PreBind phases that can be called off: before, while and after they run."""

from __future__ import annotations

import asyncio

import pytest

from pyscheduler.framework import Code, Status
from pyscheduler.runtime.permit.pods_in_pre_bind import PodsInPreBind

REFUSED = Status.unschedulable("no")


async def forever() -> Status | None:
    """Never end."""
    await asyncio.Event().wait()
    return None


async def at_once(answer: Status | None) -> Status | None:
    """Answer."""
    return answer


@pytest.mark.parametrize("answer", [None, REFUSED], ids=["done", "refused"])
async def test_a_phase_left_alone_answers_for_itself(answer: Status | None) -> None:
    """What the plugins say is what comes back, and nothing is left that could be called off."""
    phases = PodsInPreBind()
    assert await phases.run("u", at_once(answer)) is answer
    assert not phases.cancel("u", "why")
    assert len(phases) == 0


async def test_a_phase_that_is_called_off_says_why() -> None:
    """The first reason counts, and whoever awaited the phase goes on."""
    phases = PodsInPreBind()
    running = asyncio.create_task(phases.run("u", forever()))
    await asyncio.sleep(0)
    assert not phases.cancel("other", "why")
    assert phases.cancel("u", "preempted")
    assert phases.cancel("u", "too late")
    status = await running
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "preempted")
    assert len(phases) == 0


async def test_a_phase_may_end_as_it_is_called_off() -> None:
    """Whoever called it off was told that the pod will not be bound: so it is."""
    phases = PodsInPreBind()
    finish = asyncio.Event()

    async def stubborn() -> Status | None:
        try:
            await finish.wait()
        except asyncio.CancelledError:
            return None
        return None

    running = asyncio.create_task(phases.run("u", stubborn()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert phases.cancel("u", "preempted")
    status = await running
    assert status is not None
    assert status.message == "preempted"


async def test_the_end_of_the_binding_is_not_taken_for_a_preemption() -> None:
    """Where the pod's own task is cancelled, its phase is, too, and the cancellation passes through."""
    phases = PodsInPreBind()
    running = asyncio.create_task(phases.run("u", forever()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(phases) == 0
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "pre-bind u"]
