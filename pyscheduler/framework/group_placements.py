"""A placement is a set of nodes, such as the nodes of one rack. All members of a group must run within one placement.

The PlacementGenerate plugin returns the placements of a group, and PlacementScore plugins score the feasible ones.
Source: kube-scheduler 1.36, `k8s.io/kube-scheduler/framework`: `PodGroupInfo`, `Placement`, `PodGroupAssignments`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework.nodes import Nodes

__all__ = ["GroupAssignments", "GroupInfo", "GroupPlacement", "PlacementLevels", "PlacementTable"]


@attrs.frozen(kw_only=True, eq=False)
class GroupInfo:
    """A group in its cycle.

    `pods` are the members without a node, in the order in which they are tried; there is at least one. `placed` are the
    node names, by `namespace/name`, of the members that have a node in memory or in the API.
    """

    namespace: str
    name: str
    pods: Sequence[Pod]
    placed: Mapping[str, str] = attrs.Factory(dict)

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


@attrs.frozen(eq=False)
class GroupPlacement:
    """A set of nodes of which a group may use some, and the name of the set. Valid in one cycle."""

    name: str
    nodes: Nodes


@attrs.frozen(eq=False)
class GroupAssignments:
    """A placement, and the members of the group that found a node in it. None of them is in the snapshot."""

    placement: GroupPlacement
    pods: Sequence[Pod]


@attrs.frozen(kw_only=True, eq=False)
class PlacementLevels:
    """Sets of nodes of which a group may use one, in levels: the narrowest first, such as racks before blocks of racks.

    The scheduler takes the narrowest set that has room for all members; of several, the one with least room. If none
    has, it takes the set of the last level that has most room, if the minimum of the group fits there.
    """

    #: By level int[n]: the number of the set of each node of the snapshot; 0 for nodes in no set. At least one level.
    levels: Sequence[NDArray[np.integer[Any]]]
    #: Returns why the group is refused, from the number of members, and int64[k]: how many members each set of the last
    #: level can take at most, by the number of the set.
    refusal: Callable[[int, NDArray[np.int64]], str]


@attrs.define(eq=False, slots=False)
class PlacementTable:
    """k placements as rows of a view, to compute sums over each placement at once; none of them is empty."""

    #: All nodes of the snapshot.
    nodes: Nodes
    placements: Sequence[GroupPlacement]

    def __len__(self) -> int:
        return len(self.placements)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """Return int64[m]: the rows of the nodes of all placements, one placement after the other."""
        return np.concatenate([each.nodes.rows for each in self.placements])

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        sizes = [len(each.nodes) for each in self.placements]
        return np.cumsum([0, *sizes[:-1]], dtype=np.int64)

    def sums(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[k]: the sum over the nodes of each placement; `column` is int64[n], one entry per node."""
        return np.add.reduceat(column[self.rows], self._starts)
