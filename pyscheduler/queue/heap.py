"""A heap of queued pods that can also find or remove any pod, and move a pod whose sort key changed.

`heapq` cannot remove from the middle. So the entry of a removed pod stays, marked as dead, until it reaches the top
or the heap is rebuilt.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from pyscheduler.framework.pod_info import QueuedPodInfo

__all__ = ["LiveKey", "PodHeap", "SortKey"]

#: Return something comparable; the smallest leaves first.
SortKey: TypeAlias = Callable[[QueuedPodInfo], object]

#: [sort key, rank among equals, serial number, pod or None if dead]. Serial numbers differ, so pods are not compared.
_Entry: TypeAlias = list[Any]

_INFO: Final = 3
#: The number of dead entries below which the heap is never rebuilt.
_SLACK: Final = 64
#: If more than this share of the pods is sorted again at once, the heap is rebuilt.
_MANY: Final = 1 / 8


class LiveKey:
    """Base of sort keys that compare the present state, not the state at the time when the key was made."""

    __slots__ = ()


class PodHeap:
    """Pods by uid, the one with the smallest sort key first. Sort keys are computed when a pod is put in."""

    __slots__ = ("_entries", "_heap", "_serial", "_sort_key")

    def __init__(self, sort_key: SortKey) -> None:
        self._sort_key = sort_key
        self._heap: list[_Entry] = []
        self._entries: dict[str, _Entry] = {}
        self._serial = 0

    def put(self, info: QueuedPodInfo) -> None:
        """Add the pod, or sort it again if it is here already; it keeps its rank among equals."""
        uid = info.pod.uid
        serial = self._serial = self._serial + 1
        known = self._entries.get(uid)
        if known is None:
            rank = serial
        else:
            rank = known[1]
            known[_INFO] = None
        entry = self._entries[uid] = [self._sort_key(info), rank, serial, info]
        heapq.heappush(self._heap, entry)
        self._compact()

    def resort(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Sort again those of the pods that are here; they keep their rank among equals."""
        here = [info for info in infos if info.pod.uid in self._entries]
        if not here:
            return
        if len(here) <= len(self._entries) * _MANY and not _is_live(self._sort_key(here[0])):
            for info in here:
                self.put(info)
            return
        # Live keys have changed in every entry, also in dead ones.
        for info in here:
            uid = info.pod.uid
            serial = self._serial = self._serial + 1
            self._entries[uid] = [self._sort_key(info), self._entries[uid][1], serial, info]
        self._heap = list(self._entries.values())
        heapq.heapify(self._heap)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove the pod and return it; None if it is not here."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        info: QueuedPodInfo = entry[_INFO]
        entry[_INFO] = None
        self._compact()
        return info

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the first pod; None if there is none."""
        first = self.peek()
        if first is not None:
            heapq.heappop(self._heap)
            del self._entries[first.pod.uid]
            self._compact()
        return first

    def peek(self) -> QueuedPodInfo | None:
        """Return the first pod, or None."""
        heap = self._heap
        while heap:
            info: QueuedPodInfo | None = heap[0][_INFO]
            if info is not None:
                return info
            heapq.heappop(heap)
        return None

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod, or None if it is not here."""
        entry = self._entries.get(uid)
        return None if entry is None else entry[_INFO]

    def in_order(self) -> list[QueuedPodInfo]:
        """Return all pods in the order in which they would be popped; O(n log n), for the debugger."""
        return [entry[_INFO] for entry in sorted(self._entries.values())]

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield all pods in no particular order. The caller must not change the heap meanwhile."""
        for entry in self._entries.values():
            yield entry[_INFO]

    def check_invariants(self) -> None:
        """Raise AssertionError if heap and index differ, the order is wrong, or a sort key is out of date."""
        heap = self._heap
        for index in range(1, len(heap)):
            assert not heap[index] < heap[(index - 1) // 2], f"heap order is broken at {index}"
        alive = {id(entry) for entry in heap if entry[_INFO] is not None}
        assert alive == {id(entry) for entry in self._entries.values()}, "heap and index hold different pods"
        for uid, entry in self._entries.items():
            info: QueuedPodInfo = entry[_INFO]
            assert info.pod.uid == uid, f"pod {info.pod.key} is filed under uid {uid}"
            assert self._sort_key(info) == entry[0], f"pod {info.pod.key} is sorted by an old key"
        assert len(heap) <= 2 * len(self._entries) + _SLACK, "dead entries are piling up"

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)


def _is_live(key: object) -> bool:
    """Return True if a key, or its last part, is a `LiveKey`."""
    return isinstance(key, LiveKey) or (isinstance(key, tuple) and bool(key) and isinstance(key[-1], LiveKey))
