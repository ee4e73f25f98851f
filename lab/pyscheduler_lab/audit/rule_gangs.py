"""Rule 1 of the audit of a batch scheduler: no gang stays partly bound.

A gang is a group of pods that start together or not at all.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Literal

import attrs

from pyscheduler_lab.audit.batch_objects import KAI
from pyscheduler_lab.audit.facts import Bound, Evicted, Fact, Outside
from pyscheduler_lab.audit.gangs import gang_state
from pyscheduler_lab.audit.rule import Rule

if TYPE_CHECKING:
    from pyscheduler_lab.audit.batch_objects import Group
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.verdict import Verdict
    from pyscheduler_lab.audit.world import World

__all__ = ["GangRule"]

_Cause = Literal["bound", "evicted", "lost"]


@attrs.frozen
class _Partial:
    """Since when a gang is partial, why, and until when it may be."""

    since: float
    revision: int
    cause: _Cause
    deadline: float


class GangRule(Rule):
    """No gang is partly bound."""

    number = 1

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        self._partial: dict[str, _Partial] = {}
        self._due: list[tuple[float, str]] = []
        self._causes: dict[str, _Cause] = {}
        #: The groups as they were when their gangs were whole, and the jobs of which a member has succeeded.
        self._reached: dict[str, Group | None] = {}
        self._completing: set[str] = set()

    def advance(self, at: float) -> None:
        """Report the gangs whose time is over before `at`."""
        while self._due and self._due[0][0] < at:
            deadline, job = heapq.heappop(self._due)
            partial = self._partial.get(job)
            if partial is not None and partial.deadline == deadline:
                self._report(job, partial)
                self._partial[job] = attrs.evolve(partial, deadline=math.inf)  # one report is enough

    def take(self, fact: Fact) -> None:
        """Remember why a gang changes."""
        if isinstance(fact, Bound):
            # A binding may be on its way while other members are lost.
            age = fact.at - self.world.lost_at(fact.pod.job)
            self._causes[fact.pod.job] = "lost" if age <= self.options.in_flight_seconds else "bound"
        elif isinstance(fact, Evicted):
            self._causes[fact.pod.job] = "evicted"
        elif isinstance(fact, Outside) and fact.kind == "queue":
            # Without the queue, or with less of it, nobody can complete the gang.
            for job in self._partial:
                queue = self.world.queue_of_job(job)
                if fact.subject in (queue, *self.world.path(queue)):
                    self._causes[job] = "lost"
        elif isinstance(fact, Outside) and fact.kind == "node-room":
            # Nor if the room for the bindings that are on their way is gone.
            for job, partial in self._partial.items():
                if partial.cause == "bound" and fact.at - partial.since <= self.options.in_flight_seconds:
                    self._causes[job] = "lost"
        elif isinstance(fact, Outside):
            self._causes[fact.subject] = "lost"

    def after(self, change: Change) -> None:
        """Look at the gangs that the change concerns."""
        causes, self._causes = self._causes, {}
        for job, cause in causes.items():
            if job in self.world.members or job in self.world.groups:
                self._look(job, cause, change.revision)

    def _look(self, job: str, cause: _Cause, revision: int) -> None:
        group, pods = self.world.group_of(job), self.world.members.get(job, {})
        state = gang_state(group, pods.values())
        known = self._partial.get(job)
        if known is None:
            self.judge()
        if not state.active:
            self._reached.pop(job, None)
            self._completing.discard(job)
        elif not state.partial:
            self._reached[job] = group
        if any(pod.phase == "Succeeded" for pod in pods.values()):
            self._completing.add(job)
        before = self._reached.get(job, group)
        is_partial = state.partial and (before is group or gang_state(before, pods.values()).partial)
        if not is_partial or not any(map(self.world.is_ours, pods.values())):
            self._partial.pop(job, None)
            return
        if known is not None and not (cause == "lost" or (cause == "evicted" and known.cause != "evicted")):
            return
        now = self.world.now
        wait = self.options.burst_seconds
        if cause == "lost":
            wait += self._grace(job)
        elif cause == "evicted" and self.options.breaks_gangs:
            wait = math.inf
        partial = _Partial(now, revision, cause, now + wait)
        self._partial[job] = partial
        heapq.heappush(self._due, (partial.deadline, job))

    def _grace(self, job: str) -> float:
        """Return how long the gang may be broken, in seconds."""
        group = self.world.group_of(job)
        # Volcano and kube-batch do not evict broken gangs.
        if group is None or group.dialect != KAI or not self.options.evicts_stale_gangs:
            return math.inf
        if job in self._completing:
            return math.inf
        own = group.staleness_seconds
        grace = self.options.staleness_seconds if own is None else own
        return math.inf if grace < 0 else grace + self.options.lease_seconds

    def _report(self, job: str, partial: _Partial) -> None:
        state = gang_state(self.world.group_of(job), self.world.members.get(job, {}).values())
        waited = partial.deadline - partial.since
        text = {
            "bound": f"gang {job} was partly bound for more than {waited:g} s: {state.missing}",
            "evicted": f"gang {job} was partly evicted and kept {state.active} members for more than {waited:g} s",
            "lost": f"gang {job} lost members and was not evicted or repaired for {waited:g} s: {state.missing}",
        }[partial.cause]
        self.report(partial.deadline, partial.revision, (job,), text)

    def finish(self, end: float) -> None:
        """Report what is overdue; gangs that still have time are undecided."""
        self.advance(end)
        for partial in self._partial.values():
            if end <= partial.deadline < math.inf:
                self.skip()
