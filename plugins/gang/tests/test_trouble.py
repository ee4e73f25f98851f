"""Failed bindings and writes, restarts, members that come and leave: a gang is never stuck or partly bound."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyscheduler_gang.rounds import Rounds


async def test_timeout_holds_in_memory_until_it_is_written(world: Any) -> None:
    """The annotation is written as soon as the API server accepts it."""
    await world.start_with_gang(2, cpu=1, args={"defaultTimeout": "5s"}, mode="NonStrict")
    refusing = world.fail(r"/pods/g-[01]$", 403, times=6, method="PATCH")
    await world.settle(6)
    world.node("m", 9)
    await world.settle(0.1)
    assert refusing.hits
    assert not world.marked()
    assert world.states() == {"pending": 2}
    assert world.record("default/g").timed_out
    await world.settle(200)
    assert world.marked() == {"g-0", "g-1"}
    assert world.states() == {"pending": 2}


async def test_refused_status_writes_do_not_delay_bindings(world: Any) -> None:
    """With 403 on status writes the gang is bound; the next binding writes the current status."""
    world.schedule()
    world.node("n", 9)
    world.gang("g", 2)
    world.fail(r"/podgroups/g/status$", 403, times=1, method="PATCH")
    world.pods("g", 2, gang="g")
    await world.settle(2)
    assert world.states() == {"bound": 2}
    world.pods("h", 1, gang="g")
    await world.settle(2)
    assert (world.status("g").phase, world.status("g").scheduled) == ("Scheduled", 3)


async def test_gang_with_more_pods_than_its_total_stops_retrying(world: Any) -> None:
    """Rounds are shorter than the gang; no member is activated twice for one event."""
    await world.start_with_gang(3, pods=7, cpu=2, seconds=60)
    assert world.states() == {"pending": 7}
    assert world.attempts() <= 4
    world.node("m", 1)
    await world.settle(30)
    assert world.states()["bound"] == 3


async def test_koordinator_2030_status_counts_bound_members(world: Any) -> None:
    """The count follows the members, whatever was written before."""
    await world.start_with_gang(30, cpu=40, seconds=5)
    assert (world.status("g").phase, world.status("g").scheduled) == ("Scheduled", 30)
    for number in range(10):
        world.cluster.delete_pod(f"g-{number}")
    await world.settle(5)
    assert (world.status("g").phase, world.status("g").scheduled) == ("Scheduling", 20)


async def test_new_pods_of_a_timed_out_gang_are_scheduled(world: Any) -> None:
    """After all members of an invalid round are deleted, new members are not refused."""
    await world.start_with_gang(3, cpu=2)
    assert not world.record("default/g").schedule_cycle_valid
    for number in range(3):
        world.cluster.delete_pod(f"g-{number}")
    await world.settle()
    world.pods("h", 3, gang="g", cpu=0.5)
    await world.settle(3)
    assert Counter(world.states()) == {"bound": 3}


async def test_members_that_are_not_pending_do_not_sleep(world: Any) -> None:
    """A member that is gone when the sleeping members are woken is forgotten; one that had its turn sleeps on."""
    await world.start_with_gang(2, cpu=1)
    record = world.record("default/g")
    record.close(world.plugin.gangs.profiles)
    (sleeper, *_) = record.asleep
    record.tried.add(sleeper)
    record.asleep["gone"] = None
    rounds = Rounds(world.plugin.gangs, world.plugin.handle)
    rounds.wake_for_waiter(record, is_first=False)
    assert "gone" not in record.asleep
    assert sleeper in record.asleep


async def test_members_that_preempt_each_other_serve_their_backoff(world: Any) -> None:
    """With short rounds and different priorities, a preempted member waits for its backoff."""
    world.schedule(preemption=True)
    world.gang("g", 5)
    world.pods("h", 4, gang="g", priority=10)
    world.pods("l", 4, gang="g")
    await world.settle(1)
    world.node("n", 1)
    await world.settle(60)
    assert world.states() == {"pending": 8}
    assert world.attempts() <= 4
    world.node("enough", 9)
    await world.settle(30)
    assert world.states() == {"bound": 8}
