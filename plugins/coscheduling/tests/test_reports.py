"""Bug reports about the mirrored systems: none of them happens here."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import Pod

GPU = "nvidia.com/gpu"


@pytest.mark.slow
async def test_scheduler_plugins_117_and_114_sixty_jobs_on_two_nodes_all_finish(world: Any, gates: str) -> None:
    """Jobs of 1 to 8 GPUs come every 15 s and run 30 s; none waits while there is room."""
    for name in ("n0", "n1"):
        world.cluster.add_node(name, allocatable={"cpu": "96", "pods": "110", GPU: "8"})
    world.schedule(gates=gates, deniedPGExpirationTimeSeconds=3, permitWaitingTimeSeconds=10)
    sizes = [1 + (number * 5) % 8 for number in range(60)]
    ends: dict[str, float] = {}
    finished: set[str] = set()
    now = 0.0
    while len(finished) < len(sizes) and now < 3600:
        if now % 15 == 0 and (number := int(now // 15)) < len(sizes):
            world.group(f"job{number}", sizes[number])
            world.pods(f"job{number}", sizes[number], requests={GPU: "1"})
        await world.settle(5)
        now += 5
        for number in range(min(int(now // 15) + 1, len(sizes))):
            name = f"job{number}"
            states = world.states(name) if name not in finished else {}
            bound = states.get("bound", 0)
            assert bound in {0, sizes[number]}, f"{name} is partly bound: {states}"
            if bound and ends.setdefault(name, now + 30) <= now:
                for member in range(bound):
                    world.cluster.delete_pod(f"{name}-{member}")
                finished.add(name)
    assert len(finished) == len(sizes), f"{len(sizes) - len(finished)} jobs have not finished after {now} s"
    # 60 jobs of 4.5 GPUs in the mean for 30 s on 16 GPUs need some 500 s, and come in 900 s.
    assert now <= 1000


async def test_scheduler_plugins_358_six_members_bind_together_within_the_wait(world: Any) -> None:
    """With a window of 3 s, a wait of 10 s and room for all, no member is bound minutes later."""
    world.nodes(6)
    world.schedule(deniedPGExpirationTimeSeconds=3, permitWaitingTimeSeconds=10)
    world.group("g", 6)
    await world.settle()
    for number in range(6):
        world.pods("g", 1, start=number)
        await world.settle(1)
    await world.settle(4)
    assert world.states("g") == {"bound": 6}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("object_comes", [0, 1, 3, 5])
async def test_scheduler_plugins_397_group_is_complete_in_the_first_wait(
    world: Any, gates: str, object_comes: int
) -> None:
    """Whether pods or the PodGroup come first, no member sleeps while the others wait and time out."""
    world.nodes(5)
    world.schedule(gates=gates, permitWaitingTimeSeconds=10)
    for number in range(6):
        if number == object_comes:
            world.group("g", 5)
        if number < 5:
            world.pods("g", 1, start=number)
        await world.settle()
    await world.settle(2)
    assert world.states("g") == {"bound": 5}
    assert not any("timeout" in message for message in world.messages("g-"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("window", [pytest.param(0, id="no window"), pytest.param(3, id="window")])
async def test_scheduler_plugins_682_group_that_never_fits_does_not_delay_others(
    world: Any, gates: str, window: int, attempts: Counter[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Other pods are scheduled as without it, and its attempts and log lines are bounded."""
    caplog.set_level(logging.WARNING)
    world.nodes(4)
    world.schedule(gates=gates, deniedPGExpirationTimeSeconds=window)
    world.group("never", 6, pods=6)
    await world.settle(60)
    first = max(attempts.values())
    assert first <= 2, attempts
    for number in range(10):
        world.group(f"job{number}", 4, pods=4)
        await world.settle(15)
        assert world.states(f"job{number}") == {"bound": 4}, number
        for member in range(4):
            world.cluster.delete_pod(f"job{number}-{member}")
        await world.settle(15)
    assert world.states("never") == {"pending": 6}
    hopeless = max(count for name, count in attempts.items() if name.startswith("never"))
    # Ten jobs that end are ten reasons, of four pods each; two attempts for each reason.
    assert hopeless <= first + 2 * 10 * 4, attempts
    assert not caplog.records, [record.getMessage() for record in caplog.records]


@pytest.mark.slow
async def test_scheduler_plugins_713_nodes_are_given_back_after_the_wait(world: Any) -> None:
    """Nine of ten members hold their nodes until they time out; then plain pods get them."""
    await world.start_with_group(10, nodes=9, permitWaitingTimeSeconds=60)
    assert world.states("g") == {"waiting": 9, "pending": 1}
    for number in range(9):
        world.cluster.add_pod(f"plain-{number}", requests={"cpu": "1"})
    await world.settle(59)
    assert not any(world.result(f"plain-{number}").bound for number in range(9))
    await world.settle(12)
    assert world.states("g") == {"pending": 10}
    assert all(world.result(f"plain-{number}").bound for number in range(9))


@pytest.mark.parametrize("ends", ["deleted", "failed"])
async def test_scheduler_plugins_930_a_pod_that_is_gone_is_not_counted(world: Any, ends: str) -> None:
    """With room for one of two, a member is never bound alone when the other was deleted or failed."""
    world.nodes(2)
    world.schedule(permitWaitingTimeSeconds=30, deniedPGExpirationTimeSeconds=3)
    world.cluster.add_pod("other", node_name="n1", requests={"cpu": "1"})
    world.group("g", 2)
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    world.cluster.add_pod("g-0", node_name="n0", requests={"cpu": "1"}, labels=label)
    await world.settle()
    if ends == "deleted":
        world.cluster.delete_pod("g-0")
    else:
        world.cluster.patch(Pod, "g-0", {"status": {"phase": "Failed"}}, status=True)
    world.pods("g", 2, start=1)
    for _ in range(50):
        await world.settle(1)
        assert world.states("g").get("bound", 0) == 0
    world.cluster.delete_pod("other")
    await world.settle(40)
    assert world.states("g") == {"bound": 2}


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


async def test_koordinator_3185_a_group_of_one_that_is_deleted_leaves_nothing(world: Any) -> None:
    """The pod is in neither the queue, the waiting pods nor the data of the group."""
    world.nodes(1)
    world.schedule()
    world.group("g", 1)
    world.pods("g", 1, requests={"cpu": "9"})
    await world.settle()
    world.cluster.delete_pod("g-0")
    world.cluster.delete(world.kind("sigs"), "g")
    await world.settle(60)
    assert len(world.plugin.members.directory) == 0
    assert not world.plugin.members.short
    assert len(world.running.scheduler.queue) == 0
