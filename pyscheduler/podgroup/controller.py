"""Write the status of PodGroups, such as phase and counts.

Differs from scheduler-plugins: pods with the same label in other namespaces do not count.
Sources: `podgroup_controller.go` of scheduler-plugins, `podgroup.go` of Koordinator; kube-batch's design of PodGroups.
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
from pyscheduler.podgroup.status import WARNED_ONCE, DialectStatus, occupied_by, status_patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet

    from kube_objects.clock import Timer
    from pyscheduler.api import KubeObject, Pod
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.directory import GroupChange
    from pyscheduler.podgroup.membership import GroupState

__all__ = ["StatusController", "status_rules"]

_log = logging.getLogger(__name__)

#: How many writes may be under way at a time.
_WRITERS: Final = 4
#: The least time between two writes of a group that change counts and not the phase, in seconds ...
_SPACING_SECONDS: Final = 1.0
#: ... except for so many in a row, so that small groups are up to date at once.
_BURST: Final = 5
#: The pause after a failed write, doubled with each failure in a row; shorter if another writer was faster.
_RETRY_SECONDS: Final = 1.0
_CONFLICT_SECONDS: Final = 0.1
_RETRY_SECONDS_AT_MOST: Final = 300.0
#: Places of members that the API does not know to be bound.
_UNBOUND: Final = frozenset({MemberPlace.PENDING, MemberPlace.WAITING})


def status_rules(dialects: Iterable[Dialect]) -> tuple[PolicyRule, ...]:
    """Return the permissions to write the status of these dialects' objects, for the `rbac` of a plugin."""
    by_plural: dict[str, dict[str, None]] = {}  # a rule allows all its resources in all its groups
    for kind in (kind for dialect in dialects if dialect.status.is_written for kind in dialect.kinds):
        by_plural.setdefault(f"{kind.plural}/status", {})[kind.group] = None
    return tuple(
        PolicyRule(api_groups=tuple(groups), resources=(resource,), verbs=("patch",))
        for resource, groups in by_plural.items()
    )


@attrs.define(eq=False)
class _Pause:
    """The pause after failed writes; `until` is the clock's, in seconds."""

    failures: int = 0
    until: float = 0.0

    def lengthen(self, now: float, seconds: float) -> None:
        self.failures += 1
        self.until = now + min(seconds * 2.0 ** min(self.failures - 1, 16), _RETRY_SECONDS_AT_MOST)


