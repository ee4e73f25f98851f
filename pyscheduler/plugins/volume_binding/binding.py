"""Carry out the choice of volumes: Reserve stores it in memory, PreBind writes it and waits, Unreserve forgets it.

PreBind writes the claim's name into a volume, or the node's name into a claim. Then it waits until
Kubernetes' controllers have bound the claim.
Source: kube-scheduler 1.36, `volumebinding/binder.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import msgspec

from kube_objects.csi_migration import MigrationError, disk_kind
from kube_objects.meta import is_older
from pyscheduler.api import CSINode, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from pyscheduler.framework import PySchedulerError
from pyscheduler.plugins.volume_binding.candidates import is_promised
from pyscheduler.plugins.volume_binding.claims import SELECTED_NODE, is_bound
from pyscheduler.plugins.volume_binding.placement import is_migrated, reached_by_csi
from pyscheduler.plugins.volume_binding.volume_index import volume_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Handle
    from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache
    from pyscheduler.plugins.volume_binding.placement import Choice

__all__ = ["Binder", "BindingError", "Reservation"]

#: On a volume: its claim was found for it, and not named by whoever made it.
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: So often it is looked whether everything is bound.
_POLL_SECONDS: Final = 1.0


class BindingError(PySchedulerError):
    """Report that volumes were not bound: in time, or at all; the pod is tried again."""


@attrs.define
class _Taken:
    """A volume for a claim: what is to be written, if anything, and the volume as it is assumed, later as written."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    patch: Mapping[str, object] | None


@attrs.define
class Reservation:
    """The assumed volumes and claims of one pod."""

    taken: list[_Taken] = attrs.Factory(list)
    #: Claims for which volumes are to be provisioned, as they are assumed, later as they are written.
    made: list[PersistentVolumeClaim] = attrs.Factory(list)


