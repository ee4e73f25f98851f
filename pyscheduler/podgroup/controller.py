"""Keeps the status of PodGroups: phase, counts and owners, for every dialect whose status is the scheduler's to write.

There is one for all profiles, and it writes only while this scheduler leads: its `run()` is that of the plugins that
serve groups. A group is due when something of it changed, is looked at once however much that was, and written only
where its status is another one then. Each look moves the phase one step, as the controllers of the mirrored systems do,
and a look that wrote is followed by another. Everything is counted from the members anew, so that a restart, a missed
change or another writer costs nothing but a write.

A write names the version of the object that it is based on; where somebody else was faster, the API server refuses, and
the group is looked at again. What cannot be written is tried again later, each time after a longer pause, and holds
nobody up.

Differs from the PodGroup controllers of scheduler-plugins and Koordinator: those count members of the same label in
other namespaces, too, and are programs of their own. Source: their `podgroup.go`; kube-batch's design of PodGroups.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework import (
    APIError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PluginError,
    PolicyRule,
    TransportError,
)
from pyscheduler.podgroup.directory import ChangeKind
from pyscheduler.podgroup.groups import PodGroups
from pyscheduler.podgroup.identity import GroupId
from pyscheduler.podgroup.membership import MemberPlace
from pyscheduler.podgroup.status import DialectStatus, occupied_by, status_patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.framework import Handle
    from pyscheduler.framework.clock import Timer
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.directory import GroupChange
    from pyscheduler.podgroup.membership import GroupState
    from pyscheduler.podgroup.status import MemberFacts

__all__ = ["StatusController", "status_rules"]

_log = logging.getLogger(__name__)

#: Writes that are under way at the same time, of all groups together.
_WRITERS: Final = 4
#: A write that changes counts and not the phase is put off to be so long after the one before, in seconds ...
_SPACING_SECONDS: Final = 1.0
#: ... but for so many in a row, so that small groups are up to date at once.
_BURST: Final = 5
#: The pause after a write that failed, doubled with each in a row; another writer is over sooner.
_RETRY_SECONDS: Final = 1.0
_CONFLICT_SECONDS: Final = 0.1
_RETRY_SECONDS_AT_MOST: Final = 300.0
#: Places of members that the API does not know to be bound.
_UNBOUND: Final = frozenset({MemberPlace.PENDING, MemberPlace.WAITING})


def status_rules(dialects: Iterable[Dialect]) -> tuple[PolicyRule, ...]:
    """Return what it takes to keep the status of these dialects' objects, for the `rbac` of a plugin."""
    kinds = [kind for dialect in dialects if dialect.status.is_written for kind in dialect.kinds]
    groups = tuple(dict.fromkeys(kind.group for kind in kinds))
    plurals = tuple(dict.fromkeys(f"{kind.plural}/status" for kind in kinds))
    return (PolicyRule(api_groups=groups, resources=plurals, verbs=("patch",)),) if kinds else ()


@attrs.define(eq=False)
class _Pause:
    """How long to leave something alone that failed, by the clock, in seconds."""

    failures: int = 0
    until: float = 0.0

    def lengthen(self, now: float, seconds: float) -> None:
        self.failures += 1
        self.until = now + min(seconds * 2.0 ** min(self.failures - 1, 16), _RETRY_SECONDS_AT_MOST)


