"""The chain of owners of a pod, from the nearest owner to the top owner.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/podgrouper.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler_podgrouper.contract import ObjectForbiddenError, ObjectNotFoundError, Owner
from pyscheduler_podgrouper.fields import GroupingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import OwnerReference, Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = ["OwnersError", "find_owners"]


class OwnersError(GroupingError):
    """The owners of a pod cannot be determined; no error if the pod is being deleted."""


def find_owners(pod: Pod, lookup: Lookup) -> tuple[Owner, Sequence[Owner]]:
    """Return the top owner, and all owners from the nearest to the top owner; none if the pod is the top owner.

    An owner that may not be read ends the chain below it. Raises `OwnersError` for an owner with several owners, an
    owner that does not exist, and one that was deleted and created again.
    """
    chain: list[Owner] = []
    references: Sequence[OwnerReference] = pod.metadata.owner_references[:1]
    while references:
        reference = references[0]
        where = f"{reference.kind}: <{pod.namespace}/{reference.name}>, uid: <{reference.uid}>"
        try:
            owner = lookup.get(reference.api_version, reference.kind, reference.name, pod.namespace)
        except ObjectForbiddenError:
            break
        except ObjectNotFoundError as error:
            raise OwnersError(f"failed to find {where}: {error}") from error
        if owner.uid != reference.uid:
            raise OwnersError(f"failed to find {where}: Owner resource with uid {reference.uid} not found")
        if any(each.uid == owner.uid for each in chain):
            raise OwnersError(f"failed to find the top owner of {where}: it owns itself")
        chain.append(owner)
        references = owner.owner_references
        if len(references) > 1:
            named = ", ".join(f"{each.kind}/{each.name}" for each in references)
            raise OwnersError(
                f"found {owner.kind} <{owner.name} in namespace {pod.namespace}> with multiple owners: {named}"
            )
    return (chain[-1], chain) if chain else (Owner.from_object(pod), ())
