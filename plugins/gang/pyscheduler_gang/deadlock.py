"""Methods of `Gang` for resolving deadlocks, in which gangs hold nodes that other gangs need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.podgroup import MatchPolicy, created_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupState
    from pyscheduler_coscheduling.deadlock_resolver.units import DeadlockArgs, UnitKey
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.rounds import Rounds
    from pyscheduler_gang.verdicts import Verdicts

__all__ = ["DeadlockSide"]


@attrs.frozen(kw_only=True)
class DeadlockSide:
    """The methods that the resolver calls, for one profile; see `DeadlockParty`."""

    handle: Handle
    deadlock: DeadlockArgs
    gangs: Gangs
    rounds: Rounds
    verdicts: Verdicts

    def unit(self, state: GroupState) -> tuple[UnitKey, Sequence[GroupState]]:
        """Return the gang group."""
        key = (state.id.family, state.group.gang_group)
        if len(state.group.gang_group) == 1:
            return key, (state,)
        return key, [record.state for record in self.gangs.group(self.gangs.record(state))]

    def is_ready(self, unit: Sequence[GroupState]) -> bool:
        """Return True if the gang group can be tried."""
        state = unit[0] if unit else None
        pod = None if state is None else next(state.children(), None)
        if state is None or pod is None or not state.group.is_declared:
            return False
        return self.gangs.not_ready(self.gangs.record(state), pod) is None

    def missing(self, state: GroupState) -> int:
        """Return how many members the gang still needs, by its match policy."""
        gangs, group = self.gangs, state.group
        record = gangs.record(state)
        if not group.is_declared or gangs.is_satisfied_for_good(record):
            return 0
        bound = 0 if gangs.policy(record) is MatchPolicy.ONLY_WAITING else len(state.bound)
        return max(group.min - len(state.waiting) - bound, 0)

    def candidates(self, state: GroupState) -> Sequence[Pod]:
        """Return the pending members that can have a turn, in the order of `GangSort`."""
        record, profiles = self.gangs.record(state), self.gangs.profiles
        pods = [pod for pod in state.pending.values() if record.is_countable(pod, profiles)]
        return sorted(pods, key=lambda pod: (-pod.priority, record.rounds.get(pod.uid, 0), created_at(pod), pod.key))

    def may_yield(self, state: GroupState) -> bool:
        """Return True if the gang is NonStrict; a Strict gang holds no nodes between its passes."""
        return not self.gangs.is_strict(self.gangs.record(state))

    def yield_places(self, unit: Sequence[GroupState], reason: Callable[[GroupState], str]) -> None:
        """Reject all waiting members and remove their deadline."""
        for state in unit:
            self.verdicts.give_way(self.gangs.record(state), reason(state))

    def retry(self, unit: Sequence[GroupState]) -> None:
        """Begin another pass of each gang."""
        for state in unit:
            if self.gangs.directory.get(state.id) is state:
                self.rounds.request_retry(self.gangs.record(state))
