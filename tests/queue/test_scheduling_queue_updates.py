"""Pods that change, are deleted, or are announced again, in every place where they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.api import Toleration
from pyscheduler.framework import ActionType, ClusterEvent, EventResource, NominatingInfo, QueueingHint
from pyscheduler.queue.sub_queues import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from tests.queue.conftest import Kit

POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)
POD_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)
POD_TOLERATION = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
TOLERATION = (Toleration(key="k", operator="Exists"),)


def skip(pod: Pod, old: object, new: object) -> QueueingHint:
    """Say no."""
    return QueueingHint.SKIP


@pytest.fixture
def updates(make_kit: Callable[..., Kit]) -> Kit:
    """Make a queue in which U waits for any update of the pod, T for a toleration, and S for nothing it is asked."""
    return make_kit(hints={POD_UPDATE: [("U", None), ("S", skip)], POD_TOLERATION: [("T", None)]})


def test_an_update_in_active_sorts_the_pod_anew(updates: Kit) -> None:
    """A pod that becomes urgent is popped first, and keeps its age."""
    updates.add("a")
    old = updates.add("b")
    new = updates.pod("b", priority=7)
    updates.update(old, new)
    assert updates.get("b").pod is new
    assert updates.pop_names() == ["b", "a"]


def test_an_update_in_backoff_leaves_the_pod_there(make_kit: Callable[..., Kit]) -> None:
    """Its backoff runs on; among pods of one window the new priority counts."""
    kit = make_kit(hints={make_kit().NODE_ADD: [("A", None)]})
    for name in ("a", "b"):
        kit.rejected(name, "A")
    kit.queue.move_all(kit.NODE_ADD, None, None)
    new = kit.pod("b", priority=7)
    kit.update(kit.get("b").pod, new)
    assert kit.place("b") is QueuePlace.BACKOFF
    assert kit.pop_names() == ["b", "a"]


def test_an_update_of_a_failed_pod_in_backoff(updates: Kit) -> None:
    """A pod that waits after an error is replaced where it is."""
    old = updates.rejected("p")
    new = updates.pod(labels={"a": "b"})
    updates.update(old, new)
    assert updates.place() is QueuePlace.BACKOFF
    assert updates.get().pod is new


@pytest.mark.parametrize(
    ("plugins", "pending", "change", "waited", "place"),
    [
        pytest.param("U", "", {"labels": {"a": "b"}}, 0, QueuePlace.BACKOFF, id="worth an attempt, backing off"),
        pytest.param("U", "", {"labels": {"a": "b"}}, 2, QueuePlace.ACTIVE, id="worth an attempt, backoff over"),
        pytest.param("", "U", {"labels": {"a": "b"}}, 0, QueuePlace.ACTIVE, id="a pending plugin skips the backoff"),
        pytest.param("S", "", {"labels": {"a": "b"}}, 2, QueuePlace.UNSCHEDULABLE, id="the hint says skip"),
        pytest.param("X", "", {"labels": {"a": "b"}}, 2, QueuePlace.UNSCHEDULABLE, id="nobody asked"),
        pytest.param(
            "T", "", {"labels": {"a": "b"}}, 2, QueuePlace.UNSCHEDULABLE, id="another change than it waits for"
        ),
        pytest.param("T", "", {"tolerations": TOLERATION}, 2, QueuePlace.ACTIVE, id="the change it waits for"),
        pytest.param(
            "T",
            "",
            {"tolerations": TOLERATION, "labels": {"a": "b"}},
            2,
            QueuePlace.ACTIVE,
            id="the second of two changes",
        ),
        pytest.param(
            "U", "", {"annotations": {"a": "b"}}, 2, QueuePlace.ACTIVE, id="a change of nothing in particular"
        ),
        pytest.param(
            "T", "", {"annotations": {"a": "b"}}, 2, QueuePlace.UNSCHEDULABLE, id="too general for the plugin"
        ),
    ],
)
def test_an_update_of_an_unschedulable_pod(
    updates: Kit, plugins: str, pending: str, change: dict[str, object], waited: float, place: QueuePlace
) -> None:
    """Each change is an event, asked of the plugins that rejected the pod, until one moves it."""
    old = updates.rejected("p", *plugins, pending=pending)
    updates.clock.advance(waited)
    new = updates.pod(**change)
    updates.update(old, new)
    assert updates.place() is place
    assert updates.get().pod is new


def test_hints_are_given_the_pod_before_and_after(make_kit: Callable[..., Kit]) -> None:
    """The waiting pod is the new version by then, as in kube-scheduler."""
    seen = []

    def hint(pod: Pod, old: object, new: object) -> QueueingHint:
        seen.append((pod, old, new))
        return QueueingHint.SKIP

    kit = make_kit(hints={POD_LABEL: [("A", hint)]})
    old = kit.rejected("p", "A")
    new = kit.pod(labels={"a": "b"})
    kit.update(old, new)
    kit.queue.update(None, kit.info(newest := kit.pod()))
    assert seen == [(new, old, new), (newest, new, newest)]


def test_an_updated_pod_moves_only_once(make_kit: Callable[..., Kit]) -> None:
    """An update of two changes, both worth an attempt, moves the pod at the first, with and without early popping."""
    for pop_from_backoff in (True, False):
        kit = make_kit(hints={POD_UPDATE: [("U", None)]}, pop_from_backoff=pop_from_backoff)
        old = kit.rejected("p", "U")
        kit.update(old, kit.pod(labels={"a": "b"}, tolerations=TOLERATION))
        assert kit.place() is QueuePlace.BACKOFF
        assert {key: count for key, count in kit.recorder.incoming.items() if key[0] == "backoff"} == {
            ("backoff", "UnschedulablePodUpdatePodLabel"): 1
        }
        assert len(kit.queue) == 1


def test_an_update_of_an_unknown_pod_adds_it(updates: Kit) -> None:
    """The queue may learn of a pod late; its nomination is taken in as well."""
    updates.update(updates.pod(), updates.pod(nominated="n1"))
    assert updates.place() is QueuePlace.ACTIVE
    assert updates.nominator.node_of("uid-p") == "n1"
    assert updates.recorder.incoming == {("active", "UnschedulablePodUpdate"): 1}


@pytest.mark.parametrize(
    ("plugins", "place"),
    [
        pytest.param("T", QueuePlace.BACKOFF, id="rejected by the plugin that waits for the change"),
        pytest.param("X", QueuePlace.UNSCHEDULABLE, id="rejected by another"),
        pytest.param("", QueuePlace.BACKOFF, id="failed with an error"),
    ],
)
def test_an_update_in_flight_counts_when_the_pod_comes_back(updates: Kit, plugins: str, place: QueuePlace) -> None:
    """The pod comes back as its newest version, and the change is an event that it missed."""
    old = updates.add()
    info = updates.pop()
    new = updates.pod(tolerations=TOLERATION)
    updates.update(old, new)
    assert updates.place() is QueuePlace.IN_FLIGHT
    assert info.pod is old
    updates.fail(info, *plugins)
    assert updates.place() is place
    assert updates.get().pod is new


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated", "failed"])
def test_a_deleted_pod_is_forgotten(updates: Kit, place: str) -> None:
    """From wherever it is, with its nomination; a second deletion finds nothing to do."""
    if place == "gated":
        updates.shut["p"] = "G"
    pod = updates.add(nominated="n1")
    if place in {"backoff", "unschedulable", "failed"}:
        updates.fail(updates.pop(), *([] if place == "failed" else ["U"]))
    if place == "backoff":
        updates.update(pod, updates.pod(labels={"a": "b"}, nominated="n1"))
        assert updates.place() is QueuePlace.BACKOFF
    updates.queue.delete(pod)
    updates.queue.delete(pod)
    assert updates.place() is None
    assert len(updates.queue) == 0
    assert not updates.nominator.nodes
    assert updates.queue.sub_queues.rejections == {}


@pytest.mark.parametrize("plugins", ["U", ""], ids=["rejected", "failed"])
def test_a_pod_deleted_in_flight_does_not_come_back(updates: Kit, plugins: str) -> None:
    """Whatever its attempt ends with, there is nothing to schedule any more."""
    pod = updates.add(nominated="n1")
    info = updates.pop()
    updates.queue.delete(pod)
    assert updates.place() is QueuePlace.IN_FLIGHT
    assert not updates.nominator.nodes
    updates.fail(info, *plugins)
    assert updates.place() is None
    assert updates.queue.in_flight.counts() == {}
    assert updates.queue.sub_queues.rejections == {}


def test_adding_a_known_pod_updates_it(updates: Kit) -> None:
    """A relist may announce everything again; no pod loses its past over it, and none is there twice."""
    updates.rejected("p", "X")
    again = updates.pod(labels={"a": "b"})
    updates.queue.add(updates.info(again))
    assert updates.place() is QueuePlace.UNSCHEDULABLE
    assert updates.get().pod is again
    assert updates.get().attempts == 1


def test_adding_a_pod_that_is_in_flight_updates_it(updates: Kit) -> None:
    """The attempt goes on, and the pod comes back as it was announced; even if it was thought deleted."""
    pod = updates.add()
    info = updates.pop()
    updates.queue.delete(pod)
    again = updates.pod(tolerations=TOLERATION)
    updates.queue.add(updates.info(again))
    assert len(updates.queue) == 0
    updates.fail(info, "T")
    assert updates.place() is QueuePlace.BACKOFF
    assert updates.get().pod is again


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable"])
def test_nominations_follow_updates(updates: Kit, place: str) -> None:
    """A nomination made here outlives updates that know nothing of it, and gives way to those that do."""
    pod = updates.add()
    if place != "active":
        updates.fail(updates.pop(), *(["X"] if place == "unschedulable" else []))
    updates.nominator.add(updates.get().pod_info, NominatingInfo("n2"))
    unaware = updates.pod(annotations={"a": "b"})
    updates.update(pod, unaware)
    assert updates.nominator.pods_on("n2") == (updates.get().pod_info,)
    aware = updates.pod(nominated="n3")
    updates.update(unaware, aware)
    assert updates.nominator.node_of("uid-p") == "n3"
    updates.update(aware, updates.pod())
    assert not updates.nominator.nodes


def test_a_move_leaves_the_nomination_alone(make_kit: Callable[..., Kit]) -> None:
    """Only news of the pod itself can end what the scheduler wrote down, not an event that moves it."""
    kit = make_kit(hints={make_kit().NODE_ADD: [("A", None)]}, max_backoff_seconds=0)
    kit.rejected("p", "A")
    kit.nominator.add(kit.get().pod_info, NominatingInfo("n2"))
    kit.queue.move_all(kit.NODE_ADD, None, None)
    assert kit.place() is QueuePlace.ACTIVE
    assert kit.nominator.node_of("uid-p") == "n2"


def test_a_new_pod_is_nominated_by_its_status(updates: Kit) -> None:
    """Nominations found at start are honoured, and outlive the pop."""
    updates.add(nominated="n1")
    updates.pop()
    assert [info.pod.name for info in updates.nominator.pods_on("n1")] == ["p"]
