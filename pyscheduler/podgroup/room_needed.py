"""For a pod of a group, compute how many pods with the same needs must find nodes before the group can start."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import Pod

__all__ = ["asks", "places_needed"]


def asks(pod: Pod) -> tuple[object, ...]:
    """Return what a pod needs from a node; pods with equal results are alike. Not hashable."""
    spec = pod.spec
    affinity = spec.affinity
    return (
        [container.resources for container in spec.containers],
        [container.resources for container in spec.init_containers],
        spec.resources,
        spec.node_selector,
        spec.tolerations,
        affinity.node_affinity if affinity is not None else None,
    )


def places_needed(pod: Pod, unplaced: Iterable[Pod], missing: int) -> int:
    """Return for how many pods like `pod` its group needs room, at least one.

    `unplaced` are the members without a node, including the pod; `missing` of them must find one. Members that are not
    like the pod are assumed to find a node.
    """
    wanted, alike, others = asks(pod), 0, 0
    for each in unplaced:
        if each is pod or asks(each) == wanted:
            alike += 1
        else:
            others += 1
    return max(1, min(alike, missing - others))