class Binder:
    """Carries out choices through the client of `handle`."""

    def __init__(
        self,
        handle: Handle,
        volumes: AssumeCache[PersistentVolume],
        claims: AssumeCache[PersistentVolumeClaim],
        *,
        timeout_seconds: float,
    ) -> None:
        self._handle = handle
        self._volumes = volumes
        self._claims = claims
        self._timeout_seconds = timeout_seconds
        self._pods = handle.lister(Pod)
        self._nodes = handle.lister(Node)
        self._csi_nodes = handle.lister(CSINode)

    def assume(self, choice: Choice, node_name: str) -> Reservation:
        """Let the choice be true for the pods that follow; raise `OutOfSyncError`, with nothing assumed."""
        reserved = Reservation()
        try:
            for claim, volume in choice.bindings:
                taken = _take(volume, claim)
                if taken.patch is not None:
                    self._volumes.assume(volume, taken.volume)
                reserved.taken.append(taken)
            # A pod may have one claim twice.
            for claim in {claim.key: claim for claim in choice.provisions}.values():
                annotations = {**claim.annotations, SELECTED_NODE: node_name}
                metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
                assumed = msgspec.structs.replace(claim, metadata=metadata)
                self._claims.assume(claim, assumed)
                reserved.made.append(assumed)
        except PySchedulerError:
            self.revert(reserved)
            raise
        return reserved

    def revert(self, reserved: Reservation) -> None:
        """Take back what was assumed and has not been written; idempotent."""
        for taken in reserved.taken:
            self._volumes.restore(taken.volume)
        for claim in reserved.made:
            self._claims.restore(claim)

    def assume_again(self, reserved: Reservation) -> None:
        """Undo `revert`, but for what has changed since."""
        for taken in reserved.taken:
            if taken.patch is not None:
                self._volumes.assume_again(taken.volume)
        for claim in reserved.made:
            self._claims.assume_again(claim)

    async def bind(self, pod: Pod, node_name: str, reserved: Reservation) -> None:
        """Write, and wait until everything is bound.

        Raises `APIError` or `TransportError` where a write fails, `ConflictError` where a volume or claim has changed
        since; `BindingError` where the binding was given up by others, or took longer than the timeout.
        """
        client = self._handle.client
        for taken in reserved.taken:
            if taken.patch is not None:
                taken.volume = await client.patch(PersistentVolume, taken.volume.name, patch=taken.patch)
        for place, claim in enumerate(reserved.made):
            patch = _versioned(claim, {SELECTED_NODE: node_name})
            written = await client.patch(PersistentVolumeClaim, claim.name, claim.namespace, patch=patch)
            reserved.made[place] = written
        clock = self._handle.clock
        deadline = clock.now() + self._timeout_seconds
        while True:
            left = deadline - clock.now()
            if left <= 0:
                raise BindingError("binding volumes: context deadline exceeded")
            await clock.sleep(min(_POLL_SECONDS, left))
            try:
                if self._is_done(pod, node_name, reserved):
                    return
            except PySchedulerError as error:
                raise BindingError(f"binding volumes: {error}") from error

    # Whether it is done

    def _is_done(self, pod: Pod, node_name: str, reserved: Reservation) -> bool:
        """Return whether all is bound; raise `PySchedulerError` where it never will be.

        Looks at what the API server says, not at what is assumed for others meanwhile.
        """
        node = self._nodes.get(node_name)
        if node is None:
            raise BindingError(f'failed to get node "{node_name}": node "{node_name}" not found')
        if self._pods.get(pod.name, pod.namespace) is None:
            raise BindingError(f'pod does not exist any more: pod "{pod.name}" not found')
        return all(self._is_taken(each, node) for each in reserved.taken) and all(
            self._is_made(each, node) for each in reserved.made
        )

    def _is_taken(self, taken: _Taken, node: Node) -> bool:
        name, claim = taken.volume.name, taken.claim
        volume = self._volumes.stored(name)
        if volume is None:
            raise BindingError(f'failed to check binding: persistentvolumes "{name}" not found')
        current = self._claims.stored(claim.name, claim.namespace)
        if current is None:
            raise BindingError(f'failed to check binding: persistentvolumeclaims "{claim.key}" not found')
        if is_older(volume.resource_version, taken.volume.resource_version):
            return False
        try:
            self._check_reach(volume, node)
        except MigrationError as error:
            raise BindingError(f"failed to translate pv to csi: {error}") from error
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise BindingError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(current)

    def _is_made(self, claim: PersistentVolumeClaim, node: Node) -> bool:
        current = self._claims.stored(claim.name, claim.namespace)
        if current is None:
            raise BindingError(f'failed to check provisioning pvc: persistentvolumeclaims "{claim.key}" not found')
        if is_older(current.resource_version, claim.resource_version):
            return False
        if not current.annotations:
            raise BindingError(f'selectedNode annotation reset for PVC "{current.name}"')
        if current.annotations.get(SELECTED_NODE) != node.name:
            # Who could not make the volume takes the node away again.
            raise BindingError(f'provisioning failed for PVC "{current.name}"')
        if current.spec.volume_name:
            volume = self._volumes.stored(current.spec.volume_name)
            if volume is None:
                return False  # the news of it may be under way
            self._check_reach(volume, node)
        return is_bound(current)

    def _check_reach(self, volume: PersistentVolume, node: Node) -> None:
        """Raise `BindingError` where the node does not reach the volume after all."""
        selector = volume_selector(volume.spec.node_affinity)
        kind = disk_kind(volume.spec)
        if kind is not None and kind.served_by_csi and is_migrated(kind, self._csi_nodes.get(node.name)):
            selector = reached_by_csi(volume)
        if selector is not None and not selector.matches(node.labels, ""):
            raise BindingError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": no matching NodeSelectorTerms'
            )


def _take(volume: PersistentVolume, claim: PersistentVolumeClaim) -> _Taken:
    """Return a volume with the name of the claim in it; nothing to write where it is there already."""
    reference = volume.spec.claim_ref
    wanted = ObjectReference(
        api_version=claim.api_version,
        kind=claim.kind,
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        resource_version=claim.resource_version,
    )
    is_named = reference is not None and (reference.namespace, reference.name, reference.uid) == (
        claim.namespace,
        claim.name,
        claim.uid,
    )
    added: dict[str, str] = {}
    if not is_promised(volume, claim) and _BOUND_BY_CONTROLLER not in volume.annotations:
        added = {_BOUND_BY_CONTROLLER: "yes"}
    if is_named and not added:
        return _Taken(claim, volume, None)
    metadata = msgspec.structs.replace(volume.metadata, annotations={**volume.annotations, **added})
    spec = msgspec.structs.replace(volume.spec, claim_ref=volume.spec.claim_ref if is_named else wanted)
    patch = _versioned(volume, added)
    if not is_named:
        patch["spec"] = {"claimRef": msgspec.to_builtins(wanted)}
    return _Taken(claim, msgspec.structs.replace(volume, metadata=metadata, spec=spec), patch)


def _versioned(item: KubeObject, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return a patch that adds annotations, and is refused where the object has changed."""
    metadata: dict[str, object] = {"resourceVersion": item.resource_version}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata}
