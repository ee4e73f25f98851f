"""Cluster events: which pods they move, where to, and what pods in flight learn of them."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import ActionType, ClusterEvent, EventResource, QueueingHint
from pyscheduler.queue.hints import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT
from pyscheduler.queue.sub_queues import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from tests.queue.conftest import Kit

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
PV_ADD = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)
CSI_NODE_ADD = ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)


def queue(pod: Pod, old: object, new: object) -> QueueingHint:
    """Say yes."""
    return QueueingHint.QUEUE


def skip(pod: Pod, old: object, new: object) -> QueueingHint:
    """Say no."""
    return QueueingHint.SKIP


@pytest.mark.parametrize(
    ("hint", "plugins", "pending", "waited", "place"),
    [
        pytest.param(queue, ["A"], [], 0, QueuePlace.BACKOFF, id="queue: to backoffQ while backing off"),
        pytest.param(queue, ["A"], [], 1.9, QueuePlace.BACKOFF, id="queue: the window of its backoff is not over"),
        pytest.param(queue, ["A"], [], 2, QueuePlace.ACTIVE, id="queue: to activeQ once the backoff is over"),
        pytest.param(queue, [], ["A"], 0, QueuePlace.ACTIVE, id="queue of a pending plugin skips the backoff"),
        pytest.param(skip, ["A"], [], 2, QueuePlace.UNSCHEDULABLE, id="skip: stays"),
        pytest.param(skip, [], ["A"], 2, QueuePlace.UNSCHEDULABLE, id="skip of a pending plugin: stays"),
        pytest.param(queue, ["B"], [], 2, QueuePlace.UNSCHEDULABLE, id="another plugin rejected it: stays"),
    ],
)
def test_an_event_moves_a_pod_by_the_best_strategy(
    make_kit: Callable[..., Kit],
    hint: object,
    plugins: list[str],
    pending: list[str],
    waited: float,
    place: QueuePlace,
) -> None:
    """The hints of the rejecting plugins decide whether, the backoff decides where to."""
    kit = make_kit(hints={NODE_ADD: [("A", hint)], PV_ADD: [("B", queue)]})
    kit.rejected("p", *plugins, pending=pending)
    kit.clock.advance(waited)
    kit.queue.move_all(NODE_ADD, None, "a node")
    assert kit.place() is place


def test_a_move_does_not_make_a_pod_younger(kit: Kit) -> None:
    """The time of the last failure stays, which is what the next attempt's order goes by."""
    kit.rejected("p", "A")
    kit.clock.advance(7)
    kit.queue.move_all(NODE_ADD, None, None)
    assert kit.get().enqueued_at == 1000.0


def test_without_backoff_pods_go_to_active_at_once(make_kit: Callable[..., Kit]) -> None:
    """A podMaxBackoffSeconds of 0 turns the backoff off."""
    kit = make_kit(hints={NODE_ADD: [("A", None)]}, max_backoff_seconds=0.0)
    kit.rejected("p", "A")
    kit.queue.move_all(NODE_ADD, None, None)
    assert kit.place() is QueuePlace.ACTIVE


def test_pods_move_in_the_order_in_which_they_were_rejected(kit: Kit) -> None:
    """Equal pods of different groups come back first in, first out."""
    for name, plugins in [("a", "A"), ("b", "AB"), ("c", "A"), ("d", "AB"), ("e", "B")]:
        kit.rejected(name, *plugins)
    kit.queue.move_all(NODE_ADD, None, None)
    assert kit.pop_names() == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("event", "checked", "moved"),
    [
        pytest.param(NODE_ADD, ["p0", "p1", "p2", "p3"], ["p3", "p2"], id="an event of interest"),
        pytest.param(UNSCHEDULABLE_TIMEOUT, ["p0", "p1", "p2", "p3"], ["p3", "p2"], id="a wildcard event"),
        pytest.param(PV_ADD, [], [], id="an event of interest to other pods only"),
        pytest.param(CSI_NODE_ADD, [], [], id="an event of interest to nobody"),
    ],
)
def test_a_pre_check_leaves_pods_out(kit: Kit, event: ClusterEvent, checked: list[str], moved: list[str]) -> None:
    """It is asked only about pods that the event may concern."""
    for priority in range(4):
        kit.rejected(f"p{priority}", "A", priority=priority)
    seen = []

    def pre_check(pod: Pod) -> bool:
        seen.append(pod.name)
        return pod.priority >= 2

    kit.queue.move_all(event, None, None, pre_check)
    assert seen == checked
    assert kit.pop_names() == moved


