"""VolumeZone: reject nodes outside the zone or region of the pod's volumes.

Source: kube-scheduler 1.36, `volumezone`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import numpy as np

from kube_objects.claims import claim_class
from kube_objects.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from pyscheduler.api import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, kind_of
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    PreFilterPlugin,
    PreFilterResult,
    QueueingHint,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.signatures import sign_volumes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import ResourceKind
    from pyscheduler.framework.nodes import LabelColumn

__all__ = ["VolumeZone"]

_REJECTION: Final = Status.unresolvable("node(s) had no available volume zone")
_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
#: What a node may bear instead of an old label.
_SUCCESSORS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
_WAIT: Final = "WaitForFirstConsumer"


class _ZoneLabel(NamedTuple):
    """A zone or region label of a volume: its key, and the values of which a node must have one."""

    label: str
    values: frozenset[str]


_STATE: Final[StateKey[tuple[_ZoneLabel, ...]]] = StateKey("PreFilterVolumeZone")


class VolumeZone(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes outside the zones and regions of the pod's volumes."""

    watches: ClassVar[Sequence[ResourceKind]] = (
        kind_of(PersistentVolumeClaim, "persistentvolumeclaims"),
        kind_of(PersistentVolume, "persistentvolumes", namespaced=False),
        kind_of(StorageClass, "storageclasses", namespaced=False),
    )

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        zones = self._zone_labels_of(pod)
        if isinstance(zones, Status):
            return zones
        if not zones:
            return Status.skip()
        state.write(_STATE, zones)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        zones = state.get(_STATE)
        if zones is None:
            # A profile may disable PreFilter of this plugin.
            found = self._zone_labels_of(pod)
            if isinstance(found, Status):
                return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), found)
            zones = found
        outside = np.zeros(len(nodes), dtype=np.bool_)
        for zone in dict.fromkeys(zones):
            outside |= ~_inside(zone, nodes)
        if not outside.any():
            return None
        placed = np.zeros(len(nodes), dtype=np.bool_)
        for label in _LABELS:
            placed |= nodes.labels(label).ids != 0
        return NodeStatuses.failing(outside & placed, _REJECTION)

    def _zone_labels_of(self, pod: Pod) -> tuple[_ZoneLabel, ...] | Status:
        """Return the zone labels of the pod's volumes, or why they are unknown."""
        zones: list[_ZoneLabel] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                return Status.unresolvable("PersistentVolumeClaim had no name")
            claim = self._claims.get(name, pod.namespace)
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if not claim.spec.volume_name:
                rejection = self._unbound(claim)
                if rejection is not None:
                    return rejection
                continue
            bound = self._volumes.get(claim.spec.volume_name)
            if bound is None:
                return Status.unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
            zones += _zone_labels(bound)
        return tuple(zones)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """Return why a claim without a volume is a reason to wait; None where it waits for its first consumer."""
        name = claim_class(claim)
        if not name:
            return Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        found = self._classes.get(name)
        if found is None:
            return Status.unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
        if found.volume_binding_mode is None:
            return Status.unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
        return None if found.volume_binding_mode == _WAIT else Status.unresolvable("PersistentVolume had no name")

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        everywhere = self.handle.snapshot.nodes
        texts = []
        for named in pod.spec.volumes:
            name = named.persistent_volume_claim.claim_name if named.persistent_volume_claim is not None else ""
            claim = self._claims.get(name, pod.namespace) if name else None
            if claim is None:
                continue
            volume = self._volumes.get(claim.spec.volume_name)
            for zone in _zone_labels(volume) if volume is not None else ():
                number = int(_inside(zone, everywhere).sum())
                where = f"{zone.label}={' or '.join(sorted(zone.values))}"
                there = f"{number} node{'' if number == 1 else 's'} there" if number else "no node there: never fits"
                texts.append(f"claim {pod.namespace}/{name}: volume {claim.spec.volume_name} is in {where}; {there}")
        return "; ".join(texts)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_volumes(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changes = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD), self.after_class_added),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
            ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, changes), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, changes), self.after_volume_change),
        )

    def after_class_added(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a class came that waits for first consumers."""
        assert isinstance(new, StorageClass)
        return QueueingHint.QUEUE if new.volume_binding_mode == _WAIT else QueueingHint.SKIP

    def after_claim_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a claim of the pod's was made or changed."""
        assert isinstance(new, PersistentVolumeClaim)
        uses = new.namespace == pod.namespace and any(
            each.persistent_volume_claim is not None and each.persistent_volume_claim.claim_name == new.name
            for each in pod.spec.volumes
        )
        return QueueingHint.QUEUE if uses else QueueingHint.SKIP

    def after_volume_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a volume came, or is somewhere else now."""
        assert isinstance(new, PersistentVolume)
        if isinstance(old, PersistentVolume) and _zone_labels(old) == _zone_labels(new):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _zone_labels(volume: PersistentVolume) -> list[_ZoneLabel]:
    """Return the zone labels of a volume; a label with an empty zone among its zones does not count."""
    zones = []
    for label in _LABELS:
        text = volume.labels.get(label)
        if text is None:
            continue
        values = frozenset(zone.strip() for zone in text.split(ZONE_DELIMITER))
        if "" not in values:
            zones.append(_ZoneLabel(label, values))
    return zones


def _inside(zone: _ZoneLabel, nodes: Nodes) -> NDArray[np.bool_]:
    """Return bool[n]: which nodes have one of the values, in that label or, where they lack it, in its successor."""
    column = nodes.labels(zone.label)
    inside = _has_one(zone.values, column)
    successor = _SUCCESSORS.get(zone.label)
    if successor is not None:
        inside |= (column.ids == 0) & _has_one(zone.values, nodes.labels(successor))
    return inside


def _has_one(values: frozenset[str], column: LabelColumn) -> NDArray[np.bool_]:
    found = np.zeros(len(column.ids), dtype=np.bool_)
    for value in values:
        number = column.id_of(value)
        if number >= 0:
            found |= column.ids == number
    return found
