"""Compare the queue with a naive model of kube-scheduler's queue: lists instead of heaps, one check each second.

`Twin` runs each operation on both and compares them. Hypothesis searches for a short history in which they differ.
`test_held.py` has a long random history, in which every operation and every way into a sub-queue occurs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import floor
from typing import TYPE_CHECKING, ClassVar

import attrs
import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from pyscheduler.api import Pod, Toleration
from pyscheduler.framework import ActionType, ClusterEvent, EventResource, QueueingHint
from pyscheduler.queue.sub_queues import QueuePlace

if TYPE_CHECKING:
    from tests.queue.conftest import Kit

START = 1000.25
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)
POD_UPDATE = ClusterEvent(EventResource.POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
CSI_NODE_ADD = ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)


def wanted_node(pod: Pod, old: object, new: object) -> QueueingHint:
    """Wait for a node by name; one name makes the plugin fail."""
    if new == "broken":
        message = "the hint fails"
        raise RuntimeError(message)
    return QueueingHint.QUEUE if new == pod.labels.get("wants") else QueueingHint.SKIP


def own_even_version(pod: Pod, old: object, new: object) -> QueueingHint:
    """Wait for an update of the pod itself to an even version."""
    assert isinstance(new, Pod)
    is_it = new.uid == pod.uid and int(new.labels["version"]) % 2 == 0
    return QueueingHint.QUEUE if is_it else QueueingHint.SKIP


HINTS = {
    NODE_ADD: [("A", wanted_node), ("B", None)],
    POD_UPDATE: [("C", own_even_version), ("G", None)],
    ASSIGNED_POD_DELETE: [("D", None)],
    NODE_DELETE: [("G", None)],
}
GATING_EVENTS = {"G": [NODE_DELETE, POD_UPDATE]}
#: Ways into the sub-queues that a long history must take.
ENTRIES = {
    ("active", "AssignedPodDelete"),
    ("active", "BackoffComplete"),
    ("active", "ForceActivate"),
    ("active", "NodeAdd"),
    ("active", "NodeDelete"),
    ("active", "ScheduleAttemptFailure"),
    ("active", "UnschedulablePodAdd"),
    ("active", "UnschedulablePodUpdate"),
    ("active", "UnschedulablePodUpdatePodLabel"),
    ("active", "UnschedulablePodUpdatePodToleration"),
    ("active", "UnschedulableTimeout"),
    ("backoff", "AssignedPodDelete"),
    ("backoff", "NodeAdd"),
    ("backoff", "ScheduleAttemptFailure"),
    ("unschedulable", "NodeDelete"),
    ("unschedulable", "ScheduleAttemptFailure"),
    *(("unschedulable", event) for event in ("UnschedulablePodAdd", "UnschedulablePodUpdate")),
}
OF_INTEREST = {"NodeAdd", "NodeDelete", "AssignedPodDelete", "UnschedulableTimeout"}


@attrs.define(eq=False)
class ModelPod:
    """What the model knows of a pod."""

    pod: Pod
    gateable: bool
    enqueued: float
    place: QueuePlace | None = None
    came: int = 0
    held: bool = False
    rejected: set[str] = attrs.Factory(set)
    pending: set[str] = attrs.Factory(set)
    rejections: int = 0
    errors: int = 0
    attempts: int = 0
    gone: bool = False
    newest: Pod | None = None
    #: (label of the event, object) since the pop.
    missed: list[tuple[str, object]] = attrs.Factory(list)

    @property
    def is_named(self) -> bool:
        """Tell whether somebody named it since its pop; that is kept once."""
        named = [obj for event, obj in self.missed if event == "ForceActivate"]
        return any(isinstance(obj, Pod) and obj.uid == self.pod.uid for obj in named)

    @property
    def order(self) -> tuple[float, ...]:
        """Sort as PrioritySort does, and by arrival."""
        return -self.pod.priority, self.enqueued, self.came


class Model:
    """The queue as kube-scheduler's documentation describes it."""

    def __init__(self, *, pop_early: bool) -> None:
        self.pods: dict[str, ModelPod] = {}
        self.now = START
        self.pop_early = pop_early
        self.gate_shut = True
        self.counter = itertools.count(1)

    def at(self, place: QueuePlace) -> list[ModelPod]:
        """Return the pods of a place, by arrival."""
        return sorted((p for p in self.pods.values() if p.place is place), key=lambda p: p.came)

    # What an event is worth

    @staticmethod
    def says_yes(p: ModelPod, plugin: str, event: str, obj: object) -> bool:
        """Answer for a plugin."""
        if event == "NodeAdd":
            return plugin == "B" or (plugin == "A" and obj in {"broken", p.pod.labels.get("wants")})
        if event.startswith("UnschedulablePodUpdate"):
            own = isinstance(obj, Pod) and obj.uid == p.pod.uid and int(obj.labels["version"]) % 2 == 0
            return plugin == "G" or (plugin == "C" and own)
        return {"AssignedPodDelete": "D", "NodeDelete": "G"}.get(event) == plugin

    def worth(self, p: ModelPod, event: str, obj: object) -> str:
        """Return skip, backoff or now."""
        if not p.rejected | p.pending:
            return "backoff"
        if event in {"UnschedulableTimeout", "ForceActivate"}:
            return "backoff" if obj is None or obj is p.pod or obj.uid == p.pod.uid else "skip"
        yes = {plugin for plugin in p.rejected | p.pending if self.says_yes(p, plugin, event, obj)}
        if yes & p.pending:
            return "now"
        return "backoff" if yes else "skip"

    # Sub-queues

    def backoff_end(self, p: ModelPod) -> float:
        """Return the end of backoff."""
        failures = p.errors or p.rejections
        if not failures:
            return float("-inf")
        end = p.enqueued + min(2 ** (failures - 1), 10)
        return floor(end) if self.pop_early else end

    def backing_off(self, p: ModelPod) -> bool:
        """Tell whether the pod has to wait."""
        return self.backoff_end(p) >= (floor(self.now) if self.pop_early else self.now)

    def put(self, p: ModelPod, place: QueuePlace) -> QueuePlace:
        """Move a pod; it keeps its arrival if it is there already."""
        if p.place is not place:
            p.place = place
            p.came = next(self.counter)
        return place

    def passes(self, p: ModelPod) -> bool:
        """Run PreEnqueue."""
        p.held = p.gateable and self.gate_shut
        if p.held:
            p.rejected = p.rejected | {"G"}
        return not p.held

    def to_active(self, p: ModelPod, *, passed: bool = False) -> QueuePlace:
        """Move to activeQ or behind the gate."""
        return self.put(p, QueuePlace.ACTIVE if passed or self.passes(p) else QueuePlace.UNSCHEDULABLE)

    def requeue(self, p: ModelPod, worth: str) -> QueuePlace:
        """Move a pod to where it belongs."""
        if worth == "skip":
            return self.put(p, QueuePlace.UNSCHEDULABLE)
        if worth == "backoff" and self.backing_off(p):
            passed = not self.pop_early or self.passes(p)
            return self.put(p, QueuePlace.BACKOFF if passed else QueuePlace.UNSCHEDULABLE)
        return self.to_active(p)

    def tell_flying(self, event: str, obj: object) -> None:
        """Let pods in flight know."""
        for p in self.at(QueuePlace.IN_FLIGHT):
            p.missed.append((event, obj))

    # Operations

    def add(self, pod: Pod, *, gateable: bool) -> None:
        """Take in a new pod."""
        self.pods[pod.name] = ModelPod(pod=pod, gateable=gateable, enqueued=self.now)
        self.to_active(self.pods[pod.name])

    def pop(self) -> ModelPod | None:
        """Pop the first."""
        first = min(self.at(QueuePlace.ACTIVE), key=lambda p: p.order, default=None)
        if first is None and self.pop_early:
            early = [p for p in self.at(QueuePlace.BACKOFF) if p.rejected | p.pending and not self.serves(p)]
            first = min(early, key=lambda p: (self.backoff_end(p), *p.order), default=None)
        if first is not None:
            self.put(first, QueuePlace.IN_FLIGHT)
            first.attempts += 1
            first.missed = []
        return first

    def serves(self, _p: ModelPod) -> bool:
        """Return True if a rejected pod must serve its whole backoff."""
        return False

    def fail(self, p: ModelPod, rejected: set[str], pending: set[str]) -> None:
        """Take a pod back."""
        if p.gone:
            del self.pods[p.pod.name]
            return
        if p.newest is not None:
            p.pod, p.newest = p.newest, None
        p.rejected, p.pending = rejected, pending
        if rejected | pending:
            p.rejections += 1
            p.errors = 0
        else:
            p.errors += 1
        p.enqueued = self.now
        worth = {self.worth(p, *event) for event in p.missed} if rejected | pending else {"backoff"}
        self.requeue(p, next((best for best in ("now", "backoff") if best in worth), "skip"))

    def update(self, p: ModelPod, new: Pod, changes: list[str]) -> None:
        """Take in a new version."""
        if p.place is QueuePlace.IN_FLIGHT:
            p.newest = new
            p.gone = False
            for change in changes:
                self.tell_flying(change, new)
            return
        p.pod = new
        if p.place is QueuePlace.UNSCHEDULABLE:
            for change in changes:
                worth = self.worth(p, change, new)
                if worth != "skip" and self.requeue(p, worth) is not QueuePlace.UNSCHEDULABLE:
                    return

    def delete(self, p: ModelPod) -> None:
        """Forget a pod."""
        if p.place is QueuePlace.IN_FLIGHT:
            p.gone = True
        else:
            del self.pods[p.pod.name]

    def activate(self, pods: Iterable[ModelPod]) -> None:
        """Move pods by name."""
        for p in pods:
            if p.place is QueuePlace.UNSCHEDULABLE:
                self.to_active(p)
            elif p.place is QueuePlace.BACKOFF:
                p.place = None
                self.to_active(p, passed=self.pop_early)
            elif p.place is QueuePlace.IN_FLIGHT and not p.is_named:
                self.tell_flying("ForceActivate", p.pod)

    def event(self, event: str, obj: object, pods: Sequence[ModelPod] | None = None) -> None:
        """Let something happen."""
        if event not in OF_INTEREST:
            return
        for p in self.at(QueuePlace.UNSCHEDULABLE) if pods is None else pods:
            if p.held and event != "NodeDelete":
                continue
            worth = self.worth(p, event, obj)
            if worth != "skip":
                p.place = None
                self.requeue(p, worth)
        self.tell_flying(event, obj)

    def advance(self, seconds: float) -> None:
        """Let time pass, and look at every tick."""
        start, end = self.now, self.now + seconds
        first = floor(self.now) + 1.0 if self.pop_early else START
        ticks = [(first + n, "backoff") for n in range(int(end - first) + 2)]
        ticks += [(START + 30 * n, "leftover") for n in range(int((end - START) / 30) + 1)]
        for tick, kind in sorted(ticks):
            if start < tick <= end:
                self.now = tick
                if kind == "backoff":
                    self.flush_backoff()
                else:
                    self.flush_leftover()
        self.now = end

    def flush_backoff(self) -> None:
        """Move what has completed its backoff."""
        done = [p for p in self.at(QueuePlace.BACKOFF) if not self.backing_off(p)]
        rejected = [p for p in done if p.rejected | p.pending]
        tie = (lambda p: p.order) if self.pop_early else (lambda p: (p.came,))
        rejected.sort(key=lambda p: (self.serves(p), self.backoff_end(p), *tie(p)))
        failed = [p for p in done if not p.rejected | p.pending]
        failed.sort(key=lambda p: (self.backoff_end(p), p.came))
        for p in (*rejected, *failed):
            p.place = None
            self.to_active(p, passed=self.pop_early)

    def flush_leftover(self) -> None:
        """Move what has waited for too long."""
        overdue = [p for p in self.at(QueuePlace.UNSCHEDULABLE) if self.now - p.enqueued > 300 and not p.held]
        if overdue:
            self.event("UnschedulableTimeout", None, overdue)


