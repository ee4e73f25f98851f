"""Pods that wait at Permit: one verdict each, timers, and what is remembered."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_testserver.virtual_time import VirtualClock, settle
from pyscheduler.framework import Code, Status
from pyscheduler.runtime.permit.waiting_pods import HeldPod, WaitingPodMap
from pyscheduler.testing.builders import make_pod

POD = make_pod("p")


def hold(kit: Any, **timeouts: float) -> HeldPod:
    """Make a pod wait."""
    held: HeldPod = kit.waiting_pods.add(POD, node_name="n1", profile_name="s", timeouts=timeouts)
    return held


async def wait(kit: Any) -> asyncio.Task[Status | None]:
    """Let a binding cycle wait for the verdict."""
    task = asyncio.create_task(kit.waiting_pods.wait(POD.uid))
    await settle()
    return task


async def test_a_pod_that_nobody_holds_does_not_wait(kit: Any) -> None:
    """Without an entry in the map the binding cycle goes on at once, and no wait is measured."""
    assert await kit.waiting_pods.wait(POD.uid) is None
    assert not kit.recorder.waits


async def test_a_waiting_pod_can_be_found(kit: Any) -> None:
    """Plugins of every profile see the pod, its node, its profile, since when and for whom it waits."""
    held = hold(kit, A=10, B=20)
    assert kit.waiting_pods.get(POD.uid) is held
    assert kit.waiting_pods.all() == (held,)
    assert (held.pod, held.node_name, held.profile_name) == (POD, "n1", "s")
    assert held.waiting_since == kit.clock.now()
    assert list(held.pending_plugins) == ["A", "B"]
    assert held.verdict is None
    kit.waiting_pods.check_invariants()


async def test_the_last_plugin_to_allow_ends_the_wait(kit: Any) -> None:
    """Every plugin that held the pod must allow it; allowing twice, or by others, changes nothing."""
    held = hold(kit, A=10, B=10)
    task = await wait(kit)
    for plugin in ("A", "A", "X"):
        held.allow(plugin)
    await settle()
    assert not task.done()
    held.allow("B")
    assert await task is None
    assert (held.verdict.cause, held.verdict.plugin, held.verdict.status) == ("allowed", "B", None)  # type: ignore[union-attr]  # it is there
    assert kit.waiting_pods.get(POD.uid) is None
    assert kit.recorder.waits == [("Success", 0.0)]


Ending = Callable[[HeldPod, WaitingPodMap], bool]


@pytest.mark.parametrize(
    ("end", "cause", "plugin", "status"),
    [
        pytest.param(
            lambda held, _: held.reject("X", "too late"),
            "rejected",
            "X",
            Status(Code.UNSCHEDULABLE, "too late", plugin="X"),
            id="rejected",
        ),
        pytest.param(
            lambda _, pods: pods.reject(POD.uid, plugin="X", reason="too late"),
            "rejected",
            "X",
            Status(Code.UNSCHEDULABLE, "too late", plugin="X"),
            id="rejected by uid",
        ),
        pytest.param(
            lambda _, pods: pods.delete(POD.uid),
            "deleted",
            "",
            Status(Code.UNSCHEDULABLE, "removed"),
            id="deleted",
        ),
        pytest.param(
            lambda held, _: held.preempt("X", "victim"),
            "preempted",
            "X",
            Status(Code.ERROR, "waiting on permit for pod: victim", plugin="X"),
            id="preempted",
        ),
    ],
)
async def test_a_refusal_ends_the_wait(kit: Any, end: Ending, cause: str, plugin: str, status: Status) -> None:
    """The first refusal is the verdict, with its cause; timers are off, later words are ignored."""
    held = hold(kit, A=10, B=10)
    task = await wait(kit)
    assert end(held, kit.waiting_pods) is True
    assert end(held, kit.waiting_pods) is False
    held.allow("A")
    held.allow("B")
    assert await task == status
    verdict = held.verdict
    assert verdict is not None
    assert (verdict.cause, verdict.plugin) == (cause, plugin)
    await kit.clock.advance(60)
    assert held.verdict is verdict
    assert kit.recorder.waits == [(status.code.label, 0.0)]


async def test_the_first_timeout_ends_the_wait(kit: Any) -> None:
    """Each plugin has a timer of its own; the message names the plugin and how long it was given."""
    held = hold(kit, A=90, B=60.5)
    task = await wait(kit)
    await kit.clock.advance(60)
    assert not task.done()
    await kit.clock.advance(1)
    assert await task == Status(
        Code.UNSCHEDULABLE, "rejected due to timeout after waiting 1m0.5s at plugin B", plugin="B"
    )
    assert held.verdict is not None
    assert held.verdict.cause == "timeout"
    assert kit.recorder.waits == [("Unschedulable", 60.5)]


async def test_a_wait_that_nobody_asked_for_is_over_at_once(kit: Any) -> None:
    """A pod that is put into the map without a plugin to wait for goes on to be bound."""
    hold(kit)
    assert await kit.waiting_pods.wait(POD.uid) is None


async def test_a_verdict_before_the_wait_counts(kit: Any) -> None:
    """The channel holds one verdict: a pod allowed before its binding cycle came to wait goes on at once."""
    hold(kit, A=10).allow("A")
    assert await kit.waiting_pods.wait(POD.uid) is None


async def test_no_time_at_all_is_a_timeout(kit: Any) -> None:
    """A plugin that waits without saying how long gets no time, as in kube-scheduler."""
    held = hold(kit, A=0)
    await kit.clock.advance(0)
    assert held.verdict is not None
    assert held.verdict.status is not None
    assert held.verdict.status.message == "rejected due to timeout after waiting 0s at plugin A"


async def test_how_a_wait_ended_is_known_until_the_binding_cycle_is_over(kit: Any) -> None:
    """Unreserve can tell a timeout from a rejection, though the pod has left the map by then."""
    hold(kit, A=10)
    task = await wait(kit)
    assert kit.waiting_pods.verdict(POD.uid) is None
    await kit.clock.advance(10)
    await task
    verdict = kit.waiting_pods.verdict(POD.uid)
    assert verdict is not None
    assert verdict.cause == "timeout"
    kit.waiting_pods.check_invariants()
    kit.waiting_pods.forget(POD.uid)
    assert kit.waiting_pods.verdict(POD.uid) is None


async def test_another_wait_forgets_the_last(kit: Any) -> None:
    """A pod that is tried again starts with a clean slate."""
    hold(kit, A=10)
    task = await wait(kit)
    await kit.clock.advance(10)
    await task
    hold(kit, A=10)
    assert kit.waiting_pods.verdict(POD.uid) is None
    kit.waiting_pods.check_invariants()


async def test_cancelling_the_binding_cycle_leaves_nothing_behind(kit: Any) -> None:
    """At a stop waiting pods leave the map and their timers never fire; Unreserve can tell why."""
    held = hold(kit, A=10)
    task = await wait(kit)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(kit.waiting_pods) == 0
    await kit.clock.advance(20)
    assert held.verdict is not None
    assert held.verdict.cause == "stopped"
    assert kit.waiting_pods.verdict(POD.uid) is held.verdict
    assert not kit.recorder.waits


async def test_unknown_pods_cannot_be_refused(kit: Any) -> None:
    """Rejecting or deleting what does not wait says so."""
    assert kit.waiting_pods.reject("nobody") is False
    assert kit.waiting_pods.delete("nobody") is False


async def test_pods_may_be_allowed_while_they_are_listed(kit: Any) -> None:
    """The list is a copy: acting on its members is safe, and so is adding more."""
    for number in range(5):
        kit.waiting_pods.add(make_pod(f"p{number}"), node_name="n", profile_name="s", timeouts={"A": 10})
    tasks = [asyncio.create_task(kit.waiting_pods.wait(held.pod.uid)) for held in kit.waiting_pods.all()]
    await settle()
    for held in kit.waiting_pods.all():
        held.allow("A")
        hold(kit, A=1)
    await asyncio.gather(*tasks)
    assert len(kit.waiting_pods) == 1


actions = st.lists(
    st.one_of(
        st.tuples(st.just("allow"), st.sampled_from("ABX")),
        st.tuples(st.just("reject"), st.sampled_from("ABX")),
        st.tuples(st.just("preempt"), st.sampled_from("ABX")),
        st.tuples(st.just("delete"), st.just("")),
        st.tuples(st.just("advance"), st.integers(0, 6)),
    ),
    max_size=8,
)


@given(steps=actions)
async def test_the_first_word_is_the_last(new_kit: Any, steps: list[tuple[str, Any]]) -> None:
    """Whatever happens in whatever order, the verdict is given once and never changes."""
    kit = new_kit()
    held = hold(kit, A=5, B=9)
    task = await wait(kit)
    began = kit.clock.now()
    pending, expected = {"A", "B"}, None
    for action, what in steps:
        if action == "advance":
            await kit.clock.advance(what)
            elapsed = kit.clock.now() - began
            late = [name for name, limit in (("A", 5), ("B", 9)) if name in pending and elapsed >= limit]
            expected = expected or (("timeout", late[0]) if late else None)
        elif action == "allow":
            held.allow(what)
            pending.discard(what)
            expected = expected or (("allowed", what) if not pending else None)
        elif action == "delete":
            assert held.delete() is (expected is None)
            expected = expected or ("deleted", "")
        else:
            assert getattr(held, action)(what, "because") is (expected is None)
            expected = expected or (f"{action}ed", what)
        verdict = held.verdict
        assert (None if verdict is None else (verdict.cause, verdict.plugin)) == expected
    await settle()
    assert task.done() is (expected is not None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
async def test_ten_thousand_waiting_pods_are_cheap() -> None:
    """A waiting pod costs a small object, its timers and, while awaited, one future."""

    class Recorder:
        def observe(self, family: str, value: float, result: str) -> None:
            assert result == "Success"

    clock = VirtualClock()
    pods = [make_pod(f"p{number}") for number in range(10_000)]
    waiting = WaitingPodMap(clock=clock, recorder=Recorder())  # type: ignore[arg-type]  # only waits are recorded
    gc.collect()
    tracemalloc.start()
    for pod in pods:
        waiting.add(pod, node_name="n", profile_name="s", timeouts={"Gang": 600.0})
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size / len(pods) < 1500
    waits = asyncio.gather(*(waiting.wait(pod.uid) for pod in pods))
    await asyncio.sleep(0)
    for held in waiting.all():
        held.allow("Gang")
    assert await waits == [None] * len(pods)
    assert len(waiting) == 0
