"""The units that may be evicted for a pod group: single pods, and PodGroups with the disruption mode `PodGroup`.

Units of lower priority are evicted first.

Differs from kube-scheduler: the order of equally important units is not random.
Source: kube-scheduler 1.36, `framework/preemption/types.go` and `moreImportantVictim`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.preemption import start_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.cache.view import NodeView
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.watches import Lister
    from pyscheduler.podgroup.wire import InTreePodGroup
    from pyscheduler.runtime.cooperative_yield import CooperativeYield

__all__ = ["VictimUnit", "VictimUnits"]

_WHOLE: Final = "PodGroup"
#: More than any priority.
_NOBODY: Final = 2**62
#: The number of nodes after which the event loop may turn.
_TURN: Final = 32


@attrs.define(eq=False)
class VictimUnit:
    """Pods that are evicted together, each with its node. `start` in seconds since 1970."""

    priority: int
    in_group: bool
    start: float
    pods: list[tuple[PodInfo, str]] = attrs.Factory(list)

    @property
    def rank(self) -> tuple[float, ...]:
        """Return the sort key: the most important unit comes first."""
        return (-self.priority, not self.in_group, -len(self.pods) if self.in_group else 0, self.start)


class VictimUnits:
    """Collects the units of a cluster; nodes that can have none are known by their last generation."""

    __slots__ = ("_generations", "_groups", "_has_members", "_is_needed_by_others", "_least", "_snapshot")

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Lister[InTreePodGroup],
        is_needed_by_others: Callable[[Pod], bool | None],
    ) -> None:
        self._snapshot = snapshot
        self._groups = groups
        #: As `Profile.is_needed_by_others`: pods that hold resources for other pods are in no unit.
        self._is_needed_by_others = is_needed_by_others
        #: By row as of that generation: the lowest priority of its pods, and whether a pod belongs to a group.
        self._generations: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._least: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._has_members: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    async def below(self, priority: int, now: float, turns: CooperativeYield) -> list[VictimUnit]:
        """Return the units of lower priority, the most important first; `now` in seconds since 1970."""
        nodes = self._snapshot.nodes
        await self._sync(nodes, turns)
        order = self._snapshot.order()
        rows = order[(self._least[order] < priority) | self._has_members[order]]
        found: list[VictimUnit] = []
        whole: dict[str, VictimUnit] = {}
        for count, row in enumerate(rows.tolist(), 1):
            node = nodes[row]
            for info in node.pods:
                pod = info.pod
                group = self._group_of(pod)
                unit = whole.get(group.uid) if group is not None else None
                if unit is None:
                    own = pod.priority if group is None else group.spec.priority or 0
                    if own >= priority or self._is_needed_by_others(pod) is not None:
                        continue
                    unit = VictimUnit(own, pod.spec.scheduling_group is not None, start_time(pod, now))
                    found.append(unit)
                    if group is not None:
                        whole[group.uid] = unit
                unit.pods.append((info, node.name))
            if count % _TURN == 0:
                await turns.yield_if_due()
        return sorted(found, key=lambda unit: unit.rank)

    def _group_of(self, pod: Pod) -> InTreePodGroup | None:
        """Return the PodGroup that is evicted as a whole with the pod."""
        named = pod.spec.scheduling_group
        if named is None or not named.pod_group_name:
            return None
        group = self._groups.get(named.pod_group_name, pod.namespace)
        return group if group is not None and group.spec.disruption_mode == _WHOLE else None

    async def _sync(self, nodes: NodeView, turns: CooperativeYield) -> None:
        if len(self._generations) != len(nodes):
            self._generations = np.full(len(nodes), -1, dtype=np.int64)
            self._least = np.full(len(nodes), _NOBODY, dtype=np.int64)
            self._has_members = np.zeros(len(nodes), dtype=np.bool_)
        changed = np.flatnonzero(self._generations != nodes.generations())
        for count, row in enumerate(changed.tolist(), 1):
            node = nodes[row]
            pods: Sequence[PodInfo] = node.pods
            self._least[row] = min((info.pod.priority for info in pods), default=_NOBODY)
            self._has_members[row] = any(info.pod.spec.scheduling_group is not None for info in pods)
            self._generations[row] = node.generation
            if count % _TURN == 0:
                await turns.yield_if_due()
