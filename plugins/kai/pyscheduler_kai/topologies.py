"""Topologies: trees of domains over the nodes of the cluster, as arrays of integers.

A topology has a list of node labels, from wide to narrow domains, for example zone, block and rack.

Source: KAI-Scheduler, `plugins/topology`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np

from pyscheduler.api import KubeObject, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pyscheduler.framework import LabelColumn

__all__ = ["KAI_TOPOLOGIES", "KaiTopology", "TopologyTree", "levels_of"]


class KaiTopology(KubeObject):
    """Topology of KAI: the node labels of its levels."""

    api_version: ClassVar[str] = "kai.scheduler/v1alpha1"
    kind: ClassVar[str] = "Topology"

    spec: Any = None


KAI_TOPOLOGIES: Final = kind_of(KaiTopology, "topologies", namespaced=False)


def levels_of(item: KaiTopology) -> tuple[str, ...]:
    """Return the label keys of a topology's levels, the widest first; entries that name none are left out."""
    spec = item.spec if isinstance(item.spec, Mapping) else {}
    levels = spec.get("levels")
    found = levels if isinstance(levels, Sequence) and not isinstance(levels, str) else ()
    keys = [each.get("nodeLabel") for each in found if isinstance(each, Mapping)]
    return tuple(key for key in keys if isinstance(key, str) and key)


@attrs.frozen(eq=False)
class TopologyTree:
    """One topology of N nodes with L levels below the whole."""

    #: The names of the levels 1 to L, the widest first.
    levels: tuple[str, ...]
    #: int64[L + 1, N]: the domain of each node at each level; -1 for nodes that are in no domain. Level 0 has one.
    ids: NDArray[np.int64]
    #: By level, the names of its domains: the values from the widest level on, joined by dots.
    names: tuple[tuple[str, ...], ...]
    #: By level, int64: the domain above each domain; those of level 0 have -1.
    parents: tuple[NDArray[np.int64], ...]

    @classmethod
    def from_labels(cls, levels: Sequence[str], labels: Callable[[str], LabelColumn], size: int) -> TopologyTree:
        """Return the tree of `size` nodes whose levels are labels of nodes."""
        columns = [labels(key) for key in levels]
        member = np.ones(size, dtype=np.bool_)
        for column in columns:
            member &= column.ids > 0
        ids: NDArray[np.int64] = np.full((len(levels) + 1, size), -1, dtype=np.int64)
        ids[0, member] = 0
        names: list[tuple[str, ...]] = [("root",)]
        parents: list[NDArray[np.int64]] = [np.array([-1], dtype=np.int64)]
        for level, column in enumerate(columns, start=1):
            width = len(column.values)
            keys = ids[level - 1, member] * width + column.ids[member]
            found, inverse = np.unique(keys, return_inverse=True)
            ids[level, member] = inverse.reshape(-1)
            above = found // width
            parents.append(above)
            values = [str(column.values[each]) for each in (found % width).tolist()]
            outer = names[-1]
            names.append(
                tuple(
                    value if level == 1 else f"{outer[up]}.{value}"
                    for up, value in zip(above.tolist(), values, strict=True)
                )
            )
        return cls(tuple(levels), ids, tuple(names), tuple(parents))

    def level(self, name: str) -> int:
        """Return the number of a level by its name; -1 if there is none."""
        return self.levels.index(name) + 1 if name in self.levels else -1

    def sums(self, level: int, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64: the sum of a column (float64[N]) over each domain of a level."""
        ids = self.ids[level]
        inside = ids >= 0
        found: NDArray[np.float64] = np.bincount(
            ids[inside], weights=column[inside], minlength=len(self.names[level])
        ).astype(np.float64, copy=False)
        return found

    def common(self, rows: NDArray[np.int64], deepest: int) -> tuple[int, int]:
        """Return the level and the domain that all of these nodes share: the lowest one, and not below `deepest`.

        `rows` are nodes of the topology.
        """
        level = domain = 0
        for below in range(1, deepest + 1 if len(rows) else 0):
            ids = self.ids[below, rows]
            if (ids != ids[0]).any():
                break
            level, domain = below, int(ids[0])
        return level, domain

    def ancestors(self, level: int, up: int) -> NDArray[np.int64]:
        """Return int64: for each domain of `level` the domain at the level `up`, which is not below it."""
        found: NDArray[np.int64] = np.arange(len(self.names[level]), dtype=np.int64)
        for each in range(level, up, -1):
            found = self.parents[each][found]
        return found
