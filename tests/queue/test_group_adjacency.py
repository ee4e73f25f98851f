"""Back-to-back popping of groups, and keys that change while pods are in the queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.active import ActiveQueue
from pyscheduler.queue.heap import LiveKey, PodHeap
from tests.queue.conftest import Kit, Recording


def by_label(info: QueuedPodInfo) -> tuple[int, str]:
    """Sort by priority, then name."""
    return -info.pod.priority, info.pod.name


def group_of(info: QueuedPodInfo) -> str | None:
    """Return the label `group`."""
    return info.pod.labels.get("group")


def queued(name: str, group: str = "", priority: int = 0) -> QueuedPodInfo:
    """Make a pod of a group."""
    pod = Kit.pod(name, priority=priority, labels={"group": group} if group else {})
    return QueuedPodInfo(pod_info=Kit.info(pod), enqueued_at=0.0)


@pytest.fixture
def active() -> ActiveQueue:
    """Make an activeQ that knows groups."""
    return ActiveQueue(sort_key=by_label, recorder=Recording(), adjacency_key=group_of)


def pop_all(active: ActiveQueue) -> list[str]:
    """Pop all there is."""
    return [info.pod.name for info in iter(active.pop, None)]


def test_a_group_is_popped_back_to_back(active: ActiveQueue) -> None:
    """The first pod decides which group has its turn; inside it, and between groups, the sort key decides."""
    for name, group in (("a1", "x"), ("b1", "y"), ("c", ""), ("a2", "y"), ("b2", "x"), ("z", "x")):
        active.add(queued(name, group), "test")
    active.check_invariants()
    assert pop_all(active) == ["a1", "b2", "z", "a2", "b1", "c"]
    active.check_invariants()


MOST_EXAMPLES = 5 * settings.default.max_examples
runs_steps = st.lists(
    st.tuples(st.sampled_from(["add", "pop", "pop and return", "remove", "relabel"]), st.integers(0, 11)),
    min_size=15,
    max_size=40,
)


@pytest.mark.slow
def test_runs_against_a_plain_model() -> None:
    """Whatever comes and goes, the next pod is the first of the run's that had no turn, or else the first of all."""
    seen: Counter[str] = Counter()

    @settings(max_examples=MOST_EXAMPLES)
    @given(steps=runs_steps)
    def compare(steps: list[tuple[str, int]]) -> None:
        pop_as_the_model(steps, seen)

    compare()
    assert min(seen["a run went on"], seen["a pod came back at once"]) > 10, seen


def pop_as_the_model(steps: list[tuple[str, int]], seen: Counter[str]) -> None:
    """Take the steps in a queue and in a plain model; count in `seen` how often a rule decided."""
    active = ActiveQueue(sort_key=by_label, recorder=Recording(), adjacency_key=group_of)
    model: dict[str, QueuedPodInfo] = {}
    run: str | None = None
    taken: set[str] = set()
    for action, number in steps:
        name = f"p{number:02}"
        group = ("", "x", "y")[number % 3]
        if action in {"add", "relabel"}:
            info = queued(name, group if action == "add" else "x", priority=number % 2)
            active.add(info, "test")
            model[name] = info
        elif action == "remove":
            active.remove(f"uid-{name}")
            model.pop(name, None)
        elif model:
            ready = [info for info in model.values() if group_of(info) == run and info.pod.name not in taken]
            if run is None or not ready:
                run, taken = None, set()
                ready = list(model.values())
            else:
                seen["a run went on"] += 1
            expected = min(ready, key=by_label)
            if group_of(expected) is not None:
                run = group_of(expected)
                taken.add(expected.pod.name)
            popped = active.pop()
            assert popped is expected
            del model[expected.pod.name]
            if action == "pop and return":
                seen["a pod came back at once"] += 1
                active.add(popped, "test")
                model[expected.pod.name] = popped
        active.check_invariants()


class Ask(LiveKey):
    """A key that asks a table what holds now."""

    def __init__(self, name: str, table: dict[str, int]) -> None:
        self.name, self.table = name, table

    def __lt__(self, other: Ask) -> bool:
        return self.table[self.name] < self.table[other.name]


@settings(max_examples=5 * settings.default.max_examples // 2)
@given(
    start=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    changes=st.lists(st.lists(st.tuples(st.integers(0, 39), st.integers(0, 50)), min_size=1, max_size=6), max_size=5),
    is_live=st.booleans(),
)
def test_a_heap_is_in_order_after_keys_changed(
    start: list[int], changes: list[list[tuple[int, int]]], is_live: bool
) -> None:
    """Only the pods that are named are sorted anew; that is enough for keys that are values, and for live ones."""
    table = {f"p{number}": value for number, value in enumerate(start)}
    heap = PodHeap(lambda info: Ask(info.pod.name, table) if is_live else (table[info.pod.name],))
    infos = {name: queued(name) for name in table}
    for info in infos.values():
        heap.put(info)
    for change in changes:
        moved = {f"p{number}": value for number, value in change if f"p{number}" in table}
        table.update(moved)
        heap.resort([*(infos[name] for name in moved), queued("stranger")])
    popped = [table[info.pod.name] for info in iter(heap.pop, None)]
    assert popped == sorted(table.values())


@pytest.mark.parametrize("where", ["active", "backoff"])
def test_resort_works_in_every_sub_queue(make_kit: Callable[..., Kit], where: str) -> None:
    """`resort` reaches activeQ and backoffQ, and passes over pods that are elsewhere."""
    ranks = {"a": 1, "b": 2, "c": 3}
    kit: Any = make_kit(sort_key=lambda info: (ranks[info.pod.name],), hints={Kit.NODE_ADD: [("A", None)]})
    pods = [kit.add(name) for name in ranks]
    if where == "backoff":
        for info in [kit.pop() for _ in ranks]:
            kit.fail(info, "A")
        kit.queue.move_all(Kit.NODE_ADD, None, None)
        assert kit.queue.sub_queues.counts()["backoff"] == 3
    ranks["a"] = 9
    kit.queue.resort([pods[0], Kit.pod("unknown")])
    kit.queue.check_invariants()
    assert kit.pop_names() == ["b", "c", "a"]
