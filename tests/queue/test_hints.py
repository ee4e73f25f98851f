"""Queueing hints: who is asked, and what the answers amount to."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import ActionType, ClusterEvent, EventResource, QueuedPodInfo, QueueingHint
from pyscheduler.queue.hints import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, QueueingHints, Strategy

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from tests.queue.conftest import Kit

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_UPDATE = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
ASSIGNED_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
POD_ADD = ClusterEvent(EventResource.POD, ActionType.ADD)
ANYTHING_ADDED = ClusterEvent(EventResource.WILDCARD, ActionType.ADD)
ANYTHING = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)
LABEL_AND_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT)


def queue(pod: Pod, old: object, new: object) -> QueueingHint:
    """Say yes."""
    return QueueingHint.QUEUE


def skip(pod: Pod, old: object, new: object) -> QueueingHint:
    """Say no."""
    return QueueingHint.SKIP


def broken(pod: Pod, old: object, new: object) -> QueueingHint:
    """Fail."""
    message = "a bug in the plugin"
    raise RuntimeError(message)


@pytest.mark.parametrize(
    ("registered", "event", "rejected_by", "pending_for", "strategy", "asked"),
    [
        pytest.param(
            {ASSIGNED_POD_ADD: [("A", queue)]}, NODE_ADD, "A", "", Strategy.SKIP, "", id="nobody registered the event"
        ),
        pytest.param({NODE_ADD: [("A", queue)]}, NODE_ADD, "A", "", Strategy.AFTER_BACKOFF, "A:Queue", id="queue"),
        pytest.param({NODE_ADD: [("A", skip)]}, NODE_ADD, "A", "", Strategy.SKIP, "A:QueueSkip", id="skip"),
        pytest.param(
            {NODE_ADD: [("A", None)]}, NODE_ADD, "A", "", Strategy.AFTER_BACKOFF, "A:Queue", id="no hint means queue"
        ),
        pytest.param(
            {NODE_ADD: [("A", broken)]}, NODE_ADD, "A", "", Strategy.AFTER_BACKOFF, "A:Error", id="an error means queue"
        ),
        pytest.param(
            {NODE_ADD: [("A", queue)]}, NODE_ADD, "", "A", Strategy.IMMEDIATELY, "A:Queue", id="a pending plugin"
        ),
        pytest.param(
            {NODE_ADD: [("A", broken)]}, NODE_ADD, "", "A", Strategy.IMMEDIATELY, "A:Error", id="a pending one fails"
        ),
        pytest.param(
            {NODE_ADD: [("A", queue)]}, NODE_ADD, "A", "A", Strategy.IMMEDIATELY, "A:Queue", id="rejecting and pending"
        ),
        pytest.param(
            {NODE_ADD: [("A", queue), ("B", queue), ("C", queue), ("D", broken)]},
            NODE_ADD,
            "A C",
            "B",
            Strategy.IMMEDIATELY,
            "A:Queue B:Queue",
            id="with a pending plugin the first yes is not the last word",
        ),
        pytest.param(
            {NODE_ADD: [("A", queue), ("B", skip)]},
            NODE_ADD,
            "A",
            "B",
            Strategy.AFTER_BACKOFF,
            "A:Queue B:QueueSkip",
            id="the pending plugin says no",
        ),
        pytest.param(
            {NODE_ADD: [("A", skip), ("B", queue), ("C", queue)]},
            NODE_ADD,
            "A B C",
            "",
            Strategy.AFTER_BACKOFF,
            "A:QueueSkip B:Queue",
            id="without one the first yes ends it",
        ),
        pytest.param(
            {NODE_ADD: [("A", skip), ("B", skip), ("C", queue)]},
            NODE_ADD,
            "A B",
            "",
            Strategy.SKIP,
            "A:QueueSkip B:QueueSkip",
            id="plugins that did not reject the pod are not asked",
        ),
        pytest.param(
            {NODE_LABEL: [("A", skip)], NODE_UPDATE: [("B", queue)], NODE_ADD: [("A", queue)]},
            NODE_LABEL,
            "A B",
            "",
            Strategy.AFTER_BACKOFF,
            "A:QueueSkip B:Queue",
            id="a general registration covers a special event",
        ),
        pytest.param(
            {NODE_LABEL: [("A", queue)]},
            NODE_UPDATE,
            "A",
            "",
            Strategy.SKIP,
            "",
            id="a special registration does not cover a general event",
        ),
        pytest.param(
            {POD_ADD: [("A", queue)]},
            ASSIGNED_POD_ADD,
            "A",
            "",
            Strategy.AFTER_BACKOFF,
            "A:Queue",
            id="pods are assigned or not",
        ),
        pytest.param(
            {ANYTHING_ADDED: [("A", queue)]},
            NODE_ADD,
            "A",
            "",
            Strategy.AFTER_BACKOFF,
            "A:Queue",
            id="a registration for any resource",
        ),
        pytest.param(
            {ANYTHING: [("A", queue)]},
            LABEL_AND_TAINT,
            "A",
            "",
            Strategy.AFTER_BACKOFF,
            "A:Queue",
            id="a registration for everything",
        ),
        pytest.param(
            {NODE_ADD: [("A", skip)]}, NODE_ADD, "", "", Strategy.AFTER_BACKOFF, "", id="nobody rejected the pod"
        ),
        pytest.param(
            {ANYTHING: [("A", skip)]}, UNSCHEDULABLE_TIMEOUT, "A", "", Strategy.AFTER_BACKOFF, "", id="wildcard event"
        ),
    ],
)
def test_evaluate_returns_the_strategy(
    kit: Kit,
    registered: dict[ClusterEvent, list[tuple[str, object]]],
    event: ClusterEvent,
    rejected_by: str,
    pending_for: str,
    strategy: Strategy,
    asked: str,
) -> None:
    """Registrations that match, of plugins that rejected the pod, are asked in order until the answer is clear."""
    hints = QueueingHints({kit.PROFILE: registered}, clock=kit.clock, recorder=kit.recorder)
    info = QueuedPodInfo(
        pod_info=kit.info(kit.pod()),
        enqueued_at=0,
        unschedulable_plugins=set(rejected_by.split()),
        pending_plugins=set(pending_for.split()),
    )
    assert hints.evaluate(info, hints.match(event), None, None) is strategy
    assert " ".join(f"{plugin}:{answer}" for plugin, _, answer in kit.recorder.hints) == asked
    assert {label for _, label, _ in kit.recorder.hints} <= {event.label}


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit])
def test_a_hint_cannot_raise_through_the_queue(kit: Kit, kind: type[BaseException]) -> None:
    """What would end the watch that brought the event, or the program, is a failed hint like any other."""

    def ends_all(*_: object) -> QueueingHint:
        raise kind

    hints = QueueingHints({kit.PROFILE: {NODE_ADD: [("A", ends_all)]}}, clock=kit.clock, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=0, unschedulable_plugins={"A"})
    assert hints.evaluate(info, hints.match(NODE_ADD), None, None) is not Strategy.SKIP
    assert kit.recorder.warnings == {"queueing_hint_failed": 1}


def test_a_hint_that_fails_is_logged_and_counted(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    """The log names plugin, event and pod, once, with the traceback for the plugin's author."""
    hints = QueueingHints({kit.PROFILE: {NODE_ADD: [("A", broken)]}}, clock=kit.clock, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=0, unschedulable_plugins={"A"})
    with caplog.at_level(logging.ERROR):
        for _ in range(4):
            hints.evaluate(info, hints.match(NODE_ADD), None, None)
    assert caplog.text.count("plugin=A extensionPoint=QueueingHint event=NodeAdd pod=default/p") == 1
    assert caplog.text.count("\nRuntimeError: a bug in the plugin") == 1
    assert kit.recorder.warnings == {"queueing_hint_failed": 4}


