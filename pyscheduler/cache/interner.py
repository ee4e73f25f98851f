"""Small integers that stand for values that many nodes share, such as lists of taints.

With these integers, a plugin can evaluate each distinct value once, not once for each node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["Interner"]

V = TypeVar("V", bound="Hashable")
E = TypeVar("E")


class Interner(Generic[V, E]):
    """Gives values ids from 1 up; id 0 stands for `empty`, is never counted and never freed.

    `values[id]` is the value, `empty` for an id out of use; `index` holds the values in use. Both are live: read them,
    do not change them.
    """

    __slots__ = ("_counts", "_empty", "_free", "index", "values")

    def __init__(self, empty: E) -> None:
        self._empty = empty
        self.values: list[V | E] = [empty]
        self.index: dict[V, int] = {}
        self._counts = [0]
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return how many values are in use."""
        return len(self.index)

    def acquire(self, value: V | E) -> int:
        """Return the id of `value` and count one more user of it."""
        if value == self._empty:
            return 0
        number = self.index.get(value)  # type: ignore[arg-type]  # not the empty one, hence a V
        if number is not None:
            self._counts[number] += 1
            return number
        if self._free:
            number = self._free.pop()
            self.values[number] = value
            self._counts[number] = 1
        else:
            number = len(self.values)
            self.values.append(value)
            self._counts.append(1)
        self.index[value] = number  # type: ignore[index]  # as above
        return number

    def release(self, number: int) -> None:
        """Count one user less of the value with that id."""
        if number == 0:
            return
        self._counts[number] -= 1
        if self._counts[number] == 0:
            del self.index[self.values[number]]  # type: ignore[arg-type]  # in use, hence a V
            self.values[number] = self._empty
            self._free.append(number)

    def check_invariants(self, ids: Iterable[int]) -> None:
        """Raise AssertionError unless the counts are those of `ids`, all ids that users hold."""
        expected = [0] * len(self.values)
        for number in ids:
            expected[number] += number != 0
        assert self._counts == expected, f"{self._counts} users are counted, there are {expected}"
        used = {value: number for number, value in enumerate(self.values) if expected[number]}
        assert self.index == used, f"the index says {self.index}, the values {used}"
        free = [number for number, count in enumerate(expected) if number and not count]
        assert sorted(self._free) == free, f"{sorted(self._free)} are kept as free, {free} are"
        assert all(self.values[number] == self._empty for number in free), "a free id still holds a value"
