"""The index of waiting pods by a plugin's key."""

from __future__ import annotations

from typing import Any

from pyscheduler.api import Pod
from pyscheduler.testing.builders import make_pod


def add(kit: Any, name: str, group: str | None = None) -> Any:
    """Let a pod wait."""
    pod = make_pod(name, labels={"group": group} if group is not None else {})
    return kit.waiting_pods.add(pod, node_name="n", profile_name="s", timeouts={"A": 10})


def group_of(pod: Pod) -> str | None:
    """Return the label; fail for one that cannot be read."""
    group = pod.labels.get("group")
    if group == "bad":
        raise ValueError("no such group")
    return group


def test_pods_are_found_by_key_in_the_order_in_which_they_came(kit: Any) -> None:
    """Pods that wait already are in it from the start; those without a key never."""
    early = add(kit, "early", "x")
    index = kit.waiting_pods.index(group_of)
    late, other = add(kit, "late", "x"), add(kit, "other", "y")
    add(kit, "alone")
    assert index.of("x") == (early, late)
    assert index.of("y") == (other,)
    assert index.of("z") == ()
    assert (index.count("x"), index.count("z")) == (2, 0)
    assert index.groups() == ("x", "y")
    kit.waiting_pods.check_invariants()


def test_a_pod_leaves_the_index_with_the_map(kit: Any) -> None:
    """Forgotten, or begun anew, it is there once or not at all."""
    index = kit.waiting_pods.index(group_of)
    first = add(kit, "p", "x")
    again = add(kit, "p", "y")
    assert (index.of("x"), index.of("y")) == ((), (again,))
    assert first.verdict is None
    kit.waiting_pods.check_invariants()
    kit.waiting_pods.forget(again.pod.uid)
    assert index.groups() == ()
    kit.waiting_pods.check_invariants()


async def test_a_pod_is_in_the_index_until_its_verdict_is_taken(kit: Any) -> None:
    """Members may be rejected while they are listed; they are gone when their binding cycles have heard it."""
    index = kit.waiting_pods.index(group_of)
    held = [add(kit, f"p{number}", "x") for number in range(3)]
    for each in index.of("x"):
        assert each.reject("A", "no") is True
    assert index.count("x") == 3
    for each in held:
        await kit.waiting_pods.wait(each.pod.uid)
    assert index.count("x") == 0
    kit.waiting_pods.check_invariants()


async def test_a_pod_that_was_allowed_waits_no_more(kit: Any) -> None:
    """It leaves the index at once, so that nobody goes through thousands that are on their way; the map keeps it."""
    index = kit.waiting_pods.index(group_of)
    first, second = add(kit, "first", "x"), add(kit, "second", "x")
    first.allow("A")
    assert index.of("x") == (second,)
    assert kit.waiting_pods.index(group_of).of("x") == (second,)
    assert kit.waiting_pods.get(first.pod.uid) is first
    assert not kit.waiting_pods.is_held_back(first.pod.uid)
    assert first.reject("A", "too late") is False
    assert first.preempt("A", "too late") is False
    assert first.delete() is False
    assert await kit.waiting_pods.wait(first.pod.uid) is None
    kit.waiting_pods.check_invariants()


def test_a_verdict_on_a_wait_that_was_begun_anew_concerns_nobody(kit: Any) -> None:
    """Who holds on to the wait before changes nothing of the one that replaced it."""
    index = kit.waiting_pods.index(group_of)
    before = add(kit, "p", "x")
    now = add(kit, "p", "x")
    before.allow("A")
    assert index.of("x") == (now,)
    assert kit.waiting_pods.is_held_back(now.pod.uid)
    kit.waiting_pods.check_invariants()


def test_a_key_that_cannot_be_told_costs_nobody_his_wait(kit: Any) -> None:
    """The plugin's failure is counted, the pod waits, and is in no group."""
    index = kit.waiting_pods.index(group_of)
    held = add(kit, "p", "bad")
    assert kit.waiting_pods.get(held.pod.uid) is held
    assert index.groups() == ()
    assert kit.recorder.warnings["plugin_error"] == 1
    kit.waiting_pods.check_invariants()
