"""Cache the results of searches for victims.

Nodes with equal resources, whose pods have equal requests and priorities, share a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.status import Status
from pyscheduler.runtime.preemption.victim_order import by_importance

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.preemption import Candidate, PreemptionRules

__all__ = ["UNKNOWN", "ShapeResult", "ShapeResults", "result_of"]

UNKNOWN: Final = -1
#: The number of kinds of preemptors, and of results in all.
_MAX_KINDS: Final = 512
_MAX_VERDICTS: Final = 2**16


@attrs.frozen
class ShapeResult:
    """The victims: their `places` in victim order and their `priorities`; or a `status`, why there are none.

    `turns`: the places of all possible victims in the order in which they are put back, if budgets protect some of
    them and not others; else empty. `violations`: how many of the victims are protected.
    """

    status: Status | None = None
    places: tuple[int, ...] = ()
    priorities: tuple[int, ...] = ()
    turns: tuple[int, ...] = ()
    violations: int = 0

    @property
    def leaders(self) -> tuple[int, ...]:
        """Return the places of the victims of highest priority."""
        return tuple(place for place, each in zip(self.places, self.priorities, strict=True) if each == self.top)

    @property
    def top(self) -> int:
        """Return the highest priority among the victims."""
        return max(self.priorities, default=0)

    @property
    def total(self) -> int:
        """Return the sum of the victims' priorities, each made positive."""
        return sum(priority + (1 << 31) for priority in self.priorities)

    def victims(self, pods: Sequence[PodInfo], rules: PreemptionRules, now: float) -> tuple[PodInfo, ...]:
        """Return the victims on a node with these pods, in the order of a dry run there."""
        if not self.turns:
            return tuple(pods[place] for place in self.places)
        gone = set(self.places)
        found = [pods[place] for place in self.turns if place in gone]
        return tuple(by_importance(found, rules, now))


def result_of(
    outcome: Candidate | Status, pods: Sequence[PodInfo], protected: Sequence[int], first: int
) -> ShapeResult:
    """Return the result of a dry run for all nodes of that shape.

    `pods` are those of the node, the most important first. From place `first` on they may be victims; budgets protect
    those in the places `protected`.
    """
    if isinstance(outcome, Status):
        return ShapeResult(outcome)
    gone = {info.pod.uid for info in outcome.victims}
    places = tuple(place for place in range(first, len(pods)) if pods[place].pod.uid in gone)
    turns: tuple[int, ...] = ()
    if 0 < len(protected) < len(pods) - first:
        spared = set(protected)
        turns = (*protected, *(place for place in range(first, len(pods)) if place not in spared))
    priorities = tuple(pods[place].pod.priority for place in places)
    return ShapeResult(None, places, priorities, turns, outcome.pdb_violations)


class ShapeResults:
    """ShapeResults by number, and the number for each shape and kind of preemptor."""

    __slots__ = ("_columns", "_epoch", "_index", "_kinds", "_list")

    def __init__(self) -> None:
        self._list: list[ShapeResult] = []
        self._index: dict[ShapeResult, int] = {}
        #: By kind, int32 by shape.
        self._kinds: dict[Hashable, NDArray[np.int32]] = {}
        self._epoch = -1
        self._columns: _Columns | None = None

    def __getitem__(self, number: int) -> ShapeResult:
        return self._list[number]

    @property
    def columns(self) -> _Columns:
        """Return what all results say, as arrays by their numbers."""
        if self._columns is None:
            self._columns = _Columns.of(self._list)
        return self._columns

    def begin(self, kind: Hashable, *, epoch: int) -> None:
        """Begin with a kind of preemptor; drop all results if shapes were numbered anew, and kinds of long ago."""
        if epoch != self._epoch or len(self._list) > _MAX_VERDICTS:
            self._kinds.clear()
            self._list.clear()
            self._index.clear()
            self._columns = None
            self._epoch = epoch
        table = self._kinds.pop(kind, None)
        self._kinds[kind] = table if table is not None else np.full(0, UNKNOWN, dtype=np.int32)
        if len(self._kinds) > _MAX_KINDS:
            del self._kinds[next(iter(self._kinds))]

    def table(self, kind: Hashable, num_shapes: int) -> NDArray[np.int32]:
        """Return int32: by shape the number of the result, `UNKNOWN` where there is none yet."""
        table = self._kinds[kind]
        if len(table) < num_shapes:
            longer = np.full(num_shapes + num_shapes // 4, UNKNOWN, dtype=np.int32)
            longer[: len(table)] = table
            table = self._kinds[kind] = longer
        return table

    def number(self, result: ShapeResult) -> int:
        """Return the number of a result."""
        number = self._index.get(result)
        if number is None:
            number = self._index[result] = len(self._list)
            self._list.append(result)
            self._columns = None
        return number


@attrs.frozen
class _Columns:
    """Results as columns, by number; costs as in `best_of`."""

    is_candidate: NDArray[np.bool_]
    violations: NDArray[np.int64]
    costs: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, results: Sequence[ShapeResult]) -> _Columns:
        def column(values: list[int]) -> NDArray[np.int64]:
            return np.array(values, dtype=np.int64)

        violations = column([each.violations for each in results])
        return cls(
            np.array([each.status is None for each in results], dtype=np.bool_),
            violations,
            (
                violations,
                column([each.top for each in results]),
                column([each.total for each in results]),
                column([len(each.places) for each in results]),
            ),
        )
