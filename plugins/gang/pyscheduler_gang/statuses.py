"""What PostBind writes into a PodGroup: how many members are bound, and the phase that follows from it.

Counted from the members each time, never added up, so that nothing drifts over restarts and deletions. One write per
gang is under way at a time, however many members are bound meanwhile, and none where nothing changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from pyscheduler.api import format_time
from pyscheduler.framework import APIError, NotFoundError, PluginError, TransportError
from pyscheduler.podgroup import GroupStatus, Phase, StatusStyle, status_patch

if TYPE_CHECKING:
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupId, GroupObject, GroupState
    from pyscheduler_gang.gangs import Gangs
    from pyscheduler_gang.record import GangRecord

__all__ = ["StatusWriter", "bound_status"]

_log = logging.getLogger(__name__)

#: Phases that say more than that members are bound.
_LATER: frozenset[str] = frozenset({Phase.RUNNING, Phase.FINISHED, Phase.FAILED})


def bound_status(status: GroupStatus, state: GroupState, *, now: float) -> GroupStatus:
    """Return a gang's status with its members counted; `now` is wall time, in seconds."""
    scheduled = len(state.bound)
    phase, start = status.phase, status.schedule_start_time
    if phase not in _LATER:
        phase = str(Phase.SCHEDULED if scheduled >= state.group.min else Phase.SCHEDULING)
        start = start or format_time(now)
    return msgspec.structs.replace(status, scheduled=scheduled, phase=phase, schedule_start_time=start)


class StatusWriter:
    """Writes the status of gangs whose members this scheduler has bound."""

    def __init__(self, gangs: Gangs, handle: Handle) -> None:
        self._gangs = gangs
        self._handle = handle
        #: Gangs that this scheduler bound members of.
        self._ours: set[GroupId] = set()
        self._due: dict[GroupId, None] = {}
        self._written: dict[GroupId, GroupStatus] = {}
        self._is_writing = False

    def bound(self, record: GangRecord) -> None:
        """Note that a member was bound; the count follows when the API tells of it."""
        self._ours.add(record.id)
        self.moved(record)

    def moved(self, record: GangRecord) -> None:
        """Note that the number of bound members may be another one."""
        if record.id not in self._ours:
            return
        self._due[record.id] = None
        if not self._is_writing:
            self._is_writing = True
            self._handle.spawn(self._write(), name="gang statuses")

    def forget(self, gang: GroupId) -> None:
        """Drop what is kept of a gang of which nothing is left."""
        self._ours.discard(gang)
        self._written.pop(gang, None)
        self._due.pop(gang, None)

    async def _write(self) -> None:
        try:
            while self._due:
                gang = next(iter(self._due))
                del self._due[gang]
                await self._write_one(gang)
        finally:
            self._is_writing = False

    async def _write_one(self, gang: GroupId) -> None:
        state = self._gangs.directory.get(gang)
        item = None if state is None else self._object(state)
        if state is None or item is None:
            return
        status = self._written.get(gang, item.status) if item.status == GroupStatus() else item.status
        wanted = bound_status(status, state, now=self._handle.clock.wall())
        patch = status_patch(status, wanted)
        if not patch or self._written.get(gang) == wanted:
            return
        try:
            await self._handle.client.patch(type(item), gang.name, gang.namespace, patch=patch, status=True)
        except NotFoundError:
            return
        except (APIError, TransportError) as error:
            # The gang is scheduled all the same; the next member that is bound tries again.
            self._handle.recorder.warning("gang_status_not_written")
            _log.warning("Status of gang cannot be written gang=%s err=%s", gang, error)
            return
        self._written[gang] = wanted

    def _object(self, state: GroupState) -> GroupObject | None:
        dialect = self._gangs.groups.table.named(state.group.dialect)
        if dialect.status is not StatusStyle.GANG:
            return None
        for kind in dialect.kinds:
            try:
                item: GroupObject | None = self._handle.lister(kind.type).get(state.id.name, state.id.namespace)  # type: ignore[assignment] # the kinds of this style are all of that shape
            except PluginError:
                continue  # Nobody watches that kind.
            if item is not None:
                return item
        return None
