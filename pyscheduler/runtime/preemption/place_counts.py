"""Choose the victims for a group of equal pods by the free resources of the nodes, without running filters.

For these pods, the filters must depend only on the node object and the node's free resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.cooperative_yield import CooperativeYield
    from pyscheduler.runtime.preemption.victim_units import VictimUnit

__all__ = ["PlaceCounts"]

#: The number of units after which the event loop may turn.
_TURN: Final = 256


class PlaceCounts:
    """Places for pods like `info` on these nodes, which all pass every filter that does not depend on amounts.

    `wanted`: the number of places that the group needs.
    """

    __slots__ = ("_amounts", "_free", "_rows", "_slots", "_total", "_wanted")

    def __init__(self, nodes: Nodes, info: PodInfo, wanted: int) -> None:
        self._amounts = {name: amount for name, amount in _requests(info).items() if amount > 0}
        #: By resource and row, what is free; and how many more pods a row may have.
        self._free: dict[str, list[int]] = {
            name: (nodes.allocatable(name) - nodes.requested(name)).tolist() for name in self._amounts
        }
        self._slots: list[int] = (nodes.allowed_pods() - nodes.pod_counts()).tolist()
        self._rows = {nodes.name(row): row for row in range(len(nodes))}
        self._wanted = wanted
        self._total = sum(map(self._places, range(len(nodes))))

    async def victims(self, units: Sequence[VictimUnit], turns: CooperativeYield) -> list[VictimUnit]:
        """Put units back in this order as long as there are enough places; return the others."""
        gone: list[VictimUnit] = []
        for count, unit in enumerate(units, 1):
            if count % _TURN == 0:
                await turns.yield_if_due()
            lost = self._change(unit, -1)
            if self._total - lost >= self._wanted:
                self._total -= lost
            else:
                self._change(unit, 1)
                gone.append(unit)
        return gone

    def _places(self, row: int) -> int:
        places = self._slots[row]
        for name, amount in self._amounts.items():
            places = min(places, self._free[name][row] // amount)
        return max(0, places)

    def _change(self, unit: VictimUnit, sign: int) -> int:
        """Put the pods of a unit back (`sign` -1) or take them off (1); return how many places that costs."""
        lost = 0
        for info, node_name in unit.pods:
            row = self._rows.get(node_name)
            if row is None:
                continue
            before = self._places(row)
            self._slots[row] += sign
            requests = _requests(info)
            for name, free in self._free.items():
                free[row] += sign * requests.get(name, 0)
            lost += before - self._places(row)
        return lost


def _requests(info: PodInfo) -> Mapping[str, int]:
    requests = info.requests
    return {
        **requests.scalars,
        CPU: requests.milli_cpu,
        MEMORY: requests.memory,
        EPHEMERAL_STORAGE: requests.ephemeral_storage,
    }
