"""Compute and write the statuses of the queues and pod groups of one batch system, such as KAI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from pyscheduler.api import PriorityClass
from pyscheduler.podgroup import GroupId
from pyscheduler_batch.status.metrics import QueueMetrics
from pyscheduler_batch.status.queues import QueueBook, QueueSums
from pyscheduler_batch.status.writer import PacedWriter, Patch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Sequence

    from kube_objects.clock import Timer
    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import GroupChange, GroupObject, GroupState, PodGroups
    from pyscheduler_batch.dialects import JobDialect
    from pyscheduler_batch.model.job_spec import JobSpec
    from pyscheduler_batch.model.queue_spec import QueueSpec
    from pyscheduler_batch.status.report import GroupReport, Note
    from pyscheduler_batch.status.writer import Wish
    from pyscheduler_batch.system import System

__all__ = ["Statuses"]

#: The status of queues is computed so long after a change, and at most once in the second number of seconds.
_DELAY_SECONDS: Final = 0.05
_PERIOD_SECONDS: Final = 1.0
#: Other tasks of the scheduler may run after so many groups.
_TURN_EVERY: Final = 256
#: How many mistakes of an object an event names.
_NAMED: Final = 3


class Statuses:
    """Computes and writes the statuses of one preset's objects; runs while this scheduler leads."""

    def __init__(self, handle: Handle, groups: PodGroups, system: System, job_row: JobDialect) -> None:
        self._handle = handle
        self._clock = handle.clock
        self._directory = groups.directory
        self._row = job_row
        self._queue_row = system.queues
        self._says = system.reports
        self.preset = system.preset.name
        #: By profile with the preset, its system; queues of pools that none of them has are another scheduler's.
        self.systems: dict[str, System] = {}
        self.book = QueueBook()
        self._writer = PacedWriter(handle, warning="batch_status_not_written")
        #: By uid of a group's object: the last report, and the events that were recorded last, by reason.
        self._reports: dict[str, GroupReport] = {}
        self._told: dict[str, dict[str, str]] = {}
        #: By uid of a group's object, its queue and phase; by queue, how many groups are in which phase.
        self._phases: dict[str, tuple[str, str]] = {}
        self._phase_counts: dict[str, Counter[str]] = {}
        #: By uid of a group, what its last event was about that says what is wrong with its object.
        self._warned: dict[str, tuple[str, ...]] = {}
        self._classes = handle.lister(PriorityClass)
        #: Groups that changed and may have no living members.
        self._loose: set[GroupId] = set()
        #: By uid of a queue: the object and the last wish.
        self._wished: dict[str, tuple[KubeObject, Wish]] = {}
        self._specs: dict[str, tuple[KubeObject, QueueSpec]] = {}
        self.metrics = QueueMetrics(self.preset, phases=self._phase_counts)
        self._says.register(self.metrics, handle.recorder)
        self.metrics.register(handle.recorder)
        #: Called with the sums of all queues whenever they are computed.
        self.listeners: list[Callable[[Mapping[str, QueueSums]], object]] = []
        self._is_running = False
        self._timer: Timer | None = None
        self._last_roll = float("-inf")
        self._listers = [handle.lister(kind.type) for kind in system.queues.kinds]
        for lister in self._listers:
            lister.add_event_handler(on_add=self._queue_changed, on_update=self._queue_updated, on_delete=self._gone)
        for kind in job_row.groups.kinds:
            handle.lister(kind.type).add_event_handler(
                on_add=self._group_changed, on_update=self._group_updated, on_delete=self._group_gone
            )
        self._directory.subscribe(self._members_changed)

    @classmethod
    def of(cls, handle: Handle, groups: PodGroups, system: System, job_row: JobDialect) -> Statuses:
        """Return the statuses that all profiles with the preset share."""
        key = f"pyscheduler-batch/status/{system.preset.name}"
        return handle.shared(key, lambda: cls(handle, groups, system, job_row))

    async def run(self) -> None:
        """Write until cancelled; return if it runs already."""
        if self._is_running:
            return
        self._is_running = True
        try:
            self.queues_changed()
            await self._writer.run()
        finally:
            self._is_running = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    # Groups

    def remember(self, spec: JobSpec) -> JobSpec:
        """Return a description with what was decided since its object was written last."""
        report = self._reports.get(spec.uid)
        return spec if report is None else report.remembered(spec)

    def warn(self, group: KubeObject, spec: JobSpec) -> None:
        """Record an event about what a group's object says without effect, once for each change of that."""
        found = spec.warnings_with(self._classes.get)
        if found == self._warned.get(group.uid, ()):
            return
        self._warned[group.uid] = found
        if found:
            more = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            note = "; ".join(found[:_NAMED]) + more
            self._handle.event_recorder.event(
                group, type="Warning", reason="InvalidPodGroup", action="Scheduling", note=note
            )

    def report(self, group: KubeObject, report: GroupReport) -> None:
        """Bring a group's object to what a pass says about it."""
        self._reports[group.uid] = report
        self._writer.put(group, self._group_wish(report))

    def group(self, namespace: str, name: str) -> GroupState | None:
        """Return the state of a group of the preset, if it is known."""
        state = self._directory.get(GroupId(namespace, name, self._row.groups.family))
        return state if state is not None and state.group.dialect == self._row.name else None

    def loosen(self, namespace: str, name: str) -> None:
        """Look at a group at the next `settle`: its job is gone."""
        self._loose.add(GroupId(namespace, name, self._row.groups.family))

    async def settle(self, jobs: Container[str], turn: Callable[[], Awaitable[None]]) -> None:
        """Report the groups that changed and have no living members; `jobs` has the uids of those of the session.

        `turn` lets other tasks of the scheduler run, if it is time.
        """
        loose, self._loose = self._loose, set()
        for at, each in enumerate(loose):
            if at % _TURN_EVERY == 0:
                await turn()
            state = self._directory.get(each)
            if state is None or state.object is None or state.group.dialect != self._row.name:
                continue
            item = cast("GroupObject", state.object)
            if state.child_count == 0 and item.uid not in jobs:
                succeeded, failed = len(state.succeeded), len(state.failed)
                before = self._reports.get(item.uid)
                report = self._says.of_ended(
                    item, before, min_member=state.group.min, succeeded=succeeded, failed=failed
                )
                self.report(item, report)

    def _group_wish(self, report: GroupReport) -> Wish:
        def wish(item: KubeObject) -> Sequence[Patch]:
            patches = report.patches(cast("GroupObject", item))
            self._tell(item, report.notes, is_changed=bool(patches))
            return patches

        return wish

    def _tell(self, item: KubeObject, notes: Sequence[Note], *, is_changed: bool) -> None:
        """Record the events that are not those of the last time."""
        told = self._told.get(item.uid, {})
        for note in notes:
            if told.get(note.reason) == note.text or (note.only_with_change and not is_changed):
                continue
            kind = "Warning" if note.is_warning else "Normal"
            self._handle.event_recorder.event(item, type=kind, reason=note.reason, action="Scheduling", note=note.text)
        self._told[item.uid] = {note.reason: note.text for note in notes}

    def _members_changed(self, change: GroupChange) -> None:
        self._loose.add(change.state.id)

    def _group_changed(self, item: KubeObject) -> None:
        if not self._says.counts_phases:
            return
        group = cast("GroupObject", item)
        read = self._row.groups.object_fields
        assert read is not None, "the dialects of jobs have objects"
        entry = (self._row.read(group, read(group)).queue, group.status.phase)
        if self._phases.get(item.uid) != entry:
            self._count(item.uid, -1)
            self._phases[item.uid] = entry
            self._count(item.uid, 1)
            self.queues_changed()

    def _group_updated(self, _: KubeObject, new: KubeObject) -> None:
        self._group_changed(new)
        report = self._reports.get(new.uid)
        if report is not None:
            self._writer.put(new, self._group_wish(report))

    def _group_gone(self, item: KubeObject) -> None:
        self._count(item.uid, -1)
        self._phases.pop(item.uid, None)
        self._reports.pop(item.uid, None)
        self._told.pop(item.uid, None)
        self._warned.pop(item.uid, None)
        self._gone(item)

    def _count(self, uid: str, change: int) -> None:
        entry = self._phases.get(uid)
        if entry is not None:
            self._phase_counts.setdefault(entry[0], Counter())[entry[1]] += change

    # Queues

    def queues_changed(self) -> None:
        """Compute the status of all queues soon, at most once a second."""
        if not self._is_running or self._timer is not None:
            return
        now = self._clock.now()
        self._timer = self._clock.call_at(max(now + _DELAY_SECONDS, self._last_roll + _PERIOD_SECONDS), self._roll)

    def _queue_changed(self, _: KubeObject) -> None:
        self.queues_changed()

    def _queue_updated(self, _: KubeObject, new: KubeObject) -> None:
        self.queues_changed()

    def _gone(self, item: KubeObject) -> None:
        self._wished.pop(item.uid, None)
        self._specs.pop(item.uid, None)
        self._writer.forget(item)
        self.queues_changed()

    def _roll(self) -> None:
        """Compute the status of all queues; put those that changed."""
        self._timer = None
        self._last_roll = self._clock.now()
        pools = [system.pool for system in self.systems.values()]
        items = [item for lister in self._listers for item in lister if any(pool.has(item) for pool in pools)]
        specs = {item.name: self._spec(item) for item in items}
        totals = self.book.totals(specs.values())
        self.metrics.specs, self.metrics.totals = specs, totals
        for listener in self.listeners:
            listener(totals)
        statuses = self._says.of_queues(specs, totals, self._phase_counts)
        for item in (item for item in items if item.name in statuses):
            counts: Mapping[str, int] = self._phase_counts.get(item.name, {})
            wish = self._says.queue_wish(item, statuses[item.name], specs, counts)
            if self._wished.get(item.uid) != (item, wish):
                self._wished[item.uid] = (item, wish)
                self._writer.put(item, wish)

    def _spec(self, item: KubeObject) -> QueueSpec:
        known = self._specs.get(item.uid)
        if known is None or known[0] is not item:
            known = self._specs[item.uid] = (item, self._queue_row.read(item))
        return known[1]