def test_hints_are_asked_about_pods_of_their_plugins_only(make_kit: Callable[..., Kit]) -> None:
    """Pods that other plugins rejected cost no call, however many there are."""
    asked = []

    def hint(pod: Pod, old: object, new: object) -> QueueingHint:
        asked.append(pod.name)
        return QueueingHint.SKIP

    kit = make_kit(hints={NODE_ADD: [("A", hint)], PV_ADD: [("B", None)]})
    for number in range(50):
        kit.rejected(f"b{number}", "B")
    kit.rejected("a", "A")
    kit.queue.move_all(NODE_ADD, None, None)
    assert asked == ["a"]


def test_the_cost_of_an_unrelated_event_does_not_grow_with_the_pods(make_kit: Callable[..., Kit]) -> None:
    """Python calls are counted, of an event that other plugins registered and of one that a gate shuts out."""

    def calls(pods: int) -> int:
        kit = make_kit(
            hints={NODE_ADD: [("A", queue), ("G", None)], PV_ADD: [("B", queue)]}, gating_events={"G": [NODE_ADD]}
        )
        for number in range(pods):
            kit.rejected(f"rejected-{number}", "A", "C")
            kit.shut[f"gated-{number}"] = "G"
            kit.add(f"gated-{number}")
        count = 0

        def profiler(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        gc.disable()  # others may be called when it runs
        sys.setprofile(profiler)
        try:
            kit.queue.move_all(PV_ADD, None, None)
        finally:
            sys.setprofile(before)
            gc.enable()
        return count

    assert 0 < calls(10) == calls(500)


def test_a_pod_that_nobody_rejected_moves_at_any_event_of_interest(kit: Kit) -> None:
    """It is not known what it waits for, so anything may be it."""
    kit.rejected("p", "B")
    info = kit.get()
    info.unschedulable_plugins = set()
    kit.queue.sub_queues.rejections.clear()
    kit.queue._unschedulable.put(info, "")
    kit.queue.move_all(CSI_NODE_ADD, None, None)
    assert kit.place() is QueuePlace.UNSCHEDULABLE
    kit.queue.move_all(NODE_ADD, None, None)
    assert kit.place() is QueuePlace.BACKOFF


def test_a_hint_may_use_the_queue(make_kit: Callable[..., Kit]) -> None:
    """A hint that activates another pod which the same event concerns does not upset the move."""
    kits: list[Kit] = []

    def hint(pod: Pod, old: object, new: object) -> QueueingHint:
        kits[0].queue.activate([kits[0].pod("b")])
        return QueueingHint.SKIP

    kit = make_kit(hints={NODE_ADD: [("A", hint)]})
    kits.append(kit)
    for name in "abc":
        kit.rejected(name, "A")
    kit.queue.move_all(NODE_ADD, None, None)
    assert [kit.place(name) for name in "abc"] == [
        QueuePlace.UNSCHEDULABLE,
        QueuePlace.ACTIVE,
        QueuePlace.UNSCHEDULABLE,
    ]
    assert len(kit.recorder.hints) == 2


# Events while a pod is in flight


@pytest.mark.parametrize(
    ("before", "during", "plugins", "pending", "place"),
    [
        pytest.param([], [], ["A"], [], QueuePlace.UNSCHEDULABLE, id="nothing happened"),
        pytest.param([NODE_ADD], [], ["A"], [], QueuePlace.UNSCHEDULABLE, id="it happened before the attempt"),
        pytest.param([], [NODE_ADD], ["A"], [], QueuePlace.BACKOFF, id="its plugin finds it worth an attempt"),
        pytest.param([], [NODE_ADD], ["B"], [], QueuePlace.UNSCHEDULABLE, id="another plugin would"),
        pytest.param([], [PV_ADD], ["A", "S"], [], QueuePlace.UNSCHEDULABLE, id="the hint says skip"),
        pytest.param([], [PV_ADD, NODE_ADD], ["A", "S"], [], QueuePlace.BACKOFF, id="the second event is the one"),
        pytest.param([], [NODE_ADD], [], ["A"], QueuePlace.ACTIVE, id="a pending plugin has what it waited for"),
        pytest.param([], [NODE_ADD, PV_ADD], ["A"], ["B"], QueuePlace.ACTIVE, id="the rejecting, then the pending"),
        pytest.param([], [NODE_ADD], ["A"], ["B"], QueuePlace.BACKOFF, id="the rejecting plugin only"),
        pytest.param([], [CSI_NODE_ADD], ["A"], [], QueuePlace.UNSCHEDULABLE, id="an event of interest to nobody"),
        pytest.param([], [UNSCHEDULABLE_TIMEOUT], ["B"], [], QueuePlace.BACKOFF, id="a wildcard event"),
        pytest.param([], [], [], [], QueuePlace.BACKOFF, id="an error needs no event"),
    ],
)
def test_events_in_flight_decide_where_a_failed_pod_goes(
    make_kit: Callable[..., Kit],
    before: list[ClusterEvent],
    during: list[ClusterEvent],
    plugins: list[str],
    pending: list[str],
    place: QueuePlace,
) -> None:
    """The attempt looked at an older cluster; events since the pop may have been what the pod needs."""
    kit = make_kit(hints={NODE_ADD: [("A", queue)], PV_ADD: [("S", skip), ("B", None)]})
    kit.add("other")
    kit.pop()
    kit.add()
    for event in before:
        kit.queue.move_all(event, None, None)
    info = kit.pop()
    for event in during:
        kit.queue.move_all(event, None, None)
    kit.fail(info, *plugins, pending=pending)
    assert kit.place() is place
    assert kit.place("other") is QueuePlace.IN_FLIGHT


def test_each_pod_in_flight_has_its_own_events(kit: Kit) -> None:
    """Of two pods in flight only the one that was popped before the event missed it."""
    kit.add("a")
    kit.add("b")
    first = kit.pop()
    kit.queue.move_all(NODE_ADD, None, None)
    second = kit.pop()
    kit.fail(first, "A")
    kit.fail(second, "A")
    assert (kit.place("a"), kit.place("b")) == (QueuePlace.BACKOFF, QueuePlace.UNSCHEDULABLE)
    assert kit.queue.in_flight.counts() == {}


def test_the_objects_of_missed_events_reach_the_hints(make_kit: Callable[..., Kit]) -> None:
    """A hint is asked the same question after the flight as it would have been at the time."""
    seen = []

    def hint(pod: Pod, old: object, new: object) -> QueueingHint:
        seen.append((pod.name, old, new))
        return QueueingHint.SKIP

    kit = make_kit(hints={NODE_ADD: [("A", hint)]})
    kit.add()
    info = kit.pop()
    kit.queue.move_all(NODE_ADD, None, "n1")
    kit.queue.move_all(NODE_ADD, None, "n2")
    kit.fail(info, "A")
    assert seen == [("p", None, "n1"), ("p", None, "n2")]


def test_a_pre_check_does_not_apply_to_pods_in_flight(kit: Kit) -> None:
    """The check is about pods that wait now."""
    kit.add()
    info = kit.pop()
    kit.queue.move_all(NODE_ADD, None, None, lambda _: False)
    kit.fail(info, "A")
    assert kit.place() is QueuePlace.BACKOFF


# Activation


def test_activation_skips_backoff_and_hints(kit: Kit) -> None:
    """Named pods go to activeQ from wherever they wait; pods that are active, or unknown, are left alone."""
    kit.rejected("rejected", "B")
    kit.rejected("failed")
    kit.add("active")
    kit.queue.activate([kit.pod(name) for name in ("rejected", "failed", "active", "unknown")])
    assert kit.queue.sub_queues.counts() == {"active": 3, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert kit.recorder.incoming["active", "ForceActivate"] == 2


def test_activation_reaches_pods_in_flight(kit: Kit) -> None:
    """The named pod is retried whatever rejected it; another pod in flight is not."""
    kit.add("named")
    kit.add("other")
    named, other = kit.pop(), kit.pop()
    kit.queue.activate([named.pod])
    assert kit.queue.in_flight.counts() == {"ForceActivate": 1, "PodPopped": 2}
    kit.fail(other, "B")
    kit.fail(named, "B")
    assert (kit.place("named"), kit.place("other")) == (QueuePlace.BACKOFF, QueuePlace.UNSCHEDULABLE)


def test_activating_an_unknown_pod_does_nothing(kit: Kit) -> None:
    """Nothing is kept for pods that the queue does not know."""
    kit.add("other")
    kit.pop()
    kit.queue.activate([kit.pod("unknown")])
    assert kit.queue.in_flight.counts() == {"PodPopped": 1}


def test_labels_of_the_special_events() -> None:
    """They are written in metrics as kube-scheduler writes them."""
    assert (FORCE_ACTIVATE.label, UNSCHEDULABLE_TIMEOUT.label) == ("ForceActivate", "UnschedulableTimeout")
