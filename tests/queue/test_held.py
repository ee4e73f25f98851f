"""Held pods: a profile's pods that the queue order never pops and that a work source takes by name."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import ActionType, ClusterEvent, EventResource
from pyscheduler.framework.cycle_state import AfterFailure
from pyscheduler.queue.sub_queues import QueuePlace
from tests.queue.test_against_a_model import ENTRIES, GATING_EVENTS, HINTS, START, Model, ModelPod, Twin

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from tests.queue.conftest import Kit

HELD = "batch"
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)


@pytest.fixture
def kit(make_kit: Callable[..., Kit]) -> Kit:
    """Make a queue with a second profile that holds its pods; plugin A waits for nodes, G is a gate."""
    hints = {NODE_ADD: [("A", None)], NODE_DELETE: [("G", None)]}
    kit = make_kit(hints=hints, gating_events={"G": [NODE_DELETE]}, profiles=[HELD])
    kit.queue.hold([HELD])
    kit.queue.start()
    return kit


def take(kit: Kit, *pods: Pod) -> list[str]:
    """Take pods by name; return the names of those that came."""
    return [info.pod.name for info in kit.queue.take(pods)]


def test_a_group_cycle_takes_no_held_pod(kit: Kit) -> None:
    """`pop_these` leaves the pods of a holding profile where they are."""
    held, rejected = kit.add("held", profile=HELD), kit.add("rejected", profile=HELD)
    kit.fail(kit.queue.take([rejected])[0], "A")
    assert kit.queue.pop_these([held, rejected, kit.add("plain")])[0].pod.name == "plain"
    assert (kit.place("held"), kit.place("rejected")) == (QueuePlace.HELD, QueuePlace.UNSCHEDULABLE)


def test_an_update_reaches_a_held_pod(make_kit: Callable[..., Kit]) -> None:
    """The pod is replaced, its nomination follows, and the loop is woken: its source may decide differently now."""
    calls: list[None] = []
    kit = make_kit(on_ready=lambda: calls.append(None), profiles=[HELD])
    kit.queue.hold([HELD])
    old = kit.add("held", profile=HELD)
    new = kit.pod("held", profile=HELD, nominated="n1", labels={"a": "b"})
    before = len(calls)
    kit.update(old, new)
    assert len(calls) == before + 1
    assert kit.get("held").pod is new
    assert kit.nominator.node_of(new.uid) == "n1"


def test_metrics_and_dump_show_held_pods(kit: Kit) -> None:
    """`held` is a value of the `queue` label in both metrics of the queue, and a place in the debugger's dump."""
    pod = kit.add("held", profile=HELD)
    assert kit.queue.sub_queues.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0, "held": 1}
    assert kit.recorder.incoming == {("held", "UnschedulablePodAdd"): 1}
    assert [(entry["pod"], entry["queue"]) for entry in kit.queue.dump()] == [("default/held", "held")]
    assert kit.queue.pending_pods() == [pod]
    kit.fail(kit.queue.take([pod])[0], "A")
    assert kit.queue.sub_queues.rejections == {("A", HELD): 1}
    kit.queue.take([pod])
    assert kit.queue.sub_queues.rejections == {}


def test_early_retry_is_not_for_held_pods(kit: Kit) -> None:
    """A held pod that asks for room serves its backoff: no event moves it to activeQ before."""
    pod = kit.add("held", profile=HELD)
    (info,) = kit.queue.take([pod])
    info.unschedulable_plugins = {"A"}
    after = AfterFailure()
    after.room_for = 1
    after.serve_backoff = True
    kit.queue.move_all(NODE_ADD, None, None)
    kit.queue.requeue_failed(info, after)
    kit.queue.move_all(NODE_ADD, None, None)
    kit.clock.advance(0.5)
    assert (kit.place("held"), kit.queue.pop()) == (QueuePlace.BACKOFF, None)


def test_hold_comes_before_the_first_pod(kit: Kit) -> None:
    """A profile cannot begin to hold pods that the queue order may have popped already."""
    kit.add("plain")
    with pytest.raises(ValueError, match="profile python-scheduler has pods in the queue"):
        kit.queue.hold([kit.PROFILE])


# A random history against the model


class HeldModel(Model):
    """The model with a profile that holds its pods."""

    def put(self, p: ModelPod, place: QueuePlace) -> QueuePlace:
        """Put pods of the profile in `held` instead of activeQ."""
        is_held = place is QueuePlace.ACTIVE and p.pod.scheduler_name == HELD
        return super().put(p, QueuePlace.HELD if is_held else place)

    def serves(self, p: ModelPod) -> bool:
        """Leave held pods in backoffQ until their backoff ends."""
        return p.pod.scheduler_name == HELD

    def put_back(self, p: ModelPod) -> None:
        """Return a pod that was taken and not tried."""
        if p.gone:
            del self.pods[p.pod.name]
            return
        if p.newest is not None:
            p.pod, p.newest = p.newest, None
        self.to_active(p)


