"""Choose which groups give up nodes so that one group in a deadlock (the winner) fits.

For each possible winner, a simulation removes other groups from their nodes, one by one, until the winner fits.
Groups that would not fit even on empty nodes are removed first, then those of the lowest priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework import PodInfo, PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import WhatIf
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler_coscheduling.deadlock_resolver.units import Contender, UnitKey

__all__ = ["NeverFits", "Plan", "Planner"]

_DAEMON_SET = "DaemonSet"
_MIRROR = "kubernetes.io/config.mirror"


@attrs.frozen
class Plan:
    """The winner, the contenders that yield to it, and the nodes of its missing members; no victims if it fits now."""

    winner: Contender
    victims: Sequence[Contender]
    nodes: Sequence[tuple[Pod, str]]


class NeverFits:
    """The units that would not fit if the cluster ran nothing but daemons. Valid until nodes, or the unit, change."""

    def __init__(self) -> None:
        self._known: dict[UnitKey, bool] = {}

    def __contains__(self, contender: Contender) -> bool:
        """Return whether a unit is known not to fit."""
        return self._known.get(contender.key, False)

    def is_known(self, contender: Contender) -> bool:
        """Return whether the answer about a unit is known."""
        return contender.key in self._known

    def forget(self, key: UnitKey) -> None:
        """Drop the answer about a unit that changed."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Drop all answers: the nodes are others."""
        self._known.clear()

    async def work_out(self, trial: WhatIf, contenders: Sequence[Contender]) -> None:
        """Find out about contenders of the profile that `trial` asks; their own bound members stay where they are."""
        plain = [each for each in contenders if not any(state.bound for state in each.states)]
        for few in (plain, *([each] for each in contenders if each not in plain)):
            if not few:
                continue
            with trial.statement.undo_at_end():
                await _empty(trial, {uid for each in few for state in each.states for uid in state.bound})
                for contender in few:
                    self._known[contender.key] = await self._is_hopeless(trial, contender)

    async def _is_hopeless(self, trial: WhatIf, contender: Contender) -> bool:
        # As the API has them: those that wait carry the node that they hold.
        held = {
            state.id: [pod for each in contender.holds if (pod := state.waiting.get(each.pod.uid)) is not None]
            for state in contender.states
        }
        pools = {group: [*pods, *contender.candidates[group]] for group, pods in held.items()}
        needs = {group: contender.missing[group] + len(pods) for group, pods in held.items()}
        if any(len(pools[group]) < count for group, count in needs.items()):
            return False  # members may come yet, or be let through their gates: nobody knows what they ask for
        with trial.statement.undo_at_end():
            return await _place(trial, needs, pools) is None


@attrs.define
class Planner:
    """One search. `ranked` are all contenders, first rank first; about all of them `never` knows."""

    ranked: Sequence[Contender]
    never: NeverFits

    async def plan_for(self, trial: WhatIf, winner: Contender, *, as_it_is: bool) -> Plan | None:
        """Return which contenders must yield so that `winner` is complete; None if nothing completes it.

        With `as_it_is` it is first tried with nobody yielding.
        """
        if as_it_is:
            nodes = await _place_missing(trial, winner)
            if nodes is not None:
                return Plan(winner, (), nodes)
        victims = self._victims_for(winner)
        if not victims:
            return None
        statement = trial.statement
        if len(victims) > 1:
            # Most often all of them are not enough, or else one is.
            with statement.undo_at_end():
                for victim in victims:
                    _take_off(trial, victim)
                if await _place_missing(trial, winner) is None:
                    return None
        with statement.undo_at_end():
            for count, victim in enumerate(victims, start=1):
                _take_off(trial, victim)
                nodes = await _place_missing(trial, winner)
                if nodes is not None:
                    return Plan(winner, victims[:count], nodes)
        return None

    def _victims_for(self, winner: Contender) -> Sequence[Contender]:
        """Return the contenders that may yield, in that order: those that never fit, then the lowest rank."""
        others = [each for each in reversed(self.ranked) if each is not winner and each.can_yield]
        hopeless = [each for each in others if each in self.never]
        return [*hopeless, *(each for each in others if each not in self.never and each.priority <= winner.priority)]


async def _empty(trial: WhatIf, spared: set[str]) -> None:
    """Take all pods off all nodes, and end all nominations."""
    snapshot = trial.snapshot
    for name in list(snapshot.nominated_nodes):
        for info in list(snapshot.nominated_pods(name)):
            trial.statement.nominate(info, "")
    for row in range(len(snapshot.nodes)):
        node = snapshot.nodes[row]
        gone = [info for info in node.pods if info.pod.uid not in spared and not _stays(info.pod)]
        if gone:
            trial.statement.evict_all(gone, node.name)
            await trial.turn()


def _take_off(trial: WhatIf, contender: Contender) -> None:
    snapshot = trial.snapshot
    for held in contender.holds:
        node = snapshot.get(held.node_name)
        info = None if node is None else next((each for each in node.pods if each.pod.uid == held.pod.uid), None)
        if info is not None:
            trial.statement.evict(info, held.node_name)


async def _place_missing(trial: WhatIf, contender: Contender) -> Sequence[tuple[Pod, str]] | None:
    """Return where a unit's missing members would go; None where they do not all fit. Leaves nothing behind."""
    with trial.statement.undo_at_end():
        return await _place(trial, contender.missing, contender.candidates)


async def _place(
    trial: WhatIf, needs: Mapping[GroupId, int], pools: Mapping[GroupId, Sequence[Pod]]
) -> Sequence[tuple[Pod, str]] | None:
    """Place so many members of each group, in order; a member that fits nowhere is passed over."""
    placed: list[tuple[Pod, str]] = []
    for group, count in needs.items():
        pods = pools[group]
        spare = len(pods) - count
        failed: Pod | None = None
        for pod in pods:
            if not count:
                break
            node = "" if failed is not None and _is_alike(pod, failed) else _place_one(trial, pod)
            if node:
                placed.append((pod, node))
                count -= 1
            else:
                failed = pod
                spare -= 1
                if spare < 0:
                    return None
            await trial.turn()
    return placed


def _place_one(trial: WhatIf, pod: Pod) -> str:
    try:
        info = PodInfo.of(pod)
    except PySchedulerError:
        return ""  # its users have been told that it cannot be read
    node = trial.find_node(info)
    if node:
        trial.statement.place(info.with_pod(pod.with_node_name(node)), node)
    return node


def _stays(pod: Pod) -> bool:
    """Return whether a pod would be on its node of an empty cluster, too: a daemon's, or a static one's mirror."""
    if _MIRROR in pod.annotations:
        return True
    return any(owner.kind == _DAEMON_SET and owner.controller for owner in pod.metadata.owner_references)


def _is_alike(pod: Pod, other: Pod) -> bool:
    return pod.spec == other.spec and pod.labels == other.labels and pod.namespace == other.namespace
