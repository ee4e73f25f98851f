"""The merger of the watches of living and of ended pods."""

from __future__ import annotations

from collections import Counter, deque
from typing import ClassVar, Literal

import msgspec
import pytest
from hypothesis import seed, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pyscheduler.api import EndedPod, Pod, decode, encode
from pyscheduler.podgroup import GroupDirectory, GroupId, MemberPlace
from pyscheduler.podgroup.informer_adapter import PodWatchMerger
from pyscheduler.testing import make_pod
from tests.podgroup.builders import SIGS, make_group

G = GroupId("default", "g", "sigs")
Which = Literal["live", "ended"]
WATCHES: tuple[Which, ...] = ("live", "ended")


def as_ended(pod: Pod) -> EndedPod:
    """Return the pod as the other watch reads it."""
    return decode(EndedPod, encode(pod))


class Machine(RuleBasedStateMachine):
    """Pods of one API server, and two watches that are each behind by any number of events."""

    fired: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.directory = GroupDirectory()
        self.directory.object_added(make_group("g", minMember=1))
        self.merger = PodWatchMerger(self.directory)
        #: What is true, by name.
        self.pods: dict[str, Pod] = {}
        self.serial = 0
        self.late: dict[Which, deque[tuple[str, Pod]]] = {"live": deque(), "ended": deque()}
        self.known: dict[Which, dict[str, Pod]] = {"live": {}, "ended": {}}
        #: Uids of those that the directory has seen ended, and seen deleted after that.
        self.seen_ended: set[str] = set()
        self.seen_gone: set[str] = set()

    # --- the API server

    def put(self, pod: Pod) -> None:
        """Change a pod, and send each watch what it is to hear."""
        old = self.pods.get(pod.name)
        self.pods[pod.name] = pod
        for which in WATCHES:
            before = old is not None and old.is_terminal == (which == "ended")
            after = pod.is_terminal == (which == "ended")
            if before or after:
                kind = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
                self.late[which].append((kind, pod))

    @rule(name=st.sampled_from("abc"), bound=st.booleans())
    def create(self, name: str, bound: bool) -> None:
        if name not in self.pods:
            self.serial += 1
            self.fired["create"] += 1
            pod = make_pod(name, uid=f"uid-{self.serial}", labels={SIGS: "g"}, node_name="n" if bound else "")
            self.put(pod)

    @rule(name=st.sampled_from("abc"), phase=st.sampled_from(("Running", "Succeeded", "Failed", "Succeeded")))
    def go_on(self, name: str, phase: str) -> None:
        pod = self.pods.get(name)
        if pod is not None and not pod.is_terminal:
            self.fired[phase] += 1
            spec = msgspec.structs.replace(pod.spec, node_name="n")
            status = msgspec.structs.replace(pod.status, phase=phase)
            self.put(msgspec.structs.replace(pod, spec=spec, status=status))

    @rule(name=st.sampled_from("abc"))
    def delete(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            self.fired["delete ended" if pod.is_terminal else "delete living"] += 1
            self.late["ended" if pod.is_terminal else "live"].append(("DELETED", pod))

    # --- the watches

    def tell(self, which: Which, kind: str, pod: Pod) -> None:
        """Let an event arrive, as an informer tells it: of what it did not know it tells nothing."""
        known = self.known[which]
        old = known.get(pod.name)
        if old is not None and old.uid != pod.uid:
            self.tell(which, "DELETED", old)
            old = None
        if kind == "DELETED":
            if old is None:
                return
            del known[pod.name]
            if which == "live":
                self.fired["ended is heard before it lives no more"] += old.uid in self.seen_ended - self.seen_gone
                self.fired["gone is heard before it lives no more"] += old.uid in self.seen_gone
                self.merger.deleted(old)
            else:
                self.seen_gone.add(old.uid)
                self.merger.ended_deleted(as_ended(old))
            return
        known[pod.name] = pod
        if which == "live":
            self.fired["old news of one that ended"] += pod.uid in self.seen_ended
            if old is None:
                self.merger.added(pod)
            else:
                self.merger.updated(old, pod)
        else:
            self.seen_ended.add(pod.uid)
            self.merger.ended(as_ended(pod))

    @rule(which=st.sampled_from(WATCHES), count=st.integers(1, 3))
    def hear(self, which: Which, count: int) -> None:
        for _ in range(min(count, len(self.late[which]))):
            self.tell(which, *self.late[which].popleft())

    @precondition(lambda self: self.pods)
    @rule(which=st.sampled_from(WATCHES))
    def relist(self, which: Which) -> None:
        """Let a watch break, and list everything anew."""
        self.fired["relist"] += 1
        self.late[which].clear()
        now = {name: pod for name, pod in self.pods.items() if pod.is_terminal == (which == "ended")}
        for pod in now.values():
            self.tell(which, "ADDED", pod)
        for name in [name for name in self.known[which] if name not in now]:
            self.tell(which, "DELETED", self.known[which][name])

    @invariant()
    def nobody_is_counted_twice_or_lives_again(self) -> None:
        self.directory.check_invariants()
        for uid in self.seen_ended:
            place = self.directory.place_of(uid)
            assert place is None if uid in self.seen_gone else place in {MemberPlace.SUCCEEDED, MemberPlace.FAILED}

    @invariant()
    def when_all_is_heard_all_is_as_it_is(self) -> None:
        if self.late["live"] or self.late["ended"]:
            return
        state = self.directory.get(G)
        assert state is not None
        expected = {
            pod.uid: {"Succeeded": MemberPlace.SUCCEEDED, "Failed": MemberPlace.FAILED}.get(
                pod.status.phase, MemberPlace.BOUND if pod.node_name else MemberPlace.PENDING
            )
            for pod in self.pods.values()
        }
        assert {uid: place for place, pods in state.places().items() for uid in pods} == expected

    def teardown(self) -> None:
        """Let everything be heard."""
        for which in WATCHES:
            while self.late[which]:
                self.tell(which, *self.late[which].popleft())
        self.when_all_is_heard_all_is_as_it_is()


@pytest.mark.slow
def test_two_watches_in_any_order_count_each_pod_once() -> None:
    """No pod is counted twice, lives again or is forgotten, however far each watch is behind the other."""
    Machine.fired.clear()
    rules = [
        "create", "Running", "Succeeded", "Failed", "delete ended", "delete living", "relist",
        "ended is heard before it lives no more", "gone is heard before it lives no more", "old news of one that ended",
    ]  # fmt: skip
    for number in range(5):
        seed(number)(Machine)
        run_state_machine_as_test(Machine, settings=settings(max_examples=60, stateful_step_count=40))
        if all(Machine.fired[name] for name in rules):
            break
    print(dict(Machine.fired))  # noqa: T201 - how often each rule had its turn
    assert not [name for name in rules if not Machine.fired[name]]


def test_living_pod_in_the_watch_of_ended_pods_is_ignored() -> None:
    """A server that ignores the field selector does not make living pods ended ones."""
    directory = GroupDirectory()
    merger = PodWatchMerger(directory)
    pod = make_pod("p", labels={SIGS: "g"})
    merger.added(pod)
    merger.ended(as_ended(pod))
    merger.ended_deleted(as_ended(pod))
    assert directory.place_of(pod.uid) is MemberPlace.PENDING


@pytest.mark.slow
def test_memory_of_deleted_pods_is_bounded() -> None:
    """Only the last 10,000 deleted pods are remembered."""
    merger = PodWatchMerger(GroupDirectory())
    pod = as_ended(make_pod("p", status={"phase": "Failed"}))
    for number in range(10_005):
        gone = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"uid-{number}"))
        merger.ended(gone)
        merger.ended_deleted(gone)
    assert list(merger._gone) == [f"uid-{number}" for number in range(5, 10_005)]
