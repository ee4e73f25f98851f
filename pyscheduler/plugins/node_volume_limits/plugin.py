"""NodeVolumeLimits at each extension point. Source: kube-scheduler 1.36, `nodevolumelimits`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pyscheduler.api import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
    kind_of,
)
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
    PySchedulerError,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.signatures import sign_volumes
from pyscheduler.plugins.node_volume_limits import hints
from pyscheduler.plugins.node_volume_limits.attached import Attached, Room
from pyscheduler.plugins.node_volume_limits.volumes import AttachableVolumes, ClaimMissingError, uses_volumes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import ResourceKind

__all__ = ["NodeVolumeLimits"]

_REJECTION: Final = Status.unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes whose CSI drivers cannot attach the pod's volumes besides those that are attached already."""

    watches: ClassVar[Sequence[ResourceKind]] = (
        kind_of(PersistentVolumeClaim, "persistentvolumeclaims"),
        kind_of(PersistentVolume, "persistentvolumes", namespaced=False),
        kind_of(StorageClass, "storageclasses", namespaced=False),
        kind_of(CSINode, "csinodes", namespaced=False),
        kind_of(CSIDriver, "csidrivers", namespaced=False),
        kind_of(VolumeAttachment, "volumeattachments", namespaced=False),
    )

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._csi_nodes = handle.lister(CSINode)
        self._drivers = handle.lister(CSIDriver)
        self._volumes = AttachableVolumes(
            handle.lister(PersistentVolumeClaim), handle.lister(PersistentVolume), handle.lister(StorageClass)
        )
        self._attached = Attached(handle, self._volumes)
        self._must_be_installed = handle.feature_gates.get("VolumeLimitScaling", False)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        return None if uses_volumes(pod) else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        try:
            # What counts on a node without CSI, and what counts on one that has it: disks from before CSI, too.
            plain = self._volumes.of(pod, has_csi=False, is_new=True)
        except ClaimMissingError as error:
            return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), Status.unresolvable(str(error)))
        except PySchedulerError as error:
            return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), Status.from_error(error))
        try:
            wanted = self._volumes.of(pod, has_csi=True, is_new=True)
        except PySchedulerError as error:
            return NodeStatuses.failing(self._have_csi(nodes), Status.from_error(error))
        if not wanted:
            return None
        statuses = NodeStatuses(len(nodes))
        if self._must_be_installed:
            self._refuse_uninstalled(statuses, nodes, plain, wanted)
        self._refuse_full(statuses, nodes, wanted)
        return statuses

    def _refuse_full(self, statuses: NodeStatuses, nodes: Nodes, wanted: Mapping[str, str]) -> None:
        """Refuse the nodes that have no room for the volumes, by unique name and driver; a volume is attached once."""
        ids, rooms = self._attached.rooms(nodes)
        verdicts = [_verdict(room, wanted) for room in rooms]
        for verdict in {each for each in verdicts if each is not None}:
            statuses.fail(np.array([each == verdict for each in verdicts], dtype=np.bool_)[ids], verdict)
        used = self._attached.using(wanted)
        if not used:
            return
        generations = nodes.generations()
        for row in np.flatnonzero(np.isin(generations, np.fromiter(used, dtype=np.int64))).tolist():
            there = used[int(generations[row])]
            left = {name: driver for name, driver in wanted.items() if name not in there}
            if statuses.status(row) is _REJECTION and _verdict(rooms[ids[row]], left) is None:
                statuses.codes[row] = statuses.reason_ids[row] = 0

    def _refuse_uninstalled(
        self, statuses: NodeStatuses, nodes: Nodes, plain: Mapping[str, str], wanted: Mapping[str, str]
    ) -> None:
        """Refuse the nodes that lack a driver which says that its pods must not come then (VolumeLimitScaling)."""
        demanding = {
            driver
            for driver in wanted.values()
            if (known := self._drivers.get(driver)) is not None and known.spec.prevent_pod_scheduling_if_missing
        }
        for driver in sorted(demanding):
            lacks = np.ones(len(nodes), dtype=np.bool_)
            for row in range(len(nodes)):  # an alpha feature, off by default
                csi = self._csi_nodes.get(nodes.name(row))
                if csi is None:
                    lacks[row] = driver in plain.values()
                else:
                    lacks[row] = all(each.name != driver for each in csi.spec.drivers)
            if lacks.any():
                statuses.fail(lacks, Status.unschedulable(f"{driver} CSI driver is not installed on the node"))

    def _have_csi(self, nodes: Nodes) -> NDArray[np.bool_]:
        """Return bool[n]: which nodes have a CSINode; asked only where a disk of the pod has no equivalent in CSI."""
        have = [self._csi_nodes.get(nodes.name(row)) is not None for row in range(len(nodes))]
        return np.array(have, dtype=np.bool_)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        try:
            wanted = Counter(self._volumes.of(pod, has_csi=True, is_new=True).values())
        except PySchedulerError:
            return ""  # the status says which claim or volume cannot be read
        ids, rooms = self._attached.rooms(nodes)
        texts = []
        for driver, count in wanted.items():
            left = {
                row: dict(room).get(driver)
                for row in range(len(nodes))
                if not isinstance(room := rooms[ids[row]], Status)
            }
            known = {row: number for row, number in left.items() if number is not None}
            if all(count <= number for number in known.values()):
                continue
            best = max(known, key=lambda row: known[row])
            text = f"{count} volume{'' if count == 1 else 's'} of {driver}"
            text += f"; most attachable {max(known[best], 0)} on {nodes.name(best)}"
            largest = max(self._limits(driver), default=0)
            text += f", largest limit {largest}"
            texts.append(f"{text}: never fits" if count > largest else text)
        return "; ".join(texts)

    def _limits(self, driver: str) -> Iterator[int]:
        """Yield how many volumes of a driver each node with a limit can attach."""
        for node in self._csi_nodes:
            for each in node.spec.drivers:
                if each.name == driver and each.allocatable is not None and each.allocatable.count is not None:
                    yield each.allocatable.count

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_volumes(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.CSI_NODE, ActionType.ADD)),
            ClusterEventWithHint(ClusterEvent(EventResource.CSI_NODE, ActionType.UPDATE), hints.after_csi_node_update),
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE), hints.after_pod_deleted),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), hints.after_claim_added
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE), hints.after_attachment_deleted
            ),
        )


def _verdict(room: Room, wanted: Mapping[str, str]) -> Status | None:
    """Return why a node with that room cannot take the volumes, given by unique name and driver."""
    if isinstance(room, Status):
        return room
    left = dict(room)
    for driver, count in Counter(wanted.values()).items():
        if driver in left and count > left[driver]:
            return _REJECTION
    return None
