"""Rules 6 and 7 of the audit of a batch scheduler: evictions come to an end.

Rule 6: no pod is evicted twice, and jobs do not evict each other in a cycle. Rule 7: evictions end within a time limit.

Both rules count from the last change that the batch scheduler did not cause, such as a new job.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pyscheduler_lab.audit.evictions import PREEMPTING, announced_in, record_of_pod
from pyscheduler_lab.audit.facts import Evicted, Fact, Outside
from pyscheduler_lab.audit.rule import Rule

if TYPE_CHECKING:
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.verdict import Verdict
    from pyscheduler_lab.audit.world import World

__all__ = ["EndRule", "RepeatRule"]


class RepeatRule(Rule):
    """Between changes from outside no pod is evicted twice, and "evictor of" has no cycle.

    A pod that replaces an evicted one counts as the same pod, and its creation is no change from outside. Two pods of
    one job may stand in the relation evictor and victim, if the preset preempts within a job (Volcano). An eviction
    that was decided before a change and written after it does not count with those after the change.
    """

    number = 6

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        self._victims_of: dict[str, set[str]] = defaultdict(set)
        self._evicted: dict[str, float] = {}
        #: Revision of the last change from outside.
        self._changed = 0
        #: By key of a pod, the last event about its eviction: revision, and the job that gets the room.
        self._announced: dict[str, tuple[int, str]] = {}
        #: By uid of a pod, its condition about an eviction: the revision that has it first, and that job.
        self._marked: dict[str, tuple[int, str]] = {}

    def before(self, change: Change) -> None:
        """Take in when evictions were decided."""
        metadata = change.obj["metadata"]
        if change.kind == "Event":
            found = announced_in(change.obj)
            if found is not None:
                self._announced.update((key, (change.revision, found[0].by)) for key in found[1])
        elif change.kind == "Pod":
            record = record_of_pod(change.obj)
            if record is None:
                self._marked.pop(metadata["uid"], None)
            elif self._marked.get(metadata["uid"], (0, None))[1] != record.by:
                self._marked[metadata["uid"]] = (change.revision, record.by)
            if change.type == "ADDED":
                self._announced.pop(f"{metadata.get('namespace', '')}/{metadata['name']}", None)

    def _decided(self, eviction: Evicted) -> int:
        """Return the revision of the decision to evict: of the last event, else of the condition or deletion."""
        pod = eviction.pod
        for revision, by in (self._announced.get(pod.key, (0, "")), self._marked.get(pod.uid, (0, ""))):
            if revision and by == eviction.record.by:
                return revision
        return eviction.revision

    def take(self, fact: Fact) -> None:
        """Check an eviction against those since the last change from outside."""
        if isinstance(fact, Outside):
            self._victims_of.clear()
            self._evicted.clear()
            self._changed = fact.revision
        if not isinstance(fact, Evicted):
            return
        self.judge()
        if self._decided(fact) < self._changed:
            return
        victim, by = fact.pod.job, fact.record.by
        if fact.slot in self._evicted:
            before = self._evicted[fact.slot]
            text = f"pod {fact.pod.key} was evicted again, {fact.at - before:.1f} s later, though nothing had changed"
            self.report(fact.at, fact.revision, (fact.pod.key, by), text)
        self._evicted[fact.slot] = fact.at
        if not by or (by == victim and fact.record.action in PREEMPTING):
            return
        chain = self._chain(victim, by)
        if chain:
            text = f"pod {fact.pod.key} was evicted for {by}, which closes a cycle: {' -> '.join([by, *chain])}"
            self.report(fact.at, fact.revision, (fact.pod.key, by), text)
        self._victims_of[by].add(victim)

    def _chain(self, start: str, goal: str) -> list[str]:
        """Return the jobs from `start` to `goal`, each the evictor of the next one; [] if there is no way."""
        ways = {start: [start]}
        todo = [start]
        while todo:
            job = todo.pop(0)
            if job == goal:
                return ways[job]
            for other in sorted(self._victims_of.get(job, ())):
                if other not in ways:
                    ways[other] = [*ways[job], other]
                    todo.append(other)
        return []


class EndRule(Rule):
    """After the last change from outside evictions end."""

    number = 7

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        self._last = float("-inf")

    def take(self, fact: Fact) -> None:
        """Check the time of an eviction."""
        if isinstance(fact, Outside):
            self._last = fact.at
        if not isinstance(fact, Evicted):
            return
        self.judge()
        allowed = self.options.settle_seconds + self._longest_timer()
        if fact.at - self._last > allowed:
            text = (
                f"pod {fact.pod.key} was evicted ({fact.record.action}) {fact.at - self._last:.1f} s after the last "
                f"change from outside; evictions must end within {allowed:g} s"
            )
            self.report(fact.at, fact.revision, (fact.pod.key, fact.record.by), text)

    def _longest_timer(self) -> float:
        """Return the longest time after which a queue or a group permits a new eviction."""
        times = [0.0]
        for queue in self.world.queues.values():
            times += [queue.preempt_min_seconds or 0.0, queue.reclaim_min_seconds or 0.0]
        times += [group.staleness_seconds or 0.0 for group in self.world.groups.values()]
        return max(times)
