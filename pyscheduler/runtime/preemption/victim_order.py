"""Sort the pods of a node by importance; the most important pod is evicted last.

Equally important pods must have the same order as in kube-scheduler. This order depends on Go's sort function, so this
module implements the same algorithm.

Source: kube-scheduler 1.36, `SelectVictimsOnNode` and `MoreImportantPod`; Go's `sort.Slice`, a pattern-defeating
quicksort (https://arxiv.org/abs/2106.05123).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.framework.plugin_failures import error_place
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.preemption import names_in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.preemption import PreemptionRules

__all__ = ["FEW", "by_importance", "evictable", "places_of"]

#: Up to so many pods are sorted by insertion, which leaves equal pods in their order.
FEW: Final = 12
_TICK: Final = 1e-6
_NINTHER: Final = 50
_SHIFTED: Final = 50
_EIGHT: Final = 8
_MASK: Final = 2**64 - 1


def evictable(node: NodeInfo, rules: PreemptionRules, pod: Pod, state: CycleState) -> Iterator[PodInfo]:
    """Yield the potential victims on a node; raise `TypeError` if the rules return something else."""
    if not names_in_turn(rules):
        yield from _allowed(node.pods, rules, pod)
        return
    answer: object = rules.potential_victims(node, pod, state)  # of others' code, types prove nothing
    if not isinstance(answer, Iterable):
        raise _wrong_victims(rules, f"returned {answer!r}; return or yield pods of the node")
    uids = {info.pod.uid for info in node.pods}
    for info in answer:
        if not isinstance(info, PodInfo):
            raise _wrong_victims(rules, f"yielded {info!r}, which is no PodInfo")
        if info.pod.uid not in uids:
            raise _wrong_victims(rules, f"yielded pod {info.pod.key}, which is not on the node, or a second time")
        uids.remove(info.pod.uid)
        yield info


def _allowed(infos: Iterable[PodInfo], rules: PreemptionRules, pod: Pod) -> Iterator[PodInfo]:
    """Yield the pods that `may_evict` allows; raise `TypeError` if it returned None."""
    for info in infos:
        answer: object = rules.may_evict(info, pod)  # of others' code, types prove nothing
        if answer:
            yield info
        elif answer is None:
            place = error_place(TypeError(), rules.may_evict)
            raise TypeError(f"{type(rules).__name__}.may_evict returned None; return True or False ({place})")


def _wrong_victims(rules: PreemptionRules, what: str) -> TypeError:
    place = error_place(TypeError(), rules.potential_victims)
    return TypeError(f"{type(rules).__name__}.potential_victims {what} ({place})")


def by_importance(infos: Sequence[PodInfo], rules: PreemptionRules, now: float) -> list[PodInfo]:
    """Return the pods in the order in which they are spared; `now` in seconds since the epoch."""
    keys = [rules.importance(info, now) for info in infos]
    if len(set(keys)) == len(keys):
        return [infos[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]
    # A pod without a start time counts as started now, and kube-scheduler reads the clock twice in a comparison of two
    # such pods: the first looks older.
    later = [rules.importance(info, now + _TICK) for info in infos]
    places = places_of(keys, [one < other for one, other in zip(keys, later, strict=True)])
    return [infos[place] for place in places]


def places_of(keys: Sequence[Any], ticks: Sequence[bool]) -> Sequence[int]:
    """Return the positions of these sort keys in sorted order.

    `ticks`: True for a key that grows between comparisons, so that of two equal ones each comes before the other.
    """
    if len(keys) <= FEW:
        return sorted(
            range(len(keys)), key=lambda place: (keys[place], ticks[place], -place if ticks[place] else place)
        )
    marked = list(zip(keys, ticks, strict=True))
    ranks = {mark: rank for rank, mark in enumerate(sorted(set(marked)))}
    return _partitioned(tuple(2 * ranks[mark] + mark[1] for mark in marked))


@lru_cache(maxsize=512)
def _partitioned(marks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the places of the marks in the order in which Go sorts them; of two equal odd ones each is the less."""
    if len(set(marks)) == len(marks):
        return tuple(sorted(range(len(marks)), key=marks.__getitem__))
    sorting = _Sorting(marks)
    sorting.sort(0, len(marks), len(marks).bit_length())
    return tuple(sorting.places)


