"""Large groups: an event while members are being bound does not split the group."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from pyscheduler.testing.builders import make_node
from pyscheduler_coscheduling.members import Members

MANY = 150


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often all members of a group are allowed or checked."""
    counted: Counter[str] = Counter()
    for name in ("allow_all", "drop_ended"):
        original = getattr(Members, name)

        def counting(self: Members, state: Any, *, name: str = name, original: Any = original) -> None:
            counted[name] += 1
            original(self, state)

        monkeypatch.setattr(Members, name, counting)
    return counted


async def almost_there(world: Any) -> None:
    """Let all members but one wait."""
    world.nodes(3, cpu="100")
    world.schedule(podGroupRejectPercentage=100)
    world.group("g", MANY, pods=MANY - 1, scheduleTimeoutSeconds=20)
    world.cluster.add_pod(
        f"g-{MANY - 1}", labels={"scheduling.x-k8s.io/pod-group": "g"}, requests={"cpu": "1"}, node_selector={"no": "1"}
    )
    await world.settle(1)
    assert world.states("g") == {"waiting": MANY - 1, "pending": 1}


async def let_go(world: Any) -> None:
    """Create the last member, and return when some members are being bound and others are not yet."""
    world.cluster.delete_pod(f"g-{MANY - 1}")
    world.pods("g", 1, start=MANY)
    waiting = world.running.scheduler.waiting_pods
    while len(waiting) >= MANY - 1:  # noqa: ASYNC110 - a turn of the loop is what this is about
        await asyncio.sleep(0)
    assert 0 < len(waiting) < MANY - 1


@pytest.mark.slow
async def test_group_is_allowed_once(world: Any, looked: Counter[str]) -> None:
    """Bound members do not cause another pass over all members."""
    await almost_there(world)
    looked.clear()
    await let_go(world)
    await world.settle(1)
    assert world.states("g") == {"bound": MANY}
    assert looked["allow_all"] == 1
    assert looked["drop_ended"] <= 2


@pytest.mark.slow
@pytest.mark.parametrize("what", ["time", "node", "stop"])
async def test_event_during_binding_splits_no_group(world: Any, what: str) -> None:
    """A timeout, a removed node or a stop of the scheduler: all allowed members are bound."""
    await almost_there(world)
    await let_go(world)
    if what == "stop":
        stop = asyncio.create_task(world.running.scheduler.stop())
        await world.clock.advance(15)
        await stop
    else:
        if what == "node":
            world.plugin._handlers._node_gone(make_node("n1"))
        await world.clock.advance(60)
    assert sum(bool(pod.node_name) for pod in world.cluster.pods()) == MANY


@pytest.mark.slow
async def test_deleted_member_rejects_all_others(world: Any) -> None:
    """The nodes are given back before any retry; when the last member exists, all are bound."""
    await almost_there(world)
    waiting, cycles = world.running.scheduler.waiting_pods, world.running.scheduler.cycles
    world.cluster.delete_pod("g-0")
    while len(waiting):  # noqa: ASYNC110 - same
        await asyncio.sleep(0)
    assert world.running.scheduler.cycles == cycles
    await world.settle()
    assert world.states("g") == {"pending": MANY - 1}
    world.cluster.delete_pod(f"g-{MANY - 1}")
    world.pods("g", 1)
    world.pods("g", 1, start=MANY)
    await world.clock.advance(90)
    assert world.states("g") == {"bound": MANY}
