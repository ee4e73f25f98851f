"""Find the resource claims of a pod, and check whether the pod may use them.

Differs from kube-scheduler: a claim that a pod names twice counts once.
Source: kube-scheduler 1.36, `dynamic-resource-allocation/resourceclaim`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyscheduler.api import ResourceClaim, ResourceClaimConsumerReference
from pyscheduler.framework import PySchedulerError

if TYPE_CHECKING:
    from pyscheduler.api import Pod, PodResourceClaim

__all__ = ["FINALIZER", "MOST_CONSUMERS", "ClaimError", "Find", "consumer", "find_claims", "is_reserved_for"]

#: Keeps a claim from being deleted while devices are allocated to it.
FINALIZER: Final = "resource.kubernetes.io/delete-protection"

#: So many pods may use a claim; the API server accepts no more.
MOST_CONSUMERS: Final = 256

#: Returns the claim of a name in a namespace, None where there is none.
Find = Callable[[str, str], ResourceClaim | None]


class ClaimError(PySchedulerError):
    """Report a claim that keeps its pod waiting, in kube-scheduler's words."""


def find_claims(pod: Pod, find: Find) -> list[ResourceClaim]:
    """Return the pod's claims in its order, without those that turned out not to be needed; raise `ClaimError`."""
    claims = []
    for named in pod.spec.resource_claims:
        name, is_made = _name_of(pod, named)
        if name is None:
            continue
        claim = find(name, pod.namespace)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        owners = claim.metadata.owner_references
        if is_made and not any(owner.controller and owner.uid == pod.uid for owner in owners):
            raise ClaimError(f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
        if claim not in claims:
            claims.append(claim)
    return claims


def _name_of(pod: Pod, named: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the name of a claim, None where none was needed, and whether it is made from a template."""
    if named.resource_claim_name is not None:
        return named.resource_claim_name, False
    if named.resource_claim_template_name is None:
        raise ClaimError(f'pod "{pod.key}", spec.resourceClaim "{named.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == named.name:
            return status.resource_claim_name, True
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether the pod is among those that may use the claim."""
    return any(reference.uid == pod.uid for reference in claim.status.reserved_for)


def consumer(pod: Pod) -> ResourceClaimConsumerReference:
    """Return how a claim names the pod among those that may use it."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