class Twin:
    """The queue and the model, in lock step; `done` counts the operations that were possible."""

    model_type: ClassVar[type[Model]] = Model

    def __init__(self, kit: Kit, *, pop_early: bool) -> None:
        self.kit = kit
        self.model = self.model_type(pop_early=pop_early)
        self.profile = kit.PROFILE
        self.flying: dict[str, object] = {}
        self.names = itertools.count()
        self.added: set[str] = set()
        self.deleted: set[str] = set()
        self.finished: set[str] = set()
        self.done: Counter[str] = Counter()
        kit.queue.start()

    def act(self, operation: str, draws: Sequence[int]) -> bool:
        """Do an operation to both, if it is possible; `draws` decide about everything that is open."""
        numbers = iter(draws)
        is_done: bool = getattr(self, f"do_{operation}")(lambda limit: next(numbers) % limit)
        self.done[operation] += is_done
        return is_done

    def pick(self, draw: Callable[[int], int], *places: QueuePlace) -> ModelPod | None:
        """Choose a pod that is in one of the places, or anywhere."""
        pods = [p for p in self.model.pods.values() if not places or p.place in places]
        return pods[draw(len(pods))] if pods else None

    def do_add(self, draw: Callable[[int], int]) -> bool:
        """Bring a new pod; now and then the queue learns of it by an update."""
        labels = {"wants": ("n0", "n1")[draw(2)], "version": "0"}
        pod = self.kit.pod(f"p{next(self.names)}", priority=draw(3), labels=labels, profile=self.profile)
        gateable = draw(3) == 0
        self.added.add(pod.name)
        if gateable and self.model.gate_shut:
            self.kit.shut[pod.name] = "G"
        if draw(5) == 0:
            self.kit.update(pod, pod)
        else:
            self.kit.queue.add(self.kit.info(pod))
        self.model.add(pod, gateable=gateable)
        return True

    def do_pop(self, draw: Callable[[int], int]) -> bool:
        """Ask for a pod, as the scheduler does."""
        popped = self.kit.queue.pop()
        expected = self.model.pop()
        assert (popped and popped.pod.name) == (expected and expected.pod.name)
        if popped is None:
            return False
        assert popped.attempts == expected.attempts
        self.flying[popped.pod.name] = popped
        return True

    def do_reject(self, draw: Callable[[int], int]) -> bool:
        """Reject a pod in flight, in the name of some plugins."""
        p = self.pick(draw, QueuePlace.IN_FLIGHT)
        if p is None:
            return False
        pending = {"ABCD"[draw(4)]} if draw(3) == 0 else set()
        rejected = {plugin for plugin in "ABCD" if draw(3) == 0} or (set() if pending else {"A"})
        self.come_back(p, rejected, pending)
        return True

    def do_err(self, draw: Callable[[int], int]) -> bool:
        """Let an error befall a pod in flight."""
        p = self.pick(draw, QueuePlace.IN_FLIGHT)
        if p is None:
            return False
        self.come_back(p, set(), set())
        return True

    def come_back(self, p: ModelPod, rejected: set[str], pending: set[str]) -> None:
        """Bring a pod back."""
        name = p.pod.name
        self.kit.fail(self.flying.pop(name), *rejected, pending=pending)
        self.model.fail(p, rejected, pending)

    def do_finish(self, draw: Callable[[int], int]) -> bool:
        """Bind a pod in flight."""
        p = self.pick(draw, QueuePlace.IN_FLIGHT)
        if p is None:
            return False
        self.kit.queue.done(p.pod.uid)
        del self.flying[p.pod.name]
        del self.model.pods[p.pod.name]
        self.finished.add(p.pod.name)
        return True

    def do_update(self, draw: Callable[[int], int]) -> bool:
        """Change a pod's labels, tolerations, both, or nothing in particular; maybe its priority."""
        p = self.pick(draw)
        if p is None:
            return False
        old = p.newest or p.pod
        kind = draw(4)
        labels = dict(old.labels)
        tolerations, changes = old.spec.tolerations, []
        if kind in {0, 1}:
            labels["version"] = str(int(labels["version"]) + 1)
            changes.append("UnschedulablePodUpdatePodLabel")
        if kind in {1, 2}:
            tolerations += (Toleration(key=f"k{len(tolerations)}"),)
            changes.append("UnschedulablePodUpdatePodToleration")
        priority = draw(3) if draw(2) else old.priority
        profile = old.scheduler_name
        new = self.kit.pod(old.name, priority=priority, labels=labels, tolerations=tolerations, profile=profile)
        if draw(4) == 0:
            self.kit.queue.add(self.kit.info(new))  # a relist: the queue has to find out what changed
        else:
            self.kit.update(old, new)
        self.model.update(p, new, changes or ["UnschedulablePodUpdate"])
        self.deleted.discard(new.name)
        return True

    def do_delete(self, draw: Callable[[int], int]) -> bool:
        """Delete a pod, wherever it is."""
        p = self.pick(draw)
        if p is None:
            return False
        self.kit.queue.delete(p.pod)
        self.model.delete(p)
        self.deleted.add(p.pod.name)
        return True

    def do_node_added(self, draw: Callable[[int], int]) -> bool:
        """Bring a node that some pods wait for, or that makes a hint fail."""
        node = ("n0", "n1", "broken")[draw(3)]
        self.kit.queue.move_all(NODE_ADD, None, node)
        self.model.event("NodeAdd", node)
        return True

    def do_node_deleted(self, draw: Callable[[int], int]) -> bool:
        """Take a node away, which is what the gate looks at."""
        self.kit.queue.move_all(NODE_DELETE, "n0", None)
        self.model.event("NodeDelete", None)
        return True

    def do_pod_deleted(self, draw: Callable[[int], int]) -> bool:
        """Delete an assigned pod, and tell only pods up to some priority."""
        limit = draw(3)
        self.kit.queue.move_all(ASSIGNED_POD_DELETE, "pod", None, lambda pod: pod.priority <= limit)
        told = [p for p in self.model.at(QueuePlace.UNSCHEDULABLE) if p.pod.priority <= limit]
        self.model.event("AssignedPodDelete", None, told)
        return True

    def do_nothing_of_interest(self, draw: Callable[[int], int]) -> bool:
        """Let something happen that no plugin registered."""
        self.kit.queue.move_all(CSI_NODE_ADD, None, None)
        self.model.event("CSINodeAdd", None)
        return True

    def do_activate(self, draw: Callable[[int], int]) -> bool:
        """Name a few pods."""
        pods = [p for p in (self.pick(draw), self.pick(draw)) if p is not None]
        self.kit.queue.activate([p.pod for p in pods])
        self.model.activate(pods)
        return bool(pods)

    def do_turn_gate(self, draw: Callable[[int], int]) -> bool:
        """Open or shut the gate; pods notice when PreEnqueue runs again."""
        self.turn_gate(shut=not self.model.gate_shut)
        return True

    def turn_gate(self, *, shut: bool) -> None:
        """Open or shut the gate."""
        self.model.gate_shut = shut
        self.kit.shut = {name: "G" for name, p in self.model.pods.items() if p.gateable and shut}

    def do_advance(self, draw: Callable[[int], int]) -> bool:
        """Let time pass."""
        seconds = (0.125, 0.5, 1.0, 2.625, 11.0, 31.0, 335.5)[draw(7)]
        self.kit.clock.advance(seconds)
        self.model.advance(seconds)
        return True

    def compare(self) -> None:
        """Require that both say the same about every pod, and that the queue is sound."""
        queue = self.kit.queue
        queue.check_invariants()
        model = self.model
        assert {name: self.kit.place(name) for name in self.added} == {
            name: model.pods[name].place if name in model.pods else None for name in self.added
        }
        for name, p in model.pods.items():
            if p.place is QueuePlace.IN_FLIGHT:
                continue
            info = self.kit.get(name)
            assert info.pod is p.pod, name
            assert info.is_gated is p.held, name
            assert (info.unschedulable_plugins, info.pending_plugins) == (p.rejected, p.pending), name
            assert (info.attempts, info.unschedulable_count) == (p.attempts, p.rejections), name
            assert info.consecutive_errors == p.errors, name
            if p.place is QueuePlace.BACKOFF:
                assert queue._backoff.end_of_backoff(info) == model.backoff_end(p), name
        in_line = sorted(model.at(QueuePlace.ACTIVE), key=lambda p: p.order)
        assert [info.pod.name for info in queue._active.in_order()] == [p.pod.name for p in in_line]
        waiting = [info.pod.name for info in queue._unschedulable.select(lambda _: True)]
        assert waiting == [p.pod.name for p in model.at(QueuePlace.UNSCHEDULABLE)]
        for flight in queue.in_flight:
            missed = queue.in_flight.events_since_pop(flight)
            assert [m.event.label for m in missed] == [label for label, _ in model.pods[flight.info.pod.name].missed]

    def drain(self) -> None:
        """Open everything and bind every pod; none may be missing, and none may be left."""
        self.turn_gate(shut=False)
        for p in self.model.at(QueuePlace.IN_FLIGHT):
            self.come_back(p, set(), set())
        self.kit.queue.activate([p.pod for p in self.model.pods.values()])
        for info in iter(self.kit.queue.pop, None):
            assert info.pod.name not in self.deleted
            self.kit.queue.done(info.pod.uid)
            self.finished.add(info.pod.name)
        assert len(self.kit.queue) == 0
        assert self.kit.queue.sub_queues.rejections == {}
        assert self.kit.queue.in_flight.counts() == {}
        self.kit.queue.check_invariants()
        assert self.finished | self.deleted == self.added