@attrs.define(eq=False)
class _Book:
    """What is kept of a group's object, which `uid` names."""

    uid: str
    #: The object as written last, and the versions before it; while the watch shows one of those, it is behind.
    written: KubeObject | None = None
    superseded: set[str] = attrs.Factory(set)
    pause: _Pause = attrs.Factory(_Pause)
    #: When the next write that is not urgent would be due if there were no bursts.
    paced: float = 0.0
    timer: Timer | None = None
    #: How many members there were when none of them had an owner.
    unowned: int | None = None
    #: The reasons of warnings that are true and were recorded.
    warned: AbstractSet[str] = frozenset()

    def latest(self, seen: KubeObject) -> KubeObject:
        """Return the newest version that is known, of which `seen` is the one that the watch has."""
        if self.written is not None and seen.resource_version in self.superseded:
            return self.written
        self.written = None
        self.superseded.clear()
        return seen

    def wrote(self, before: KubeObject, stored: KubeObject) -> None:
        self.superseded.add(before.resource_version)
        self.written = stored
        self.pause = _Pause()

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class StatusController:
    """The one writer of statuses of a scheduler. Ask for it with `of` when a plugin is made, and `run` it."""

    def __init__(self, groups: PodGroups, handle: Handle) -> None:
        self._groups = groups
        self._handle = handle
        self._clock = handle.clock
        self._books: dict[GroupId, _Book] = {}
        #: Members that were bound, of which the watch has yet to tell.
        self._bound: dict[GroupId, set[str]] = {}
        #: Kinds whose status may not be written.
        self._refused: dict[type[KubeObject], _Pause] = {}
        #: Groups that wait for a look; None while nobody looks.
        self._queue: asyncio.Queue[GroupId] | None = None
        self._due: set[GroupId] = set()
        #: Groups that are being looked at, and those of them that changed meanwhile.
        self._busy: set[GroupId] = set()
        self._again: set[GroupId] = set()
        self._is_following = False

    @classmethod
    def of(cls, handle: Handle) -> StatusController:
        """Return the controller of the scheduler that `handle` belongs to."""
        return handle.shared("pyscheduler/pod-group-statuses", lambda: cls(PodGroups.of(handle), handle))

    async def run(self) -> None:
        """Look at all groups, and then at each that changes, until cancelled; at once back where it runs already.

        To be called when this scheduler leads, as `run()` of plugins is.
        """
        if self._queue is not None:
            return
        self._queue = asyncio.Queue()
        try:
            self._follow()
            for state in self._groups.directory:
                self._enqueue(state.id)
            async with asyncio.TaskGroup() as writers:
                for number in range(_WRITERS):
                    writers.create_task(self._work(self._queue), name=f"status of pod groups {number}")
        finally:
            self._queue = None
            self._due.clear()
            for book in self._books.values():
                book.close()

    def bound(self, pod: Pod) -> None:
        """Take down that a member was bound: it counts from now on, also where the watch tells so late."""
        state = self._groups.directory.of(pod)
        if state is None or self._queue is None or self._groups.directory.place_of(pod.uid) not in _UNBOUND:
            return
        self._bound.setdefault(state.id, set()).add(pod.uid)
        self._enqueue(state.id)

    # --- what is due

    def _follow(self) -> None:
        """Listen to all that can change a status, from the first run on; all profiles' plugins are made by then."""
        if self._is_following:
            return
        self._is_following = True
        self._groups.directory.subscribe(self._changed)
        for dialect in self._groups.table:
            for kind in dialect.kinds if dialect.status.is_written else ():
                try:
                    lister = self._handle.lister(kind.type)
                except PluginError:
                    continue  # Nobody watches it.
                family = dialect.family
                # A status that somebody else writes is no change of the group.
                lister.add_event_handler(
                    on_update=lambda _old, new, family=family: self._enqueue(GroupId(new.namespace, new.name, family))  # type: ignore[misc]  # mypy knows no defaults of lambdas
                )

    def _changed(self, change: GroupChange) -> None:
        group, pod = change.state.id, change.pod
        if change.kind is ChangeKind.FORGOTTEN and self._groups.directory.get(group) is None:
            self._forget(group)
            return
        ahead = self._bound.get(group)
        if ahead is not None and pod is not None and self._groups.directory.place_of(pod.uid) not in _UNBOUND:
            ahead.discard(pod.uid)
            if not ahead:
                del self._bound[group]
        if change.state.object is not None:
            self._enqueue(group)

    def _forget(self, group: GroupId) -> None:
        self._bound.pop(group, None)
        self._close_book(group)

    def _close_book(self, group: GroupId) -> None:
        book = self._books.pop(group, None)
        if book is not None:
            book.close()

    def _enqueue(self, group: GroupId) -> None:
        if self._queue is None or group in self._due:
            return
        if group in self._busy:
            self._again.add(group)
            return
        self._due.add(group)
        self._queue.put_nowait(group)

    def _later(self, group: GroupId, book: _Book, seconds: float) -> None:
        if book.timer is None:

            def due() -> None:
                book.timer = None
                self._enqueue(group)

            book.timer = self._clock.call_later(seconds, due)

    async def _work(self, queue: asyncio.Queue[GroupId]) -> None:
        while True:
            group = await queue.get()
            self._due.discard(group)
            self._busy.add(group)
            try:
                # The loop turns between any two looks, of which most write nothing.
                await asyncio.sleep(0)
                while await self._step(group):
                    pass
            except Exception:  # a bug must cost one group's status, not all  # noqa: BLE001
                self._handle.recorder.warning("pod_group_status_not_written")
                _log.exception("Status of pod group cannot be worked out podGroup=%s", group)
            finally:
                self._busy.discard(group)
            if group in self._again:
                self._again.discard(group)
                self._enqueue(group)

    # --- one group

    def _find(self, group: GroupId) -> tuple[GroupState, DialectStatus, KubeObject] | None:
        """Return a group whose status the scheduler writes, the rules of its status, and its object as watched."""
        state = self._groups.directory.get(group)
        if state is None or state.object is None or not self._groups.server_of(state):
            return None
        rules = self._groups.table.named(state.group.dialect).status
        return (state, rules, state.object) if rules.is_written else None

    async def _step(self, group: GroupId) -> bool:
        """Move a group's status one step on; return True if it did, because another step may follow."""
        found = self._find(group)
        if found is None:
            return False
        state, rules, seen = found
        book = self._books.get(group)
        if book is None or book.uid != seen.uid:
            self._close_book(group)
            book = self._books[group] = _Book(seen.uid)
        item = book.latest(seen)
        status: Any = item.status  # type: ignore[attr-defined]  # kinds with a written status have one
        facts, now = self._facts(state), self._clock.wall()
        self._warn(book, item, rules.warnings(status, facts))
        wanted = rules.next(status, facts, now=now)
        begins = rules.phase(wanted) != rules.phase(status)
        if rules.wants_owners(status, wanted) and (begins or book.unowned != facts.members):
            # This reads every member, so it is not done at each step.
            owners = occupied_by(state.children())
            book.unowned = None if owners else facts.members
            wanted = rules.next(status, attrs.evolve(facts, occupied_by=owners), now=now)
        if wanted is status:
            return False
        wait = self._wait(book, type(item), is_urgent=begins)
        if wait > 0:
            self._later(group, book, wait)
            return False
        return await self._write(group, book, item, status_patch(status, wanted))

    def _facts(self, state: GroupState) -> MemberFacts:
        return state.facts(ahead=len(self._bound.get(state.id, ())))

    def _wait(self, book: _Book, kind: type[KubeObject], *, is_urgent: bool) -> float:
        """Return how long the next write has to wait, in seconds."""
        refused = self._refused.get(kind)
        until = max(book.pause.until, refused.until if refused is not None else 0.0)
        if not is_urgent:
            until = max(until, book.paced - (_BURST - 1) * _SPACING_SECONDS)
        return until - self._clock.now()

    async def _write(self, group: GroupId, book: _Book, item: KubeObject, patch: Mapping[str, object]) -> bool:
        book.paced = max(book.paced, self._clock.now()) + _SPACING_SECONDS
        body = {"metadata": {"resourceVersion": item.resource_version}, **patch}
        try:
            stored = await self._handle.client.patch(type(item), group.name, group.namespace, patch=body, status=True)
        except (APIError, TransportError) as error:
            self._failed(group, book, item, error)
            return False
        book.wrote(item, stored)
        self._refused.pop(type(item), None)
        return True

    def _failed(self, group: GroupId, book: _Book, item: KubeObject, error: APIError | TransportError) -> None:
        """Take down that a write failed, and when it is tried again."""
        now = self._clock.now()
        pause = book.pause
        is_race = isinstance(error, ConflictError | NotFoundError)
        if isinstance(error, ForbiddenError):
            # What may not be written of one group may not be written of its likes.
            pause = self._refused.setdefault(type(item), _Pause())
        # Several writes may be refused at once; that is one refusal.
        is_news = now >= pause.until
        if is_news:
            pause.lengthen(now, _CONFLICT_SECONDS if isinstance(error, ConflictError) else _RETRY_SECONDS)
        # An object that was changed or deleted just now is nothing to tell of; one that never takes a status is.
        if not is_race or pause.failures > 1:
            self._handle.recorder.warning("pod_group_status_not_written")
            if is_news and pause.failures == (2 if is_race else 1):
                _log.warning("Status of pod group is not written podGroup=%s err=%s", group, error)
        self._later(group, book, pause.until - now)

    def _warn(self, book: _Book, item: KubeObject, warnings: Mapping[str, str]) -> None:
        """Record the warnings that were not true at the last step."""
        for reason in warnings.keys() - book.warned:
            self._handle.event_recorder.event(
                item, type="Warning", reason=reason, action="Scheduling", note=warnings[reason]
            )
        book.warned = warnings.keys()
