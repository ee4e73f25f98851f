"""What to do about a deadlock, and when, from the facts alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyscheduler.testing import make_pod
from pyscheduler_coscheduling.deadlock_resolver.plan import Plan
from pyscheduler_coscheduling.deadlock_resolver.rules import Check, DeadlockRules, in_deadlock


def contender(name: str, rank: int = 0, **facts: Any) -> Any:
    """Return a unit that holds nodes, is exhausted, can win and can yield, but for the given facts."""
    pods = [make_pod(f"{name}-0", priority=facts.pop("priority", 0))]
    deadlock = SimpleNamespace(grace_seconds=2, yield_lease_seconds=30)
    usual = {"holds": [1], "is_exhausted": True, "can_win": True, "can_yield": True, "members": frozenset({name})}
    return SimpleNamespace(
        key=name, rank=rank, party=SimpleNamespace(deadlock=deadlock), candidates={name: pods}, **{**usual, **facts}
    )


def plan(winner: Any, *victims: Any) -> Plan:
    """Return a plan that places one pod of the winner."""
    return Plan(winner, victims, [(make_pod("won"), "n")])


@pytest.mark.parametrize(
    ("contenders", "expected"),
    [
        pytest.param([contender("a", 2), contender("b", 1)], ["b", "a"], id="two, by rank"),
        pytest.param([contender("a")], [], id="one alone"),
        pytest.param([contender("a"), contender("b"), contender("c", is_exhausted=False)], [], id="one goes on"),
        pytest.param(
            [contender("a"), contender("b", 1), contender("c", is_exhausted=False, holds=[])],
            ["a", "b"],
            id="one that holds nothing goes on",
        ),
        pytest.param([contender("a", can_yield=False), contender("b", can_yield=False)], [], id="nobody can yield"),
        pytest.param([contender("a"), contender("b", can_yield=False, can_win=False)], [], id="only itself can yield"),
    ],
)
def test_a_deadlock_needs_a_winner_and_another_unit_that_can_yield(contenders: list[Any], expected: list[str]) -> None:
    """And no unit that holds nodes may have members left to try."""
    assert [each.key for each in in_deadlock(contenders)] == expected


def test_a_deadlock_is_resolved_after_the_grace_time_and_once() -> None:
    """Without contenders there is one more check; contenders without a plan wait for a change from outside."""
    rules, stuck = DeadlockRules(), [contender("a"), contender("b")]
    rules.expect()
    assert [rules.check([], 10.0), rules.check([], 10.5)] == [Check(again_at=10.5), Check()]
    assert rules.check(stuck, 11.0) == Check(again_at=13.0)
    assert rules.check(stuck, 13.0) == Check(resolve=True)
    rules.give_up(stuck)
    assert [rules.check(stuck, 20.0), rules.check(stuck, 22.0)] == [Check(again_at=22.0), Check()]
    rules.room_appeared()
    assert [rules.check(stuck, 30.0), rules.check(stuck, 32.0)] == [Check(again_at=32.0), Check(resolve=True)]


def test_a_winner_that_is_late_is_excluded_until_something_changes() -> None:
    """During the lease its victims are refused, and so are units that would take the room before it."""
    rules, winner, victim, pushy = DeadlockRules(), contender("a"), contender("b"), contender("c", priority=5)
    lease = rules.apply(plan(winner, victim), [winner, victim, pushy], 100.0)
    assert lease is not None
    assert (lease.ends_at, lease.count, rules.yields, rules.is_winner("a")) == (130.0, 3, {"b": 1}, True)
    assert [key for key in "abc" if lease.refuses(key)] == ["b", "c"]  # type: ignore[arg-type]  # any key will do
    assert rules.room_appeared() == [pushy]
    rules.expire(lease)
    assert rules.end_lease() == [victim]
    assert list(rules.possible_winners([winner, victim])) == [victim]
    rules.room_appeared()
    assert list(rules.possible_winners([winner, victim])) == [winner, victim]
    assert rules.counts == {"resolved": 1, "yielded": 1, "expired": 1, "excluded": 1}


def test_a_contender_is_judged_when_its_turn_comes() -> None:
    """A unit that is found never to fit while a plan for another is sought is passed over."""
    rules = DeadlockRules()
    winners = rules.possible_winners([contender("a"), contender("b", 1), contender("c", 2)])
    assert next(winners).key == "a"
    rules.never._known["b"] = True  # type: ignore[index]  # any key will do
    assert [each.key for each in winners] == ["c"]


def test_a_plan_without_victims_is_a_retry_and_nothing_else() -> None:
    """It is worth one retry between two changes."""
    rules, winner = DeadlockRules(), contender("a")
    assert rules.is_worth_a_retry(winner)
    assert rules.apply(plan(winner), [winner], 0.0) is None
    assert (rules.lease, rules.is_worth_a_retry(winner), rules.counts["resolved"]) == (None, False, 0)
