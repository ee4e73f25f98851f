"""The resource amounts of each node for score plugins: allocatable, requested, and requested with the new pod.

Differs from kube-scheduler: DRA devices in outdated or incomplete pools do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyscheduler.api import Pod, is_scalar_resource, pod_requests
from pyscheduler.framework import CPU, EPHEMERAL_STORAGE, MAX_SCORE, MEMORY, Nodes, SignFragment, Status
from pyscheduler.framework.extended_resources import ExtendedResources
from pyscheduler.framework.scoring import broken_linear
from pyscheduler.framework.signatures import RESOURCES

__all__ = [
    "Allocation",
    "Scorer",
    "allocations",
    "least_allocated",
    "most_allocated",
    "placement_allocations",
    "requested_to_capacity_ratio",
    "requests_of",
    "sign_resources",
    "weighted_average",
]

_FULL: Final = 100
#: The shape of a profile gives scores of 0..10.
_SCALE: Final = MAX_SCORE // 10
_HALF: Final = 0.5
_NOT_SIGNABLE: Final = Status.unschedulable("signature disabled when dra extended resources are used in the cluster")


class Allocation(NamedTuple):
    """One resource on n nodes; `cpu` in m, the others in units.

    Where `allocatable` is 0 the resource does not count, whatever the other two say.
    """

    weight: int
    allocatable: NDArray[np.int64]
    """int64[n]: what the nodes offer."""
    allocated: NDArray[np.int64]
    """int64[n]: what their pods ask for."""
    requested: NDArray[np.int64]
    """int64[n]: the same, with the incoming pod."""


Scorer = Callable[[Sequence[Allocation], int], NDArray[np.int64]]
"""Make int64[n] of scores in 0..100 from the allocations of n nodes."""


def requests_of(pod: Pod, names: Sequence[str], *, use_requested: bool) -> tuple[int, ...]:
    """Return what `pod` asks for of each resource in `names`.

    With `use_requested` as it stands; else with the defaults for silent containers and without pod-level requests,
    which is how kube-scheduler's Fit plugin scores, whatever its feature gates say.
    """
    if use_requested:
        amounts = pod_requests(pod)
    else:
        amounts = pod_requests(pod, use_status=False, pod_level=False, fill_missing=True)
    return tuple(amounts.get(name, 0) for name in names)


def allocations(
    nodes: Nodes,
    resources: Sequence[tuple[str, int]],
    requests: Sequence[int],
    extended: ExtendedResources,
    *,
    use_requested: bool,
) -> list[Allocation]:
    """Return the resources that count, of `resources` as (name, weight), for a pod with `requests` of each.

    `use_requested` takes what pods ask for; else CPU and memory are counted with the defaults for silent containers.
    """
    counted = []
    for (name, weight), request in zip(resources, requests, strict=True):
        allocatable = nodes.allocatable(name)
        if name in {CPU, MEMORY}:
            allocated = nodes.requested(name) if use_requested else nodes.non_zero_requested(name)
        elif name == EPHEMERAL_STORAGE or (request and is_scalar_resource(name)):
            allocated = nodes.requested(name)
            device_class = extended.class_of(name)
            if device_class is not None and not allocatable.all():
                devices, taken = extended.count(device_class, nodes)
                allocated = np.where((allocatable == 0) & (devices > 0), taken, allocated)
                allocatable = np.where(allocatable == 0, devices, allocatable)
        else:
            continue
        counted.append(Allocation(weight, allocatable, allocated, allocated + request))
    return counted


def placement_allocations(
    pods: Sequence[Pod], resources: Sequence[tuple[str, int]], sums: Callable[[str, str], NDArray[np.int64]]
) -> list[Allocation]:
    """Return the resources that count for k placements, each as one big node, with the requests of `pods`.

    `sums(name, kind)` returns int64[k], the sums of a resource over the nodes of each placement; `kind` is
    `allocatable`, `requested` or `non_zero_requested`.
    Source: kube-scheduler 1.36, `scorePlacement`. Differs from kube-scheduler: devices do not count.
    """
    names = [name for name, _ in resources]
    requests = [0] * len(names)
    for pod in pods:
        requests = [sum(pair) for pair in zip(requests, requests_of(pod, names, use_requested=False), strict=True)]
    counted = []
    for (name, weight), request in zip(resources, requests, strict=True):
        if request == 0 and is_scalar_resource(name):
            continue
        allocated = sums(name, "non_zero_requested" if name in {CPU, MEMORY} else "requested")
        counted.append(Allocation(weight, sums(name, "allocatable"), allocated, allocated + request))
    return counted


def least_allocated(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
    """Score int64[size] by the free percentage, averaged over the resources by weight; 0 where one is overdrawn."""
    return _percentage(resources, [np.maximum(each.allocatable - each.requested, 0) for each in resources], size)


def most_allocated(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
    """Score int64[size] by the used percentage, averaged over the resources by weight; an overdrawn one is 100."""
    return _percentage(resources, [np.minimum(each.requested, each.allocatable) for each in resources], size)


def _percentage(resources: Sequence[Allocation], amounts: Sequence[NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    """Return the amounts in percent of what the nodes offer, averaged over the resources by weight."""
    parts = [
        (amount * MAX_SCORE // np.maximum(each.allocatable, 1), each.allocatable != 0, each.weight)
        for each, amount in zip(resources, amounts, strict=True)
    ]
    return weighted_average(parts, size)


def weighted_average(parts: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_], int]], size: int) -> NDArray[np.int64]:
    """Return int64[size]: the average of scores by weight; `parts` are scores, the nodes they count on, and the weight.

    A score must be 0 where it does not count. Where nothing counts the average is 0.
    """
    total = np.zeros(size, dtype=np.int64)
    if all(counts.all() for _, counts, _ in parts):
        # One divisor for all nodes, which is much faster to divide by.
        for scores, _, weight in parts:
            total += scores if weight == 1 else scores * weight
        return total // max(sum(weight for _, _, weight in parts), 1)
    weights = np.zeros(size, dtype=np.int64)
    for scores, counts, weight in parts:
        total += scores * weight
        weights += counts * weight
    return total // np.maximum(weights, 1)


def sign_resources(pod: Pod, extended: ExtendedResources) -> tuple[SignFragment] | Status:
    """Return the fragment of what the pod asks for, or why it has no signature."""
    amounts = pod_requests(pod, use_status=False)
    if extended.wanted(amounts):
        return _NOT_SIGNABLE
    return (SignFragment(RESOURCES, tuple(sorted(amounts.items()))),)


def requested_to_capacity_ratio(shape: Sequence[tuple[int, int]]) -> Scorer:
    """Return the scorer for `shape`: points (utilisation in percent, score of 0..10), utilisation rising.

    The score of each resource is a line over its utilisation. A resource whose score is 0 does not count in the
    average, neither do its points nor its weight; the average is rounded, half away from zero.
    """
    scaled = [(utilization, score * _SCALE) for utilization, score in shape]
    # Utilisation is a whole number of percent, so that the line is a table.
    line = np.array([broken_linear(scaled, percent) for percent in range(_FULL + 1)], dtype=np.int64)

    def score(resources: Sequence[Allocation], size: int) -> NDArray[np.int64]:
        total = np.zeros(size, dtype=np.int64)
        weights = np.zeros(size, dtype=np.int64)
        for each in resources:
            percent = np.minimum(each.requested, each.allocatable) * _FULL // np.maximum(each.allocatable, 1)
            scores = line[percent]
            scores[each.allocatable == 0] = 0
            total += scores * each.weight
            weights += (scores > 0) * each.weight
        average = total.astype(np.float64) / np.maximum(weights, 1).astype(np.float64)
        whole = np.trunc(average)
        return (whole + (average - whole >= _HALF)).astype(np.int64)

    return score
