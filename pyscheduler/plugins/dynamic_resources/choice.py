"""A pod's claims in one cycle: where those with devices can be used, and what the others would be given on each node.

Source: kube-scheduler 1.36, `dynamicresources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework import NodeStatuses, PySchedulerError, Status
from pyscheduler.framework.node_matching import match_node_selector
from pyscheduler.plugins.dynamic_resources.conditions import DeviceBindingError, has_timed_out, is_ready
from pyscheduler.plugins.dynamic_resources.errors import AllocationTimeoutError, NodeAllocationError
from pyscheduler.plugins.dynamic_resources.scoring import score_allocations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import AllocationResult, CompiledNodeSelector, Node, ResourceClaim
    from pyscheduler.framework import Nodes
    from pyscheduler.plugins.dynamic_resources.allocator import Allocator
    from pyscheduler.plugins.dynamic_resources.ledger import Promise

__all__ = ["Choice", "PodClaim"]

_NOTHING: Final = Status.unresolvable("cannot allocate all claims")
_ELSEWHERE: Final = Status.unresolvable("resourceclaim not available on the node")


@attrs.define(eq=False)
class PodClaim:
    """One of the claims: as it was when the cycle began, later as it was written."""

    claim: ResourceClaim
    #: Which nodes can use its devices, where it has some; None for all.
    nodes: CompiledNodeSelector | None = None
    #: What another member of the pod's group was promised for it in the same cycle.
    shared: AllocationResult | None = None
    #: What was promised to it at Reserve.
    promise: Promise | None = None

    @property
    def is_allocated(self) -> bool:
        """Whether the claim had devices when the cycle began, or has been given some since."""
        return self.claim.status.allocation is not None


@attrs.define(eq=False)
class Choice:
    """The claims, and what chooses devices for them. What-ifs share it, which find out the same."""

    claims: Sequence[PodClaim]
    #: None where nothing has to be allocated.
    allocator: Allocator | None = None
    #: How often anything was allocated or given back, cluster-wide, when the allocator was made.
    changes: int = 0
    #: Positions of claims that have devices which keep the pod from a node.
    unavailable: set[int] = attrs.Factory(set)
    #: Whether devices were promised to the claims since.
    is_promised: bool = False

    @property
    def pending(self) -> list[PodClaim]:
        """The claims that have no devices yet."""
        return [each for each in self.claims if not each.is_allocated]

    def judge(
        self, nodes: Nodes, *, wall: float, timeout_seconds: float | None, stop: Callable[[], Callable[[], bool] | None]
    ) -> NodeStatuses | None:
        """Return which nodes cannot have the pod.

        `wall` is in seconds since the epoch. `timeout_seconds`: how long devices may take to get ready, None where
        nobody waits for that. `stop` returns what says that the search on one node takes too long.
        """
        statuses = NodeStatuses(len(nodes))
        if self.allocator is not None:
            self._look_at(self.allocator, nodes, statuses, stop)
        unavailable: NDArray[np.bool_] = np.zeros(len(nodes), dtype=np.bool_)
        for position, each in enumerate(self.claims):
            missed = _missed(each, nodes, wall, timeout_seconds)
            if missed is None:
                continue
            # Nodes that have no devices left for other claims do not tell whether it helps to give this one's back.
            if (missed & statuses.passed()).any():
                self.unavailable.add(position)
            unavailable |= missed
        if unavailable.any():
            statuses.fail(unavailable, _ELSEWHERE)
        return None if statuses.passed().all() else statuses

    def _look_at(
        self, allocator: Allocator, nodes: Nodes, statuses: NodeStatuses, stop: Callable[[], Callable[[], bool] | None]
    ) -> None:
        """Note on which nodes there are no devices for all claims."""
        known: dict[tuple[int, str], int] = {}
        for row, info in enumerate(nodes):
            node = info.node
            assert node is not None, "the snapshot has nodes only"
            try:
                if allocator.can_allocate(node, stop()):
                    continue
                status = _NOTHING
            except PySchedulerError as error:
                status = _refusal(error, node)
            key = (status.code, status.message)
            reason = known.get(key) or known.setdefault(key, statuses.add_reason(status))
            statuses.codes[row] = status.code
            statuses.reason_ids[row] = reason

    def allocate_on(self, node: Node) -> Status | list[AllocationResult]:
        """Return what each claim of `pending` is given on a node, or why that is not possible."""
        assert self.allocator is not None, "there are claims without devices"
        try:
            found = self.allocator.allocate(node)
        except PySchedulerError as error:
            return _refusal(error, node)
        if found is None:
            return _NOTHING
        fresh = iter(found)
        return [each.shared if each.shared is not None else next(fresh) for each in self.pending]

    @property
    def has_ways(self) -> bool:
        """Whether some request has several ways to be satisfied, so that it matters which one a node offers."""
        return any(request.first_available for each in self.claims for request in each.claim.spec.devices.requests)

    def score(self, node: Node) -> int:
        """Return what a node is worth."""
        allocations = self.allocate_on(node)
        if isinstance(allocations, Status):
            return 0
        fresh = iter(allocations)
        return score_allocations((each.claim, each.claim.status.allocation or next(fresh)) for each in self.claims)


def _refusal(error: PySchedulerError, node: Node) -> Status:
    """Return the status of a node on which devices could not be looked for."""
    match error:
        case AllocationTimeoutError():
            return Status.from_error(TimeoutError(f"node {node.name}: timed out trying to allocate devices"))
        case NodeAllocationError():
            return Status.unresolvable(str(error))
    # Something is wrong with a claim, a class or a slice.
    return Status.from_error(error)


def _missed(each: PodClaim, nodes: Nodes, wall: float, timeout_seconds: float | None) -> NDArray[np.bool_] | None:
    """Return bool[n]: on which nodes the devices that the claim has are of no use; None for on none."""
    missed: NDArray[np.bool_] | None = None
    if each.nodes is not None:
        missed = ~match_node_selector(each.nodes, nodes)
    if not each.is_allocated or timeout_seconds is None:
        return missed
    try:
        is_useless = not is_ready(each.claim) and has_timed_out(each.claim, now=wall, timeout_seconds=timeout_seconds)
    except DeviceBindingError:
        is_useless = True
    if is_useless:
        return np.ones(len(nodes), dtype=np.bool_)
    return missed if missed is not None and missed.any() else None
