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


def test_without_backoff_pods_go_to_active_at_once(make_kit: Callable[..., Kit]) -> None:
    """A podMaxBackoffSeconds of 0 turns the backoff off."""
    kit = make_kit(hints={NODE_ADD: [("A", None)]}, max_backoff_seconds=0.0)
    kit.rejected("p", "A")
    kit.queue.move_all(NODE_ADD, None, None)
    assert kit.place() is QueuePlace.ACTIVE


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


# Activation


def test_activating_an_unknown_pod_does_nothing(kit: Kit) -> None:
    """Nothing is kept for pods that the queue does not know."""
    kit.add("other")
    kit.pop()
    kit.queue.activate([kit.pod("unknown")])
    assert kit.queue.in_flight.counts() == {"PodPopped": 1}


def test_labels_of_the_special_events() -> None:
    """They are written in metrics as kube-scheduler writes them."""
    assert (FORCE_ACTIVATE.label, UNSCHEDULABLE_TIMEOUT.label) == ("ForceActivate", "UnschedulableTimeout")
