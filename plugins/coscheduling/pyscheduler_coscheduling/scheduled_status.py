"""The status that podgroup-scheduler-framework writes as its pods are bound: `scheduled`, and the phase with it.

The number is counted from the members each time, so that restarts and deletions do not make it drift. One write per
group is under way at a time; what is bound meanwhile goes into the next. A write that is refused is counted and logged,
and made up for with the next pod that is bound: no pod waits for it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import PySchedulerError, format_time
from pyscheduler.podgroup import GroupObject, Phase, StatusStyle

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupId, GroupState
    from pyscheduler_coscheduling.members import Members

__all__ = ["ScheduledStatus"]

_log = logging.getLogger(__name__)

#: Phases that are past being scheduled; somebody else's to write.
_LATER: Final = frozenset({Phase.RUNNING, Phase.FINISHED, Phase.FAILED})


class ScheduledStatus:
    """Writes the status of groups whose dialect has a count of scheduled members."""

    def __init__(self, handle: Handle, members: Members) -> None:
        self._handle = handle
        self._members = members
        self._kinds = {
            dialect.name: [kind.type for kind in dialect.kinds]
            for dialect in members.dialects
            if dialect.status is StatusStyle.COSCHEDULING_SCHEDULED
        }
        #: Members that were bound and that the API server has not shown bound yet.
        self._just_bound: dict[GroupId, set[str]] = {}
        self._writing: set[GroupId] = set()

    def bound(self, state: GroupState, pod: Pod) -> None:
        """Note that a member was bound, and see to it that the status says so."""
        if state.group.dialect not in self._kinds:
            return
        self._just_bound.setdefault(state.id, set()).add(pod.uid)
        if state.id not in self._writing:
            self._writing.add(state.id)
            self._handle.spawn(self._write(state.id), name=f"status of PodGroup {state.id}")

    async def _write(self, group: GroupId) -> None:
        try:
            while (state := self._members.directory.get(group)) is not None:
                count = self._count(state)
                found = self._object(state)
                if found is None:
                    return
                patch = self._patch(found, count, state.group.min)
                if patch:
                    await self._handle.client.patch(
                        type(found), found.name, found.namespace, patch={"status": patch}, status=True
                    )
                if self._count(state) == count:
                    return
        except PySchedulerError as error:
            self._handle.recorder.warning("plugin_error")
            _log.warning("Status of pod group is not written plugin=Coscheduling podGroup=%s err=%s", group, error)
        finally:
            self._writing.discard(group)
            if self._members.directory.get(group) is None:
                self._just_bound.pop(group, None)

    def _count(self, state: GroupState) -> int:
        just_bound = self._just_bound.get(state.id, set())
        just_bound &= state.waiting.keys()
        if not just_bound:
            self._just_bound.pop(state.id, None)
        return len(state.bound) + len(just_bound)

    def _object(self, state: GroupState) -> GroupObject | None:
        for kind in self._kinds.get(state.group.dialect, ()):
            found = self._handle.lister(kind).get(state.id.name, state.id.namespace)
            if isinstance(found, GroupObject):
                return found
        return None

    def _patch(self, group: GroupObject, count: int, minimum: int) -> dict[str, object]:
        status = group.status
        patch: dict[str, object] = {}
        if status.scheduled != count:
            patch["scheduled"] = count
        if status.phase not in _LATER:
            phase = Phase.SCHEDULED if count >= minimum else Phase.SCHEDULING
            if status.phase != phase:
                patch["phase"] = str(phase)
            if status.schedule_start_time is None:
                patch["scheduleStartTime"] = format_time(self._handle.clock.wall())
        return patch
