"""Rule 4 of the audit of a batch scheduler: each eviction has a purpose.

An eviction must remove the rest of a broken gang, or make room for a job that then starts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_lab.audit.evictions import STALE, record_of_pod
from pyscheduler_lab.audit.facts import Bound, Evicted, Fact, Left, Outside
from pyscheduler_lab.audit.gangs import gang_state
from pyscheduler_lab.audit.rule import Rule

if TYPE_CHECKING:
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.verdict import Verdict
    from pyscheduler_lab.audit.world import World

__all__ = ["PurposeRule"]

#: A broken gang may be evicted so much earlier than its grace period ends, because clocks differ.
_CLOCK_SECONDS: Final = 2.0


@attrs.define
class _Debt:
    """Room that one job got by one eviction."""

    fact: Evicted
    deadline: float


class PurposeRule(Rule):
    """Each eviction reaches its purpose."""

    number = 4

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        self._debts: dict[str, list[_Debt]] = defaultdict(list)
        #: When each job last bound a pod and had its minimum then.
        self._served: dict[str, float] = {}
        #: By job, those that took the promise of a waiting pod from it, and when.
        self._heirs: dict[str, list[tuple[float, str]]] = defaultdict(list)
        #: When a node last left or lost room.
        self._narrowed = float("-inf")
        #: Since when each gang lacks members although some hold nodes.
        self._broken: dict[str, float] = {}
        #: Gangs that were whole at some time in the log; of the others only their annotation says since when they wait.
        self._whole: set[str] = set()

    def before(self, change: Change) -> None:
        """Remember since when the gang that the change concerns is broken."""
        if change.kind == "Pod":
            pod = self.world.pods.get(change.obj["metadata"]["uid"])
            if pod is not None:
                self._note_broken(pod.job)

    def after(self, change: Change) -> None:
        """Remember since when the gang that the change concerns is broken."""
        if change.kind == "Pod":
            pod = self.world.pods.get(change.obj["metadata"]["uid"])
            self._note_broken(pod.job if pod is not None else "")
            if pod is not None and not pod.node and (record := record_of_pod(change.obj)) is not None:
                self._heirs[pod.job].append((change.at, record.by))
        elif change.kind == "PodGroup":
            metadata = change.obj["metadata"]
            self._note_broken(f"{metadata.get('namespace', 'default')}/{metadata['name']}")
        elif change.kind == "Node" and change.type == "DELETED":
            name = change.obj["metadata"]["name"]
            for job in {pod.job for pod in self.world.pods.values() if pod.node == name}:
                self._note_broken(job)

    def _note_broken(self, job: str) -> None:
        members = self.world.members.get(job, {}).values()
        state = gang_state(self.world.group_of(job), [pod for pod in members if not self.world.is_stranded(pod)])
        if state.partial:
            self._broken.setdefault(job, self.world.now)
        elif state.active:
            self._whole.add(job)
            self._broken.pop(job, None)

    def advance(self, at: float) -> None:
        """Report the jobs whose time is over."""
        for job in list(self._debts):
            overdue = [debt for debt in self._debts[job] if debt.deadline < at]
            if overdue:
                self._debts[job] = [debt for debt in self._debts[job] if debt.deadline >= at]
                self._report(job, overdue)

    def _report(self, job: str, overdue: list[_Debt]) -> None:
        for debt in overdue:
            fact = debt.fact
            if any(self._served.get(heir, float("-inf")) >= fact.at for heir in self._all_heirs(job, debt)):
                continue
            text = (
                f"pod {fact.pod.key} was evicted ({fact.record.action}) for {job}, "
                f"which did not bind its minimum until {debt.deadline:.3f} s"
            )
            self.report(fact.at, fact.revision, (fact.pod.key, job), text)

    def _all_heirs(self, job: str, debt: _Debt) -> set[str]:
        """Return who took a job's promises while a debt was open, and who took theirs."""
        since = debt.fact.at - self.options.in_flight_seconds
        found: set[str] = set()
        left = {job}
        while left:
            taken = (entry for one in left for entry in self._heirs.get(one, ()))
            left = {heir for at, heir in taken if since <= at <= debt.deadline} - found
            found |= left
        return found

    def take(self, fact: Fact) -> None:
        """Follow evictions, bindings and what excuses a job."""
        match fact:
            case Evicted():
                self._evicted(fact)
            case Bound(pod=pod):
                self._bound(pod.job)
            case Left(at=at, pod=pod):
                for debts in self._debts.values():
                    for debt in debts:
                        if debt.fact.pod.uid == pod.uid:
                            debt.deadline = max(debt.deadline, at + self.options.lease_seconds)
            case Outside():
                self._outside(fact)

    def _evicted(self, fact: Evicted) -> None:
        record, pod = fact.record, fact.pod
        self.judge()
        if record.action == STALE:
            self._check_stale(fact)
            return
        if not record.by:
            text = f"pod {pod.key} was evicted ({record.action}) for no job"
            self.report(fact.at, fact.revision, (pod.key,), text)
            return
        by = record.heir or record.by
        if not self.world.members.get(by):
            if fact.at - self.world.lost_at(by) <= self.options.in_flight_seconds:
                self.skip()
                return
            text = f"pod {pod.key} was evicted ({record.action}) for {by}, which has no pods"
            self.report(fact.at, fact.revision, (pod.key, by), text)
            return
        if fact.at - max(self._narrowed, self._served.get(by, self._narrowed)) <= self.options.in_flight_seconds:
            # Decided before: the scheduler did not know yet; or it is the rest of a gang, or the job found other room.
            self.skip()
            return
        deadline = fact.at + pod.grace_seconds + self.options.lease_seconds
        self._debts[by].append(_Debt(fact, deadline))

    def _check_stale(self, fact: Evicted) -> None:
        job = fact.pod.job
        group = self.world.group_of(job)
        own = group.staleness_seconds if group is not None else None
        grace = self.options.staleness_seconds if own is None else own
        since = self._broken.get(job)
        if since is not None and job not in self._whole and group is not None and group.stale_since is not None:
            since = min(since, group.stale_since)
        text = ""
        if since is None:
            text = f"pod {fact.pod.key} was evicted as a member of a broken gang, but {job} was whole"
        elif grace < 0:
            text = f"pod {fact.pod.key} was evicted as a member of a broken gang, but {job} has no time limit"
        elif fact.at - since < grace - _CLOCK_SECONDS:
            text = f"pod {fact.pod.key} was evicted {fact.at - since:.1f} s after {job} broke, before {grace:g} s"
        if text:
            self.report(fact.at, fact.revision, (fact.pod.key, job), text)

    def _bound(self, job: str) -> None:
        state = gang_state(self.world.group_of(job), self.world.members[job].values())
        if not state.missing:
            self._debts.pop(job, None)
            self._served[job] = self.world.now

    def _outside(self, fact: Outside) -> None:
        everybody = fact.kind in {"node-room", "foreign-bound", "class"}
        if fact.kind == "node-room":
            self._narrowed = fact.at
        for job in list(self._debts):
            concerned = fact.subject == job and fact.kind in {"pod-gone", "pod-changed", "group"}
            if fact.kind == "queue":
                queue = self.world.queue_of_job(job)
                concerned = fact.subject in self.world.path(queue) or queue not in self.world.queues
            if everybody or concerned:
                self.skip(len(self._debts.pop(job)))

    def finish(self, end: float) -> None:
        """Report what is overdue; jobs that still have time are undecided."""
        self.advance(end)
        self.skip(sum(map(len, self._debts.values())))
