"""The members of one group: the state of each, and what its labels and annotations say about the group."""

from __future__ import annotations

import heapq
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_objects.times import seconds_of
from pyscheduler.podgroup.status import MemberFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.podgroup.fields import GroupFields
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.model import Group
    from pyscheduler.podgroup.sub_group_counts import SubGroupCounts

__all__ = ["Declarations", "GangGroup", "GroupState", "MemberPlace", "created_at"]

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class MemberPlace(StrEnum):
    """The place of a member."""

    PENDING = "pending"
    WAITING = "waiting"
    BOUND = "bound"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


def created_at(item: KubeObject) -> float:
    """Return when an object was created, in seconds since 1970; 0 if it does not say."""
    return seconds_of(item.metadata.creation_timestamp)


@attrs.define(eq=False)
class GangGroup:
    """Groups that must be satisfied together; groups that list the same groups share this object."""

    #: The listed groups, sorted.
    keys: tuple[str, ...]
    #: The known groups that list exactly these.
    groups: set[GroupId] = attrs.Factory(set)
    #: Whether the minimum was reached once; it stays True while any of `groups` is known.
    satisfied: bool = False


class Declarations:
    """The declarations of living members: each different one once, in the order of their earliest members.

    Adding and removing is O(log n): thousands of members say the same, and come and go one by one.
    """

    __slots__ = ("_said", "_speakers")

    def __init__(self) -> None:
        self._said: dict[str, GroupFields] = {}
        #: By declaration: a heap of (created, name, uid) of its members; one that left stays until it is the smallest.
        self._speakers: dict[GroupFields, list[tuple[float, str, str]]] = {}

    def set(self, pod: Pod, fields: GroupFields | None) -> bool:
        """Record what a member says (None: it left); return True if the order of declarations may have changed."""
        uid = pod.uid
        known = self._said.get(uid)
        if known == fields:
            return False
        changed = False
        if known is not None:
            del self._said[uid]
            changed = self._speakers[known][0][2] == uid
        if fields is not None:
            self._said[uid] = fields
            speakers = self._speakers.setdefault(fields, [])
            heapq.heappush(speakers, (created_at(pod), pod.name, uid))
            changed = changed or speakers[0][2] == uid
        if changed:
            self._drop_gone()
        return changed

    def _drop_gone(self) -> None:
        for fields, speakers in list(self._speakers.items()):
            while speakers and self._said.get(speakers[0][2]) != fields:
                heapq.heappop(speakers)
            if not speakers:
                del self._speakers[fields]

    def in_order(self) -> list[GroupFields]:
        """Return the different declarations, in the order of creation, then name, of their earliest members."""
        self._drop_gone()
        return sorted(self._speakers, key=lambda fields: self._speakers[fields][0])


@attrs.define(eq=False, kw_only=True)
class GroupState:
    """A group and its members by UID, in each place in the order of arrival. Only the directory changes it."""

    group: Group
    gang_group: GangGroup
    #: The object that describes the group, if there is one.
    object: KubeObject | None = None
    pending: dict[str, Pod] = attrs.Factory(dict)
    waiting: dict[str, Pod] = attrs.Factory(dict)
    bound: dict[str, Pod] = attrs.Factory(dict)
    succeeded: dict[str, Pod] = attrs.Factory(dict)
    failed: dict[str, Pod] = attrs.Factory(dict)
    #: Pending members with scheduling gates.
    gated: set[str] = attrs.Factory(set)
    #: Bound members that run.
    running: set[str] = attrs.Factory(set)
    #: Whether members that succeeded count although the group has not started; see `Dialect`.
    count_succeeded: bool = False
    #: The members by sub-group, if the group has sub-groups.
    parts: SubGroupCounts | None = None
    #: How many living members name each profile.
    profiles: dict[str, int] = attrs.Factory(dict)

    @property
    def id(self) -> GroupId:
        """Return the group's identity."""
        return self.group.id

    @property
    def satisfied(self) -> bool:
        """Return True if the minimum was reached once, by this group or one that shares its gang group."""
        return self.gang_group.satisfied

    @property
    def child_count(self) -> int:
        """Return the number of living members, including gated ones."""
        return len(self.pending) + len(self.waiting) + len(self.bound)

    @property
    def assigned_count(self) -> int:
        """Return the number of members with a node, in memory or in the API."""
        return len(self.waiting) + len(self.bound)

    @property
    def succeeded_count(self) -> int:
        """Return how many members that succeeded count: all of them if the group has started and has too few pods now.

        A Job with more completions than parallelism has fewer pods at its end. After a restart, as many members as the
        minimum that have a node, or had one, show that the group has started.
        """
        least = self.group.min
        if self.child_count >= least:
            return 0
        has_started = self.satisfied or len(self.bound) + len(self.succeeded) + len(self.failed) >= least
        return len(self.succeeded) if has_started or self.count_succeeded else 0

    def parts_have_minimum(self, placed: Mapping[str, Any] = _NOTHING) -> bool:
        """Return True if the sub-groups have their minimum of members with nodes, or if there are none.

        `placed` has, by UID, the members with a node in a trial.
        """
        return self.parts is None or self.parts.has_minimum(placed)

    def parts_missing(self, placed: Mapping[str, Any] = _NOTHING) -> int:
        """Return how many more members need a node at least for the minimum of the sub-groups."""
        return 0 if self.parts is None else self.parts.missing(placed)

    def is_pending(self, pod: Pod) -> bool:
        """Return True if the pod is a member without a node."""
        return pod.uid in self.pending

    def children(self) -> Iterator[Pod]:
        """Yield the living members; the directory must not change meanwhile."""
        yield from self.pending.values()
        yield from self.waiting.values()
        yield from self.bound.values()

    def place(self, place: MemberPlace) -> dict[str, Pod]:
        """Return the members in one place."""
        members: dict[str, Pod] = getattr(self, place)
        return members

    def places(self) -> Mapping[MemberPlace, Mapping[str, Pod]]:
        """Return the members by their place."""
        return {place: self.place(place) for place in MemberPlace}

    @property
    def unbound_member(self) -> Pod | None:
        """Return one member without a node in the API, None if there is none; O(1)."""
        return next(iter((self.pending or self.waiting).values()), None)

    def facts(self, *, ahead: int = 0) -> MemberFacts:
        """Return the facts for the group's status, without `occupied_by`.

        `ahead` is the number of bound members that the watch does not show as bound yet.
        """
        ended = len(self.succeeded) + len(self.failed)
        return MemberFacts(
            min=self.group.min,
            members=self.child_count + ended,
            bound=len(self.bound) + ahead,
            waiting=max(len(self.waiting) - ahead, 0),
            running=len(self.running),
            succeeded=len(self.succeeded),
            failed=len(self.failed),
            created=self.group.created,
        )
