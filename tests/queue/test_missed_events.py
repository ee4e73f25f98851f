"""What pods missed in flight, against a plain look through all of it; and what it costs when thousands come back."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs
import hypothesis
import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.framework import ActionType, ClusterEvent, EventResource, QueuedPodInfo, QueueingHint
from pyscheduler.framework.cycle_state import AfterFailure
from pyscheduler.queue.hints import Strategy
from pyscheduler.queue.sub_queues import QueuePlace
from tests.queue.conftest import Kit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import Pod

NODE_ADD = Kit.NODE_ADD
NODE_DELETE = Kit.NODE_DELETE
POD_DELETE = Kit.ASSIGNED_POD_DELETE
PV_ADD = Kit.PV_ADD
NAMED = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
ALL_PODS = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")


def wanted(pod: Pod, old: object, new: object) -> QueueingHint:
    """Wait for an object by name; one name makes the plugin fail."""
    if "broken" in (old, new):
        message = "the hint fails"
        raise RuntimeError(message)
    return QueueingHint.QUEUE if pod.labels["wants"] in (old, new) else QueueingHint.SKIP


#: A and B reject, P leaves pods pending; nobody waits for volumes.
HINTS = {
    NODE_ADD: [("A", wanted), ("P", wanted)],
    POD_DELETE: [("A", wanted), ("B", None), ("P", wanted)],
    NODE_DELETE: [("P", None)],
}


@attrs.frozen
class Group:
    """Keeps events quiet for the pods of a group; there is one that cannot say."""

    name: str

    def __call__(self, pod: Pod) -> bool:
        """Tell whether the pod is one of them."""
        if self.name == "cannot say":
            message = "the plugin fails"
            raise RuntimeError(message)
        return pod.labels["group"] == self.name


@attrs.define
class Missed:
    """One pod in flight, and what it missed."""

    info: QueuedPodInfo
    events: list[tuple[ClusterEvent, object, object, Group | None]] = attrs.Factory(list)


def look_through(
    pod: Pod, missed: Sequence[tuple[ClusterEvent, object, object, Group | None]], rejected: set[str], pending: set[str]
) -> tuple[Strategy, list[tuple[str, str, str]]]:
    """Return what a plain look at one event after the other comes to, and which hints it asks, with their answers."""
    calls: list[tuple[str, str, str]] = []
    best = Strategy.SKIP
    if not rejected | pending:
        return Strategy.AFTER_BACKOFF, calls
    named = any(event == NAMED and new is not None and new.uid == pod.uid for event, _, new, _ in missed)  # type: ignore[attr-defined]  # a pod
    if named and not pending:
        return Strategy.AFTER_BACKOFF, calls
    for event, old, new, quiet in missed:
        if quiet is not None and quiet.name == pod.labels["group"]:
            continue
        if event.is_wildcard:
            worth = Strategy.AFTER_BACKOFF if new is None or new.uid == pod.uid else Strategy.SKIP  # type: ignore[attr-defined]  # same
        else:
            worth = _ask(pod, (event, old, new), rejected, pending, calls)
        if worth is Strategy.IMMEDIATELY:
            return worth, calls
        if worth is Strategy.AFTER_BACKOFF:
            best = worth
            if not pending:
                break
    return best, calls


def _ask(
    pod: Pod,
    what: tuple[ClusterEvent, object, object],
    rejected: set[str],
    pending: set[str],
    calls: list[tuple[str, str, str]],
) -> Strategy:
    event, old, new = what
    worth = Strategy.SKIP
    for plugin, hint in HINTS.get(event, []):
        if plugin not in rejected | pending:
            continue
        answer = "Queue"
        if hint is not None:
            failing = "broken" in (old, new)
            answer = "Error" if failing else "Queue" if pod.labels["wants"] in (old, new) else "QueueSkip"
        calls.append((plugin, event.label, answer))
        if answer == "QueueSkip":
            continue
        if plugin in pending:
            return Strategy.IMMEDIATELY
        worth = Strategy.AFTER_BACKOFF
        if not pending:
            break
    return worth


PLACES = {
    Strategy.SKIP: QueuePlace.UNSCHEDULABLE,
    Strategy.AFTER_BACKOFF: QueuePlace.BACKOFF,
    Strategy.IMMEDIATELY: QueuePlace.ACTIVE,
}
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("event"),
            st.sampled_from([NODE_ADD, POD_DELETE, POD_DELETE, NODE_DELETE, PV_ADD, ALL_PODS]),
            st.sampled_from(["x", "x", "x", "y", "z", "broken"]),
            st.sampled_from([None, None, "g0", "g0", "g1", "cannot say"]),
        ),
        st.tuples(st.just("name"), st.integers(0, 5)),
        st.tuples(
            st.just("back"),
            st.integers(0, 5),
            st.sampled_from(["A", "A", "B", "AB", "C", "", "P"]),
            st.sampled_from(["", "", "P"]),
            st.sampled_from([None, "g0", "cannot say"]),
        ),
        st.tuples(st.just("pop")),
    ),
    min_size=15,
    max_size=60,
)


@pytest.mark.slow
def test_skipping_rows_gives_the_result_of_a_full_scan() -> None:
    """Each pod goes where a look at every event sends it, and the same hints are asked, in the same order."""
    seen: Counter[str] = Counter()

    @hypothesis.settings(max_examples=15 * hypothesis.settings.default.max_examples // 4)
    @given(steps=STEPS)
    def search(steps: Sequence[tuple[object, ...]]) -> None:
        _play(steps, seen)

    search()
    print(dict(seen))  # noqa: T201 - shown with -s, and when the test fails
    kinds = [*(strategy.name for strategy in Strategy), "calls", "named", "quiet"]
    assert {kind: seen[kind] for kind in kinds if seen[kind] < 20} == {}


def _play(steps: Sequence[tuple[object, ...]], seen: Counter[str]) -> None:
    """Play a history; count what it came to."""
    kit = Kit(hints=HINTS)
    flying: dict[str, Missed] = {}
    for number in range(6):
        kit.add(f"p{number}", labels={"wants": "xyz"[number % 3], "group": f"g{number % 2}"})

    def happened(event: ClusterEvent, old: object, new: object, quiet: Group | None) -> None:
        for missed in flying.values():
            missed.events.append((event, old, new, quiet))

    for _ in range(4):
        _pop(kit, flying)
    for step in steps:
        match step:
            case ("pop",):
                _pop(kit, flying)
            case ("event", ClusterEvent() as event, name, group):
                quiet = None if group is None else Group(str(group))
                gone = event in (NODE_DELETE, POD_DELETE)
                old, new = (name, None) if gone else (None, None if event == ALL_PODS else name)
                kit.queue.move_all(event, old, new, ignored_by=quiet)
                if event != PV_ADD:
                    happened(event, old, new, quiet)
            case ("name", number):
                seen["named"] += _name(kit, flying, f"p{number}", happened)
            case ("back", number, str() as rejected, str() as pending, group):
                quiet = None if group is None else Group(str(group))
                _come_back(kit, flying, f"p{number}", (rejected, pending, quiet), seen)
        kit.queue.check_invariants()


def _pop(kit: Kit, flying: dict[str, Missed]) -> None:
    info = kit.queue.pop()
    if info is not None:
        flying[info.pod.name] = Missed(info)


def _name(kit: Kit, flying: dict[str, Missed], name: str, happened: Callable[..., None]) -> bool:
    missed = flying.get(name)
    if missed is None:
        return False
    pod = missed.info.pod
    kit.queue.activate([pod])
    if not any(event == NAMED and new is pod for event, _, new, _ in missed.events):
        happened(NAMED, None, pod, None)
    return True


def _come_back(
    kit: Kit, flying: dict[str, Missed], name: str, outcome: tuple[str, str, Group | None], seen: Counter[str]
) -> None:
    missed = flying.pop(name, None)
    if missed is None:
        return
    info = missed.info
    rejected, pending, own = set(outcome[0]) - set(outcome[1]), set(outcome[1]), outcome[2]
    info.unschedulable_plugins, info.pending_plugins = rejected, pending
    after = AfterFailure()
    after.ignored_by = own
    strategy, calls = look_through(info.pod, missed.events, rejected, pending)
    before = len(kit.recorder.hints)
    kit.queue.requeue_failed(info, after)
    assert kit.recorder.hints[before:] == calls
    assert kit.place(name) is PLACES[strategy]
    seen[strategy.name] += 1
    seen["calls"] += len(calls)
    seen["quiet"] += any(quiet is not None and quiet.name == f"g{int(name[1:]) % 2}" for *_, quiet in missed.events)


MANY = 2000
GIVEN_UP = Group("g")


def yes(pod: Pod, old: object, new: object) -> QueueingHint:
    """Take any event for a reason."""
    return QueueingHint.QUEUE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hints", "own", "most"),
    [
        pytest.param({NODE_ADD: [("A", yes)]}, None, 0, id="nothing registered for it: nobody is asked"),
        pytest.param({POD_DELETE: [("A", yes)]}, None, 2 * MANY, id="an event that helps ends the look"),
        pytest.param({POD_DELETE: [("A", yes)]}, GIVEN_UP, 0, id="given up together: nobody is asked"),
        pytest.param({POD_DELETE: [("B", yes)]}, None, 0, id="registered by another plugin"),
    ],
)
def test_the_cost_of_many_returns_is_linear(
    make_kit: Callable[..., Kit],
    hints: dict[ClusterEvent, list[tuple[str, object]]],
    own: Group | None,
    most: int,
) -> None:
    """Each is one more event for all that come after it; the hints that are asked do not grow with their product."""
    kit = make_kit(hints=hints)
    for number in range(MANY):
        kit.add(f"p{number}", labels={"group": "g"})
    flying = [kit.pop() for _ in range(MANY)]
    after = AfterFailure()
    after.ignored_by = own
    for info in flying:
        info.unschedulable_plugins, info.pending_plugins = {"A"}, set()
        kit.queue.requeue_failed(info, after)
        kit.queue.move_all(POD_DELETE, info.pod, None, ignored_by=own)
    print(len(kit.recorder.hints), "hints")  # noqa: T201 - shown with -s, and when the test fails
    assert len(kit.recorder.hints) <= most
