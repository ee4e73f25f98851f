"""The heartbeat of an event loop, and a lease that depends on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from kube_objects.clock import LoopClock
from kube_testserver.serving.faults import Fault
from kube_testserver.virtual_time import settle
from pyscheduler.cluster.real.loop_heartbeat import Heartbeat
from pyscheduler.framework.errors import ConfigError
from tests.cluster.real.candidates import Candidate, lease


@attrs.define
class Held:
    """A clock whose timers fire late, as on a blocked loop."""

    time: float = 100.0
    timers: list[tuple[float, Any]] = attrs.Factory(list)

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, callback: Any) -> Any:
        self.timers.append((when, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def turn(self, seconds: float) -> None:
        """Let the loop turn once, this many seconds after its last timer was due."""
        when, callback = self.timers.pop()
        self.time = when + seconds
        callback()


@pytest.fixture
def held() -> Held:
    """Return a clock that shows a hundred seconds."""
    return Held()


@pytest.fixture
def heartbeat(held: Held) -> Heartbeat:
    """Return the heartbeat of a loop with that clock."""
    made = Heartbeat(held)  # type: ignore[arg-type] # of a clock it needs no more
    made.start()
    return made


def test_a_loop_that_turns_is_not_blocked(held: Held, heartbeat: Heartbeat) -> None:
    """An idle loop does not count as blocked."""
    for _ in range(10):
        held.turn(0.0)
        held.time += 0.25
        assert heartbeat.blocked_seconds() == 0
    assert heartbeat.why_slow() == ""
    assert heartbeat.longest_seconds() == 0
    assert heartbeat.turns == 10


def test_a_blocked_loop_is_seen_while_it_is_blocked(held: Held, heartbeat: Heartbeat) -> None:
    """A block begins when the loop should have turned, and ends with its next turn."""
    held.time += 7.25
    assert heartbeat.blocked_seconds() == pytest.approx(7)
    assert heartbeat.longest_seconds() == pytest.approx(7)
    assert heartbeat.why_slow() == "the event loop was blocked for 7.0 s"
    held.turn(8.0)
    assert heartbeat.blocked_seconds() == 0
    heartbeat.stop()
    held.time += 100
    assert heartbeat.blocked_seconds() == 0


def test_a_slow_loop_fails_its_check_for_ten_seconds(held: Held, heartbeat: Heartbeat) -> None:
    """The check fails for one period of the probe after a block of five seconds, but not after a shorter one."""
    held.turn(4.9)
    assert heartbeat.why_slow() == ""
    held.turn(6.0)
    assert heartbeat.why_slow() == "the event loop was blocked for 6.0 s"
    for _ in range(40):
        held.turn(0.0)
    assert heartbeat.why_slow() == "the event loop was blocked for 6.0 s"
    held.turn(0.0)
    assert heartbeat.why_slow() == ""


def test_the_longest_block_is_forgotten_after_two_minutes(held: Held, heartbeat: Heartbeat) -> None:
    """The metric is the maximum of this minute and the last one."""
    held.turn(3.0)
    for _ in range(300):
        held.turn(0.0)
    held.turn(1.0)
    assert heartbeat.longest_seconds() == pytest.approx(3)
    for _ in range(240):
        held.turn(0.0)
    assert heartbeat.longest_seconds() == pytest.approx(1)
    held.timers[-1] = (held.time + 1000, held.timers[-1][1])
    held.time += 0.2
    held.turn(0.0)
    assert heartbeat.longest_seconds() >= 900


def test_block_during_a_pause_does_not_count(held: Held, heartbeat: Heartbeat) -> None:
    """A start of the program may block the loop, while nothing waits for it, and is no reason for an alert."""
    with heartbeat.paused():
        held.time += 100
        assert heartbeat.blocked_seconds() == 0
    held.turn(0.0)
    assert heartbeat.longest_seconds() == 0
    held.turn(3.0)
    assert heartbeat.longest_seconds() == pytest.approx(3)


@pytest.mark.slow
async def test_the_loop_of_a_program_beats() -> None:
    """On a real loop, the heartbeat measures how long the thread was blocked."""
    heartbeat = Heartbeat(LoopClock())
    heartbeat.start()
    time.sleep(0.6)  # noqa: ASYNC251 - blocking is the point
    assert heartbeat.blocked_seconds() >= 0.3
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert heartbeat.turns >= 1
    assert heartbeat.longest_seconds() >= 0.3
    heartbeat.stop()


@attrs.define
class Blocked:
    """A heartbeat with the answers that a test sets."""

    seconds: float = 0.0

    def blocked_seconds(self) -> float:
        return self.seconds


@pytest.fixture
async def blocked(stage: Any) -> AsyncIterator[tuple[Candidate, Blocked]]:
    """Yield a leader and its heartbeat."""
    heartbeat = Blocked()
    made = Candidate(stage, "a", heartbeat=heartbeat)
    await made.begin()
    assert made.leads
    yield made, heartbeat
    await made.die()


async def test_no_lease_is_renewed_for_a_loop_that_does_not_turn(stage: Any, blocked: Any) -> None:
    """A replica stops renewing after its loop was blocked for retryPeriod, and loses the lease after renewDeadline."""
    leader, heartbeat = blocked
    heartbeat.seconds = 1.9
    await stage.clock.advance(4)
    heartbeat.seconds = 2.0
    renewed = lease(stage)["spec"]["renewTime"]
    await stage.clock.advance(7.9)
    assert leader.leads
    heartbeat.seconds = 12.0
    await stage.clock.advance(2.1)
    assert not leader.leads
    assert lease(stage)["spec"]["renewTime"] == renewed
    assert leader.elector.reason == ("it could not be renewed within 10 s: the event loop has not turned for 12.0 s")


async def test_a_loop_that_turns_again_keeps_its_lease(stage: Any, blocked: Any) -> None:
    """The replica renews its lease within a fraction of a second, even shortly before it would lose it."""
    leader, heartbeat = blocked
    heartbeat.seconds = 5.0
    await stage.clock.advance(9.5)
    heartbeat.seconds = 0.0
    await stage.clock.advance(0.3)
    renewed = lease(stage)["spec"]["renewTime"]
    await stage.clock.advance(8)
    assert leader.leads
    assert lease(stage)["spec"]["renewTime"] > renewed
    assert leader.elector.reason == ""


async def test_a_blocked_standby_takes_no_lease(stage: Any) -> None:
    """A standby with a blocked loop cannot act; it takes the lease when its loop turns."""
    heartbeat = Blocked(3.0)
    standby = Candidate(stage, "b", heartbeat=heartbeat)
    await standby.begin()
    await stage.clock.advance(30)
    assert not standby.leads
    heartbeat.seconds = 0.0
    await stage.clock.advance(0.3)
    assert standby.leads
    await standby.die()


async def test_a_watched_lease_is_taken_as_soon_as_its_term_is_over(stage: Any) -> None:
    """A watching candidate writes nothing; it counts the term of a dead leader from its first look."""
    gone = Candidate(stage, "gone")
    await gone.begin()
    await gone.die()
    late = Candidate(stage, "late")
    late.elector.watch()
    await settle()
    await stage.clock.advance(14)
    assert lease(stage)["spec"]["holderIdentity"] == "gone"
    await late.begin()
    await stage.clock.advance(0.9)
    assert not late.leads
    await stage.clock.advance(0.2)
    assert late.leads
    await late.die()


async def test_a_free_lease_is_taken_at_once_after_watching(stage: Any) -> None:
    """Watching does not create the lease; `acquire` does, without waiting for the next look."""
    one = Candidate(stage, "one")
    one.elector.watch()
    await stage.clock.advance(60)
    assert stage.cluster.objects("coordination.k8s.io/v1", "Lease") == []
    await one.begin()
    assert one.leads
    await one.finish()


async def test_watching_candidate_does_not_release_the_lease(stage: Any) -> None:
    """A candidate that is released before it competes leaves the lease to its holder."""
    holder, watcher = Candidate(stage, "holder"), Candidate(stage, "watcher")
    await holder.begin()
    watcher.elector.watch()
    await settle()
    await watcher.finish()
    assert lease(stage)["spec"]["holderIdentity"] == "holder"
    assert holder.leads
    await holder.die()


async def test_a_refusal_while_watching_is_no_error(stage: Any) -> None:
    """A refusal is ignored while watching; `acquire` reports that the permission is missing."""
    refused = stage.cluster.faults.add(Fault(path="/leases/", status=403))
    watcher = Candidate(stage, "watcher")
    watcher.elector.watch()
    await stage.clock.advance(5)
    assert refused.hits > 1
    assert watcher.recorder.warned == 0
    await watcher.begin()
    with pytest.raises(ConfigError, match="cannot be read"):
        await watcher.acquiring
    await watcher.finish()
