"""The claims of a pod in three groups: bound, to be bound by the scheduler, to be bound by Kubernetes' controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.claims import claim_class, claims_of, ownership_error
from pyscheduler.api import PersistentVolumeClaim, Pod, StorageClass
from pyscheduler.framework import PySchedulerError

if TYPE_CHECKING:
    from pyscheduler.framework import Lister
    from pyscheduler.plugins.volume_binding.assume_cache import AssumeCache

__all__ = ["SELECTED_NODE", "ClaimError", "PodClaims", "claim_problem", "is_bound", "sort_claims"]

#: On a claim: the controller has completed its binding.
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: On a claim: the node for which a volume is to be made.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"


class ClaimError(PySchedulerError):
    """Report claims that cannot be judged; the pod is tried again."""


@attrs.frozen
class PodClaims:
    """A pod's claims by what is to be done about them, in the order of its volumes."""

    bound: tuple[PersistentVolumeClaim, ...] = ()
    #: To be bound to a volume that suits the node, or to have one made.
    waiting: tuple[PersistentVolumeClaim, ...] = ()
    #: To be bound by the controller, before any pod is scheduled.
    immediate: tuple[PersistentVolumeClaim, ...] = ()


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim has its volume, and the controller is done with both."""
    return bool(claim.spec.volume_name) and _BIND_COMPLETED in claim.annotations


def claim_problem(pod: Pod, claims: Lister[PersistentVolumeClaim]) -> str | None:
    """Return why the pod has to wait whatever node it might go to; None where its claims are there and in order."""
    for named in claims_of(pod):
        claim = claims.get(named.name, pod.namespace)
        if claim is None:
            if named.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{named.name}"'
            return f'persistentvolumeclaim "{named.name}" not found'
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume '
                f'"{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        foreign = ownership_error(pod, claim) if named.ephemeral else None
        if foreign is not None:
            return foreign
    return None


def sort_claims(pod: Pod, claims: AssumeCache[PersistentVolumeClaim], classes: Lister[StorageClass]) -> PodClaims:
    """Sort the claims of `pod`; raise `ClaimError` where one is not there, is another's, or has a class without mode.

    A claim that names a volume counts as bound by others, even where its class waits for pods.
    """
    bound, waiting, immediate = [], [], []
    for named in claims_of(pod):
        claim = claims.get(named.name, pod.namespace)
        if claim is None:
            key = f"{pod.namespace}/{named.name}"
            raise ClaimError(f'error getting PVC "{key}": persistentvolumeclaims "{key}" not found')
        foreign = ownership_error(pod, claim) if named.ephemeral else None
        if foreign is not None:
            raise ClaimError(foreign)
        if is_bound(claim):
            bound.append(claim)
        elif _waits_for_pod(claim, classes) and not claim.spec.volume_name:
            waiting.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(waiting), tuple(immediate))


def _waits_for_pod(claim: PersistentVolumeClaim, classes: Lister[StorageClass]) -> bool:
    name = claim_class(claim)
    found = classes.get(name) if name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        raise ClaimError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return found.volume_binding_mode == "WaitForFirstConsumer"
