"""The nodes of a snapshot as plugins see them: all of them (`NodeView`), or some of them (`NodeSubset`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np

from pyscheduler.cache.columns import ALLOCATABLE, GENERATION, NON_ZERO, POD_COUNT, REQUESTED
from pyscheduler.framework.nodes import FeatureColumn, ImageColumn, LabelColumn, TaintColumn
from pyscheduler.framework.resource import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import CompiledSelector
    from pyscheduler.cache.amounts import AmountTable
    from pyscheduler.cache.changes import ChangeLog
    from pyscheduler.cache.columns import Columns
    from pyscheduler.framework.affinity_terms import PlacedTerm
    from pyscheduler.framework.node_info import NodeInfo

__all__ = ["NodeSubset", "NodeView"]

S = TypeVar("S", bound=np.generic)


class NodeView:
    """All nodes of a snapshot, in row order."""

    __slots__ = ("_columns", "_taken")

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        #: The view that was taken last: filters and scores ask about the same rows, and gather the same arrays.
        self._taken: NodeSubset | None = None

    def __len__(self) -> int:
        return len(self._columns.infos)

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self._columns.infos)

    def __getitem__(self, index: int, /) -> NodeInfo:
        return self._columns.infos[index]

    def name(self, index: int) -> str:
        return self._columns.infos[index].name

    def index(self, name: str) -> int | None:
        return self._columns.index.get(name)

    @property
    def rows(self) -> NDArray[np.int64]:
        return np.arange(len(self._columns.infos), dtype=np.int64)

    @property
    def changes(self) -> ChangeLog:
        """Return which rows changed, for those who keep something by row."""
        return self._columns.changes

    def amounts(self, row: int) -> bytes:
        """Return what stands for all amounts of a row: pods' requests and number, and what the node offers."""
        return self._columns.amounts(row)

    def take(self, rows: NDArray[np.int64]) -> NodeSubset:
        """Return the view of the given rows, in that order. The array is kept: do not change it afterwards."""
        taken = self._taken
        if taken is None or not taken.shows(rows):
            _check_rows(rows)
            taken = self._taken = NodeSubset(self, self._columns, rows)
        return taken

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        return self._amounts(self._columns.offered, ALLOCATABLE, resource)

    def requested(self, resource: str) -> NDArray[np.int64]:
        return self._amounts(self._columns.usage, REQUESTED, resource)

    def _amounts(self, table: AmountTable, fixed: Mapping[str, int], resource: str) -> NDArray[np.int64]:
        columns = self._columns
        line = fixed.get(resource)
        if line is None:
            line = table.scalars.get(resource)
            if line is None:
                return columns.zeros[: len(columns.infos)]
        return table.view[line, : len(columns.infos)]

    def non_zero_requested(self, resource: str) -> NDArray[np.int64]:
        columns = self._columns
        return columns.usage.view[NON_ZERO[resource], : len(columns.infos)]

    def pod_counts(self) -> NDArray[np.int64]:
        columns = self._columns
        return columns.usage.view[POD_COUNT, : len(columns.infos)]

    def allowed_pods(self) -> NDArray[np.int64]:
        return self.allocatable(PODS)

    def generations(self) -> NDArray[np.int64]:
        columns = self._columns
        return columns.usage.view[GENERATION, : len(columns.infos)]

    def unschedulable(self) -> NDArray[np.bool_]:
        return self._columns.unschedulable()

    def taints(self) -> TaintColumn:
        columns = self._columns
        return TaintColumn(ids=columns.taint_ids(), sets=columns.taints.values)

    def declared_features(self) -> FeatureColumn:
        columns = self._columns
        return FeatureColumn(ids=columns.feature_ids(), sets=columns.features.values)

    def labels(self, key: str) -> LabelColumn:
        columns = self._columns
        return columns.labels.column(key, columns.infos)

    def image(self, name: str) -> ImageColumn | None:
        entry = self._columns.images.entries.get(name)
        return (
            ImageColumn(rows=entry.array(), size=entry.size, num_nodes=entry.num_nodes) if entry is not None else None
        )

    def host_port_conflicts(self, ip: str, protocol: str, port: int) -> NDArray[np.int64]:
        return self._columns.ports.conflicts(ip, protocol, port)

    def matching_pods(
        self, selector: CompiledSelector, namespaces: frozenset[str] | None, *, terminating: bool = True
    ) -> NDArray[np.int64]:
        return self._columns.matching_pods(selector, namespaces, terminating=terminating)

    def domain_sums(self, key: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return _sum_by_domain(self.labels(key), counts)

    def terms_about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[PlacedTerm]:
        return self._columns.terms_about(namespace, labels, namespace_labels)


class NodeSubset:
    """Some nodes of a snapshot, in a given order."""

    __slots__ = ("_all", "_columns", "_memo", "_moves", "_rows", "_version")

    def __init__(self, all_nodes: NodeView, columns: Columns, rows: NDArray[np.int64]) -> None:
        self._all = all_nodes
        self._columns = columns
        self._rows = rows
        self._moves = columns.moves
        self._version = columns.version
        self._memo: dict[tuple[str, str], NDArray[np.generic]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return int64[n]: the rows of the snapshot that this shows; not to be written to."""
        return self._rows

    def shows(self, rows: NDArray[np.int64]) -> bool:
        """Return whether this is still valid, and shows these very rows."""
        return self._rows is rows and self._moves == self._columns.moves

    def __iter__(self) -> Iterator[NodeInfo]:
        self._check()
        infos = self._columns.infos
        return iter([infos[row] for row in self._rows.tolist()])

    def __getitem__(self, index: int, /) -> NodeInfo:
        self._check()
        return self._columns.infos[int(self._rows[index])]

    def name(self, index: int) -> str:
        return self[index].name

    def index(self, name: str) -> int | None:
        self._check()
        row = self._columns.index.get(name)
        if row is None:
            return None
        found = np.flatnonzero(self._rows == row)
        return int(found[0]) if len(found) else None

    def take(self, rows: NDArray[np.int64]) -> NodeSubset:
        self._check()
        _check_rows(rows)
        return NodeSubset(self._all, self._columns, self._rows[rows])

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        return self._gather("allocatable", resource, self._all.allocatable)

    def requested(self, resource: str) -> NDArray[np.int64]:
        return self._gather("requested", resource, self._all.requested)

    def non_zero_requested(self, resource: str) -> NDArray[np.int64]:
        return self._gather("non_zero_requested", resource, self._all.non_zero_requested)

    def pod_counts(self) -> NDArray[np.int64]:
        return self._gather("pod_counts", "", lambda _: self._all.pod_counts())

    def allowed_pods(self) -> NDArray[np.int64]:
        return self.allocatable(PODS)

    def generations(self) -> NDArray[np.int64]:
        return self._gather("generations", "", lambda _: self._all.generations())

    def unschedulable(self) -> NDArray[np.bool_]:
        return self._gather("unschedulable", "", lambda _: self._all.unschedulable())

    def taints(self) -> TaintColumn:
        ids = self._gather("taints", "", lambda _: self._columns.taint_ids())
        return TaintColumn(ids=ids, sets=self._columns.taints.values)

    def declared_features(self) -> FeatureColumn:
        ids = self._gather("declared_features", "", lambda _: self._columns.feature_ids())
        return FeatureColumn(ids=ids, sets=self._columns.features.values)

    def labels(self, key: str) -> LabelColumn:
        column = self._all.labels(key)
        return LabelColumn(
            ids=self._gather("labels", key, lambda _: column.ids), values=column.values, index=column.index
        )

    def image(self, name: str) -> ImageColumn | None:
        image = self._all.image(name)
        if image is None:
            return None
        return ImageColumn(rows=self._positions(image.rows), size=image.size, num_nodes=image.num_nodes)

    def host_port_conflicts(self, ip: str, protocol: str, port: int) -> NDArray[np.int64]:
        return self._positions(self._all.host_port_conflicts(ip, protocol, port))

    def matching_pods(
        self, selector: CompiledSelector, namespaces: frozenset[str] | None, *, terminating: bool = True
    ) -> NDArray[np.int64]:
        self._check()
        return self._columns.matching_pods(selector, namespaces, terminating=terminating).take(self._rows)

    def domain_sums(self, key: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return _sum_by_domain(self.labels(key), counts)

    def terms_about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[PlacedTerm]:
        self._check()
        found = self._columns.terms_about(namespace, labels, namespace_labels)
        return [attrs.evolve(each, counts=each.counts.take(self._rows)) for each in found]

    def _positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where in this view the given rows of the snapshot stand, ascending."""
        self._check()
        if not len(rows):
            return rows
        wanted = np.zeros(len(self._columns.infos), dtype=np.bool_)
        wanted[rows] = True
        return np.flatnonzero(wanted[self._rows])

    def _gather(self, kind: str, key: str, read: Callable[[str], NDArray[S]]) -> NDArray[S]:
        """Return the rows of a column, as of the present version of the columns."""
        if self._version != self._columns.version:
            self._check()
            self._memo.clear()
            self._version = self._columns.version
        known = self._memo.get((kind, key))
        if known is None:
            known = read(key).take(self._rows)
            known.flags.writeable = False
            self._memo[kind, key] = known
        return known  # type: ignore[return-value]  # of the type that `read` gave when it was stored

    def _check(self) -> None:
        if self._moves != self._columns.moves:
            raise RuntimeError("a node has left the snapshot since this view was taken: take a new one")


def _check_rows(rows: NDArray[np.int64]) -> None:
    """Raise `TypeError` for anything but row numbers: a mask would be read as rows 0 and 1."""
    if rows.dtype.kind not in "iu":
        raise TypeError(
            f"`rows` must be a numpy array of row numbers, not of {rows.dtype}; write np.flatnonzero(mask) for a mask"
        )


def _sum_by_domain(column: LabelColumn, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    if counts.dtype != np.int64:
        raise TypeError(f"`counts` must be int64, one for each node, not {counts.dtype}; write counts.astype(np.int64)")
    # Sums of counts of pods are far below 2^53, up to which float64 is exact.
    return np.bincount(column.ids, weights=counts, minlength=len(column.values)).astype(np.int64)
