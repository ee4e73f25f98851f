"""Keep a record of each gang of a scheduler, and check whether a gang has enough members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.podgroup import GroupId, MatchPolicy, Mode, resolve
from pyscheduler.podgroup.declarations import GANG_TIMEOUT_ANNOTATION
from pyscheduler.podgroup.strategy import Strategy
from pyscheduler_coscheduling.deadlock_resolver.deadlocks import Deadlocks
from pyscheduler_gang import messages
from pyscheduler_gang.record import GangRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle, Trial
    from pyscheduler.podgroup import Dialect, GroupState, PodGroups
    from pyscheduler_gang.args import GangArgs

__all__ = ["Gangs", "has_timed_out"]

_TRUE: Final = "true"


def has_timed_out(pod: Pod) -> bool:
    """Return True if the pod has the annotation that its gang timed out."""
    return pod.annotations.get(GANG_TIMEOUT_ANNOTATION) == _TRUE


class Gangs:
    """The records of all gangs. Changes nothing but records."""

    def __init__(
        self, plugin: str, handle: Handle, groups: PodGroups, dialects: tuple[Dialect, ...], args: GangArgs
    ) -> None:
        self.plugin = plugin
        self.args = args
        self.groups = groups
        self.deadlocks = Deadlocks.of(handle)
        self.directory = groups.directory
        self.clock = handle.clock
        #: The profiles that have the plugin.
        self.profiles: set[str] = set()
        #: Members that passed Permit and are not bound yet.
        self.passed: set[str] = set()
        self.dialects = dialects
        self._records: dict[GroupId, GangRecord] = {}
        #: By family and key of a gang: the other gangs that list it in their gang group.
        self._listed_by: dict[tuple[str, str], dict[GroupId, None]] = {}

    # --- finding

    def __iter__(self) -> Iterator[GangRecord]:
        return iter(list(self._records.values()))

    def named(self, key: str) -> GangRecord | None:
        """Return the gang `namespace/name`; None if there is none."""
        return next((record for record in self._records.values() if record.id.key == key), None)

    def known(self, gang: GroupId) -> GangRecord | None:
        """Return the record of a gang; None if there is none."""
        return self._records.get(gang)

    def find(self, pod: Pod) -> tuple[GroupId, GangRecord | None] | None:
        """Return the gang that a pod names and its record, None if not known; None for a pod without a gang."""
        state = self.directory.of(pod)
        if state is not None:
            return (state.id, self.record(state)) if self.serves(state) else None
        found = resolve(pod, self.dialects)
        return None if found is None else (found[0], None)

    def of(self, pod: Pod) -> GangRecord | None:
        """Return the record of a pod's gang."""
        found = self.find(pod)
        return None if found is None else found[1]

    def key(self, pod: Pod) -> GroupId | None:
        """Return the identity of a pod's gang."""
        found = self.find(pod)
        return None if found is None else found[0]

    def serves(self, state: GroupState) -> bool:
        """Return True if this plugin serves the group."""
        return self.groups.server_of(state) == self.plugin

    def record(self, state: GroupState) -> GangRecord:
        """Return the record of a gang; create it if needed."""
        record = self._records.get(state.id)
        if record is None or record.state is not state:
            if record is not None:
                self.drop(record)
            record = self._records[state.id] = GangRecord(state, was_satisfied=state.satisfied)
            self.list_partners(record)
        return record

    def drop(self, record: GangRecord) -> None:
        """Forget a gang."""
        record.clear_deadline()
        if self._records.get(record.id) is record:
            del self._records[record.id]
            for listing in self._listed_by.values():
                listing.pop(record.id, None)

    def list_partners(self, record: GangRecord, before: tuple[str, ...] = ()) -> None:
        """Update the index of the gangs that a gang lists; `before` are those that it listed until now."""
        gang = record.id
        for key in before:
            self._listed_by.get((gang.family, key), {}).pop(gang, None)
        for key in record.state.group.gang_group:
            if key != gang.key:
                self._listed_by.setdefault((gang.family, key), {})[gang] = None

    def listing(self, gang: GroupId) -> list[GangRecord]:
        """Return the other gangs that list this one in their gang group."""
        listing = self._listed_by.get((gang.family, gang.key), {})
        return [self._records[each] for each in listing if each in self._records]

    def group(self, record: GangRecord) -> list[GangRecord]:
        """Return the gangs that share the gang group, because they list the same gangs, sorted by id."""
        groups = record.state.gang_group.groups
        if len(groups) == 1:
            return [record]
        return [self.record(state) for each in sorted(groups) if (state := self.directory.get(each)) is not None]

    def shares_gang_group(self, record: GangRecord, pod: Pod) -> bool:
        """Return True if a pod belongs to a gang that shares the gang group."""
        state = self.directory.of(pod)
        return state is not None and state.gang_group is record.state.gang_group

    # --- settings

    def policy(self, record: GangRecord) -> MatchPolicy:
        """Return the match policy of a gang."""
        return record.state.group.policy or self.args.match_policy

    def wait_seconds(self, record: GangRecord) -> float:
        """Return how long members wait for each other."""
        return record.state.group.wait_seconds or self.args.wait_seconds

    def is_strict(self, record: GangRecord) -> bool:
        """Return True if all members give up their nodes when one fails."""
        return record.state.group.mode is Mode.STRICT

    @property
    def uses_group_cycle(self) -> bool:
        """Return True if gangs are scheduled in group cycles, without waits at Permit."""
        return self.args.strategy == Strategy.GROUP_CYCLE

    def gathers(self, record: GangRecord) -> bool:
        """Return True if a gang of the gang group names layers of the network, and they count."""
        return self.args.aware_network_topology and any(each.state.group.gather for each in self.group(record))

    def takes_turns(self, record: GangRecord) -> bool:
        """Return True if the schedule cycle limits the attempts of a gang."""
        return self.is_strict(record) and not (self.args.skip_check_schedule_cycle or self.uses_group_cycle)

    def tries_freely(self, record: GangRecord) -> bool:
        """Return True if members have no turns, but give up their nodes when a member of a Strict partner fails."""
        if self.uses_group_cycle or self.takes_turns(record):
            return False
        return any(self.is_strict(each) for each in self.group(record))

    def is_satisfied_for_good(self, record: GangRecord) -> bool:
        """Return True if the gang reached its minimum once, and that is enough: its pods are plain pods now."""
        return record.state.satisfied and self.policy(record) is MatchPolicy.ONCE_SATISFIED

    # --- members

    def is_short(self, record: GangRecord) -> bool:
        """Return True if there are fewer members than the minimum."""
        return record.child_count < record.state.group.min

    def not_ready(self, record: GangRecord, pod: Pod) -> str | None:
        """Return why the gang group cannot be tried, if a gang is unknown, not declared, or has too few members."""
        group = record.state.group
        if self.is_short(record):
            return messages.about(messages.NOT_COLLECTED, record.id, pod)
        if len(group.gang_group) == 1:
            return None
        found: dict[str, list[str]] = {"doesn't exists": [], "has not init": [], "child pod not collect enough": []}
        absent, bare, short = found.values()
        for gang, state in self.directory.partners(record.state):
            if gang == record.id:
                continue
            if state is None:
                absent.append(gang.key)
            elif not state.group.is_declared:
                bare.append(gang.key)
            elif not self.is_satisfied_for_good(partner := self.record(state)) and self.is_short(partner):
                short.append(gang.key)
        for what, failing in found.items():
            if failing:
                return messages.partners_fail(group.gang_group, failing, what, record.id, pod)
        return None

    def has_quorum(self, record: GangRecord, trial: Trial | None = None) -> bool:
        """Return True if every gang of the gang group has its quorum: enough members that wait or are bound.

        A member that has a node in the `trial` counts as waiting.
        """
        if len(record.state.group.gang_group) == 1:
            return self._has_own_quorum(record.state, trial)
        partners = self.directory.partners(record.state)
        return all(state is not None and self._has_own_quorum(state, trial) for _, state in partners)

    def _has_own_quorum(self, state: GroupState, trial: Trial | None) -> bool:
        group = state.group
        if not group.is_declared:
            return False
        waiting, bound = len(state.waiting), len(state.bound)
        if trial is not None:
            waiting += len(trial.placed(state.id))
        match group.policy or self.args.match_policy:
            case MatchPolicy.ONLY_WAITING:
                return waiting >= group.min
            case MatchPolicy.WAITING_AND_RUNNING:
                return waiting + bound >= group.min
            case _:
                return state.satisfied or waiting + bound >= group.min

    def other_scheduler(self, record: GangRecord, pod: Pod) -> str | None:
        """Return another profile that an unbound member names; pods of other schedulers do not count."""
        names = record.state.profiles
        if len(names) == 1:
            return None
        others = {each.scheduler_name for each in record.unbound()} & self.profiles
        return min(others - {pod.scheduler_name}, default=None)

    def check_invariants(self) -> None:
        """Raise AssertionError if records and directory disagree."""
        for gang, record in self._records.items():
            assert record.id == gang, f"{gang} is filed as {record.id}"
            assert self.directory.get(gang) is record.state, f"{gang} is not in the directory"
            record.check_invariants()
