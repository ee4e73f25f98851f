"""Report that a pod group or a queue changed, so that the plugin Batch starts a scheduling round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework import PluginError
from pyscheduler.podgroup import ChangeKind, GroupObject
from pyscheduler_batch.status.report import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Clock
    from pyscheduler.podgroup import GroupChange
    from pyscheduler_batch.dialects import JobDialect, QueueDialect
    from pyscheduler_batch.node_pools import NodePool
    from pyscheduler_batch.system import System

__all__ = ["Changes", "group_facts", "queue_is_changed"]

#: A pass is due so long after a member of a group of at least so many was bound, or runs, in seconds.
_MOVED_SECONDS: Final = 0.5
_LARGE_GROUP: Final = 50


class Changes:
    """Reports changes to the sessions of a profile.

    `tell` is called with the key of a job whose group changed; with None if jobs and queues must be read anew.
    """

    def __init__(self, clock: Clock) -> None:
        self.tell: Callable[[str | None], object] = lambda _: None
        self._clock = clock
        #: The keys of jobs whose members were bound, or run, since the last report.
        self._moved: set[str] = set()

    def all_changed(self, *_: object) -> None:
        """Report that jobs and queues must be read anew."""
        self.tell(None)

    def group_changed(self, change: GroupChange) -> None:
        """Report that a group or one of its pods changed.

        A member of a large group that was bound, or runs, is reported half a second late. It changes only the status of
        its job, and the members of a large gang would make one pass after the other due.
        """
        key = f"group/{change.state.id.key}"
        is_still_there = change.pod is not None and not change.pod.is_terminal
        if change.kind is not ChangeKind.MOVED or not is_still_there or change.state.child_count < _LARGE_GROUP:
            self.tell(key)
            return
        if not self._moved:
            self._clock.call_later(_MOVED_SECONDS, self._tell_moved)
        self._moved.add(key)

    def _tell_moved(self) -> None:
        moved, self._moved = self._moved, set()
        for key in moved:
            self.tell(key)


def queue_is_changed(row: QueueDialect, pool: NodePool, old: KubeObject, new: KubeObject) -> bool:
    """Return whether a pass reads a queue differently now; True if it cannot be read, which the pass reports.

    Amounts in the status are written by this scheduler; a pass does not read them.
    """
    try:
        return row.read(old) != row.read(new) or pool.has(old) != pool.has(new)
    except PluginError:
        return True


def group_facts(row: JobDialect, system: System, group: KubeObject) -> object:
    """Return what a pass reads of a group's object, apart from its status and from times that this scheduler writes.

    The directory of groups reports what all group plugins read; queue and priority class are not among it. A group that
    has completed counts no longer.
    """
    read = row.groups.object_fields
    assert read is not None, "the dialects of jobs have objects"
    spec = row.read(group, read(group))
    described = attrs.evolve(
        spec,
        error=spec.error or system.held_back(spec),
        phase="",
        conditions=(),
        scheduling_conditions=(),
        stale_since=None,
        last_start=None,
        last_eviction=None,
        reached={},
        warnings=(),
    )
    return described, system.pool.has(group), isinstance(group, GroupObject) and group.status.phase == COMPLETED
