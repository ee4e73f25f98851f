"""The members of one group: where each of them stands, and what they say about the group.

A living member is in exactly one place: pending, waiting (it holds a node in memory, from Permit until it is bound or
gives the node back) or bound. Members that have ended are kept apart, for the counts of the status. All by UID: a pod
that was deleted and made again under its name is another member.
"""

from __future__ import annotations

import heapq
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

from pyscheduler.api import DecodeError, parse_time
from pyscheduler.podgroup.status import MemberFacts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.podgroup.fields import GroupFields
    from pyscheduler.podgroup.identity import GroupId
    from pyscheduler.podgroup.model import Group

__all__ = ["Declarations", "GangGroup", "GroupState", "MemberPlace", "created_at"]


class MemberPlace(StrEnum):
    """Where a member stands."""

    PENDING = "pending"
    WAITING = "waiting"
    BOUND = "bound"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


def created_at(item: KubeObject) -> float:
    """Return when an object was created, in seconds since 1970; 0 where it does not say."""
    created = item.metadata.creation_timestamp
    if created is None:
        return 0.0
    try:
        return parse_time(created)
    except DecodeError:
        return 0.0


@attrs.define(eq=False)
class GangGroup:
    """Groups that must be satisfied together; shared by those that list the same ones."""

    #: What they list, sorted.
    keys: tuple[str, ...]
    #: Those of them that are known and list just these.
    groups: set[GroupId] = attrs.Factory(set)
    #: Whether the minimum was reached once; never taken back while any of `groups` is known.
    satisfied: bool = False

    @property
    def id(self) -> str:
        """Return the sorted keys, joined by commas."""
        return ",".join(self.keys)


class Declarations:
    """What living members say, each different saying once, in the order of who said it first.

    Adding and removing is O(log n): members say the same by the thousand, and come and go one by one.
    """

    __slots__ = ("_said", "_speakers")

    def __init__(self) -> None:
        self._said: dict[str, GroupFields] = {}
        #: By saying: (created, name, uid) of who says it, smallest first; who left stays until it comes to the top.
        self._speakers: dict[GroupFields, list[tuple[float, str, str]]] = {}

    def set(self, pod: Pod, fields: GroupFields | None) -> bool:
        """Take down what a member says (None: it left); tell whether the order of sayings may have changed."""
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
        """Return the different sayings; first that of the member created first, then by name."""
        self._drop_gone()
        return sorted(self._speakers, key=lambda fields: self._speakers[fields][0])


@attrs.define(eq=False, kw_only=True)
class GroupState:
    """A group and its members, by UID, each place in the order of arrival. Owned by the directory; read only."""

    group: Group
    gang_group: GangGroup
    #: The object that describes the group, if there is one.
    object: KubeObject | None = None
    pending: dict[str, Pod] = attrs.Factory(dict)
    waiting: dict[str, Pod] = attrs.Factory(dict)
    bound: dict[str, Pod] = attrs.Factory(dict)
    succeeded: dict[str, Pod] = attrs.Factory(dict)
    failed: dict[str, Pod] = attrs.Factory(dict)
    #: Pending ones with scheduling gates.
    gated: set[str] = attrs.Factory(set)
    #: Bound ones that run.
    running: set[str] = attrs.Factory(set)
    #: How many living members each profile is responsible for.
    profiles: dict[str, int] = attrs.Factory(dict)

    @property
    def id(self) -> GroupId:
        """Return the group's identity."""
        return self.group.id

    @property
    def satisfied(self) -> bool:
        """Tell whether the minimum was reached once, by this group or one that shares its gang group."""
        return self.gang_group.satisfied

    @property
    def child_count(self) -> int:
        """Return how many members live, gated ones included."""
        return len(self.pending) + len(self.waiting) + len(self.bound)

    @property
    def assigned_count(self) -> int:
        """Return how many members have a node, in memory or in the API."""
        return len(self.waiting) + len(self.bound)

    def is_pending(self, pod: Pod) -> bool:
        """Tell whether a pod is a member that holds no place."""
        return pod.uid in self.pending

    def children(self) -> Iterator[Pod]:
        """Iterate over the living members; do not change the directory meanwhile."""
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
        """Return one of the members that have no node, None where all have; takes as long for any size."""
        return next(iter((self.pending or self.waiting).values()), None)

    def facts(self, *, ahead: int = 0) -> MemberFacts:
        """Return the counts that the group's status is made of, but for whose the members are: see `occupied_by`.

        `ahead` members were bound of which the watch has yet to tell.
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
