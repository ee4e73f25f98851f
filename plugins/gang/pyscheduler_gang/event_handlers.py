"""Event handlers of gangs: allow, reject or retry members when pods, groups or nodes change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api import Node, Pod
from pyscheduler.podgroup import ChangeKind
from pyscheduler_gang.gangs import Gangs, has_timed_out
from pyscheduler_gang.rounds import Rounds
from pyscheduler_gang.timeouts import TimeoutMarks
from pyscheduler_gang.verdicts import Verdicts

if TYPE_CHECKING:
    from pyscheduler.framework import Handle
    from pyscheduler.podgroup import Group, GroupChange, PodGroups
    from pyscheduler_gang.args import GangArgs
    from pyscheduler_gang.record import GangRecord

__all__ = ["GangEventHandlers"]


class GangEventHandlers:
    """The gangs of a scheduler with their event handlers, which are registered when it is made."""

    def __init__(self, plugin: str, handle: Handle, groups: PodGroups, args: GangArgs) -> None:
        gangs = self.gangs = Gangs(plugin, handle, groups, groups.claim(plugin, args.dialects or None), args)
        self.rounds = Rounds(gangs, handle)
        self._marks = TimeoutMarks(handle)
        verdicts = self.verdicts = Verdicts(gangs, self.rounds, self._marks, handle)
        self._handle = handle
        self._pods = handle.lister(Pod)
        gangs.directory.subscribe(self._changed)
        # Registered after the directory's handler, so the directory knows the pod.
        self._pods.add_event_handler(
            on_add=self._update_timeout, on_update=lambda _old, new: self._update_timeout(new), on_delete=self._gone
        )
        handle.lister(Node).add_event_handler(on_delete=lambda node: verdicts.node_is_gone(node.name))

    # --- pods

    def _update_timeout(self, pod: Pod) -> None:
        """Update whether a pod has the annotation of a gang that timed out."""
        state = self.gangs.directory.of(pod)
        if state is None or pod.is_terminal or not self.gangs.serves(state):
            return
        record = self.gangs.record(state)
        if has_timed_out(pod):
            self._marks.stored(pod.uid)
            if pod.uid not in record.timed_out and pod.uid not in state.bound:
                self._marks.note(record, pod.uid)
                self.verdicts.reconsider(record)
        elif pod.uid in record.timed_out and not self._marks.is_unwritten(pod.uid):
            # A user removed the annotation: the pod starts again.
            record.forget(pod.uid)
            self._handle.activate([pod])

    def _gone(self, pod: Pod) -> None:
        self._marks.stored(pod.uid)
        self.gangs.passed.discard(pod.uid)

    # --- groups

    def _changed(self, change: GroupChange) -> None:
        state = change.state
        if change.kind is ChangeKind.FORGOTTEN:
            self._forgotten(change)
            return
        if not self.gangs.serves(state) or self.gangs.directory.get(state.id) is not state:
            return
        record = self.gangs.record(state)
        pod = change.pod
        if change.kind is ChangeKind.JOINED:
            # Members that failed before may fit together with this one.
            record.retry_requested |= bool(record.visited) and not record.schedule_cycle_valid
        if change.kind is ChangeKind.LEFT and pod is not None:
            self._left(record, pod)
        elif change.kind is ChangeKind.DECLARED:
            self._declared(record, change.old)
        elif pod is not None and pod.uid in state.bound:
            record.remove_from_rounds(pod.uid)
            record.timed_out.discard(pod.uid)
            if change.kind is ChangeKind.JOINED:
                # It was bound before it joined; the gang may have its quorum now.
                self._reconsider(record)
        if record.deadline is not None and not state.waiting:
            record.clear_deadline()
        if state.satisfied and not record.was_satisfied:
            self.verdicts.reconsider(record)

    def _left(self, record: GangRecord, pod: Pod) -> None:
        was_bound = bool(pod.node_name)
        record.forget(pod.uid)
        self._marks.stored(pod.uid)
        if self._lives(pod):
            self.verdicts.member_left(record, pod)
            # It may have ignored the room that its gang gave back since it failed; and if it held a node in memory, the
            # queue does not know its new version.
            self._handle.activate([pod])
        self._reconsider(record)
        if not was_bound and not self.gangs.is_satisfied_for_good(record) and not self.gangs.is_short(record):
            # The member that left may be the one that did not fit.
            self.rounds.request_retry(record)

    def _lives(self, pod: Pod) -> bool:
        """Return True if a pod that left its gang still exists."""
        current = self._pods.get(pod.name, pod.namespace)
        return current is not None and current.uid == pod.uid and not pod.is_terminal

    def _declared(self, record: GangRecord, old: Group | None) -> None:
        self.gangs.list_partners(record, old.gang_group if old is not None else ())
        self._reconsider(record)
        if old is not None and old.gang_group != record.state.group.gang_group:
            for each in self.gangs:
                if each.id.key in old.gang_group and each is not record:
                    self.verdicts.reconsider(each)
        if not self.gangs.is_satisfied_for_good(record):
            for each in self.gangs.group(record):
                self.rounds.request_retry(each)
        elif old is None or not old.is_declared or old.policy != record.state.group.policy:
            # Members may sleep that the gang's former state refused.
            self.rounds.wake_all(record)

    def _forgotten(self, change: GroupChange) -> None:
        state = change.state
        if self.gangs.directory.get(state.id) is not None:
            return
        record = self.gangs.known(state.id)
        if record is None:
            return
        listing = self.gangs.listing(state.id)
        for pod in self.verdicts.waiting_in(record):
            if self._lives(pod):
                self.verdicts.member_left(record, pod)
                self._handle.activate([pod])
        self.gangs.drop(record)
        for each in listing:
            self.verdicts.reconsider(each)

    def _reconsider(self, record: GangRecord) -> None:
        self.verdicts.reconsider(record)
        for each in self.gangs.listing(record.id):
            if each.state.gang_group is not record.state.gang_group:
                self.verdicts.reconsider(each)