class _Sorting:
    """A list of places on its way into order."""

    def __init__(self, marks: Sequence[int]) -> None:
        self._marks = list(marks)
        self.places = list(range(len(marks)))
        self._swaps = 0

    def _less(self, one: int, other: int) -> bool:
        first, second = self._marks[one], self._marks[other]
        return first < second or (first == second and first & 1 == 1)

    def _swap(self, one: int, other: int) -> None:
        marks, places = self._marks, self.places
        marks[one], marks[other] = marks[other], marks[one]
        places[one], places[other] = places[other], places[one]

    def sort(self, begin: int, end: int, patience: int) -> None:
        """Sort what stands from `begin` on and before `end`; after so many bad choices as a heap."""
        balanced = partitioned = True
        while (length := end - begin) > FEW:
            if patience == 0:
                self._sort_as_heap(begin, end)
                return
            if not balanced:
                self._break_patterns(begin, length)
                patience -= 1
            pivot, swaps = self._pivot(begin, length)
            if swaps == FEW:  # all were in the opposite order
                self._reverse(begin, end)
                pivot, swaps = begin + end - 1 - pivot, 0
            if balanced and partitioned and swaps == 0 and self._insert_a_few(begin, end):
                return
            if begin > 0 and not self._less(begin - 1, pivot):
                begin = self._set_equals_apart(begin, end, pivot)
                continue
            middle, partitioned = self._partition(begin, end, pivot)
            left, right = middle - begin, end - middle
            balanced = min(left, right) >= length // _EIGHT
            if left < right:
                self.sort(begin, middle, patience)
                begin = middle + 1
            else:
                self.sort(middle + 1, end, patience)
                end = middle
        for at in range(begin + 1, end):
            self._shift_down(at, begin)

    def _shift_down(self, at: int, least: int) -> None:
        """Swap one with those before it as long as it is less."""
        while at > least and self._less(at, at - 1):
            self._swap(at, at - 1)
            at -= 1

    def _insert_a_few(self, begin: int, end: int) -> bool:
        """Put up to five that stand wrongly into their places; tell whether all is sorted."""
        at = begin + 1
        for _ in range(5):
            while at < end and not self._less(at, at - 1):
                at += 1
            if at == end:
                return True
            if end - begin < _SHIFTED:
                return False
            self._swap(at, at - 1)
            if at - begin >= 2:
                self._shift_down(at - 1, 0)
            for other in range(at + 1, end):
                if not self._less(other, other - 1):
                    break
                self._swap(other, other - 1)
        return False

    def _partition(self, begin: int, end: int, pivot: int) -> tuple[int, bool]:
        """Put those that are less before the pivot; return where it stands then, and whether all did already."""
        self._swap(begin, pivot)
        low, high = begin + 1, end - 1
        swapped = False
        while True:
            while low <= high and self._less(low, begin):
                low += 1
            while low <= high and not self._less(high, begin):
                high -= 1
            if low > high:
                break
            self._swap(low, high)
            swapped = True
            low, high = low + 1, high - 1
        self._swap(high, begin)
        return high, not swapped

    def _set_equals_apart(self, begin: int, end: int, pivot: int) -> int:
        """Put those that equal the pivot, which is the least, first; return where the others begin."""
        self._swap(begin, pivot)
        low, high = begin + 1, end - 1
        while True:
            while low <= high and not self._less(begin, low):
                low += 1
            while low <= high and self._less(begin, high):
                high -= 1
            if low > high:
                return low
            self._swap(low, high)
            low, high = low + 1, high - 1

    def _pivot(self, begin: int, length: int) -> tuple[int, int]:
        """Return the place of the median of a few, and how many pairs of these stood in the opposite order."""
        self._swaps = 0
        few = [begin + length // 4 * quarter for quarter in (1, 2, 3)]
        if length >= _NINTHER:
            few = [self._median(at - 1, at, at + 1) for at in few]
        return self._median(*few), self._swaps

    def _median(self, one: int, other: int, third: int) -> int:
        one, other = self._ordered(one, other)
        other, third = self._ordered(other, third)
        return self._ordered(one, other)[1]

    def _ordered(self, one: int, other: int) -> tuple[int, int]:
        if self._less(other, one):
            self._swaps += 1
            return other, one
        return one, other

    def _reverse(self, begin: int, end: int) -> None:
        for step in range((end - begin) // 2):
            self._swap(begin + step, end - 1 - step)

    def _break_patterns(self, begin: int, length: int) -> None:
        """Scatter three from the middle, by numbers that look random and follow from the length."""
        number, span = length, 1 << length.bit_length()
        middle = begin + length // 4 * 2
        for at in (middle - 1, middle, middle + 1):
            number ^= number << 13 & _MASK
            number ^= number >> 7
            number ^= number << 17 & _MASK
            other = number & (span - 1)
            self._swap(at, begin + (other - length if other >= length else other))

    def _sort_as_heap(self, begin: int, end: int) -> None:
        length = end - begin
        for root in range((length - 1) // 2, -1, -1):
            self._sift_down(root, length, begin)
        for last in range(length - 1, -1, -1):
            self._swap(begin, begin + last)
            self._sift_down(0, last, begin)

    def _sift_down(self, root: int, length: int, begin: int) -> None:
        while (child := 2 * root + 1) < length:
            if child + 1 < length and self._less(begin + child, begin + child + 1):
                child += 1
            if not self._less(begin + root, begin + child):
                return
            self._swap(begin + root, begin + child)
            root = child
