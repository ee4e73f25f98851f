"""Find the nodes where all claims of a pod can get a volume, and choose the volumes for one node.

Each claim, the smallest first, takes the smallest suitable volume that the node reaches. If no volume is suitable,
a new one may be provisioned.
Source: kube-scheduler 1.36, `volumebinding/binder.go`, `FindPodVolumes`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from kube_objects.csi_migration import DiskKind, MigrationError, disk_kind, translated_affinity
from pyscheduler.api import CSINode, PersistentVolume, PersistentVolumeClaim
from pyscheduler.framework import NodeStatuses, PySchedulerError, Status
from pyscheduler.framework.node_matching import match_node_selector
from pyscheduler.plugins.volume_binding.candidates import Candidates, find_candidates, requested_storage
from pyscheduler.plugins.volume_binding.claims import SELECTED_NODE, PodClaims
from pyscheduler.plugins.volume_binding.volume_index import volume_selector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import CompiledNodeSelector, CSIStorageCapacity
    from pyscheduler.framework import Lister, Nodes
    from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache
    from pyscheduler.plugins.volume_binding.provisioning import Provisioning
    from pyscheduler.plugins.volume_binding.volume_index import VolumeIndex

__all__ = ["MIGRATED", "Choice", "Placement", "World", "is_migrated", "reached_by_csi"]

#: Why a node cannot have the pod, a bit each; users read the reasons in this order.
_UNREACHED, _NO_VOLUME, _NO_ROOM, _LOST = 1, 2, 4, 8
_REASONS: Final = {
    _UNREACHED: "node(s) didn't match PersistentVolume's node affinity",
    _NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    _NO_ROOM: "node(s) did not have enough free storage",
    _LOST: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
#: On a CSINode: the built-in drivers, separated by commas, whose disks CSI serves there.
MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"


@attrs.frozen
class World:
    """The inputs of a placement."""

    volumes: AssumeCache[PersistentVolume]
    index: VolumeIndex
    csi_nodes: Lister[CSINode]
    provisioning: Provisioning


@attrs.frozen
class Choice:
    """The actions on one node: volumes to take, by claim, and claims for which one is to be made."""

    bindings: tuple[tuple[PersistentVolumeClaim, PersistentVolume], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()


def is_migrated(kind: DiskKind, csi_node: CSINode | None) -> bool:
    """Return whether CSI serves disks of a kind from before CSI on that node."""
    return csi_node is not None and kind.plugin in csi_node.annotations.get(MIGRATED, "").split(",")


def reached_by_csi(volume: PersistentVolume) -> CompiledNodeSelector | None:
    """Return which nodes reach a volume by CSI, though it is of a kind from before it; None for all.

    Raises `MigrationError` where it has no equivalent.
    """
    try:
        return volume_selector(translated_affinity(volume))
    except MigrationError as error:
        raise MigrationError(f"could not translate pv: {error}") from error


class Placement:
    """One pod's claims in one scheduling cycle; everything is found out when first asked for, then kept."""

    def __init__(self, claims: PodClaims, world: World) -> None:
        self.claims = claims
        self._world = world
        self._changes = world.index.changes
        #: Whether some node could not be judged.
        self.has_failed = False

    @property
    def is_current(self) -> bool:
        """Return whether the volumes are those that it was worked out from."""
        return self._changes == self._world.index.changes

    @cached_property
    def _to_match(self) -> Sequence[PersistentVolumeClaim]:
        """Claims that look for a volume, the smallest first."""
        free = [claim for claim in self.claims.waiting if SELECTED_NODE not in claim.annotations]
        return sorted(free, key=requested_storage)

    @cached_property
    def _promised(self) -> Sequence[PersistentVolumeClaim]:
        """Claims for which a volume is being made already, for a certain node."""
        return [claim for claim in self.claims.waiting if SELECTED_NODE in claim.annotations]

    @cached_property
    def _candidates(self) -> Sequence[Candidates]:
        return [find_candidates(claim, self._world.index, self._world.volumes) for claim in self._to_match]

    def judge(self, nodes: Nodes) -> NodeStatuses | None:
        """Return why nodes cannot have the pod; raise `PySchedulerError` for claims and classes that make no sense."""
        statuses = NodeStatuses(len(nodes))
        flags = np.zeros(len(nodes), dtype=np.int8)
        self._judge_bound(nodes, flags, statuses)
        if self.claims.waiting:
            self._judge_waiting(nodes, flags)
        for mix in np.unique(flags).tolist():
            if mix:
                reasons = (reason for bit, reason in _REASONS.items() if mix & bit)
                statuses.fail(flags == mix, Status.unresolvable(*reasons))
        return statuses

    def choose(self, labels: Mapping[str, str]) -> Choice:
        """Return what to do on a node with these labels that was found fit."""
        bindings, provisions = [], list(self._promised)
        for claim, volume in zip(self._to_match, self._greedy(labels), strict=True):
            if volume is None:
                provisions.append(claim)
            else:
                bindings.append((claim, volume))
        return Choice(tuple(bindings), tuple(provisions))

    def room_for(self, claim: PersistentVolumeClaim, node: Nodes) -> CSIStorageCapacity | None:
        """Return the capacity that a volume for `claim` would be taken from, on the node of a view of one."""
        storage_class = self._world.provisioning.class_of(claim)
        return self._world.provisioning.room_at(claim, storage_class, node) if storage_class is not None else None

    # Bound claims

    def _judge_bound(self, nodes: Nodes, flags: NDArray[np.int8], statuses: NodeStatuses) -> None:
        """Judge the bound claims in turn; a node's first that is wrong says what is."""
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for claim in self.claims.bound:
            volume = self._world.volumes.get(claim.spec.volume_name)
            if volume is None:
                flags[undecided] |= _LOST
                return
            reached = self._reached(volume, nodes, undecided, statuses)
            if reached is not None:
                flags[undecided & ~reached] |= _UNREACHED
                undecided &= reached

    def _reached(
        self, volume: PersistentVolume, nodes: Nodes, undecided: NDArray[np.bool_], statuses: NodeStatuses
    ) -> NDArray[np.bool_] | None:
        """Return bool[n]: which nodes reach a volume; None for all."""
        plain = _matches(volume_selector(volume.spec.node_affinity), nodes)
        kind = disk_kind(volume.spec)
        if kind is None or not kind.served_by_csi or not len(self._world.csi_nodes):
            return plain
        try:
            by_csi = _matches(reached_by_csi(volume), nodes)
        except PySchedulerError as error:
            migrated = self._migrated(kind, nodes, undecided)
            statuses.fail(migrated, Status.from_error(error))
            self.has_failed |= bool(migrated.any())
            return plain
        if plain is by_csi is None:
            return None
        one, other = (np.ones(len(nodes), dtype=np.bool_) if mask is None else mask for mask in (plain, by_csi))
        # Nodes are looked at one by one only where it makes a difference; as a rule they bear both kinds of label.
        return np.where(self._migrated(kind, nodes, undecided & (one != other)), other, one)

    def _migrated(self, kind: DiskKind, nodes: Nodes, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[n]: on which nodes of those `among` CSI serves that kind of disk."""
        found = np.zeros(len(nodes), dtype=np.bool_)
        for row in np.flatnonzero(among).tolist():
            found[row] = is_migrated(kind, self._world.csi_nodes.get(nodes.name(row)))
        return found

    # Waiting claims

    def _judge_waiting(self, nodes: Nodes, flags: NDArray[np.int8]) -> None:
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for claim in self._promised:
            here = np.zeros(len(nodes), dtype=np.bool_)
            row = nodes.index(claim.annotations[SELECTED_NODE])
            if row is not None:
                here[row] = True
            undecided &= here
        flags[~undecided] |= _NO_VOLUME
        everywhere = np.ones(len(nodes), dtype=np.bool_)
        needs = [(claim, everywhere) for claim in self._promised]
        needs += zip(self._to_match, self._unmatched(nodes), strict=True)
        for claim, needed in needs:
            asking = undecided & needed
            if not asking.any():
                continue
            refused = self._cannot_make(claim, nodes, asking, flags)
            undecided &= ~refused

    def _cannot_make(
        self, claim: PersistentVolumeClaim, nodes: Nodes, asking: NDArray[np.bool_], flags: NDArray[np.int8]
    ) -> NDArray[np.bool_]:
        """Return bool[n]: for which of the nodes `asking` no volume can be made; note in `flags` why."""
        provisioning = self._world.provisioning
        storage_class = provisioning.class_of(claim)
        if storage_class is None:
            flags[asking] |= _NO_VOLUME
            return asking
        outside = asking & ~provisioning.allowed(storage_class, nodes)
        flags[outside] |= _NO_VOLUME
        room = provisioning.has_room(claim, storage_class, nodes)
        if room is None:
            return outside
        full = asking & ~outside & ~room
        flags[full] |= _NO_ROOM
        return outside | full

    def _unmatched(self, nodes: Nodes) -> Sequence[NDArray[np.bool_]]:
        """Return, for each claim that looks for a volume, bool[n]: on which nodes it finds none."""
        candidates = self._candidates
        groups = {id(each.group) for each in candidates if not each.group.is_empty}
        is_alone = len({claim.key for claim in self._to_match}) == len(candidates)
        if is_alone and len(groups) == sum(not each.group.is_empty for each in candidates):
            return [~each.reachable(nodes) for each in candidates]
        labels = sorted({label for each in candidates for label in each.labels})
        columns = [nodes.labels(label) for label in labels]
        if not columns:
            found = self._greedy({})
            return [np.full(len(nodes), each is None) for each in found]
        ids = np.stack([column.ids for column in columns], axis=1)
        distinct, rows = np.unique(ids, axis=0, return_inverse=True)
        table = np.empty((len(distinct), len(candidates)), dtype=np.bool_)
        for number, mix in enumerate(distinct.tolist()):
            values = {label: column.values[id_] for label, column, id_ in zip(labels, columns, mix, strict=True)}
            there = {label: value for label, value in values.items() if value is not None}
            table[number] = [each is None for each in self._greedy(there)]
        return list(table[rows.reshape(-1)].T)

    def _greedy(self, labels: Mapping[str, str]) -> Sequence[PersistentVolume | None]:
        """Return the volume that each claim takes on a node with these labels."""
        taken: set[str] = set()
        found = []
        for candidates in self._candidates:
            volume = candidates.first(labels, taken)
            if volume is not None:
                taken.add(volume.name)
            found.append(volume)
        return found


def _matches(selector: CompiledNodeSelector | None, nodes: Nodes) -> NDArray[np.bool_] | None:
    return match_node_selector(selector, nodes) if selector is not None else None
