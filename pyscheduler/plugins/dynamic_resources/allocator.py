"""The allocator: given a node, it finds the devices that the claims of a pod would get there.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pyscheduler.plugins.dynamic_resources.errors import AllocationError, NodeAllocationError, SignatureError
from pyscheduler.plugins.dynamic_resources.features import ALL_FEATURES, Features
from pyscheduler.plugins.dynamic_resources.node_signature import Reducer
from pyscheduler.plugins.dynamic_resources.requests import read_claims
from pyscheduler.plugins.dynamic_resources.results import make_allocation
from pyscheduler.plugins.dynamic_resources.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import AllocationResult, Node, ResourceClaim
    from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
    from pyscheduler.plugins.dynamic_resources.node_signature import NodeSignature
    from pyscheduler.plugins.dynamic_resources.patience import Patience
    from pyscheduler.plugins.dynamic_resources.pools import Inventory, NodeOffer, Pool
    from pyscheduler.plugins.dynamic_resources.requests import ClaimDemand, ClassLookup
    from pyscheduler.plugins.dynamic_resources.search import Solution
    from pyscheduler.plugins.dynamic_resources.selectors import DeviceSelectors

__all__ = ["Allocator"]


#: What it takes to find out that a node reaches a device, in steps of a `Patience`.
_STEPS: Final = 10


class Allocator:
    """Allocates `claims`, none of which is allocated yet.

    After `allocated` has changed, call `go_by`. `new_share_id` names the shares of devices that several
    claims may have.
    """

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        allocated: AllocatedState,
        classes: ClassLookup,
        inventory: Inventory,
        selectors: DeviceSelectors,
        features: Features = ALL_FEATURES,
        *,
        new_share_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._claims = claims
        self._allocated = allocated
        self._classes = classes
        self._inventory = inventory
        self._selectors = selectors
        self._features = features
        self._new_share_id = new_share_id
        self._prepared: tuple[tuple[ClaimDemand, ...], Reducer, int] | None = None
        #: A text stands for an error: an exception would keep the frames of its search.
        self._at_sight: dict[tuple[object, ...], tuple[NodeSignature, Solution | str | None]] = {}
        self._solutions: dict[tuple[object, ...], Solution | str | None] = {}

    def go_by(self, allocated: AllocatedState) -> None:
        """Go by another state of what is allocated, or by the same after it has changed; keep what still holds."""
        self._allocated = allocated
        if self._prepared is not None:
            self._prepared[1].go_by(allocated)

    def can_allocate(self, node: Node, patience: Patience | None = None) -> bool:
        """Return whether `allocate` has an answer for `node`; cheaper, and raises the same."""
        return self._solve(node, patience)[2] is not None

    def allocate(self, node: Node, patience: Patience | None = None) -> list[AllocationResult] | None:
        """Return what each claim would get on `node`, in the order of the claims; None where not all can be satisfied.

        Raise `AllocationError` where a claim, a class or a slice is at fault, so that no other node would help;
        `NodeAllocationError` where pools of this node are; and what `patience` raises, which counts the steps of
        selectors and of the search.
        """
        offer, signature, solution = self._solve(node, patience)
        if solution is None:
            return None
        demands, *_ = self._prepare()
        return [
            make_allocation(
                demand,
                [(request, offer.candidates[signature.places[position]].device) for request, position in chosen],
                node.name,
                self._new_share_id,
            )
            for demand, chosen in zip(demands, solution.chosen, strict=True)
        ]

    def _prepare(self) -> tuple[tuple[ClaimDemand, ...], Reducer, int]:
        """Return what the claims ask for, what looks at nodes for that, and the number of its question."""
        if self._prepared is None:
            demands = read_claims(self._claims, self._classes, self._features)
            reducer = Reducer(demands, self._allocated, self._selectors)
            self._prepared = demands, reducer, self._inventory.number_of(reducer.question)
        return self._prepared

    def _solve(self, node: Node, patience: Patience | None) -> tuple[NodeOffer, NodeSignature, Solution | None]:
        known_offers = len(self._inventory.offers)
        offer = self._inventory.offer_to(node)
        if patience is not None and len(self._inventory.offers) != known_offers:
            patience.tick(_STEPS * len(offer.candidates))
        demands, reducer, question = self._prepare()
        if offer.bad_pool is not None:
            _require_whole_pools(demands, offer.bad_pool)
        reducer.patience = patience
        sight = self._sight(offer, reducer, question)
        known = self._at_sight.get(sight) if sight is not None else None
        if known is None:
            known = self._work_out(offer, demands, reducer.reduce(offer), patience)
            if sight is not None:
                self._at_sight[sight] = known
        signature, solution = known
        if isinstance(solution, str):
            raise AllocationError(solution)
        if solution is None and any(pool.problem for pool in offer.pools):
            raise NodeAllocationError("invalid resource pools were encountered")
        return offer, signature, solution

    def _work_out(
        self,
        offer: NodeOffer,
        demands: tuple[ClaimDemand, ...],
        signature: NodeSignature,
        patience: Patience | None,
    ) -> tuple[NodeSignature, Solution | str | None]:
        key = signature.key
        if key not in self._solutions:
            try:
                self._solutions[key] = Search(demands, offer, signature, patience).run()
            except SignatureError as error:
                self._solutions[key] = str(error)
        return signature, self._solutions[key]

    def _sight(self, offer: NodeOffer, reducer: Reducer, question: int) -> tuple[object, ...] | None:
        """Return a key that nodes share only if their signatures are equal; None if the signatures must be compared."""
        view = self._inventory.view(offer, question, reducer.answer)
        if view is None:
            return None
        allocated = self._allocated
        if allocated.capacity and not allocated.capacity.keys().isdisjoint(offer.ids):
            return None
        taken: tuple[bool, ...] = ()
        if allocated.devices and not allocated.devices.keys().isdisjoint(offer.ids):
            taken = tuple(device in allocated.devices for device in offer.ids)
        return (view, taken, *[tuple(reducer.left(pool).items()) for pool in offer.counting])


def _require_whole_pools(demands: Sequence[ClaimDemand], bad: Pool) -> None:
    """Raise `AllocationError` where all devices are asked for, as those of one pool are not known."""
    state = "currently being updated" if bad.incomplete else "currently invalid"
    for demand in demands:
        for alternatives in demand.requests:
            for request in alternatives:
                if request.all_devices:
                    raise AllocationError(
                        f"claim {demand.claim.key}, request {request.name}: asks for all devices, but resource pool "
                        f"{'/'.join(bad.id)} is {state}"
                    )
