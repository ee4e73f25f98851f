"""The nodes and pods of the cluster at one moment, for the decisions of a scheduling cycle.

`Cache.update_snapshot` copies only what changed since the last update.

To find preemption victims, a cycle evicts pods in the snapshot, and later rolls the snapshot back to a checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Final, overload

import attrs
import numpy as np

from pyscheduler.cache.columns import Columns
from pyscheduler.cache.invariants import check_node_info
from pyscheduler.cache.nominated_rows import NominatedRows
from pyscheduler.cache.nominations import Nominations
from pyscheduler.cache.view import NodeView
from pyscheduler.framework.node_info import NodeInfo
from pyscheduler.framework.snapshot import Checkpoint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.node_tree import NodeTree
    from pyscheduler.framework.handle import Nominator
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Snapshot"]

#: For so many priorities it is kept which nominated pods come before.
_MAX_PRIORITIES: Final = 8


@attrs.define(kw_only=True, eq=False)
class _Frame:
    """The state to restore on the return to a checkpoint."""

    checkpoint: Checkpoint
    num_nominations: int
    #: By row, the NodeInfo that was there at the checkpoint.
    saved: dict[int, NodeInfo] = attrs.Factory(dict)


class _Rows(Sequence[NodeInfo]):
    """Some rows as a sequence of NodeInfo; made in no time, however many they are."""

    __slots__ = ("_infos", "_rows")

    def __init__(self, infos: Sequence[NodeInfo], rows: Sequence[int]) -> None:
        self._infos = infos
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int, /) -> NodeInfo: ...

    @overload
    def __getitem__(self, index: slice, /) -> Sequence[NodeInfo]: ...

    def __getitem__(self, index: int | slice, /) -> NodeInfo | Sequence[NodeInfo]:
        if isinstance(index, slice):
            return _Rows(self._infos, self._rows[index])
        return self._infos[self._rows[index]]

    def __iter__(self) -> Iterator[NodeInfo]:
        infos = self._infos
        return iter([infos[row] for row in self._rows])


class Snapshot:
    """Implements `framework.snapshot.Snapshot`. `nominator` is the queue's; without one no pod is nominated by it."""

    def __init__(self, *, nominator: Nominator | None = None) -> None:
        self._columns = Columns()
        self._nodes = NodeView(self._columns)
        self._frames: list[_Frame] = []
        self._checkpoints = count(1)
        self._nominations = Nominations(nominator)
        #: By priority; the one asked for last at the end.
        self._nominated_rows: dict[int, NominatedRows] = {}
        self._tree: NodeTree | None = None
        self._tree_version = -1
        self._order: NDArray[np.int64] | None = None
        self._names: list[str] = []
        self._names_epoch = -1
        #: The cache's generation at the last update; what has a larger one is news.
        self.generation = 0

    @property
    def nodes(self) -> NodeView:
        """Return the view of all nodes; always the same object."""
        return self._nodes

    @property
    def names(self) -> Iterable[str]:
        """Return the names of all nodes, in no order."""
        return self._columns.index.keys()

    @property
    def names_by_row(self) -> Sequence[str]:
        """Return the names of all nodes by row; not to be changed. It is another object whenever rows change."""
        epoch = self._columns.changes.epoch
        if self._names_epoch != epoch:
            # Not the keys of the index: a node that takes the row of a deleted one keeps its place among them.
            self._names, self._names_epoch = [info.name for info in self._columns.infos], epoch
        return self._names

    def get(self, node_name: str) -> NodeInfo | None:
        """Return one node, or None."""
        row = self._columns.index.get(node_name)
        return self._columns.infos[row] if row is not None else None

    def order(self) -> NDArray[np.int64]:
        """Return int64[n]: all rows, taking one node of each zone in turn; read-only. Worked out when first asked."""
        if self._order is None:
            index = self._columns.index
            names = self._tree.order() if self._tree is not None else []
            # The cache may have moved on since the update: nodes it has lost stand at the end.
            rows = dict.fromkeys(index[name] for name in names if name in index)
            rows.update(dict.fromkeys(range(len(index))))
            self._order = np.fromiter(rows, dtype=np.int64, count=len(rows))
            self._order.flags.writeable = False
        return self._order

    # Statements

    def checkpoint(self) -> Checkpoint:
        """Mark the present state. Checkpoints nest."""
        checkpoint = Checkpoint(next(self._checkpoints))
        self._frames.append(_Frame(checkpoint=checkpoint, num_nominations=len(self._nominations)))
        return checkpoint

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Undo everything since `checkpoint`, which is used up, and with it those made since."""
        frames = self._frames
        first = next((at for at in range(len(frames) - 1, -1, -1) if frames[at].checkpoint == checkpoint), None)
        if first is None:
            raise ValueError(f"checkpoint {checkpoint} is used up")
        self._nominations.undo(frames[first].num_nominations)
        before: dict[int, NodeInfo] = {}
        for frame in reversed(frames[first:]):
            before.update(frame.saved)
        del frames[first:]
        for row, info in before.items():
            self._columns.restore(row, info)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Give up the last checkpoint: what was done since is undone with the checkpoint before it."""
        frame = self._frames.pop()
        assert frame.checkpoint == checkpoint, "only the last checkpoint can be given up"
        outer = self._frames[-1].saved
        for row, info in frame.saved.items():
            outer.setdefault(row, info)

    @contextmanager
    def undo_at_end(self) -> Iterator[None]:
        """Take a checkpoint on entry, roll back to it on exit."""
        checkpoint = self.checkpoint()
        try:
            yield
        finally:
            self.rollback(checkpoint)

    def what_if(self) -> AbstractContextManager[None]:
        """Return `undo_at_end()`, under its old name; deprecated."""
        warnings.warn("Snapshot.what_if is now called undo_at_end", DeprecationWarning, stacklevel=2)
        return self.undo_at_end()

    def place(self, info: PodInfo, node_name: str) -> None:
        """Put a pod on a node; raise `KeyError` when the node is not here. A nomination of the pod ends."""
        row = self._columns.index[node_name]
        self._own(row).add_pod(info)
        self._columns.sync_pods(row)
        self._nominations.set(info, "")

    def evict(self, info: PodInfo, node_name: str, *, free_ports: bool = False) -> None:
        """Take a pod off a node; raise `KeyError` when either is not here.

        With `free_ports` its host ports count as free then, even where another pod uses them as well.
        """
        self.evict_all((info,), node_name, free_ports=free_ports)

    def evict_all(self, infos: Iterable[PodInfo], node_name: str, *, free_ports: bool = False) -> None:
        """Take several pods off a node at once; otherwise like `evict`."""
        row = self._columns.index[node_name]
        node = self._own(row)
        try:
            for info in infos:
                evicted = node.remove_pod(info.pod.uid)
                if evicted is None:
                    raise KeyError(info.pod.key)
                if free_ports:
                    for port in evicted.host_ports:
                        node.used_ports.free(*port)
        finally:
            self._columns.sync_pods(row)

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node, or to none if the name is empty; replaces what the queue says about the pod."""
        self._check_open()
        self._nominations.set(info, node_name)

    def nominated_pods(self, node_name: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node, by the queue or by an open statement."""
        return self._nominations.pods_on(node_name)

    def nominated_node(self, pod: Pod) -> str:
        """Return the node that a pod is nominated to, also before the API server knows of it; "" for none."""
        return pod.status.nominated_node_name or self._nominations.node_of(pod.uid)

    @property
    def nominated_nodes(self) -> Collection[str]:
        """Return the names of the nodes that pods are nominated to.

        Some may belong to nodes that are not here, or have lost their pods to a statement.
        """
        return self._nominations.nodes

    def nominated_before(self, priority: int) -> NominatedRows:
        """Return by row the pods nominated there that come before pods of that priority, up to date."""
        rows = self._nominated_rows.pop(priority, None)
        if rows is None:
            rows = NominatedRows(self._nominations, self._columns, priority)
            if len(self._nominated_rows) >= _MAX_PRIORITIES:
                del self._nominated_rows[next(iter(self._nominated_rows))]
        self._nominated_rows[priority] = rows
        rows.sync()
        return rows

    def forget_answers(self, names: Iterable[str]) -> None:
        """Have caches of answers by row drop those about these nodes; ignore names that are not in the snapshot."""
        for name in names:
            row = self._columns.index.get(name)
            if row is not None:
                self._columns.changes.note_pods(row)

    def _own(self, row: int) -> NodeInfo:
        """Return the NodeInfo of a row for changing; what a rollback needs is set aside."""
        self._check_open()
        infos = self._columns.infos
        info = infos[row]
        saved = self._frames[-1].saved
        if row not in saved:
            saved[row] = info
            info = infos[row] = info.clone()
        return info

    def _check_open(self) -> None:
        if not self._frames:
            raise RuntimeError("the snapshot changes only within a statement: take a checkpoint first")

    # What pods bring with them

    @property
    def nodes_with_affinity_pods(self) -> Sequence[NodeInfo]:
        """Return the nodes that hold a pod with (anti-)affinity terms, in row order. Valid until something changes."""
        return _Rows(self._columns.infos, self._columns.affinity.rows)

    @property
    def nodes_with_anti_affinity_pods(self) -> Sequence[NodeInfo]:
        """Return the nodes that hold a pod with required anti-affinity terms, likewise."""
        return _Rows(self._columns.infos, self._columns.anti_affinity.rows)

    def pvc_in_use(self, key: str) -> bool:
        """Return whether any pod on any node uses the claim `namespace/name`."""
        return key in self._columns.claims

    # Following the cache

    def apply(self, *, changed: Iterable[NodeInfo], removed: Iterable[str], generation: int, tree: NodeTree) -> None:
        """Take over the cache's news; for `Cache.update_snapshot`. `changed` are the cache's own and are copied.

        Raise `RuntimeError` while a statement is open: its rollback would undo the update.
        """
        if self._frames:
            raise RuntimeError("the snapshot cannot be updated while a statement is open: roll it back")
        columns = self._columns
        for name in removed:
            if name in columns.index:
                columns.remove(name)
        for info in changed:
            columns.put(info)
        self.generation = generation
        if tree.version != self._tree_version:
            self._tree, self._tree_version, self._order = tree, tree.version, None

    def check_invariants(self) -> None:
        """Raise AssertionError unless all that is kept up to date is what a look at the nodes and their pods gives."""
        self._columns.check_invariants()
        for info in self._columns.infos:
            check_node_info(info)
        for rows in self._nominated_rows.values():
            rows.check_invariants()
        assert sorted(self.order().tolist()) == list(range(len(self._nodes))), "the order misses or repeats rows"
        depth = [frame.checkpoint for frame in self._frames]
        assert depth == sorted(set(depth)), "checkpoints are out of order"
        for frame in self._frames:
            for row, info in frame.saved.items():
                assert self._columns.infos[row].node is info.node, "a frame outlived the row that it changed"
