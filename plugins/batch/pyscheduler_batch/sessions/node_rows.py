"""The nodes of a scheduling round as rows of a table: for each node, its pods and the sums of their resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler_batch.model.axis import PODS
from pyscheduler_batch.model.batch_plugin import NodeUse
from pyscheduler_batch.model.node_table import NodeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Node, Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler_batch.model.axis import Amounts, ResourceAxis
    from pyscheduler_batch.model.batch_plugin import BatchPlugin

__all__ = ["NodeRows"]

#: What each node has of a resource that no node limits; sums of it are exact.
_PLENTY: Final = 1e15


@attrs.define(eq=False)
class _Row:
    """A node as it was last read."""

    #: The uids of the profile's pods, in their order.
    own: dict[str, None] = attrs.Factory(dict)
    #: The pods that are being deleted or evicted, of whatever profile.
    leaving: list[PodInfo] = attrs.Factory(list)
    node: Node | None = None


class NodeRows:
    """The rows of the nodes `names`, for the pods of one profile."""

    def __init__(
        self,
        plugin: BatchPlugin,
        axis: ResourceAxis,
        names: Sequence[str],
        *,
        is_own: Callable[[Pod], bool],
        amounts_of: Callable[[PodInfo], Amounts],
        changes: int = 0,
    ) -> None:
        """Create rows that were never read. `amounts_of`: returns float64[R], what a pod counts for."""
        self._plugin, self._axis, self._is_own, self._amounts_of = plugin, axis, is_own, amounts_of
        self.names = [*names]
        #: How often something changed that filters read of a node.
        self.changes = changes
        self._generations = np.full(len(names), -1, dtype=np.int64)
        self._rows = [_Row() for _ in names]
        shape = (len(names), len(axis))
        #: float64[N, R]: what leaving pods hold, what pods of others hold, and what pods hold besides their requests.
        self._releasing, self._foreign, self._beside = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        #: int8[N]: the `NodeUse` of each node.
        self._use = np.full(len(names), NodeUse.FULL, dtype=np.int8)

    def changed(self, snapshot: Snapshot) -> list[int]:
        """Return the rows of nodes that changed since `follow` was called."""
        found: list[int] = np.flatnonzero(snapshot.nodes.generations() != self._generations).tolist()
        return found

    def follow(self, snapshot: Snapshot) -> None:
        """Take the nodes as they are for read."""
        self._generations = snapshot.nodes.generations().copy()

    def read(
        self, snapshot: Snapshot, row: int, evicting: Collection[str]
    ) -> tuple[list[tuple[PodInfo, bool]], list[str]]:
        """Read a row; return the profile's pods and whether they are leaving, and the uids of those that are gone.

        `evicting`: uids of pods whose eviction is under way, but not seen yet.
        """
        known, here = self._rows[row], snapshot.nodes[row]
        releasing, foreign, beside = self._axis.zeros(), self._axis.zeros(), self._axis.zeros()
        own: list[tuple[PodInfo, bool]] = []
        leaving: list[PodInfo] = []
        if here.node is not known.node:
            self.changes += _node_facts(here.node) != _node_facts(known.node)
            known.node = here.node
        self._use[row] = NodeUse.FULL if here.node is None else self._plugin.node_use(here.node)
        for info in here.pods:
            is_leaving = info.pod.is_terminating or info.pod.uid in evicting
            if is_leaving:
                leaving.append(info)
                releasing += self._amounts_of(info)
            if self._is_own(info.pod):
                own.append((info, is_leaving))
            else:
                foreign += self._amounts_of(info)
            if more := self._plugin.amounts_beside(info.pod):
                beside += self._axis.amounts(more)
        before, known.own, known.leaving = known.own, {info.pod.uid: None for info, _ in own}, leaving
        self._releasing[row], self._foreign[row], self._beside[row] = releasing, foreign, beside
        return own, [uid for uid in before if uid not in known.own]

    def table(self, snapshot: Snapshot) -> NodeTable:
        """Return a table of its own for a session."""
        nodes, columns = snapshot.nodes, len(self._axis)
        allocatable, used = np.empty((len(self.names), columns)), np.empty((len(self.names), columns))
        for column, name in enumerate(self._axis.names):
            if name in self._plugin.unbounded:
                allocatable[:, column], used[:, column] = _PLENTY, 0.0
            elif name == PODS:
                allocatable[:, column], used[:, column] = nodes.allowed_pods(), nodes.pod_counts()
            else:
                allocatable[:, column], used[:, column] = nodes.allocatable(name), nodes.requested(name)
        used += self._beside
        absent = self._use == NodeUse.NONE
        allocatable[absent], used[absent] = 0.0, 0.0
        table = NodeTable.of(self.names, allocatable)
        table.idle -= used
        table.releasing += self._releasing
        table.releasing[absent] = 0.0
        table.ready = self.ready
        return table

    @property
    def ready(self) -> NDArray[np.bool_] | None:
        """Return bool[N]: the nodes that take tasks; None for all."""
        ready: NDArray[np.bool_] = self._use == NodeUse.FULL
        return None if ready.all() else ready

    @property
    def foreign(self) -> Amounts:
        """Return float64[R]: what pods that are no tasks hold of the nodes that take tasks."""
        total: Amounts = self._foreign[self._use == NodeUse.FULL].sum(axis=0)
        return total

    def leaving(self) -> Sequence[tuple[PodInfo, str]]:
        """Return the pods that are leaving, of whatever profile, with their nodes."""
        return [
            (info, self.names[row])
            for row in np.flatnonzero(self._releasing.any(axis=1)).tolist()
            for info in self._rows[row].leaving
        ]


def _node_facts(node: Node | None) -> tuple[object, ...]:
    """Return what filters may read of a node: all but the times of its conditions."""
    if node is None:
        return ()
    meta, status = node.metadata, node.status
    conditions = [(each.type, each.status) for each in status.conditions]
    offered = (status.allocatable, status.capacity, status.images, status.declared_features)
    return node.spec, meta.labels, meta.annotations, offered, conditions
