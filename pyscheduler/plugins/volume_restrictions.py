"""VolumeRestrictions: reject nodes if another pod uses a volume that only one pod may use.

Source: kube-scheduler 1.36, `volumerestrictions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

import attrs
import numpy as np

from pyscheduler.api import PersistentVolumeClaim, Pod, kind_of
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    QueueingHint,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.node_memo import NodeMemo
from pyscheduler.framework.signatures import sign_volumes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyscheduler.api import ResourceKind

__all__ = ["VolumeRestrictions"]

_DISK_CONFLICT: Final = Status.unschedulable("node(s) had no available disk")
_CLAIM_IN_USE: Final = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_SINGLE: Final = "ReadWriteOncePod"
#: How many users of disks and claims a text names.
_NAMED: Final = 5


class _Disk(NamedTuple):
    """A disk that a pod names itself; two clash where they share an identity, unless both only read.

    A Ceph image has an identity for each of its monitors.
    """

    identities: frozenset[tuple[str, ...]]
    read_only: bool

    def clashes(self, other: _Disk) -> bool:
        return not (self.read_only and other.read_only) and not self.identities.isdisjoint(other.identities)


@attrs.define
class _State:
    """The pod's disks, its claims that one pod may use, and how many uses of those there are already."""

    disks: frozenset[_Disk]
    claims: frozenset[str]
    uses: int

    def clone(self) -> _State:
        return attrs.evolve(self)

    def count(self, pod: Pod, sign: int) -> None:
        # As in kube-scheduler, a claim of that name in another namespace counts, too.
        self.uses += sign * sum(name in self.claims for name in _claim_names(pod))


_STATE: Final[StateKey[_State]] = StateKey("PreFilterVolumeRestrictions")


class VolumeRestrictions(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes where a disk of the pod is mounted already, and all nodes while a claim of its is in use."""

    watches: ClassVar[Sequence[ResourceKind]] = (kind_of(PersistentVolumeClaim, "persistentvolumeclaims"),)

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = handle.lister(PersistentVolumeClaim)
        self._mounted: NodeMemo[frozenset[_Disk]] = NodeMemo(
            lambda node: frozenset(disk for info in node.pods if info.has_storage for disk in _disks_of(info.pod))
        )

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        if not pod.spec.volumes:
            return Status.skip()
        claims = set()
        for name in _claim_names(pod):
            claim = self._claims.get(name, pod.namespace)
            if claim is None:
                return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
            if _SINGLE in claim.spec.access_modes:
                claims.add(name)
        snapshot = self.handle.snapshot
        uses = sum(snapshot.pvc_in_use(f"{pod.namespace}/{name}") for name in claims)
        disks = frozenset(_disks_of(pod))
        if not disks and not uses:
            return Status.skip()
        state.write(_STATE, _State(disks, frozenset(claims), uses))
        return None

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        """Count a pod in that a what-if puts on a node."""
        state.read(_STATE).count(to_add.pod, 1)
        return None

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        """Count a pod out that a what-if takes off a node."""
        state.read(_STATE).count(to_remove.pod, -1)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        asked = state.read(_STATE)
        statuses = NodeStatuses(len(nodes))
        if asked.disks:
            ids = self._mounted.ids(nodes)
            clashes = [
                any(ours.clashes(theirs) for ours in asked.disks for theirs in disks) for disks in self._mounted.values
            ]
            taken = np.array(clashes, dtype=np.bool_)[ids]
            if taken.any():
                statuses.fail(taken, _DISK_CONFLICT)
        if asked.uses > 0:  # in Filter, not in PreFilter, so that preemption can evict the other pod
            statuses.fail(np.ones(len(nodes), dtype=np.bool_), _CLAIM_IN_USE)
        return statuses

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        single = {name for name in _claim_names(pod) if self._is_single(name, pod.namespace)}
        disks = frozenset(_disks_of(pod))
        texts = []
        for node in self.handle.snapshot.nodes:
            for info in node.pods:
                other = info.pod
                if other.namespace == pod.namespace:
                    shared = sorted(single.intersection(_claim_names(other)))
                    texts += [f"claim {pod.namespace}/{name} is used by {other.key} on {node.name}" for name in shared]
                for theirs in _disks_of(other):
                    for ours in disks:
                        if ours.clashes(theirs):
                            names = sorted("/".join(each) for each in ours.identities & theirs.identities)
                            texts.append(f"disk {names[0]} is mounted by {other.key} on {node.name}")
        more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
        return "; ".join(texts[:_NAMED]) + more

    def _is_single(self, name: str, namespace: str) -> bool:
        """Return True if only one pod of the cluster may use the claim."""
        claim = self._claims.get(name, namespace)
        return claim is not None and _SINGLE in claim.spec.access_modes

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_volumes(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE), self.after_pod_deleted),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),
            ClusterEventWithHint(
                ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), self.after_claim_added
            ),
        )

    def after_pod_deleted(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a pod of the same namespace went that had a disk or a claim of this pod's."""
        assert isinstance(old, Pod)
        if old.namespace != pod.namespace:
            return QueueingHint.SKIP
        freed = list(_disks_of(old))
        if any(ours.clashes(theirs) for ours in _disks_of(pod) for theirs in freed):
            return QueueingHint.QUEUE
        shared = not set(_claim_names(pod)).isdisjoint(_claim_names(old))
        return QueueingHint.QUEUE if shared else QueueingHint.SKIP

    def after_claim_added(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a claim of the pod's was made."""
        assert isinstance(new, PersistentVolumeClaim)
        uses = new.namespace == pod.namespace and new.name in _claim_names(pod)
        return QueueingHint.QUEUE if uses else QueueingHint.SKIP


def _claim_names(pod: Pod) -> Iterator[str]:
    """Yield the claims that the pod names; those of ephemeral volumes are used by one pod anyway."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def _disks_of(pod: Pod) -> Iterator[_Disk]:
    for volume in pod.spec.volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            yield _Disk(frozenset({("gce", gce.pd_name)}), gce.read_only)
        if (aws := volume.aws_elastic_block_store) is not None:
            # Reading does not help: an Amazon disk is attached to one pod at a time.
            yield _Disk(frozenset({("aws", aws.volume_id)}), read_only=False)
        if (iscsi := volume.iscsi) is not None:
            yield _Disk(frozenset({("iscsi", iscsi.iqn)}), iscsi.read_only)
        if (rbd := volume.rbd) is not None:
            identities = frozenset(("rbd", monitor, rbd.pool, rbd.image) for monitor in rbd.monitors)
            yield _Disk(identities, rbd.read_only)
