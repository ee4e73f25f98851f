"""The nodes that the claims of one pod allow, and the devices that these claims would get on each node.

Source: kube-scheduler 1.36, `dynamicresources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework import NodeStatuses, PySchedulerError, Status
from pyscheduler.framework.node_matching import match_node_selector
from pyscheduler.plugins.dynamic_resources.errors import AllocationTimeoutError, NodeAllocationError
from pyscheduler.plugins.dynamic_resources.patience import StillWorkingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import AllocationResult, CompiledNodeSelector, ResourceClaim
    from pyscheduler.framework import NodeInfo, Nodes
    from pyscheduler.plugins.dynamic_resources.allocator import Allocator
    from pyscheduler.plugins.dynamic_resources.extended_claims import ExtendedClaim, Variant
    from pyscheduler.plugins.dynamic_resources.ledger import Promise
    from pyscheduler.plugins.dynamic_resources.patience import Patience

__all__ = ["Choice", "PodClaim", "score_allocations"]

#: So many ways a request may have.
_MOST_WAYS: Final = 8
_NOTHING: Final = Status.unresolvable("cannot allocate all claims")
_ELSEWHERE: Final = Status.unresolvable("resourceclaim not available on the node")
_LEFT_OVER: Final = Status.unresolvable("cannot schedule extended resource claim")
_OUT_OF_REACH: Final = Status.unresolvable("cannot fit resource")


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
        """Return whether the claim had devices when the cycle began, or has been given some since."""
        return self.claim.status.allocation is not None


@attrs.frozen
class Allotment:
    """The devices of a node for each claim of `pending`, and for the claim for extended resources."""

    of_claims: Sequence[AllocationResult]
    variant: Variant | None
    of_variant: AllocationResult | None


@attrs.frozen(eq=False)
class Findings:
    """The findings beside the cycle: by node why it does not have the devices, None where it has.

    `is_outdated`: something was allocated or given back meanwhile, so that nodes that lacked devices may have them now.
    `has_timed_out`: the time was over before all nodes were looked at.
    """

    answers: Mapping[str, Status | None]
    is_outdated: bool
    has_timed_out: bool


@attrs.define(eq=False)
class Choice:
    """The claims, and what chooses devices for them. What-ifs share it, which find out the same."""

    claims: Sequence[PodClaim]
    #: What the pod asks for as extended resources that device classes stand for.
    extended: ExtendedClaim | None = None
    #: Makes an allocator for the claims that have no devices yet, and for those given; None where there is no need.
    make_allocator: Callable[[Sequence[ResourceClaim]], Allocator] | None = None
    #: By the claim for extended resources, None for none.
    allocators: dict[Variant | None, Allocator] = attrs.Factory(dict)
    #: How often anything was allocated or given back, cluster-wide, when allocators were begun to be made.
    changes: int = 0
    #: What was found out beside the cycle.
    found: Findings | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to do for the pod."""
        return not self.claims and self.extended is None

    @property
    def in_use(self) -> list[PodClaim]:
        """All claims, with the one that was written for extended resources."""
        written = self.extended.written if self.extended is not None else None
        return [*self.claims, *([written] if written is not None else [])]

    @property
    def pending(self) -> list[PodClaim]:
        """The claims that have no devices yet."""
        return [each for each in self.claims if not each.is_allocated]

    def judge(
        self, nodes: Nodes, is_overdue: Callable[[ResourceClaim], bool], patience: Patience
    ) -> NodeStatuses | None:
        """Return which nodes cannot have the pod; raise `StillWorkingError` when `patience` is over before.

        The devices of a claim that `is_overdue` are of no use anywhere.
        """
        statuses = NodeStatuses(len(nodes))
        if self.extended is not None and self.extended.left_over is not None:
            statuses.fail(np.ones(len(nodes), dtype=np.bool_), _LEFT_OVER)
            return statuses
        if self.make_allocator is not None:
            self._look_at_nodes(nodes, statuses, patience)
        for each in self.claims:
            missed = _missed(each, nodes, is_overdue)
            if missed is not None:
                statuses.fail(missed, _ELSEWHERE)
        return None if statuses.passed().all() else statuses

    def out_of_reach(
        self, nodes: Nodes, statuses: NodeStatuses, is_overdue: Callable[[ResourceClaim], bool]
    ) -> Iterator[ResourceClaim]:
        """Yield the claims whose devices alone keep the pod from one of `nodes`, by the statuses of a cycle."""
        # Of a node that another plugin rejected first, nobody knows whether it helps to give devices back.
        ids = [number for number, status in enumerate(statuses.table) if status.reasons == _ELSEWHERE.reasons]
        found = np.flatnonzero(np.isin(statuses.reason_ids, ids)).tolist()
        names = map(statuses.names, found) if statuses.names is not None else ()
        rows = [row for name in names if (row := nodes.index(name)) is not None]
        kept = nodes.take(np.array(sorted(rows), dtype=np.int64))
        for each in self.claims:
            missed = _missed(each, kept, is_overdue)
            if missed is not None and missed.any():
                yield each.claim

    def _look_at_nodes(self, nodes: Nodes, statuses: NodeStatuses, patience: Patience) -> None:
        """Note on which nodes there are no devices for all claims."""
        known: dict[tuple[int, str], int] = {}
        for row, info in enumerate(nodes):
            try:
                status = self._answer(info, patience)
            except AllocationTimeoutError as error:
                # There is no time for the rest either, and nobody knows which of the nodes another plugin rejects.
                statuses.fail(np.arange(len(nodes)) >= row, _refusal(error, info.name))
                return
            if status is None:
                continue
            key = (status.code, status.message)
            reason = known.get(key) or known.setdefault(key, statuses.add_reason(status))
            statuses.codes[row] = status.code
            statuses.reason_ids[row] = reason

    def _answer(self, info: NodeInfo, patience: Patience) -> Status | None:
        """Return why a node does not have devices for all claims, by what was found out beside the cycle if it was."""
        found = self.found
        if found is None:
            return self._look_at(info, patience)
        if info.name in found.answers and (found.answers[info.name] is None or not found.is_outdated):
            return found.answers[info.name]
        try:
            return self._look_at(info, patience)
        except StillWorkingError as error:
            if info.name in found.answers:
                return found.answers[info.name]
            if not found.has_timed_out:
                raise
            raise AllocationTimeoutError("filter operation aborted: context deadline exceeded") from error

    def look_at(self, info: NodeInfo, patience: Patience) -> tuple[Status | None, bool]:
        """Return why a node does not have devices for all claims, None where it has; and whether the time was over."""
        try:
            return self._look_at(info, patience), False
        except AllocationTimeoutError:
            return None, True

    def _look_at(self, info: NodeInfo, patience: Patience) -> Status | None:
        node = info.node
        assert node is not None, "the snapshot has nodes only"
        try:
            if self.extended is not None and self.extended.is_out_of_reach(info):
                return _OUT_OF_REACH
            allocator = self._allocator_for(self._variant_on(info))
            fits = allocator is None or allocator.can_allocate(node, patience)
        except (AllocationTimeoutError, StillWorkingError):
            raise
        except PySchedulerError as error:
            return _refusal(error, info.name)
        return None if fits else _NOTHING

    def _variant_on(self, info: NodeInfo) -> Variant | None:
        return None if self.extended is None else self.extended.on(info)

    def _allocator_for(self, variant: Variant | None) -> Allocator | None:
        """Return the allocator for the claims without devices and the one for extended resources; None without any."""
        assert self.make_allocator is not None, "there is something to allocate, on some nodes at least"
        if variant is None and not self.pending:
            return None
        allocator = self.allocators.get(variant)
        if allocator is None:
            extra = () if variant is None else (variant.claim,)
            allocator = self.allocators[variant] = self.make_allocator(extra)
        return allocator

    def allocate_on(self, info: NodeInfo, patience: Patience | None = None) -> Status | Allotment:
        """Return what the claims are given on a node, or why that is not possible."""
        node = info.node
        assert node is not None, "the snapshot has nodes only"
        variant = self._variant_on(info)
        try:
            allocator = self._allocator_for(variant)
            found = allocator.allocate(node, patience) if allocator is not None else []
        except PySchedulerError as error:
            return _refusal(error, info.name)
        if found is None:
            return _NOTHING
        fresh = iter(found)
        of_claims = [each.shared if each.shared is not None else next(fresh) for each in self.pending]
        return Allotment(of_claims, variant, None if variant is None else next(fresh))

    @property
    def has_ways(self) -> bool:
        """Return whether some request has several ways to be satisfied, so that it matters which one a node offers."""
        return any(request.first_available for each in self.claims for request in each.claim.spec.devices.requests)

    def score(self, info: NodeInfo, patience: Patience) -> int:
        """Return what a node is worth."""
        allotment = self.allocate_on(info, patience)
        if isinstance(allotment, Status):
            return 0
        fresh = iter(allotment.of_claims)
        return score_allocations((each.claim, each.claim.status.allocation or next(fresh)) for each in self.claims)


def _refusal(error: PySchedulerError, node_name: str) -> Status:
    """Return the status of a node on which devices could not be looked for."""
    match error:
        case AllocationTimeoutError() | StillWorkingError():
            return Status.from_error(TimeoutError(f"node {node_name}: timed out trying to allocate devices"))
        case NodeAllocationError():
            return Status.unresolvable(str(error))
    # Something is wrong with a claim, a class or a slice.
    return Status.from_error(error)


def _missed(each: PodClaim, nodes: Nodes, is_overdue: Callable[[ResourceClaim], bool]) -> NDArray[np.bool_] | None:
    """Return bool[n]: on which nodes the devices that the claim has are of no use; None for on none."""
    if is_overdue(each.claim):
        return np.ones(len(nodes), dtype=np.bool_)
    missed = ~match_node_selector(each.nodes, nodes) if each.nodes is not None else None
    return missed if missed is not None and missed.any() else None


def score_allocations(allocations: Iterable[tuple[ResourceClaim, AllocationResult]]) -> int:
    """Return the score of a node: over all requests with several ways, 8 for the first way, 1 for the eighth.

    Source: KEP-4816.
    """
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
