"""Preemption for a pod group: find victims in the whole cluster so that the group fits, and evict them.

A unit is a pod, or a PodGroup that is evicted as a whole. The search removes all units of lower priority from the
snapshot, and tries to place the group. If the group fits, the units are put back, first those that disruption budgets
protect. If the group no longer fits after a unit was put back, this unit is evicted.

Differs from kube-scheduler: where possible, the check after each unit counts how many members fit, and runs no
filters.
Source: kube-scheduler 1.36, `framework/preemption/podgrouppreemption.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.preemption import Candidate
from pyscheduler.framework.status import Status
from pyscheduler.framework.trial import TrialKind
from pyscheduler.runtime.preemption.eviction import EvictionCause
from pyscheduler.runtime.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.preemption import PreemptionRules
    from pyscheduler.podgroup.wire import InTreePodGroup
    from pyscheduler.runtime.cooperative_yield import CooperativeYield
    from pyscheduler.runtime.extension_points.reserving import Release
    from pyscheduler.runtime.preemption.disruption_budgets import Budgets
    from pyscheduler.runtime.preemption.eviction import Evictions
    from pyscheduler.runtime.preemption.place_counts import PlaceCounts
    from pyscheduler.runtime.preemption.victim_units import VictimUnit, VictimUnits

__all__ = ["GroupSearch"]

_log = logging.getLogger(__name__)

#: What events name as the node of a preemption in the whole cluster.
_DOMAIN: Final = "cluster"
#: The number of units after which the event loop may turn.
_TURN: Final = 256
_NEVER: Final = Status.unschedulable("not eligible due to preemptionPolicy=Never.")
_NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming preemptor")


class GroupSearch:
    """Makes room for pod groups in the name of one plugin."""

    __slots__ = ("_evictions", "_handle", "_rules", "_units")

    def __init__(self, handle: Handle, rules: PreemptionRules, evictions: Evictions, units: VictimUnits) -> None:
        self._handle = handle
        self._rules = rules
        self._evictions = evictions
        self._units = units

    async def preempt(
        self,
        group: InTreePodGroup,
        pods: Sequence[Pod],
        *,
        waiting: Callable[[], Iterable[Pod]],
        budgets: Budgets,
        release: Release | None,
        fits: Callable[[Statement], Awaitable[Status | None]],
        count: Callable[[Statement], PlaceCounts | None],
        turns: CooperativeYield,
    ) -> Status | None:
        """Have victims evicted for the members `pods`; return None, or why that is impossible.

        `waiting` returns all members without a node, also those that come during the evictions. `release` frees what
        victims hold in plugins' books. `fits` runs the cycle of the group within a statement and undoes it; it returns
        None if the group fits. `count` counts the places for members on the snapshot as it is, if that says whether the
        group fits.
        """
        if any(pod.spec.preemption_policy == "Never" for pod in pods):
            return _NEVER
        units = await self._units.below(group.spec.priority or 0, self._handle.clock.wall(), turns)
        units = self._without_stuck(units, pods[0])
        if not units:
            return _NO_VICTIMS
        units = await _protected_first(units, budgets, turns)
        with self._statement(release) as statement:
            await _take_off(units, statement, turns)
            status = await fits(statement)
            if status is not None:
                return status
            places = count(statement)
            if places is None:
                victims = await _spare(units, statement, fits, turns)
            else:
                victims = await places.victims(units, turns)
        if places is not None and not await self._confirm(victims, release, fits, turns):
            _log.info("Counting places misled the search for victims podGroup=%s", group.key)
            with self._statement(release) as statement:
                await _take_off(units, statement, turns)
                victims = await _spare(units, statement, fits, turns)
        if not victims:
            return None
        victims.sort(key=lambda unit: unit.rank)
        infos = tuple(info for unit in victims for info, _ in unit.pods)
        _log.info("Victims for the pod group are determined podGroup=%s victims=%d", group.key, len(infos))
        candidate = Candidate(node_name=_DOMAIN, victims=infos)
        return await self._evictions.evict(candidate, EvictionCause.of_group(group, pods[0].scheduler_name, waiting))

    def _without_stuck(self, units: list[VictimUnit], pod: Pod) -> list[VictimUnit]:
        """Leave out the units on nodes that victims may never leave."""
        snapshot, now = self._handle.snapshot, self._handle.clock.wall()
        names = dict.fromkeys(name for unit in units for _, name in unit.pods)
        nodes = ((name, snapshot.get(name)) for name in names)
        stuck = {name for name, node in nodes if node is not None and self._rules.is_stuck(node, pod, now)}
        return [unit for unit in units if all(name not in stuck for _, name in unit.pods)] if stuck else units

    def _statement(self, release: Release | None) -> Statement:
        return Statement(self._handle.snapshot, TrialKind.EXPLAIN, release=release)

    async def _confirm(
        self,
        victims: Sequence[VictimUnit],
        release: Release | None,
        fits: Callable[[Statement], Awaitable[Status | None]],
        turns: CooperativeYield,
    ) -> bool:
        """Return True if the group fits without the victims, and does not fit if the last of them stays."""
        if not victims:
            return False
        with self._statement(release) as statement:
            await _take_off(victims, statement, turns)
            if await fits(statement) is not None:
                return False
            _put_back(victims[-1], statement)
            return await fits(statement) is not None


def _put_back(unit: VictimUnit, statement: Statement) -> None:
    for info, node_name in unit.pods:
        statement.place(info, node_name)


async def _take_off(units: Iterable[VictimUnit], statement: Statement, turns: CooperativeYield) -> None:
    """Evict all pods of the units from the snapshot, node by node."""
    by_node: dict[str, list[PodInfo]] = {}
    for unit in units:
        for info, node_name in unit.pods:
            by_node.setdefault(node_name, []).append(info)
    for node_name, infos in by_node.items():
        # As in kube-scheduler, an evicted pod frees its host ports even if another pod uses them, too.
        statement.evict_all(infos, node_name, free_ports=True)
        await turns.yield_if_due()


async def _protected_first(units: Sequence[VictimUnit], budgets: Budgets, turns: CooperativeYield) -> list[VictimUnit]:
    """Return the units in the order in which they are put back."""
    if budgets.is_empty:
        return [*units]
    left: dict[Hashable, int] = {}
    violating: list[VictimUnit] = []
    others: list[VictimUnit] = []
    for count, unit in enumerate(units, 1):
        if count % _TURN == 0:
            await turns.yield_if_due()
        violates = budgets.violates((info.pod for info, _ in unit.pods), left)
        (violating if violates else others).append(unit)
    return [*violating, *others]


async def _spare(
    units: Sequence[VictimUnit],
    statement: Statement,
    fits: Callable[[Statement], Awaitable[Status | None]],
    turns: CooperativeYield,
) -> list[VictimUnit]:
    """Put units back in this order as long as the group fits; return those that stay off."""
    victims: list[VictimUnit] = []
    done, size = 0, 1
    while done < len(units):
        some = units[done : done + size]
        checkpoint = statement.checkpoint()
        for unit in some:
            _put_back(unit, statement)
            await turns.yield_if_due()
        if await fits(statement) is None:
            statement.keep(checkpoint)
            done += len(some)
            size *= 2
            continue
        statement.rollback(checkpoint)
        if len(some) == 1:
            victims += some
            done += 1
        size = max(1, len(some) // 2)
    return victims
