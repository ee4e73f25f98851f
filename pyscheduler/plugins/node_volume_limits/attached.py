"""The volumes attached to each node, and how many more its CSI drivers can attach."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyscheduler.api import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from pyscheduler.framework import PySchedulerError, Status
from pyscheduler.framework.node_memo import NodeMemo
from pyscheduler.plugins.node_volume_limits.volumes import AttachableVolumes, unique_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.framework import Handle, NodeInfo, Nodes

__all__ = ["Attached", "Room"]

#: By driver, how many more volumes can be attached (below zero where there are too many); a driver without a limit is
#: not in it. A Status where a pod on the node has volumes that cannot be told.
Room: TypeAlias = "frozenset[tuple[str, int]] | Status"


class Attached:
    """The room on each node, kept up to date through the listers of `handle`."""

    def __init__(self, handle: Handle, volumes: AttachableVolumes) -> None:
        self._volumes = volumes
        self._csi_nodes = handle.lister(CSINode)
        self._memo: NodeMemo[Room] = NodeMemo(self._room_on, self._forget)
        #: What each generation's answer was made of, and the generations that each such thing is part of. What is made
        #: of it: ("use", name) stands for a volume that a pod there uses.
        self._sources: dict[int, set[tuple[str, str]]] = {}
        self._generations: dict[tuple[str, str], set[int]] = {}
        #: Attachments by node and name.
        self._attachments: dict[str, dict[str, VolumeAttachment]] = {}
        self._follow(handle)

    def rooms(self, nodes: Nodes) -> tuple[NDArray[np.int32], list[Room]]:
        """Return int32[n] and a table: `table[ids[row]]` is the room on the node of that row."""
        return self._memo.ids(nodes), self._memo.values

    def using(self, names: Iterable[str]) -> dict[int, frozenset[str]]:
        """Return, by node generation, which of the volumes called `names` pods of that node use already."""
        found: dict[int, set[str]] = {}
        for name in names:
            for generation in self._generations.get(("use", name), ()):
                found.setdefault(generation, set()).add(name)
        return {generation: frozenset(used) for generation, used in found.items()}

    def _room_on(self, node: NodeInfo) -> Room:
        csi = self._csi_nodes.get(node.name)
        limits = {
            driver.name: driver.allocatable.count
            for driver in (csi.spec.drivers if csi is not None else ())
            if driver.allocatable is not None and driver.allocatable.count is not None
        }
        sources = {("node", node.name)}
        room: Room = frozenset()
        if limits:
            try:
                attached = self._attached_to(node, sources)
            except PySchedulerError as error:
                room = Status.from_error(error)
            else:
                for driver in attached.values():
                    if driver in limits:
                        limits[driver] -= 1
                room = frozenset(limits.items())
        self._remember(node.generation, sources)
        return room

    def _attached_to(self, node: NodeInfo, sources: set[tuple[str, str]]) -> dict[str, str]:
        """Return the driver of each volume on a node with CSI, by unique name; note in `sources` where that is from."""
        used: dict[str, str] = {}
        for info in node.pods:
            if info.has_storage:
                used.update(self._volumes.of(info.pod, has_csi=True, is_new=False, sources=sources))
        sources.update(("use", name) for name in used)
        for attachment in self._attachments.get(node.name, {}).values():
            attacher, name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            if not attacher or name is None:
                continue
            sources.add(("volume", name))
            volume = self._volumes.volumes.get(name)
            if volume is not None and volume.spec.csi is not None:
                used[unique_name(attacher, volume.spec.csi.volume_handle)] = attacher
        return used

    # Keeping up

    def _follow(self, handle: Handle) -> None:
        self._csi_nodes.add_event_handler(
            on_add=self._csi_node_changed, on_update=self._csi_node_changed, on_delete=self._csi_node_changed
        )
        handle.lister(PersistentVolumeClaim).add_event_handler(
            on_add=lambda new: self._changed("claim", new.key),
            on_update=self._claim_changed,
            on_delete=lambda old: self._changed("claim", old.key),
        )
        handle.lister(PersistentVolume).add_event_handler(
            on_add=lambda new: self._changed("volume", new.name),
            on_update=self._volume_changed,
            on_delete=lambda old: self._changed("volume", old.name),
        )
        # There are few classes, and they hardly ever change.
        handle.lister(StorageClass).add_event_handler(
            on_add=self._class_changed, on_update=self._class_changed, on_delete=self._class_changed
        )
        handle.lister(VolumeAttachment).add_event_handler(
            on_add=self._attach, on_update=self._attach_again, on_delete=self._detach
        )

    def _csi_node_changed(self, *nodes: CSINode) -> None:
        self._changed("node", nodes[-1].name)

    def _class_changed(self, *_: StorageClass) -> None:
        self._memo.clear()

    def _claim_changed(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        # Most updates of a claim concern its status, which counts for nothing here.
        if (
            old.spec != new.spec
            or old.metadata.owner_references != new.metadata.owner_references
            or (old.annotations != new.annotations)
        ):
            self._changed("claim", new.key)

    def _volume_changed(self, old: PersistentVolume, new: PersistentVolume) -> None:
        if old.spec != new.spec or old.labels != new.labels:
            self._changed("volume", new.name)

    def _attach(self, attachment: VolumeAttachment) -> None:
        node = attachment.spec.node_name
        self._attachments.setdefault(node, {})[attachment.name] = attachment
        self._changed("node", node)

    def _attach_again(self, old: VolumeAttachment, new: VolumeAttachment) -> None:
        # That a volume is attached by now, as the status tells, changes nothing: it counted before.
        if old.spec != new.spec:
            self._detach(old)
            self._attach(new)

    def _detach(self, attachment: VolumeAttachment) -> None:
        node = attachment.spec.node_name
        there = self._attachments.get(node, {})
        there.pop(attachment.name, None)
        if not there:
            self._attachments.pop(node, None)
        self._changed("node", node)

    def _changed(self, kind: str, key: str) -> None:
        generations = self._generations.get((kind, key))
        if generations:
            self._memo.discard(tuple(generations))

    def _remember(self, generation: int, sources: set[tuple[str, str]]) -> None:
        self._sources[generation] = sources
        for source in sources:
            self._generations.setdefault(source, set()).add(generation)

    def _forget(self, generation: int) -> None:
        for source in self._sources.pop(generation, ()):
            generations = self._generations[source]
            generations.discard(generation)
            if not generations:
                del self._generations[source]
