"""A heap that does not move items when their order changes; it compares items only at a push or a pop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["PriorityQueue"]

_Item = TypeVar("_Item")


class PriorityQueue(Generic[_Item]):
    """Pop the item that comes first by `less`.

    Comparisons are made at push and pop only, with the keys of that moment: items are not moved when their order
    changes while they wait. It moves items as Go's container/heap does, so that Volcano's loops over queues and jobs
    whose shares change decide alike. Source: Volcano `util/priority_queue.go`.
    """

    __slots__ = ("_items", "_less")

    def __init__(self, less: Callable[[_Item, _Item], bool], items: Iterable[_Item] = ()) -> None:
        self._less = less
        self._items: list[_Item] = []
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: _Item) -> None:
        """Add an item."""
        items = self._items
        items.append(item)
        at = len(items) - 1
        while at > 0:
            parent = (at - 1) // 2
            if not self._less(items[at], items[parent]):
                break
            items[at], items[parent] = items[parent], items[at]
            at = parent

    def pop(self) -> _Item:
        """Remove and return the first item; raise `IndexError` if there is none."""
        items = self._items
        last = len(items) - 1
        if last < 0:
            raise IndexError("pop from an empty queue")
        items[0], items[last] = items[last], items[0]
        at = 0
        while (child := 2 * at + 1) < last:
            right = child + 1
            if right < last and self._less(items[right], items[child]):
                child = right
            if not self._less(items[child], items[at]):
                break
            items[at], items[child] = items[child], items[at]
            at = child
        return items.pop()