OPERATIONS = [name.removeprefix("do_") for name in dir(Twin) if name.startswith("do_")]
DRAWS = st.lists(st.integers(0, 1000), min_size=9, max_size=9)


class TwinMachine(RuleBasedStateMachine):
    """Lets hypothesis choose the operations."""

    def __init__(self, twin: Twin) -> None:
        super().__init__()
        self.twin = twin

    @rule(operation=st.sampled_from(OPERATIONS), draws=DRAWS)
    def act(self, operation: str, draws: list[int]) -> None:
        """Do one thing."""
        if self.twin.act(operation, draws):
            hypothesis.event(operation)

    @rule(draws=DRAWS, plugins=DRAWS)
    def attempt(self, draws: list[int], plugins: list[int]) -> None:
        """Try a pod and reject it, which is most of a queue's life."""
        if self.twin.act("pop", draws) and self.twin.act("reject", plugins):
            hypothesis.event("attempt")

    @invariant()
    def agrees(self) -> None:
        """Compare after each step."""
        self.twin.compare()

    def teardown(self) -> None:
        """Account for every pod."""
        self.twin.drain()


@pytest.mark.slow
@pytest.mark.parametrize("pop_early", [True, False], ids=["pop from backoff", "wait out backoff"])
def test_the_queue_agrees_with_the_model(make_kit: Callable[..., Kit], pop_early: bool) -> None:
    """No history is found in which they differ, and every pod is accounted for at its end."""

    def machine() -> TwinMachine:
        kit = make_kit(hints=HINTS, gating_events=GATING_EVENTS, start_at=START, pop_from_backoff=pop_early)
        return TwinMachine(Twin(kit, pop_early=pop_early))

    run_state_machine_as_test(machine, settings=hypothesis.settings(stateful_step_count=50))
