"""Score nodes by how full their storage would be with the pod's claims (feature gate StorageCapacityScoring, alpha).

Source: kube-scheduler 1.36, `volumebinding/scorer.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.claims import claim_class
from pyscheduler.api import quantity_value
from pyscheduler.framework.scoring import broken_linear
from pyscheduler.framework.status import MAX_SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import ResourceList
    from pyscheduler.framework import Nodes
    from pyscheduler.framework.in_tree_args import UtilizationShapePoint
    from pyscheduler.plugins.volume_binding.placement import Placement

__all__ = ["score_use", "shape_of", "storage_use"]

_FULL: Final = 100
#: The score at a point of a shape goes up to this.
_MAX_SHAPE_SCORE: Final = 10


def shape_of(points: Sequence[UtilizationShapePoint]) -> tuple[tuple[int, int], ...]:
    """Return the points as (utilisation in percent, score up to 100)."""
    return tuple((point.utilization, point.score * (MAX_SCORE // _MAX_SHAPE_SCORE)) for point in points)


def storage_use(placement: Placement, node: Nodes) -> dict[str, tuple[int, int]]:
    """Return by class what the pod asks for and what there is, both in bytes, on the node of a view of one."""
    info = node[0].node
    assert info is not None, "a node of a view is known"
    choice = placement.choose(info.labels)
    use: dict[str, tuple[int, int]] = {}
    if choice.bindings:
        for claim, volume in choice.bindings:
            asked, there = use.get(volume.spec.storage_class_name, (0, 0))
            use[volume.spec.storage_class_name] = (
                asked + _storage(claim.spec.resources.requests),
                there + _storage(volume.spec.capacity),
            )
        return use
    for claim in choice.provisions:
        room = placement.room_for(claim, node)
        if room is not None:
            # The room is the class's: two claims draw on the same.
            name = claim.spec.storage_class_name or claim_class(claim)
            asked, _ = use.get(name, (0, 0))
            there = quantity_value(room.capacity) if room.capacity is not None else 0
            use[name] = (asked + _storage(claim.spec.resources.requests), there)
    return use


def score_use(use: Mapping[str, tuple[int, int]], shape: Sequence[tuple[int, int]]) -> int:
    """Return the mean of the classes' scores, rounded half up; 0 where there are none."""
    if not use:
        return 0
    total = sum(
        broken_linear(shape, _FULL if asked > there or there == 0 else asked * _FULL // there)
        for asked, there in use.values()
    )
    return (2 * total + len(use)) // (2 * len(use))


def _storage(amounts: ResourceList) -> int:
    return quantity_value(amounts.get("storage", 0))
