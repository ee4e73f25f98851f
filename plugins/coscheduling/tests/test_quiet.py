"""Groups that each fit in part and give the room back: they wake each other only if that can help."""

from __future__ import annotations

from collections import Counter
from typing import Any

SECONDS = 1_500.0


async def test_rollbacks_do_not_wake_other_groups_for_ever(world: Any, attempts: Counter[str]) -> None:
    """Six groups of two and room for one pod: each is tried a few times, and then only by the flush."""
    world.nodes(1)
    world.schedule(deniedPGExpirationTimeSeconds=20)
    for name in "abcdef":
        world.group(name, 2, pods=2)
    await world.settle(60)
    early = attempts.total()
    await world.clock.advance(SECONDS)
    flushes = SECONDS / 300 + 1
    # Each flush tries all twelve, and a member that fits has the others tried once more.
    assert attempts.total() - early <= flushes * 12 * 3
    world.cluster.add_node("more", allocatable={"cpu": "1", "pods": "9"})
    await world.settle(60)
    assert sum(world.states(name).get("bound", 0) == 2 for name in "abcdef") == 1


async def test_room_held_during_a_failure_wakes_the_group_when_freed(world: Any) -> None:
    """A group that fits only without what another group holds is retried as soon as that group gives it back."""
    world.nodes(4)
    world.schedule(deniedPGExpirationTimeSeconds=2, podGroupRejectPercentage=40, deadlock={"enabled": False})
    world.group("large", 5, pods=5, scheduleTimeoutSeconds=30)
    await world.settle(5)
    assert world.states("large")["waiting"] == 4
    world.group("small", 3, pods=3, scheduleTimeoutSeconds=200)
    await world.settle(10)
    assert world.states("small").get("bound", 0) == 0
    await world.clock.advance(45)
    assert world.states("small") == {"bound": 3}
