"""The energy that the nodes of a cluster use, from the times at which their GPUs are busy."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler_lab.clusters.node import Node

__all__ = ["kwh"]

_WATT_SECONDS: Final = 3_600_000.0


def kwh(
    nodes: Iterable[Node],
    busy: Mapping[str, Sequence[tuple[float, float]]],
    *,
    end: float,
    present: Mapping[str, Sequence[tuple[float, float]]] | None = None,
) -> float | None:
    """Return the energy from time 0 to `end` in kWh; None if no node has `watts`.

    `busy` has by node the times in seconds, ascending, and the number of busy GPUs from then on; before the first time,
    and on nodes that are not in it, no GPU is busy. `present` has by node the spans in which the node was on, if it
    was not on all the time. Nodes without `watts` count as nothing.
    """
    total = 0.0
    powered = [node for node in nodes if node.watts is not None]
    for node in powered:
        assert node.watts is not None, "only nodes with watts"
        spans = present.get(node.name, ((0.0, end),)) if present is not None else ((0.0, end),)
        steps = [*busy.get(node.name, ()), (end, 0.0)]
        for began, stopped in spans:
            total += node.watts.idle * max(min(stopped, end) - began, 0.0)
            for (time, gpus), (until, _) in pairwise(steps):
                total += node.watts.gpu * gpus * max(min(until, stopped, end) - max(time, began), 0.0)
    return total / _WATT_SECONDS if powered else None
