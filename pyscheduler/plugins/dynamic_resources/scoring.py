"""The score of a node where requests have several ways to be satisfied: the higher, the earlier the way it offers.

Source: kube-scheduler 1.36, `dynamicresources` (KEP-4816).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import AllocationResult, ResourceClaim

__all__ = ["score_allocations"]

#: So many ways a request may have.
_MOST_WAYS: Final = 8


def score_allocations(allocations: Iterable[tuple[ResourceClaim, AllocationResult]]) -> int:
    """Return the sum over all requests with several ways: 8 for the first of them, 1 for the eighth."""
    score = 0
    for claim, allocation in allocations:
        ways = [request for request in claim.spec.devices.requests if request.exactly is None]
        if not ways:
            continue
        taken = {result.request for result in allocation.devices.results}
        for request in ways:
            for place, way in enumerate(request.first_available):
                if f"{request.name}/{way.name}" in taken:
                    score += _MOST_WAYS - place
    return score
