"""The rules of leader election: what was seen and written in, the next move out. No clock, no requests."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import LeaseSpec
from pyscheduler.cluster.real.lease_rules import LeaseRules, Move
from pyscheduler.config.types import LeaderElection
from pyscheduler.framework.errors import ConfigError

WALL = 1_767_225_600.25
WRITTEN = "2026-01-01T00:00:00.250000Z"


def spec(holder: str | None, *, duration: int | None = 15, renewed: str = "then", transitions: int = 3) -> LeaseSpec:
    """Return a lease as found."""
    return LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration,
        acquire_time="long ago",
        renew_time=renewed,
        lease_transitions=transitions,
    )


@pytest.fixture
def rules() -> LeaseRules:
    """Return the rules of a replica that has seen nothing yet."""
    return LeaseRules(identity="me", config=LeaderElection())


@pytest.fixture
def leader(rules: LeaseRules) -> LeaseRules:
    """Return the rules of a replica that leads since 100, as of 101."""
    assert rules.found(None, 100) is Move.CREATE
    assert rules.wrote(rules.claim(WALL), 100, 101) is Move.WAIT
    assert rules.leads(101)
    return rules


@pytest.mark.parametrize(
    ("found", "move"),
    [
        pytest.param(None, Move.CREATE, id="missing"),
        pytest.param(spec("other"), Move.WAIT, id="held"),
        pytest.param(spec("other", duration=None), Move.WAIT, id="held-no-duration"),
        pytest.param(spec(""), Move.UPDATE, id="released"),
        pytest.param(spec(None), Move.UPDATE, id="never-held"),
        pytest.param(LeaseSpec(), Move.UPDATE, id="empty-spec"),
        pytest.param(spec("me"), Move.UPDATE, id="ours-by-a-lost-answer"),
    ],
)
def test_first_look(rules: LeaseRules, found: LeaseSpec | None, move: Move) -> None:
    """What a candidate does about the lease it finds."""
    assert rules.begin(100) is Move.READ
    assert rules.found(found, 100) is move
    assert not rules.leads(100)


def test_takes_over_after_it_watched_for_the_duration_in_the_lease(rules: LeaseRules) -> None:
    """The time is the holder's, and begins when we saw the lease, whatever its timestamps say."""
    old = spec("other", duration=20, renewed="1970-01-01T00:00:00.000000Z")
    assert rules.found(old, 100) is Move.WAIT
    assert rules.found(old, 119.9) is Move.WAIT
    assert rules.found(old, 120) is Move.UPDATE


def test_every_renewal_begins_the_time_anew(rules: LeaseRules) -> None:
    """A lease that changes is alive, even if its timestamps run backwards."""
    for step in range(20):
        assert rules.found(spec("other", renewed=f"{20 - step}"), 100 + 10 * step) is Move.WAIT
    assert rules.found(spec("other", renewed="1"), 304.9) is Move.WAIT
    assert rules.found(spec("other", renewed="1"), 305) is Move.UPDATE


@pytest.mark.parametrize("holder", ["other", ""])
def test_lease_that_goes_away_begins_the_time_anew(rules: LeaseRules, holder: str) -> None:
    """Its last holder may be alive and make it again, and need not be the one we saw."""
    rules.found(spec(holder, duration=1_000_000), 100)
    assert rules.found(None, 110) is Move.WAIT
    assert rules.found(None, 124.9) is Move.WAIT
    assert rules.found(None, 125) is Move.CREATE


@pytest.mark.parametrize(
    ("found", "move"),
    [
        pytest.param(None, Move.CREATE, id="deleted"),
        pytest.param(spec("me"), Move.UPDATE, id="still-ours"),
        pytest.param(spec("other"), Move.STOP, id="taken"),
        pytest.param(spec(""), Move.STOP, id="cleared"),
    ],
)
def test_look_of_a_leader(leader: LeaseRules, found: LeaseSpec | None, move: Move) -> None:
    """A leader whose write was refused goes on where the lease is its own or gone, and has lost otherwise."""
    assert leader.begin(103) is Move.UPDATE
    assert leader.found(found, 103) is move


def test_time_of_a_leader_begins_when_it_asked(leader: LeaseRules) -> None:
    """Ten seconds from sending, not from the answer; then it leads no more, whether it noticed or not."""
    assert leader.leads(109.9)
    assert leader.left_seconds(104) == 6
    assert not leader.leads(110)
    assert leader.left_seconds(111) == 0
    assert leader.begin(110) is Move.STOP
    assert leader.found(spec("me"), 110) is Move.STOP


