"""Make the `status.allocation` of a ResourceClaim from the devices that were chosen for the claim.

Source: kube-scheduler 1.36, `dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from pyscheduler.plugins.dynamic_resources.capacity import consumed_amounts
from pyscheduler.plugins.dynamic_resources.errors import AllocationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyscheduler.plugins.dynamic_resources.requests import ClaimDemand, Request
    from pyscheduler.plugins.dynamic_resources.slices import PoolDevice

__all__ = ["make_allocation"]


def make_allocation(
    demand: ClaimDemand, chosen: Sequence[tuple[Request, PoolDevice]], node_name: str, new_share_id: Callable[[], str]
) -> AllocationResult:
    """Return what a claim is given: devices, how they are set up, and where they can be used.

    Raise `AllocationError` where a slice does not say that in a way that a claim can repeat.
    """
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(request, device, new_share_id) for request, device in chosen),
            config=tuple(_configuration(demand, {request for request, _ in chosen})),
        ),
        node_selector=_node_selector(demand, [device for _, device in chosen], node_name),
    )


def _result(request: Request, device: PoolDevice, new_share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    consumed = consumed_amounts(request.amounts, device.capacity) if device.shareable else None
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations,
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=new_share_id() if device.shareable else None,
        consumed_capacity={name: amount.raw for name, amount in (consumed or {}).items()},
    )


def _configuration(demand: ClaimDemand, served: set[Request]) -> Iterator[DeviceAllocationConfiguration]:
    """Yield what classes say, once for each class, and then what the claim says."""
    # A request for no devices has its class's configuration too, unless it is one of several alternatives.
    requests = [
        request
        for alternatives in demand.requests
        for request in alternatives
        if request in served or not request.parent
    ]
    by_class: dict[str, list[Request]] = {}
    for request in requests:
        by_class.setdefault(request.device_class.name, []).append(request)
    for of_class in by_class.values():
        names = tuple(request.full_name for request in of_class)
        for configuration in of_class[0].device_class.spec.config:
            yield DeviceAllocationConfiguration(source="FromClass", requests=names, opaque=configuration.opaque)
    for own in demand.claim.spec.devices.config:
        # One for each request that it names, whether the request itself or the alternative that was taken.
        times = sum(
            request.full_name in own.requests or (bool(request.parent) and request.parent in own.requests)
            for request in requests
        )
        for _ in range(times if own.requests else 1):
            yield DeviceAllocationConfiguration(source="FromClaim", requests=own.requests, opaque=own.opaque)


def _node_selector(demand: ClaimDemand, devices: Iterable[PoolDevice], node_name: str) -> NodeSelector | None:
    """Return the nodes that reach all of `devices`: one, those that meet what every device demands, or None for all."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device in devices:
        scope = device.scope
        if device.device.binds_to_node or (scope is not None and scope.node_name):
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        if scope is None or scope.selector is None or not scope.selector.node_selector_terms:
            continue
        terms = scope.selector.node_selector_terms
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {demand.claim.name}: unsupported ResourceSlice.NodeSelector "
                f"with {len(terms)} terms"
            )
        _add_new(terms[0].match_fields, fields)
        _add_new(terms[0].match_expressions, expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(requirements: Iterable[NodeSelectorRequirement], to: list[NodeSelectorRequirement]) -> None:
    for one in requirements:
        if not any(
            (one.key, one.operator, set(one.values)) == (known.key, known.operator, set(known.values)) for known in to
        ):
            to.append(one)
