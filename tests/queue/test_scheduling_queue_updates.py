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
