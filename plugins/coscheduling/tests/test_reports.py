"""Bug reports about the mirrored systems: none of them happens here."""

from __future__ import annotations

from typing import Any

GPU = "nvidia.com/gpu"


async def test_koordinator_1919_a_wait_lasts_as_long_as_configured(world: Any) -> None:
    """1,800 seconds are 1,800 seconds."""
    await world.start_with_group(
        2, nodes=1, seconds=1799, spec={"scheduleTimeoutSeconds": 1800}, podGroupRejectPercentage=100
    )
    assert world.states("g") == {"waiting": 1, "pending": 1}
    await world.settle(2)
    assert "rejected due to timeout after waiting 30m0s at plugin Coscheduling" in "".join(world.messages("g-"))


async def test_koordinator_2030_the_number_of_scheduled_members_does_not_drift(world: Any) -> None:
    """A large group of ming is Scheduled with the exact count, also after members come and leave."""
    await world.start_with_group(20, nodes=5, seconds=2, cpu="4", dialect="ming")
    (found,) = world.cluster.objects(world.kind("ming"))
    assert (found.status.scheduled, found.status.phase) == (20, "Scheduled")
    assert found.status.schedule_start_time is not None
    for number in range(3):
        world.cluster.delete_pod(f"g-{number}")
    world.pods("g", 1, start=20, dialect="ming")
    world.change("g", dialect="ming", minMember=18)
    await world.settle(15)
    (found,) = world.cluster.objects(world.kind("ming"))
    assert (found.status.scheduled, found.status.phase) == (18, "Scheduled")
