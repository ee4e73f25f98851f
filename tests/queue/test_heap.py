"""The heap: order, ties, changed keys, removal from the middle."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.conftest import Kit


@pytest.fixture
def queued(kit: Kit) -> Callable[[str, float], QueuedPodInfo]:
    """Make queued pods that are sorted by a number."""
    return lambda name, number: QueuedPodInfo(pod_info=kit.info(kit.pod(name)), enqueued_at=number)


def by_time(info: QueuedPodInfo) -> float:
    """Sort by the number the pod was made with."""
    return info.enqueued_at


def names(heap: PodHeap) -> list[str]:
    """Empty the heap."""
    return [info.pod.name for info in iter(heap.pop, None)]


def test_dead_entries_do_not_pile_up(queued: Callable[[str, float], QueuedPodInfo]) -> None:
    """A pod that is updated for ever takes no more room for it."""
    heap = PodHeap(by_time)
    infos = [queued(f"p{number}", number) for number in range(10)]
    for info in infos:
        heap.put(info)
    for turn in range(1000):
        infos[0].enqueued_at = turn
        heap.put(infos[0])
    heap.check_invariants()


def test_keys_may_be_compared_by_a_less_function(queued: Callable[[str, float], QueuedPodInfo]) -> None:
    """A QueueSort plugin that defines `less` reaches the queue as `cmp_to_key`."""

    @functools.cmp_to_key
    def latest_first(one: QueuedPodInfo, other: QueuedPodInfo) -> int:
        return int(one.enqueued_at < other.enqueued_at) - int(one.enqueued_at > other.enqueued_at)

    heap = PodHeap(latest_first)
    for name, number in [("a", 1), ("c", 3), ("b", 2), ("also-b", 2)]:
        heap.put(queued(name, number))
    heap.check_invariants()
    assert names(heap) == ["c", "b", "also-b", "a"]


def test_check_invariants_finds_a_stale_key(queued: Callable[[str, float], QueuedPodInfo]) -> None:
    """The check names a pod whose sort key is not the one it was sorted by."""
    heap = PodHeap(by_time)
    info = queued("a", 1)
    heap.put(info)
    info.enqueued_at = 2
    with pytest.raises(AssertionError, match="pod default/a is sorted by an old key"):
        heap.check_invariants()


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 7), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("pop"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(operations=OPERATIONS)
def test_it_behaves_like_a_sorted_list(operations: list[tuple[str, int, int]], pods: list[QueuedPodInfo]) -> None:
    """Against a list that is sorted for every pop."""
    heap = PodHeap(by_time)
    came: dict[int, int] = {}
    for turn, (operation, number, key) in enumerate(operations):
        if operation == "put":
            pods[number].enqueued_at = key
            heap.put(pods[number])
            came.setdefault(number, turn)
        elif operation == "remove":
            assert (heap.remove(pods[number].pod.uid) is not None) == (came.pop(number, None) is not None)
        else:
            first = min(came, key=lambda number: (pods[number].enqueued_at, came[number]), default=None)
            assert heap.pop() is (None if first is None else pods[first])
            came.pop(first, None)
        heap.check_invariants()
        assert len(heap) == len(came)
        assert {info.pod.uid for info in heap} == {pods[number].pod.uid for number in came}


@pytest.fixture(scope="session")
def pods() -> list[QueuedPodInfo]:
    """Make eight pods that all examples share, since only their keys change."""
    from pyscheduler.api import ObjectMeta, Pod
    from pyscheduler.framework import PodInfo

    return [
        QueuedPodInfo(pod_info=PodInfo.of(Pod(metadata=ObjectMeta(name=f"p{n}", uid=f"u{n}"))), enqueued_at=0)
        for n in range(8)
    ]