@pytest.mark.parametrize(
    ("target", "strategy"),
    [
        pytest.param("p", Strategy.AFTER_BACKOFF, id="this pod"),
        pytest.param("q", Strategy.SKIP, id="another pod"),
        pytest.param("p again", Strategy.SKIP, id="another pod of the same name"),
        pytest.param(None, Strategy.SKIP, id="something that is no pod"),
    ],
)
def test_a_wildcard_event_with_an_object_is_for_that_pod(kit: Kit, target: str | None, strategy: Strategy) -> None:
    """ForceActivate names the pod it means."""
    hints = QueueingHints({}, clock=kit.clock, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=0, unschedulable_plugins={"A"})
    name, again, _ = (target or "").partition(" again")
    new = object() if target is None else kit.pod(name, uid="uid-again" if again else "")
    assert hints.evaluate(info, hints.match(FORCE_ACTIVATE), None, new) is strategy


def test_a_pod_of_an_unknown_profile_is_tried_again(kit: Kit) -> None:
    """Better an attempt for nothing than a pod that is stuck."""
    hints = QueueingHints({"other": {NODE_ADD: [("A", skip)]}}, clock=kit.clock, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=0, unschedulable_plugins={"A"})
    assert hints.match(NODE_ADD).may_move(kit.PROFILE, frozenset("A"))
    assert hints.evaluate(info, hints.match(NODE_ADD), None, None) is Strategy.AFTER_BACKOFF


def test_hints_see_pod_and_objects(kit: Kit) -> None:
    """A hint is given the waiting pod, and the object before and after."""
    seen: list[tuple[object, ...]] = []

    def hint(pod: Pod, old: object, new: object) -> QueueingHint:
        seen.append((pod.name, old, new))
        return QueueingHint.SKIP

    hints = QueueingHints({kit.PROFILE: {NODE_LABEL: [("A", hint)]}}, clock=kit.clock, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=0, unschedulable_plugins={"A"})
    hints.evaluate(info, hints.match(NODE_LABEL), "before", "after")
    assert seen == [("p", "before", "after")]


@pytest.mark.parametrize(
    ("event", "rejectors", "of_interest", "may_move"),
    [
        pytest.param(NODE_ADD, "A", True, True, id="its plugin registered the event"),
        pytest.param(NODE_ADD, "B", True, False, id="another plugin did"),
        pytest.param(NODE_ADD, "B A", True, True, id="one of its plugins did"),
        pytest.param(NODE_ADD, "", True, True, id="nobody rejected it"),
        pytest.param(ASSIGNED_POD_ADD, "A", False, False, id="nobody registered the event"),
        pytest.param(UNSCHEDULABLE_TIMEOUT, "B", True, True, id="a wildcard event"),
    ],
)
def test_may_move_depends_on_the_rejecting_plugins(
    kit: Kit, event: ClusterEvent, rejectors: str, of_interest: bool, may_move: bool
) -> None:
    """No pod needs to be looked at to know that none of its plugins registered the event."""
    matches = QueueingHints({kit.PROFILE: {NODE_ADD: [("A", skip)]}}, clock=kit.clock, recorder=kit.recorder).match(
        event
    )
    assert matches.is_of_interest is of_interest
    assert matches.may_move(kit.PROFILE, frozenset(rejectors.split())) is may_move
