"""The amounts of resources of all nodes, as one array.

A *line* of the array has one quantity, such as the requested CPU, for all nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["AmountTable", "grown", "to_int64"]

_SPARE_LINES: Final = 4

S = TypeVar("S", bound=np.generic)


def to_int64(amount: int) -> int:
    """Return the amount as Go keeps it, in 64 bits; sums beyond them wrap around."""
    return (amount + 2**63) % 2**64 - 2**63


def grown(array: NDArray[S], capacity: int) -> NDArray[S]:
    """Return a copy with room for `capacity` nodes, zeros at the end of the last axis."""
    copy = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    copy[..., : array.shape[-1]] = array
    return copy


class AmountTable:
    """int64[lines, capacity]. The first `num_fixed` lines are the owner's, one per extended resource follow.

    `view` is the same memory, read-only: slices of it may be handed out. It is another array after the table has grown.
    `layout` grows whenever lines come to mean something else than before.
    """

    __slots__ = ("_array", "_num_fixed", "layout", "scalars", "view")

    view: NDArray[np.int64]

    def __init__(self, num_fixed: int, capacity: int) -> None:
        self._num_fixed = num_fixed
        #: Line by name of the extended resource, in line order.
        self.scalars: dict[str, int] = {}
        self.layout = 0
        self._replace(np.zeros((num_fixed + _SPARE_LINES, capacity), dtype=np.int64))

    def write(self, row: int, fixed: tuple[int, ...], scalars: Mapping[str, int]) -> None:
        """Set all amounts of one node: those of the fixed lines, and those by name; names not given are 0."""
        known = self.scalars
        for name, amount in scalars.items():
            if amount and name not in known:
                self._add_line(name, scalars)
        amounts = (*fixed, *[scalars.get(name, 0) for name in known]) if known else fixed
        try:
            self._array[: len(amounts), row] = amounts
        except OverflowError:
            self._array[: len(amounts), row] = [to_int64(amount) for amount in amounts]

    def move(self, source: int, target: int) -> None:
        """Give the amounts of row `source` to row `target`; `source` is 0 afterwards."""
        self._array[:, target] = self._array[:, source]
        self.remove(source)

    def remove(self, row: int) -> None:
        """Set all amounts of a row to 0."""
        self._array[:, row] = 0

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` nodes."""
        self._replace(grown(self._array, capacity))

    def _add_line(self, name: str, wanted: Mapping[str, int]) -> None:
        if self._num_fixed + len(self.scalars) == self._array.shape[0]:
            self._make_room(wanted)
        self.scalars[name] = self._num_fixed + len(self.scalars)
        self.layout += 1

    def _make_room(self, wanted: Mapping[str, int]) -> None:
        """Give up lines that are all zero, but for those `wanted` for the row being written; add spare ones."""
        used = [(name, line) for name, line in self.scalars.items() if name in wanted or self._array[line].any()]
        kept = self._num_fixed + len(used)
        array = np.zeros((kept + max(_SPARE_LINES, len(used)), self._array.shape[1]), dtype=np.int64)
        array[: self._num_fixed] = self._array[: self._num_fixed]
        # The same dict: the caller holds it while it writes.
        self.scalars.clear()
        for line, (name, old) in enumerate(used, self._num_fixed):
            array[line] = self._array[old]
            self.scalars[name] = line
        self._replace(array)

    def _replace(self, array: NDArray[np.int64]) -> None:
        self._array = array
        self.view = array.view()
        self.view.flags.writeable = False