def test_renewal_answered_too_late_does_not_revive(leader: LeaseRules) -> None:
    """Others may have seen that nobody leads; that does not change back."""
    assert leader.wrote(leader.claim(WALL), 105, 110.5) is Move.STOP
    leader.stop()
    assert not leader.leads(110.5)


def test_acquisition_answered_too_late_is_none(rules: LeaseRules) -> None:
    """The lease is ours, but its time is over; the next look takes it again."""
    rules.found(None, 100)
    assert rules.wrote(rules.claim(WALL), 100, 130) is Move.WAIT
    assert not rules.leads(130)
    assert rules.begin(131) is Move.READ
    assert rules.found(rules.spec, 131) is Move.UPDATE


@pytest.mark.parametrize(
    ("found", "acquired", "transitions"),
    [
        pytest.param(None, WRITTEN, 0, id="created"),
        pytest.param(spec("other"), WRITTEN, 4, id="taken-over"),
        pytest.param(spec(""), WRITTEN, 4, id="after-a-release"),
        pytest.param(spec("me"), "long ago", 3, id="renewed"),
        pytest.param(LeaseSpec(holder_identity="me"), WRITTEN, 0, id="renewed-without-times"),
    ],
)
def test_claim(rules: LeaseRules, found: LeaseSpec | None, acquired: str, transitions: int) -> None:
    """A change of holder counts as a transition and begins a new acquire time."""
    rules.found(found, 100)
    assert rules.claim(WALL) == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=15,
        acquire_time=acquired,
        renew_time=WRITTEN,
        lease_transitions=transitions,
    )


def test_lease_made_anew_by_its_leader_keeps_its_history(leader: LeaseRules) -> None:
    """Deleting the lease is no transition."""
    before = leader.spec
    assert before is not None
    leader.found(None, 103)
    again = leader.claim(WALL + 3)
    assert (again.acquire_time, again.lease_transitions) == (before.acquire_time, before.lease_transitions)


def test_release(leader: LeaseRules) -> None:
    """What is left behind is held by nobody, for a second, as client-go leaves it."""
    assert leader.release(WALL) == LeaseSpec(
        holder_identity="", lease_duration_seconds=1, acquire_time=WRITTEN, renew_time=WRITTEN, lease_transitions=0
    )


def test_duration_is_rounded_up() -> None:
    """Others must not come before this replica has stopped: 2.5 seconds are written as 3."""
    config = LeaderElection(lease_duration_seconds=2.5, renew_deadline_seconds=2.4, retry_period_seconds=0.5)
    assert LeaseRules(identity="me", config=config).claim(WALL).lease_duration_seconds == 3


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_pause(rules: LeaseRules, chance: float) -> None:
    """A retry period, or up to a quarter less; never past the moment the lease runs out."""
    assert 1.5 < rules.pause_seconds(100, chance) <= 2
    rules.found(spec("other"), 100)
    assert 1.5 < rules.pause_seconds(105, chance) <= 2
    assert rules.pause_seconds(114, chance) == 1
    assert rules.pause_seconds(114.9999, chance) == 0.01
    assert 1.5 < rules.pause_seconds(115, chance) <= 2


def test_pause_of_a_leader_ends_with_its_time(leader: LeaseRules) -> None:
    """A leader that cannot renew is there when its time is over."""
    assert leader.pause_seconds(101, 0) == 2
    assert leader.pause_seconds(109.5, 0) == 0.5


@pytest.mark.parametrize(
    ("times", "message"),
    [
        pytest.param((10.0, 10.0, 2.0), "leaseDuration must be greater than renewDeadline", id="no-margin"),
        pytest.param((15.0, 2.0, 2.0), r"renewDeadline must be greater than retryPeriod\*1.2", id="no-retry"),
    ],
)
def test_times_that_cannot_work(times: Any, message: str) -> None:
    """The two things that client-go checks as well."""
    duration, deadline, retry = times
    config = LeaderElection(
        lease_duration_seconds=duration, renew_deadline_seconds=deadline, retry_period_seconds=retry
    )
    with pytest.raises(ConfigError, match=message):
        LeaseRules(identity="me", config=config)
