"""Arrays with one row for each node of a snapshot, for example the requested CPU of each node."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np

from pyscheduler.cache.amounts import AmountTable, grown, to_int64
from pyscheduler.cache.changes import ChangeLog
from pyscheduler.cache.images import ImageIndex
from pyscheduler.cache.interner import Interner
from pyscheduler.cache.label_columns import LabelColumns
from pyscheduler.cache.placed_terms import PlacedTerms
from pyscheduler.cache.pod_indices import ClaimIndex, PortIndex, RowSet
from pyscheduler.cache.pod_matches import PodMatches
from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import CompiledSelector, Node, Taint
    from pyscheduler.framework.affinity_terms import PlacedTerm
    from pyscheduler.framework.node_info import NodeInfo

__all__ = ["Columns"]

_MIN_CAPACITY: Final = 64

V = TypeVar("V", bound="Hashable")
S = TypeVar("S", bound=np.generic)

# Lines of the table of usage: what pods amount to.
GENERATION: Final = 0
POD_COUNT: Final = 1
NON_ZERO: Final = {CPU: 2, MEMORY: 3}
REQUESTED: Final = {CPU: 4, MEMORY: 5, EPHEMERAL_STORAGE: 6}
_NUM_USAGE: Final = 7
# Lines of the table of what nodes offer.
ALLOCATABLE: Final = {CPU: 0, MEMORY: 1, EPHEMERAL_STORAGE: 2, PODS: 3}
_NUM_OFFERED: Final = 4
#: All amounts of a row where there are no extended resources; shorter than what the tables give for it.
_pack: Final = struct.Struct("10q").pack


class _RowIndex(Protocol):
    """An index that is kept per row beside the arrays."""

    def move(self, source: int, target: int) -> None: ...

    def remove(self, row: int) -> None: ...


class Columns:
    """Rows of nodes. Everything public may be read, and is changed by the methods only.

    `version` grows with every change, `moves` whenever some node changed its row.
    """

    __slots__ = (
        "_capacity",
        "_feature_ids",
        "_taint_ids",
        "_unschedulable",
        "affinity",
        "anti_affinity",
        "changes",
        "claims",
        "features",
        "images",
        "index",
        "infos",
        "labels",
        "moves",
        "offered",
        "placed_terms",
        "pod_matches",
        "ports",
        "taints",
        "usage",
        "version",
        "zeros",
    )

    def __init__(self) -> None:
        capacity = self._capacity = _MIN_CAPACITY
        self.infos: list[NodeInfo] = []
        self.index: dict[str, int] = {}
        self.usage = AmountTable(_NUM_USAGE, capacity)
        self.offered = AmountTable(_NUM_OFFERED, capacity)
        self.zeros = _zeros(capacity)
        self._unschedulable: NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)
        self._taint_ids: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self._feature_ids: NDArray[np.int32] = np.zeros(capacity, dtype=np.int32)
        self.taints: Interner[tuple[Taint, ...], tuple[Taint, ...]] = Interner(())
        self.features: Interner[frozenset[str], frozenset[str]] = Interner(frozenset())
        self.labels = LabelColumns(capacity)
        self.images = ImageIndex()
        self.ports = PortIndex()
        self.claims = ClaimIndex()
        self.affinity = RowSet()
        self.anti_affinity = RowSet()
        self.placed_terms = PlacedTerms()
        self.pod_matches = PodMatches()
        self.version = 0
        self.moves = 0
        self.changes = ChangeLog(capacity)

    def put(self, info: NodeInfo) -> None:
        """Take over what a NodeInfo with a node says: append a copy, or bring the one of that name up to date."""
        node = info.node
        assert node is not None, "only nodes that are known have a row"
        row = self.index.get(node.name)
        if row is None:
            row = len(self.infos)
            if row == self._capacity:
                self._grow()
            self.index[node.name] = row
            ours = info.clone()
            self.infos.append(ours)
            self._sync_node(row, None, node)
            self.changes.begin_epoch()
        else:
            ours = self.infos[row]
            old = ours.node
            ours.become(info)
            if old is not node:
                self._sync_node(row, old, node)
                self.changes.note_node(row)
        ours.image_states = self.images.put(row, info.image_states)
        self.sync_pods(row)

    def restore(self, row: int, info: NodeInfo) -> None:
        """Put back a NodeInfo that was here before, of the same node object."""
        self.infos[row] = info
        self.sync_pods(row)

    def sync_pods(self, row: int) -> None:
        """Bring a row up to date after pods of its NodeInfo changed."""
        info = self.infos[row]
        requested, non_zero = info.requested, info.non_zero_requested
        self.usage.write(
            row,
            (
                info.generation,
                len(info.pods),
                non_zero.milli_cpu,
                non_zero.memory,
                requested.milli_cpu,
                requested.memory,
                requested.ephemeral_storage,
            ),
            requested.scalars,
        )
        self.ports.put(row, info.used_ports)
        self.claims.put(row, info.pvc_ref_counts)
        self.affinity.put(row, member=bool(info.pods_with_affinity))
        self.anti_affinity.put(row, member=bool(info.pods_with_required_anti_affinity))
        self.version += 1
        self.changes.note_pods(row)

    def remove(self, name: str) -> None:
        """Drop the node of that name, which must be here; the last one takes its row."""
        row = self.index.pop(name)
        last = len(self.infos) - 1
        node = self.infos[row].node
        assert node is not None, "only nodes that are known have a row"
        self.labels.put(row, node.labels, {})
        self.taints.release(int(self._taint_ids[row]))
        self.features.release(int(self._feature_ids[row]))
        if row == last:
            self._clear(row)
        else:
            self._move(last, row)
        self.infos.pop()
        self.version += 1
        self.moves += 1
        self.changes.begin_epoch()

    def unschedulable(self) -> NDArray[np.bool_]:
        """Return bool[n], read-only."""
        return _read_only(self._unschedulable[: len(self.infos)])

    def taint_ids(self) -> NDArray[np.int32]:
        """Return int32[n], read-only."""
        return _read_only(self._taint_ids[: len(self.infos)])

    def feature_ids(self) -> NDArray[np.int32]:
        """Return int32[n], read-only."""
        return _read_only(self._feature_ids[: len(self.infos)])

    def amounts(self, row: int) -> bytes:
        """Return all that a node offers and all that is used there: rows with equal ones are equal in every amount."""
        usage, offered = self.usage, self.offered
        if not usage.scalars and not offered.scalars:
            info = self.infos[row]
            used, non_zero, offer = info.requested, info.non_zero_requested, info.allocatable
            try:
                return _pack(
                    len(info.pods),
                    non_zero.milli_cpu,
                    non_zero.memory,
                    used.milli_cpu,
                    used.memory,
                    used.ephemeral_storage,
                    offer.milli_cpu,
                    offer.memory,
                    offer.ephemeral_storage,
                    offer.allowed_pods,
                )
            except struct.error:
                pass  # beyond 64 bits, where the tables wrap around
        layout = (usage.layout << 32 | offered.layout).to_bytes(16, "little")
        return layout + offered.view[:, row].tobytes() + usage.view[POD_COUNT:, row].tobytes()

    def matching_pods(
        self, selector: CompiledSelector, namespaces: frozenset[str] | None, *, terminating: bool
    ) -> NDArray[np.int64]:
        """Return int64[n], read-only: how many pods `selector` matches on each node."""
        self.pod_matches.sync(self.infos, self._generations(), self.version)
        return self.pod_matches.count(selector, namespaces, len(self.infos), terminating=terminating)

    def terms_about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[PlacedTerm]:
        """Return the terms of pods here that speak of pods with these labels in that namespace, counted by row."""
        self.placed_terms.sync(self.infos, self._generations(), self.version)
        return self.placed_terms.about(namespace, labels, namespace_labels)

    def _generations(self) -> NDArray[np.int64]:
        return self.usage.view[GENERATION, : len(self.infos)]

    def _sync_node(self, row: int, old: Node | None, node: Node) -> None:
        """Bring a row up to date with its node object; `old` is the version before."""
        offer = self.infos[row].allocatable
        fixed = (offer.milli_cpu, offer.memory, offer.ephemeral_storage, offer.allowed_pods)
        self.offered.write(row, fixed, offer.scalars)
        self._unschedulable[row] = node.spec.unschedulable
        if old is None or old.labels != node.labels:
            self.labels.put(row, old.labels if old is not None else {}, node.labels)
        if old is None or old.spec.taints != node.spec.taints:
            _replace_id(self.taints, self._taint_ids, row, node.spec.taints)
        if old is None or old.status.declared_features != node.status.declared_features:
            _replace_id(self.features, self._feature_ids, row, self.infos[row].declared_features)

    def _indices(self) -> tuple[_RowIndex, ...]:
        return (
            self.usage,
            self.offered,
            self.images,
            self.ports,
            self.claims,
            self.affinity,
            self.anti_affinity,
        )

    def _move(self, source: int, target: int) -> None:
        info = self.infos[target] = self.infos[source]
        self.index[info.name] = target
        for array in (self._unschedulable, self._taint_ids, self._feature_ids):
            array[target] = array[source]
            array[source] = 0
        self.labels.move(source, target)
        for index in self._indices():
            index.move(source, target)

    def _clear(self, row: int) -> None:
        for array in (self._unschedulable, self._taint_ids, self._feature_ids):
            array[row] = 0
        for index in self._indices():
            index.remove(row)

    def _grow(self) -> None:
        capacity = self._capacity = 2 * self._capacity
        self.usage.grow(capacity)
        self.offered.grow(capacity)
        self.labels.grow(capacity)
        self.changes.grow(capacity)
        self.zeros = _zeros(capacity)
        self._unschedulable = grown(self._unschedulable, capacity)
        self._taint_ids = grown(self._taint_ids, capacity)
        self._feature_ids = grown(self._feature_ids, capacity)

    def check_invariants(self) -> None:
        """Raise AssertionError unless every array and index is what a look at each node gives."""
        infos = self.infos
        nodes = [info.node for info in infos if info.node is not None]
        assert len(nodes) == len(infos), "a row has no node"
        assert self.index == {node.name: row for row, node in enumerate(nodes)}, "names and rows differ"
        for row, info in enumerate(infos):
            self._check_amounts(row, info)
        for table in (self.usage, self.offered):
            assert not table.view[:, len(infos) :].any(), "a free row is not zero"
        assert self.unschedulable().tolist() == [node.spec.unschedulable for node in nodes], "unschedulable"
        assert [self.taints.values[number] for number in self.taint_ids()] == [node.spec.taints for node in nodes]
        self.taints.check_invariants(self._taint_ids.tolist())
        declared = [frozenset(node.status.declared_features) for node in nodes]
        assert [self.features.values[number] for number in self.feature_ids()] == declared, "declared features"
        self.features.check_invariants(self._feature_ids.tolist())
        self.labels.check_invariants(infos)
        self.images.check_invariants([info.image_states for info in infos])
        self.ports.check_invariants(infos)
        self.claims.check_invariants(infos)
        self.affinity.check_invariants([row for row, info in enumerate(infos) if info.pods_with_affinity])
        self.anti_affinity.check_invariants(
            [row for row, info in enumerate(infos) if info.pods_with_required_anti_affinity]
        )
        self.placed_terms.check_invariants(infos, self._generations(), self.version)
        self.pod_matches.check_invariants(infos, self._generations(), self.version)
        assert not self.zeros.any(), "zeros are not zero"
        self.changes.check_invariants()

    def _check_amounts(self, row: int, info: NodeInfo) -> None:
        usage, offered = self.usage, self.offered
        assert usage.view[GENERATION, row] == info.generation, f"generation of {info.name}"
        assert usage.view[POD_COUNT, row] == len(info.pods), f"pods of {info.name}"
        for fixed, table, resource in (
            (NON_ZERO, usage, info.non_zero_requested),
            (REQUESTED, usage, info.requested),
            (ALLOCATABLE, offered, info.allocatable),
        ):
            lines = fixed if fixed is NON_ZERO else {**fixed, **table.scalars}
            for name, line in lines.items():
                assert table.view[line, row] == to_int64(resource.get(name)), f"{name} of {info.name}"
            missing = {name for name, amount in resource.scalars.items() if amount} - table.scalars.keys()
            assert not missing, f"no line for {missing}"


def _replace_id(interner: Interner[V, V], ids: NDArray[np.int32], row: int, value: V) -> None:
    number = interner.acquire(value)
    interner.release(int(ids[row]))
    ids[row] = number


def _zeros(capacity: int) -> NDArray[np.int64]:
    return _read_only(np.zeros(capacity, dtype=np.int64))


def _read_only(array: NDArray[S]) -> NDArray[S]:
    array.flags.writeable = False
    return array