@attrs.define(eq=False)
class _WriteState:
    """The state of the writes to a group's object; `uid` is the object's."""

    uid: str
    #: The object as written last, and the versions that it replaced; the watch is behind while it shows one of those.
    written: KubeObject | None = None
    superseded: set[str] = attrs.Factory(set)
    pause: _Pause = attrs.Factory(_Pause)
    #: When the next write of counts would be due without bursts.
    paced: float = 0.0
    timer: Timer | None = None
    #: The number of members when none of them had an owner.
    unowned: int | None = None
    #: The reasons of the warnings that are not recorded again now.
    warned: AbstractSet[str] = frozenset()

    def latest(self, seen: KubeObject) -> KubeObject:
        """Return the newest known version of the object; `seen` is the version of the watch."""
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
    """The status controller of a scheduler. A group plugin gets it with `of` when it is made, and runs it."""

    def __init__(self, groups: PodGroups, handle: Handle) -> None:
        self._groups = groups
        self._handle = handle
        self._clock = handle.clock
        self._states: dict[GroupId, _WriteState] = {}
        #: Bound members that the watch does not show as bound yet.
        self._bound: dict[GroupId, set[str]] = {}
        #: Kinds whose status the API server refuses to let us write.
        self._refused: dict[type[KubeObject], _Pause] = {}
        #: Groups that are due; None while the controller does not run.
        self._queue: asyncio.Queue[GroupId] | None = None
        self._due: set[GroupId] = set()
        #: Groups whose step is under way, and those of them that changed meanwhile.
        self._busy: set[GroupId] = set()
        self._again: set[GroupId] = set()
        self._is_subscribed = False

    @classmethod
    def of(cls, handle: Handle) -> StatusController:
        """Return the controller of the scheduler that `handle` belongs to."""
        return handle.shared("pyscheduler/pod-group-statuses", lambda: cls(PodGroups.of(handle), handle))

    async def run(self) -> None:
        """Write the status of all groups, and of each group that changes, until cancelled; return if it runs already.

        Call it while this scheduler leads, as plugins' `run()` is called.
        """
        if self._queue is not None:
            return
        self._queue = asyncio.Queue()
        try:
            self._subscribe()
            for state in self._groups.directory:
                self._enqueue(state.id)
            async with asyncio.TaskGroup() as writers:
                for number in range(_WRITERS):
                    writers.create_task(self._work(self._queue), name=f"status of pod groups {number}")
        finally:
            self._queue = None
            self._due.clear()
            for writes in self._states.values():
                writes.close()

    def bound(self, pod: Pod) -> None:
        """Count a member as bound, although the watch may show it late."""
        state = self._groups.directory.of(pod)
        if state is None or self._queue is None or self._groups.directory.place_of(pod.uid) not in _UNBOUND:
            return
        self._bound.setdefault(state.id, set()).add(pod.uid)
        self._enqueue(state.id)

    # --- what is due

    def _subscribe(self) -> None:
        """Register for all changes that matter, at the first run: all profiles' plugins are made by then."""
        if self._is_subscribed:
            return
        self._is_subscribed = True
        self._groups.directory.subscribe(self._changed)
        for dialect in self._groups.table:
            for kind in dialect.kinds if dialect.status.is_written else ():
                try:
                    lister = self._handle.lister(kind.type)
                except PluginError:
                    continue  # no plugin watches it
                family = dialect.family
                # The directory does not report a status that another program writes.
                lister.add_event_handler(
                    on_update=lambda _old, new, family=family: self._enqueue(GroupId(new.namespace, new.name, family))  # type: ignore[misc]  # mypy knows no defaults of lambdas
                )

    def _changed(self, change: GroupChange) -> None:
        group, pod = change.state.id, change.pod
        if change.kind is ChangeKind.FORGOTTEN and self._groups.directory.get(group) is None:
            self._bound.pop(group, None)
            self._close_state(group)
            return
        ahead = self._bound.get(group)
        if ahead is not None and pod is not None and self._groups.directory.place_of(pod.uid) not in _UNBOUND:
            ahead.discard(pod.uid)
            if not ahead:
                del self._bound[group]
        if change.state.object is not None:
            self._enqueue(group)

    def _close_state(self, group: GroupId) -> None:
        writes = self._states.pop(group, None)
        if writes is not None:
            writes.close()

    def _enqueue(self, group: GroupId) -> None:
        if self._queue is None or group in self._due:
            return
        if group in self._busy:
            self._again.add(group)
            return
        self._due.add(group)
        self._queue.put_nowait(group)

    def _later(self, group: GroupId, writes: _WriteState, seconds: float) -> None:
        if writes.timer is None:

            def due() -> None:
                writes.timer = None
                self._enqueue(group)

            writes.timer = self._clock.call_later(seconds, due)

    async def _work(self, queue: asyncio.Queue[GroupId]) -> None:
        while True:
            group = await queue.get()
            self._due.discard(group)
            self._busy.add(group)
            try:
                # Most steps write nothing and so do not await: let the event loop run in between.
                await asyncio.sleep(0)
                while await self._step(group):
                    pass
            except Exception:  # a bug in one group's status must not stop the others  # noqa: BLE001
                self._handle.recorder.warning("pod_group_status_not_written")
                _log.exception("Status of pod group cannot be computed podGroup=%s", group)
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
        if self._groups.writes_own_status(state):
            return None
        rules = self._groups.table.named(state.group.dialect).status
        return (state, rules, state.object) if rules.is_written else None

    async def _step(self, group: GroupId) -> bool:
        """Move a group's status one step on; return True if it did, because another step may follow."""
        found = self._find(group)
        if found is None:
            return False
        state, rules, seen = found
        writes = self._states.get(group)
        if writes is None or writes.uid != seen.uid:
            self._close_state(group)
            writes = self._states[group] = _WriteState(seen.uid)
        item = writes.latest(seen)
        status: Any = item.status  # type: ignore[attr-defined]  # kinds with a written status have one
        facts, now = state.facts(ahead=len(self._bound.get(state.id, ()))), self._clock.wall()
        self._warn(writes, item, rules.warnings(status, facts))
        wanted = rules.next(status, facts, now=now)
        begins = rules.phase(wanted) != rules.phase(status)
        if rules.wants_owners(status, wanted) and (begins or writes.unowned != facts.members):
            # This reads every member, so it is not done at each step.
            owners = occupied_by(state.children())
            writes.unowned = None if owners else facts.members
            wanted = rules.next(status, attrs.evolve(facts, occupied_by=owners), now=now)
        if wanted is status:
            return False
        wait = self._wait(writes, type(item), is_urgent=begins)
        if wait > 0:
            self._later(group, writes, wait)
            return False
        return await self._write(group, writes, item, status_patch(status, wanted))

    def _wait(self, writes: _WriteState, kind: type[KubeObject], *, is_urgent: bool) -> float:
        """Return how long the next write must wait, in seconds."""
        refused = self._refused.get(kind)
        until = max(writes.pause.until, refused.until if refused is not None else 0.0)
        if not is_urgent:
            until = max(until, writes.paced - (_BURST - 1) * _SPACING_SECONDS)
        return until - self._clock.now()

    async def _write(self, group: GroupId, writes: _WriteState, item: KubeObject, patch: Mapping[str, object]) -> bool:
        writes.paced = max(writes.paced, self._clock.now()) + _SPACING_SECONDS
        body = {"metadata": {"resourceVersion": item.resource_version}, **patch}
        try:
            stored = await self._handle.client.patch(type(item), group.name, group.namespace, patch=body, status=True)
        except (APIError, TransportError) as error:
            self._failed(group, writes, item, error)
            return False
        writes.wrote(item, stored)
        self._refused.pop(type(item), None)
        return True

    def _failed(self, group: GroupId, writes: _WriteState, item: KubeObject, error: APIError | TransportError) -> None:
        """Record that a write failed, and retry it after a pause."""
        now = self._clock.now()
        pause = writes.pause
        is_race = isinstance(error, ConflictError | NotFoundError)
        if isinstance(error, ForbiddenError):
            # The permission is missing for all groups of the kind.
            pause = self._refused.setdefault(type(item), _Pause())
        # Several writes may be refused at the same time; that is one failure.
        is_first = now >= pause.until
        if is_first:
            pause.lengthen(now, _CONFLICT_SECONDS if isinstance(error, ConflictError) else _RETRY_SECONDS)
        # One conflict or deletion is normal; an object that never takes a status is not.
        if not is_race or pause.failures > 1:
            self._handle.recorder.warning("pod_group_status_not_written")
            if is_first and pause.failures == (2 if is_race else 1):
                _log.warning("Status of pod group is not written podGroup=%s err=%s", group, error)
        self._later(group, writes, pause.until - now)

    def _warn(self, writes: _WriteState, item: KubeObject, warnings: Mapping[str, str]) -> None:
        """Record the warnings that were not true at the last step, and those of `WARNED_ONCE` that never were."""
        for reason in warnings.keys() - writes.warned:
            self._handle.event_recorder.event(
                item, type="Warning", reason=reason, action="Scheduling", note=warnings[reason]
            )
        writes.warned = warnings.keys() | (writes.warned & WARNED_ONCE)
