"""The queue from outside: pods come, wait in order, are popped, fail and come back; and what it tells about itself."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.framework import Code, LoopClock, PodInfo, Status
from pyscheduler.queue.nominator import Nominator
from pyscheduler.queue.scheduling_queue import SchedulingQueue
from pyscheduler.queue.sub_queues import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.conftest import Kit


def test_another_sort_key_is_another_order(make_kit: Callable[..., Kit]) -> None:
    """Nothing but the sort key decides."""
    kit = make_kit(sort_key=lambda info: info.pod.name)
    for name in "bca":
        kit.add(name, priority=ord(name))
    assert kit.pop_names() == ["a", "b", "c"]


def test_a_pop_begins_an_attempt(kit: Kit) -> None:
    """A popped pod is in flight, and cycles and attempts are counted."""
    kit.add("a")
    kit.clock.advance(5)
    info = kit.pop()
    assert kit.place("a") is QueuePlace.IN_FLIGHT
    assert (info.attempts, info.first_attempt_at) == (1, 1000.0)
    assert kit.queue.scheduling_cycle == 1
    assert len(kit.queue) == 0
    kit.queue.done("uid-a")
    assert kit.place("a") is None
    kit.queue.done("uid-a")


@pytest.mark.parametrize("pop_early", [True, False], ids=["pop from backoff", "wait out backoff"])
def test_the_loop_is_woken_when_a_pod_becomes_ready(make_kit: Callable[..., Kit], pop_early: bool) -> None:
    """`on_ready` is called for each pod that `pop` could return now, and not for one that must wait."""
    calls: list[float] = []
    kit = make_kit(pop_from_backoff=pop_early, on_ready=lambda: calls.append(kit.clock.now()))
    kit.queue.start()
    kit.add("a")
    assert calls == [1000]
    kit.fail(kit.pop(), "A")
    assert calls == [1000]
    kit.clock.advance(0.5)
    kit.fail(kit.queue.pop_these([kit.get("a").pod])[0])
    assert kit.place("a") is QueuePlace.BACKOFF
    activated = [1000, 1000.5]
    assert calls == [*activated, *([1000.5] if pop_early else [])]
    kit.clock.advance(5)
    assert kit.place("a") is QueuePlace.ACTIVE
    assert len(calls) == (4 if pop_early else 3)


def test_stop_cancels_all_timers(kit: Kit) -> None:
    """Time moves no pod after `stop`, and pods stay where they are."""
    kit.rejected("rejected", "A")
    kit.rejected("failed")
    kit.queue.start()
    kit.queue.stop()
    assert kit.clock.pending == []
    kit.clock.advance(1000)
    assert (kit.place("rejected"), kit.place("failed")) == (QueuePlace.UNSCHEDULABLE, QueuePlace.BACKOFF)


def test_stop_forgets_pods_in_flight(kit: Kit) -> None:
    """After `stop` no events are kept, and a binding cycle that ends later can still return its pod."""
    kit.add("a")
    info = kit.pop()
    kit.queue.move_all(kit.NODE_ADD, None, None)
    assert kit.queue.in_flight.counts() == {"NodeAdd": 1, "PodPopped": 1}
    assert kit.queue.in_flight.seen_labels == {"NodeAdd", "PodPopped"}
    kit.queue.stop()
    assert kit.queue.in_flight.counts() == {}
    kit.queue.done("uid-a")
    kit.fail(info, "A")
    assert kit.place("a") is QueuePlace.BACKOFF


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        pytest.param({"labels": {"a": "b"}}, ["UnschedulablePodUpdatePodLabel"], id="labels"),
        pytest.param({"annotations": {"a": "b"}}, ["UnschedulablePodUpdate"], id="annotations"),
        pytest.param({"nominated": "n1"}, [], id="the status alone"),
    ],
)
def test_a_change_of_a_placed_pod_is_kept_for_its_return(kit: Kit, change: dict[str, Any], kept: list[str]) -> None:
    """So that nothing about it is lost; its nomination, which is our own doing, is no news."""
    kit.add()
    info = kit.pop()
    kit.queue.update_placed(info.pod, PodInfo.of(kit.pod("p", **change)))
    assert list(kit.queue.in_flight.counts()) == [*kept, "PodPopped"]
    kit.queue.done(info.pod.uid)
    kit.queue.update_placed(info.pod, PodInfo.of(kit.pod("p", labels={"c": "d"})))
    assert kit.place() is None


def test_the_first_attempt_is_remembered(kit: Kit) -> None:
    """How long a pod took counts from when it was first ready, however often it was tried since."""
    kit.rejected("p", "A")
    kit.clock.advance(100)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    assert kit.pop().first_attempt_at == 1000.0


def test_rejecting_plugins_stay_until_the_next_failure(kit: Kit) -> None:
    """A pop leaves the plugins of the last failure on the pod, for whoever wants to log them."""
    kit.rejected("p", "B", pending=["A"])
    kit.queue.move_all(kit.NODE_ADD, None, None)
    info = kit.pop()
    assert (info.unschedulable_plugins, info.pending_plugins) == ({"B"}, {"A"})


def test_a_pod_that_is_in_the_queue_is_not_requeued(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    """A second return of one pod is reported, and changes nothing."""
    kit.add()
    info = kit.pop()
    kit.fail(info, "A")
    with caplog.at_level(logging.ERROR):
        kit.fail(info)
    assert "Pod is in the queue already and is not requeued pod=default/p" in caplog.text
    assert kit.recorder.warnings == {"pod_queued_twice": 1}
    info.unschedulable_plugins = {"A"}
    assert kit.place() is QueuePlace.UNSCHEDULABLE
    assert info.unschedulable_count == 1


def test_an_unknown_pod_that_fails_is_tried_again_after_a_backoff(kit: Kit) -> None:
    """The binding cycle says `done` before PreBind; a failure after that knows of no events."""
    kit.add()
    info = kit.pop()
    kit.queue.done("uid-p")
    kit.queue.move_all(kit.PV_ADD, None, None)
    kit.fail(info, "A")
    assert kit.place() is QueuePlace.BACKOFF


def test_incoming_pods_are_counted_by_queue_and_reason(make_kit: Callable[..., Kit]) -> None:
    """The labels of scheduler_queue_incoming_pods_total are kube-scheduler's."""
    kit = make_kit(hints={make_kit().NODE_ADD: [("A", None)]})
    kit.queue.start()
    kit.rejected("p", "A")
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.fail(kit.pop())
    kit.clock.advance(5)
    kit.fail(kit.pop(), "A")
    kit.clock.advance(340)
    kit.fail(kit.pop(), "A")
    kit.queue.activate([kit.get().pod])
    kit.queue.delete(kit.get().pod)
    kit.update(kit.pod(), kit.pod())
    assert kit.recorder.incoming == {
        ("active", "UnschedulablePodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 3,
        ("backoff", "NodeAdd"): 1,
        ("active", "PopFromBackoffQ"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "BackoffComplete"): 1,
        ("active", "UnschedulableTimeout"): 1,
        ("active", "ForceActivate"): 1,
        ("active", "UnschedulablePodUpdate"): 1,
    }


def test_counts_and_pending_pods(kit: Kit) -> None:
    """Pods are counted where they are; a gated pod is not also unschedulable, one in flight is not pending."""
    kit.shut["gated"] = "G"
    for name in ("rejected", "failed", "flying"):
        kit.add(name)
    kit.fail(kit.pop(), "A")
    kit.fail(kit.pop())
    kit.pop()
    kit.add("gated")
    kit.add("ready")
    assert kit.queue.sub_queues.counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    assert [pod.name for pod in kit.queue.pending_pods()] == ["ready", "failed", "rejected", "gated"]
    assert len(kit.queue) == 4


@pytest.mark.parametrize(("pop_from_backoff", "count"), [(True, 2), (False, 1)])
def test_active_count_is_the_number_of_pods_pop_would_return(
    make_kit: Callable[..., Kit], pop_from_backoff: bool, count: int
) -> None:
    """Pods in backoff count if they can be popped from there; those that failed with an error cannot."""
    kit = make_kit(hints={make_kit().NODE_ADD: [("A", None)]}, pop_from_backoff=pop_from_backoff)
    kit.rejected("rejected", "A")
    kit.rejected("failed")
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.add("ready")
    assert kit.queue.active_count == count
    assert len(kit.pop_names()) == count


def test_rejections_are_counted_by_plugin_until_the_pod_leaves(kit: Kit) -> None:
    """scheduler_unschedulable_pods: up when a pod comes back, down when it is popped or deleted, wherever it is."""
    profile = kit.PROFILE
    kit.rejected("a", "A", "B")
    kit.rejected("b", "B", pending=["C"])
    assert kit.queue.sub_queues.rejections == {("A", profile): 1, ("B", profile): 2, ("C", profile): 1}
    kit.queue.move_all(kit.NODE_ADD, None, None)
    assert kit.place("a") is QueuePlace.BACKOFF
    assert kit.queue.sub_queues.rejections["A", profile] == 1
    kit.queue.delete(kit.get("a").pod)
    assert kit.queue.sub_queues.rejections == {("B", profile): 1, ("C", profile): 1}
    kit.queue.activate([kit.get("b").pod])
    kit.pop()
    assert kit.queue.sub_queues.rejections == {}


def test_dump_has_the_place_and_the_reason_of_each_pod(kit: Kit) -> None:
    """Plain data for logs: places, reasons, nominations."""
    kit.rejected("rejected", "B", "A", nominated="n1")
    kit.rejected("failed")
    kit.add("flying")
    kit.pop()
    kit.add("low")
    kit.add("high", priority=5)
    dump = list(kit.queue.dump())
    assert [(entry["pod"], entry["queue"]) for entry in dump] == [
        ("default/high", "active"),
        ("default/low", "active"),
        ("default/failed", "backoff"),
        ("default/rejected", "unschedulable"),
        ("default/flying", "in_flight"),
    ]
    assert dump[2]["backoffSeconds"] == 1.0
    assert dump[3] == {
        "pod": "default/rejected",
        "queue": "unschedulable",
        "attempts": 1,
        "unschedulablePlugins": ["A", "B"],
        "pendingPlugins": [],
        "gatingPlugin": "",
        "waitingSeconds": 0.0,
        "backoffSeconds": 0.0,
        "nominatedNode": "n1",
    }


def test_dump_allows_changes_of_the_queue(kit: Kit) -> None:
    """It is taken in pieces: a pod that leaves meanwhile is left out."""
    kit.add("a")
    kit.add("b")
    dump = kit.queue.dump()
    assert next(dump)["pod"] == "default/a"
    kit.queue.delete(kit.get("b").pod)
    assert list(dump) == []


def test_every_profile_has_its_own_hints_and_gates(kit: Kit) -> None:
    """Lookups go by the pod's schedulerName; a plugin of one profile says nothing about pods of another."""
    refusal = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "not yet", plugin="G")
    queue = SchedulingQueue(
        clock=kit.clock,
        recorder=kit.recorder,
        sort_key=lambda info: info.enqueued_at,
        nominator=Nominator(),
        pre_enqueue={"one": lambda _: None, "shut": lambda _: refusal},
        hints={"one": {kit.NODE_ADD: [("A", None)]}, "two": {}, "shut": {kit.NODE_ADD: [("A", None), ("G", None)]}},
        gating_events={"one": {"G": [kit.NODE_ADD]}, "shut": {"G": [kit.PV_ADD]}},
    )
    for profile in ("one", "two"):
        queue.add(kit.info(kit.pod(profile, profile=profile)))
        info = queue.pop()
        assert info is not None
        info.unschedulable_plugins = {"A"}
        queue.requeue_failed(info)
    queue.add(kit.info(kit.pod("shut", profile="shut")))
    queue.move_all(kit.NODE_ADD, None, None)
    assert queue.place_of("uid-one") is QueuePlace.BACKOFF
    assert queue.place_of("uid-two") is QueuePlace.UNSCHEDULABLE
    assert queue.sub_queues.counts()["gated"] == 1
    assert queue.sub_queues.rejections == {("A", "one"): 1, ("A", "two"): 1, ("G", "shut"): 1}
    queue.check_invariants()


@pytest.mark.slow
async def test_the_queue_runs_on_an_event_loops_clock(kit: Kit) -> None:
    """With real timers a pod in backoff comes back by itself; a loaded machine must not take the whole backoff."""
    ready = asyncio.Event()
    queue = SchedulingQueue(
        clock=LoopClock(),
        recorder=kit.recorder,
        sort_key=lambda info: info.enqueued_at,
        nominator=Nominator(),
        pre_enqueue={},
        hints={},
        gating_events={},
        initial_backoff_seconds=0.2,
        pop_from_backoff=False,
        on_ready=ready.set,
    )
    queue.start()
    queue.add(kit.info(kit.pod()))
    info = queue.pop()
    assert info is not None
    ready.clear()
    queue.requeue_failed(info)
    assert queue.place_of("uid-p") is QueuePlace.BACKOFF
    await ready.wait()
    assert queue.pop() is info
    queue.stop()