class HeldTwin(Twin):
    """Half of the pods are held; `do_take` and `do_put_back` are what a work source does."""

    model_type = HeldModel

    def __init__(self, kit: Kit, *, pop_early: bool) -> None:
        kit.queue.hold([HELD])
        self.taken: set[str] = set()
        super().__init__(kit, pop_early=pop_early)

    def do_add(self, draw: Callable[[int], int]) -> bool:
        """Bring a pod of either profile."""
        self.profile = (self.kit.PROFILE, HELD)[draw(2)]
        return super().do_add(draw)

    def do_take(self, draw: Callable[[int], int]) -> bool:
        """Take a few pods by name, wherever they are."""
        picked = [self.pick(draw) for _ in range(1 + draw(3))]
        pods = list({p.pod.uid: p for p in picked if p is not None}.values())
        taken = self.kit.queue.take([p.pod for p in pods])
        expected = []
        for p in pods:
            if p.pod.scheduler_name != HELD or p.place is QueuePlace.IN_FLIGHT:
                continue
            if p.place is not QueuePlace.HELD:
                self.model.activate([p])
            if p.place is QueuePlace.HELD:
                self.model.put(p, QueuePlace.IN_FLIGHT)
                p.missed = []
                expected.append(p)
        assert [info.pod.name for info in taken] == [p.pod.name for p in expected]
        assert [info.attempts for info in taken] == [p.attempts for p in expected]
        self.flying |= {info.pod.name: info for info in taken}
        self.taken |= {info.pod.name for info in taken}
        return bool(taken)

    def do_put_back(self, draw: Callable[[int], int]) -> bool:
        """Drop a decision about a pod that was taken."""
        flying = [p for p in self.model.at(QueuePlace.IN_FLIGHT) if p.pod.name in self.taken]
        if not flying:
            return False
        p = flying[draw(len(flying))]
        self.taken.remove(p.pod.name)
        self.kit.queue.put_back(self.flying.pop(p.pod.name))
        self.model.put_back(p)
        return True

    def come_back(self, p: ModelPod, rejected: set[str], pending: set[str]) -> None:
        """Count the attempt of a pod that was taken."""
        p.attempts += p.pod.name in self.taken
        self.taken.discard(p.pod.name)
        super().come_back(p, rejected, pending)

    def do_finish(self, draw: Callable[[int], int]) -> bool:
        """Bind a pod in flight."""
        is_done = super().do_finish(draw)
        self.taken &= self.flying.keys()
        return is_done

    def drain(self) -> None:
        """Take and bind every held pod as well."""
        self.turn_gate(shut=False)
        for p in self.model.at(QueuePlace.IN_FLIGHT):
            self.come_back(p, set(), set())
        for info in self.kit.queue.take([p.pod for p in self.model.pods.values()]):
            self.kit.queue.done(info.pod.uid)
            self.finished.add(info.pod.name)
            del self.model.pods[info.pod.name]
        super().drain()


OPERATIONS = [name.removeprefix("do_") for name in dir(HeldTwin) if name.startswith("do_")]


@pytest.mark.slow
@pytest.mark.parametrize("pop_early", [True, False], ids=["pop from backoff", "wait out backoff"])
def test_a_random_history_keeps_each_pod_in_one_place(make_kit: Callable[..., Kit], pop_early: bool) -> None:
    """The queue agrees with the model after each of 2,500 operations on held and other pods, and loses no pod."""
    kit = make_kit(
        hints=HINTS, gating_events=GATING_EVENTS, start_at=START, pop_from_backoff=pop_early, profiles=[HELD]
    )
    twin = HeldTwin(kit, pop_early=pop_early)
    chance = random.Random(20261122)
    places: Counter[str] = Counter()
    for _ in range(2500):
        operation = chance.choice([*OPERATIONS, "add", *["pop", "reject", "take"] * 2, *["update"] * 4])
        before = {p.pod.name: p.place for p in twin.model.pods.values() if p.pod.scheduler_name == HELD}
        twin.act(operation, [chance.randrange(1000) for _ in range(9)])
        twin.compare()
        popped = [name for name in twin.flying if kit.queue.in_flight.get(f"uid-{name}") is not None]
        assert {name for name in popped if before.get(name)} <= twin.taken, "queue order popped a held pod"
        for p in twin.model.pods.values():
            if p.pod.scheduler_name == HELD and before.get(p.pod.name) is not p.place:
                places[f"{operation}: {before.get(p.pod.name)} to {p.place}"] += 1
    twin.drain()
    print(dict(sorted(twin.done.items())))  # noqa: T201 - shown with -s, and when the test fails
    print(dict(sorted(places.items())))  # noqa: T201 - same
    assert {operation: twin.done[operation] for operation in OPERATIONS if twin.done[operation] < 50} == {}
    assert {answer for _, _, answer in kit.recorder.hints} == {"Queue", "QueueSkip", "Error"}
    incoming = kit.recorder.incoming
    by_time = ("active", "PopFromBackoffQ") if pop_early else ("unschedulable", "BackoffComplete")
    assert {*ENTRIES, by_time} - incoming.keys() == set()
    assert {event for queue, event in incoming if queue == "held"} >= {
        "BackoffComplete",
        "ForceActivate",
        "NodeAdd",
        "NodeDelete",
        "PutBack",
        "UnschedulablePodAdd",
        "UnschedulablePodUpdate",
        "UnschedulableTimeout",
    }
