"""All groups of the cluster and their pods, kept up to date by events.

No event shows that the scheduler reserved a node for a pod. So the plugins report reservations with `hold` and
`release`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.podgroup.dialects import DIALECTS, Dialect, resolve
from pyscheduler.podgroup.fields import NOTHING_SAID
from pyscheduler.podgroup.identity import GroupId
from pyscheduler.podgroup.membership import Declarations, GangGroup, GroupState, MemberPlace, created_at
from pyscheduler.podgroup.model import merge
from pyscheduler.podgroup.sub_group_counts import SubGroupCounts
from pyscheduler.podgroup.sub_group_fields import NO_SUB_GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.podgroup.fields import GroupFields
    from pyscheduler.podgroup.model import Group

__all__ = ["ChangeKind", "GroupChange", "GroupDirectory"]

_ENDED: Final = (MemberPlace.SUCCEEDED, MemberPlace.FAILED)


class ChangeKind(StrEnum):
    """The kind of a change of a group."""

    #: A living pod joined it.
    JOINED = "joined"
    #: A living member was deleted, ended, or names another group now.
    LEFT = "left"
    #: A member has another place or other gates; or an ended member came or was deleted.
    MOVED = "moved"
    #: What is said about the group changed: it has a new `Group`.
    DECLARED = "declared"
    #: It has no object and no living member any more.
    FORGOTTEN = "forgotten"


@attrs.frozen
class GroupChange:
    """One change, reported when the directory is consistent again. `old` is the group before a declaration."""

    kind: ChangeKind
    state: GroupState
    pod: Pod | None = None
    old: Group | None = None


@attrs.define(eq=False)
class _Entry:
    """A group with all that it is computed from."""

    state: GroupState
    #: How many pods name it, by dialect.
    named: dict[str, int] = attrs.Factory(dict)
    declarations: Declarations = attrs.Factory(Declarations)
    #: By rank of the dialect, and of the kind within it: the first object describes the group.
    objects: dict[tuple[int, int], KubeObject] = attrs.Factory(dict)
    #: Creation time of the earliest pod ever seen in it.
    earliest: float | None = None


@attrs.define(eq=False)
class _Member:
    pod: Pod
    group: GroupId
    dialect: Dialect
    place: MemberPlace


class GroupDirectory:
    """The groups of one program, in these dialects, in their order of precedence."""

    def __init__(self, dialects: Iterable[Dialect] = DIALECTS) -> None:
        self.choose(dialects)
        self._entries: dict[GroupId, _Entry] = {}
        self._members: dict[str, _Member] = {}
        #: Ended members of groups that are not known; they are counted if the group becomes known again.
        self._relics: dict[GroupId, dict[str, _Member]] = {}
        #: Pods as they are to be written, by uid, until an event shows that they name a group.
        self._expected: dict[str, Pod] = {}
        self._gang_groups: dict[tuple[str, tuple[str, ...]], GangGroup] = {}
        self._listeners: list[Callable[[GroupChange], object]] = []
        self._unreported: list[GroupChange] = []
        self._is_reporting = False

    def choose(self, dialects: Iterable[Dialect]) -> None:
        """Use these dialects from now on. Known pods are not read again, so call it before the first event."""
        self._dialects = tuple(dialects)
        self._rank = {dialect.name: rank for rank, dialect in enumerate(self._dialects)}
        self._kind_rank = {
            kind.type: (rank, number, dialect)
            for rank, dialect in enumerate(self._dialects)
            for number, kind in enumerate(dialect.kinds)
        }

    @property
    def dialects(self) -> tuple[Dialect, ...]:
        """Return the dialects in use, in their order."""
        return self._dialects

    # --- queries

    def get(self, group: GroupId) -> GroupState | None:
        """Return a group by its identity; None if it is not known."""
        entry = self._entries.get(group)
        return None if entry is None else entry.state

    def of(self, pod: Pod) -> GroupState | None:
        """Return the group that a pod names; None for a pod without one. The pod need not be known yet."""
        member = self._members.get(pod.uid)
        if member is not None and member.pod is pod:
            return self.get(member.group)
        found = self._resolve(pod)
        return None if found is None else self.get(found[0])

    def group_id(self, pod: Pod) -> GroupId | None:
        """Return the identity of the group that a pod names, known or not."""
        member = self._members.get(pod.uid)
        if member is not None and member.pod is pod:
            return member.group
        found = self._resolve(pod)
        return None if found is None else found[0]

    def _resolve(self, pod: Pod) -> tuple[GroupId, Dialect] | None:
        found = resolve(pod, self._dialects)
        if found is None and pod.uid in self._expected:
            return resolve(self._expected[pod.uid], self._dialects)
        return found

    def expected(self, pod: Pod) -> Pod:
        """Return a pod with the labels and annotations that `expect` announced; else the pod itself."""
        return self._expected.get(pod.uid, pod)

    def dialect_of(self, state: GroupState) -> Dialect:
        """Return the row of the dialect that a group is declared in."""
        return self._dialects[self._rank[state.group.dialect]]

    def place_of(self, uid: str) -> MemberPlace | None:
        """Return the place of a member; None for a pod without a group."""
        member = self._members.get(uid)
        return None if member is None else member.place

    def partners(self, state: GroupState) -> list[tuple[GroupId, GroupState | None]]:
        """Return all groups of the gang group, including `state`; None for a group that is not known."""
        partners = [GroupId.of_key(key, state.id.family) for key in state.group.gang_group]
        return [(partner, self.get(partner)) for partner in partners]

    def __iter__(self) -> Iterator[GroupState]:
        for entry in self._entries.values():
            yield entry.state

    def __len__(self) -> int:
        return len(self._entries)

    def subscribe(self, listener: Callable[[GroupChange], object]) -> None:
        """Call `listener` with every change from now on. Changes that a listener makes are reported after this one."""
        self._listeners.append(listener)

    # --- pods

    def pod_added(self, pod: Pod) -> None:
        """Add or update a pod."""
        self._put_pod(pod, was_bound_before=False)

    def expect(self, pod: Pod) -> None:
        """Announce a pod as it is to be written: until an event names its group, it is a member of this group.

        A pod that is bound does not prove that the group reached its minimum.
        """
        if resolve(pod, self._dialects) is None or self.place_of(pod.uid) in _ENDED:
            return
        self._put_pod(pod, was_bound_before=True)
        self._expected[pod.uid] = pod

    def _put_pod(self, pod: Pod, *, was_bound_before: bool) -> None:
        if self._expected and resolve(pod, self._dialects) is not None:
            self._expected.pop(pod.uid, None)
        found = self._resolve(pod)
        member = self._members.get(pod.uid)
        if member is not None and (found is None or found[0] != member.group or member.group not in self._entries):
            self._leave(member)
            member = None
        if found is not None:
            if member is None:
                self._join(pod, *found, was_bound_before=was_bound_before)
            else:
                self._update(member, pod, found[1])
        self._report()

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Update a pod; another uid means that one pod was deleted and another created.

        A pod that was bound before it named the group counts as bound, but does not prove that the group reached its
        minimum.
        """
        if old.uid != new.uid:
            self.pod_deleted(old)
        was_bound = old.uid == new.uid and bool(old.node_name)
        self._put_pod(new, was_bound_before=was_bound and self.group_id(old) != self.group_id(new))

    def pod_deleted(self, pod: Pod) -> None:
        """Remove a pod."""
        self._expected.pop(pod.uid, None)
        member = self._members.get(pod.uid)
        if member is not None:
            self._leave(member)
            self._report()

    # --- nodes held in memory, which no event says

    def hold(self, uid: str) -> None:
        """Record that a pending member holds a node in memory: it waits at Permit or is being bound."""
        self._move_if(uid, MemberPlace.PENDING, MemberPlace.WAITING)

    def release(self, uid: str) -> None:
        """Record that a waiting member gave its node back."""
        self._move_if(uid, MemberPlace.WAITING, MemberPlace.PENDING)

    def satisfy(self, group: GroupId) -> None:
        """Record that the group's gang group reached its minimum."""
        entry = self._entries.get(group)
        if entry is not None:
            entry.state.gang_group.satisfied = True

    # --- group objects

    def object_added(self, item: KubeObject) -> None:
        """Add or update a group object."""
        found = self._kind_rank.get(type(item))
        if found is None:
            return
        rank, number, dialect = found
        entry = self._entry(GroupId(item.namespace, item.name, dialect.family), dialect)
        entry.objects[rank, number] = item
        self._declare(entry)
        self._report()

    def object_deleted(self, item: KubeObject) -> None:
        """Remove a group object; its pods stay members of the group, which only they may declare now."""
        found = self._kind_rank.get(type(item))
        if found is None:
            return
        rank, number, dialect = found
        entry = self._entries.get(GroupId(item.namespace, item.name, dialect.family))
        if entry is not None and entry.objects.pop((rank, number), None) is not None:
            self._declare(entry)
            self._forget_if_empty(entry)
            self._report()

    # --- inside

    def _entry(self, group: GroupId, dialect: Dialect) -> _Entry:
        entry = self._entries.get(group)
        if entry is None:
            blank = merge(group, dialect.name, members=(), object=None, created=0.0)
            entry = _Entry(GroupState(group=blank, gang_group=self._gang_group(blank)))
            entry.state.gang_group.groups.add(group)
            self._entries[group] = entry
            for member in self._relics.pop(group, {}).values():
                self._put(entry, member)
                _count(entry.named, member.dialect.name, 1)
                _note_creation(entry, member.pod)
        return entry

    def _gang_group(self, group: Group) -> GangGroup:
        key = (group.id.family, group.gang_group)
        return self._gang_groups.setdefault(key, GangGroup(group.gang_group))

    def _join(self, pod: Pod, group: GroupId, dialect: Dialect, *, was_bound_before: bool) -> None:
        member = self._members[pod.uid] = _Member(pod, group, dialect, _place_of(pod))
        is_new = group not in self._entries
        if is_new and _ended(member.place):
            self._relics.setdefault(group, {})[pod.uid] = member
            return
        entry = self._entry(group, dialect)
        self._put(entry, member)
        if member.place is MemberPlace.BOUND and not was_bound_before:
            # Members are bound only when their group has its minimum, also before this program started.
            entry.state.gang_group.satisfied = True
        _count(entry.named, dialect.name, 1)
        earlier = _note_creation(entry, pod)
        kind = ChangeKind.MOVED if _ended(member.place) else ChangeKind.JOINED
        self._unreported.append(GroupChange(kind, entry.state, pod))
        self._said(entry, member, anyway=is_new or earlier or entry.named[dialect.name] == 1)

    def _leave(self, member: _Member) -> None:
        del self._members[member.pod.uid]
        entry = self._entries.get(member.group)
        if entry is None:
            relics = self._relics[member.group]
            del relics[member.pod.uid]
            if not relics:
                del self._relics[member.group]
            return
        self._take(entry, member)
        kind = ChangeKind.MOVED if _ended(member.place) else ChangeKind.LEFT
        self._unreported.append(GroupChange(kind, entry.state, member.pod))
        _count(entry.named, member.dialect.name, -1)
        if entry.declarations.set(member.pod, None) or member.dialect.name not in entry.named:
            self._declare(entry)
        self._forget_if_empty(entry)

    def _update(self, member: _Member, pod: Pod, dialect: Dialect) -> None:
        entry = self._entries[member.group]
        old = member.pod
        renamed = member.dialect is not dialect
        if renamed:
            _count(entry.named, member.dialect.name, -1)
            _count(entry.named, dialect.name, 1)
            member.dialect = dialect
        self._take(entry, member)
        member.pod = pod
        place = _place_of(pod)
        # The API does not know about a node held in memory, so an update does not end that.
        stays = place is MemberPlace.PENDING and member.place is MemberPlace.WAITING
        if not stays and place is not member.place:
            kind = ChangeKind.LEFT if _ended(place) and not _ended(member.place) else ChangeKind.MOVED
            self._unreported.append(GroupChange(kind, entry.state, pod))
            member.place = place
            if place is MemberPlace.BOUND:
                entry.state.gang_group.satisfied = True
        elif bool(old.spec.scheduling_gates) != bool(pod.spec.scheduling_gates) or _runs(old) != _runs(pod):
            self._unreported.append(GroupChange(ChangeKind.MOVED, entry.state, pod))
        self._put(entry, member)
        self._said(entry, member, anyway=renamed)
        if _ended(place):
            self._forget_if_empty(entry)

    def _said(self, entry: _Entry, member: _Member, *, anyway: bool = False) -> None:
        fields: GroupFields | None = None
        if not _ended(member.place):
            read = member.dialect.pod_fields
            fields = NOTHING_SAID if read is None else read(member.pod)
        if entry.declarations.set(member.pod, fields) or anyway:
            self._declare(entry)

    def _move_if(self, uid: str, before: MemberPlace, after: MemberPlace) -> None:
        """Move a member between pending and waiting."""
        member = self._members.get(uid)
        if member is None or member.place is not before:
            return
        state, pod = self._entries[member.group].state, member.pod
        if state.parts is not None:
            state.parts.move(uid, before, after)
        source, target = state.pending, state.waiting
        if after is MemberPlace.PENDING:
            source, target = target, source
        del source[uid]
        target[uid] = pod
        member.place = after
        self._unreported.append(GroupChange(ChangeKind.MOVED, state, pod))
        self._report()

    def _put(self, entry: _Entry, member: _Member) -> None:
        state, pod = entry.state, member.pod
        state.place(member.place)[pod.uid] = pod
        if state.parts is not None:
            state.parts.put(self.expected(pod), member.place, is_gated=_gated(member))
        if _ended(member.place):
            return
        state.profiles[pod.scheduler_name] = state.profiles.get(pod.scheduler_name, 0) + 1
        if member.place is MemberPlace.BOUND:
            if _runs(pod):
                state.running.add(pod.uid)
        elif pod.spec.scheduling_gates:
            state.gated.add(pod.uid)

    def _take(self, entry: _Entry, member: _Member) -> None:
        state, pod = entry.state, member.pod
        del state.place(member.place)[pod.uid]
        if state.parts is not None:
            state.parts.take(pod.uid, member.place, is_gated=_gated(member))
        if _ended(member.place):
            return
        left = state.profiles[pod.scheduler_name] - 1
        if left:
            state.profiles[pod.scheduler_name] = left
        else:
            del state.profiles[pod.scheduler_name]
        state.running.discard(pod.uid)
        state.gated.discard(pod.uid)

    def _declare(self, entry: _Entry) -> None:
        """Compute what the group is, and report a change."""
        state = entry.state
        item = entry.objects[min(entry.objects)] if entry.objects else None
        read_sub_groups = None
        if item is None:
            read = None
            dialect = min(entry.named, key=self._rank.__getitem__, default=state.group.dialect)
        else:
            described_in = self._kind_rank[type(item)][2]
            read, dialect = described_in.object_fields, described_in.name
            read_sub_groups = described_in.sub_groups
        group = merge(
            state.id,
            dialect,
            members=entry.declarations.in_order(),
            object=None if item is None or read is None else read(item),
            created=(entry.earliest or 0.0) if item is None else created_at(item),
            sub_groups=NO_SUB_GROUPS if read_sub_groups is None else read_sub_groups(item),
        )
        state.object = item
        state.count_succeeded = self._dialects[self._rank[dialect]].count_succeeded
        old = state.group
        if group == old:
            return
        state.group = group
        if group.sub_groups != old.sub_groups:
            self._count_sub_groups(state)
        if group.gang_group != old.gang_group:
            self._regroup(state, old)
        self._unreported.append(GroupChange(ChangeKind.DECLARED, state, old=old))

    def _count_sub_groups(self, state: GroupState) -> None:
        """Count the members by the sub-groups that the group has now."""
        if not state.group.sub_groups:
            state.parts = None
            return
        state.parts = self._counted(state)

    def _counted(self, state: GroupState) -> SubGroupCounts:
        counts = SubGroupCounts(state.group.sub_groups)
        for place, pods in state.places().items():
            for pod in pods.values():
                counts.put(self.expected(pod), place, is_gated=_gated(self._members[pod.uid]))
        return counts

    def _regroup(self, state: GroupState, old: Group) -> None:
        """Move a group to another gang group, which is satisfied if the old one was."""
        before = state.gang_group
        after = state.gang_group = self._gang_group(state.group)
        after.groups.add(state.id)
        after.satisfied = after.satisfied or before.satisfied
        self._part(before, old)

    def _part(self, gang_group: GangGroup, group: Group) -> None:
        gang_group.groups.discard(group.id)
        if not gang_group.groups:
            del self._gang_groups[group.id.family, group.gang_group]

    def _forget_if_empty(self, entry: _Entry) -> None:
        state = entry.state
        if entry.objects or state.child_count:
            return
        relics = {uid: self._members[uid] for uid in (*state.succeeded, *state.failed)}
        if relics:
            self._relics[state.id] = relics
        del self._entries[state.id]
        self._part(state.gang_group, state.group)
        self._unreported.append(GroupChange(ChangeKind.FORGOTTEN, state))

    def _report(self) -> None:
        # A listener may change the directory, for example reject waiting pods; that is reported afterwards.
        if self._is_reporting:
            return
        self._is_reporting = True
        failure: Exception | None = None
        try:
            while self._unreported:
                changes, self._unreported = self._unreported, []
                for change in changes:
                    for listener in self._listeners:
                        try:
                            listener(change)
                        # An error of one listener must not stop the others; it is raised when all were called.
                        except Exception as error:  # noqa: BLE001
                            failure = failure or error
        finally:
            self._is_reporting = False
        if failure is not None:
            raise failure

    def check_invariants(self) -> None:
        """Raise AssertionError if the indices disagree."""
        seen: dict[str, tuple[GroupId, MemberPlace]] = {}
        for group, entry in self._entries.items():
            state = entry.state
            assert state.id == group, f"{group} is filed as {state.id}"
            assert entry.objects or state.child_count, f"{group} should have been forgotten"
            assert group in state.gang_group.groups, f"{group} is not in its gang group"
            assert state.gang_group.keys == state.group.gang_group, f"{group} is in another gang group than it says"
            for place, pods in state.places().items():
                for uid in pods:
                    assert uid not in seen, f"pod {uid} is in two places"
                    seen[uid] = (group, place)
            assert sum(state.profiles.values()) == state.child_count, f"{group} counts its profiles wrongly"
            assert state.running <= state.bound.keys(), f"a member of {group} runs without being bound"
            assert not state.gated & state.bound.keys(), f"a member of {group} is bound and gated"
            assert (state.parts is None) == (not state.group.sub_groups), f"{group} has or lacks sub-groups"
            if state.parts is not None:
                assert state.parts.sums() == self._counted(state).sums(), f"{group} counts its sub-groups wrongly"
        for group, relics in self._relics.items():
            assert relics, f"{group} left nothing behind"
            assert group not in self._entries, f"{group} is known, and so are those who ended in it"
            seen.update((uid, (group, member.place)) for uid, member in relics.items())
        assert seen == {uid: (member.group, member.place) for uid, member in self._members.items()}
        for gang_group in self._gang_groups.values():
            assert gang_group.groups, f"gang group {gang_group.keys} should have been forgotten"


def _count(counts: dict[str, int], dialect: str, change: int) -> None:
    counts[dialect] = counts.get(dialect, 0) + change
    if not counts[dialect]:
        del counts[dialect]


def _note_creation(entry: _Entry, pod: Pod) -> bool:
    """Record when a pod was created; return True if it is the earliest seen so far."""
    created = created_at(pod)
    earlier = entry.earliest is None or created < entry.earliest
    if earlier:
        entry.earliest = created
    return earlier


def _gated(member: _Member) -> bool:
    return member.place in {MemberPlace.PENDING, MemberPlace.WAITING} and bool(member.pod.spec.scheduling_gates)


def _ended(place: MemberPlace) -> bool:
    return place in _ENDED


def _place_of(pod: Pod) -> MemberPlace:
    if pod.is_terminal:
        return MemberPlace.SUCCEEDED if pod.status.phase == "Succeeded" else MemberPlace.FAILED
    return MemberPlace.BOUND if pod.node_name else MemberPlace.PENDING


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"
