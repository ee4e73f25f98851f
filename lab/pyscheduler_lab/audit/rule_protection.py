"""Rule 3 of the audit of a batch scheduler: no protected pod and no pod of another scheduler is evicted.

These pods are protected:

- pods of jobs that are not preemptible
- in Volcano and kube-batch: system pods
- when a job preempts: pods of other queues; in KAI, also pods whose priority is not lower than the job's
- when a job reclaims room from other queues: pods of its own queue, and pods of queues that are not reclaimable
- in KAI, when a job preempts or reclaims: pods of a job that has run for less than a minimum time
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Final

from pyscheduler_lab.audit.batch_objects import KAI
from pyscheduler_lab.audit.evictions import PREEMPTING, RECLAIMING, STALE, announced_in
from pyscheduler_lab.audit.facts import Evicted, Fact
from pyscheduler_lab.audit.gangs import leaf_minima, leaf_of
from pyscheduler_lab.audit.rule import Rule

if TYPE_CHECKING:
    from pyscheduler_lab.audit.batch_objects import Queue
    from pyscheduler_lab.audit.core_objects import Pod
    from pyscheduler_lab.audit.history import Change
    from pyscheduler_lab.audit.verdict import Verdict
    from pyscheduler_lab.audit.world import World

__all__ = ["ProtectionRule"]

#: The API has the start of a job in whole seconds.
_CLOCK_SECONDS: Final = 1.0
#: So many former versions of a queue are kept.
_FORMER: Final = 64
_SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})


class ProtectionRule(Rule):
    """No protected or foreign pod is evicted."""

    number = 3

    def __init__(self, world: World, verdict: Verdict) -> None:
        super().__init__(world, verdict)
        #: UIDs of the pods that a job took from a leaf of another job, by evictor, victim and leaf.
        self._taken: dict[tuple[str, str, str], set[str]] = {}
        #: Pods that a job might lose when their eviction was announced: UID of the pod, and the job that evicts it.
        self._surplus: set[tuple[str, str]] = set()
        #: By name of a queue, what it said before, and until when.
        self._former: defaultdict[str, deque[tuple[float, Queue]]] = defaultdict(partial(deque, maxlen=_FORMER))

    def before(self, change: Change) -> None:
        """Judge what an event announces: other decisions of the pass, and failures, come before it is written."""
        if change.kind == "Queue" and (queue := self.world.queues.get(change.obj["metadata"]["name"])) is not None:
            self._former[queue.name].append((change.at, queue))
        found = announced_in(change.obj) if change.kind == "Event" else None
        if found is None:
            return
        record, keys = found[0], {*found[1]}
        pods = [pod for pod in self.world.pods.values() if pod.key in keys]
        for pod in pods:
            gone = {one.uid for one in pods if one.job == pod.job}
            if self._holds_minimum(pod, gone | self._taken_by(record.by, pod)):
                self._surplus.add((pod.uid, record.by))

    def take(self, fact: Fact) -> None:
        """Check an eviction."""
        if not isinstance(fact, Evicted):
            return
        self.judge()
        problem = self._problem(fact)
        if problem:
            text = f"pod {fact.pod.key} was evicted ({fact.record.action}), but {problem}"
            self.report(fact.at, fact.revision, (fact.pod.key, fact.record.by), text)

    def _problem(self, fact: Evicted) -> str:
        pod, action, world = fact.pod, fact.record.action, self.world
        if not world.is_ours(pod):
            return f"it belongs to the scheduler {pod.scheduler!r}"
        if action == STALE:
            return ""
        if not world.preemptible(pod):
            return f"its job {pod.job} is not preemptible"
        group = world.group_of(pod.job)
        kai = group is not None and group.dialect == KAI
        if not kai and (pod.namespace == "kube-system" or pod.priority_class in _SYSTEM_CLASSES):
            return "it is a pod of the system"
        own, other = world.queue_of_job(fact.record.by), world.queue_of(pod)
        if action in PREEMPTING:
            if own and own != other:
                return f"{fact.record.by} is in queue {own}, not in its queue {other}"
            if kai and self._priority_of(fact.record.by) <= world.priority(pod):
                return f"its priority {world.priority(pod)} is not below that of {fact.record.by}"
        if action in RECLAIMING:
            if own and own == other:
                return f"{fact.record.by} is in the same queue {own}"
            if not all(world.queues[name].reclaimable for name in world.path(other)[:1]):
                return f"its queue {other} is not reclaimable"
        return self._run_time_problem(fact, own, other) if kai else ""

    def _priority_of(self, job: str) -> float:
        pod = next(iter(self.world.members.get(job, {}).values()), None)
        return float("inf") if pod is None else self.world.priority(pod)

    def _run_time_problem(self, fact: Evicted, own: str, other: str) -> str:
        """Return why the minimum run time protects the pod, or ""."""
        action, pod = fact.record.action, fact.pod
        if action in PREEMPTING:
            minimum = self._nearest(self.world.path(other), "preempt_min_seconds")
        elif action in RECLAIMING:
            minimum = self._nearest(self._reclaim_path(own, other), "reclaim_min_seconds")
        else:
            return ""
        started = self.world.started_at(pod.job)
        if minimum <= 0 or started is None:
            return ""
        ran = fact.at - started
        if ran >= minimum - _CLOCK_SECONDS:
            return ""
        if self._leaves_minimum(fact):
            return ""
        return f"its job {pod.job} has run for {ran:.1f} s of at least {minimum:g} s"

    def _leaves_minimum(self, fact: Evicted) -> bool:
        """Return True if the decision leaves the job its minimum; only then an elastic job may lose pods.

        As in KAI, promised pods count, and pods that other decisions evicted until they are gone. If a pod left a
        moment ago, the eviction may have been decided before, and nothing objects to it; nor if it was right when it
        was announced.
        """
        pod = fact.pod
        taken = self._taken_by(fact.record.by, pod)
        taken.add(pod.uid)
        if (pod.uid, fact.record.by) in self._surplus:
            return True
        if fact.at - self.world.lost_at(pod.job) <= self.options.in_flight_seconds:
            return True
        return self._holds_minimum(pod, taken)

    def _taken_by(self, evictor: str, pod: Pod) -> set[str]:
        """Return the UIDs of the pods that a job took from the leaf of a pod."""
        leaf = leaf_of(self.world.group_of(pod.job), pod)
        return self._taken.setdefault((evictor, pod.job, leaf), set())

    def _holds_minimum(self, pod: Pod, gone: set[str]) -> bool:
        """Return whether the leaf of a pod has its minimum without these UIDs."""
        group = self.world.group_of(pod.job)
        leaf = leaf_of(group, pod)
        members = self.world.members.get(pod.job, {}).values()
        used = {one.uid for one in members if leaf_of(group, one) == leaf and self._may_be_placed(one)}
        return len(used - gone) >= leaf_minima(group).get(leaf, 0)

    def _may_be_placed(self, pod: Pod) -> bool:
        """Return whether a pod has a node, or may have one in the memory of the scheduler.

        A waiting pod that is evicted had one; and a new pod about which nothing is said may be on its way to one.
        """
        if pod.node or pod.nominated or pod.condition("DisruptionTarget") is not None:
            return not pod.ended
        age = self.world.now - self.world.first_seen[pod.uid]
        return age <= self.options.in_flight_seconds and not pod.gated and pod.condition("PodScheduled") is None

    def _nearest(self, path: tuple[str, ...], field: str) -> float:
        """Return the first value along a path; the least one if queues said something else a moment ago."""
        least = math.inf
        for name in path:
            values: list[float | None] = [getattr(queue, field) for queue in self._versions(name)]
            known = [value for value in values if value is not None]
            least = min([least, *known])
            if len(known) == len(values):
                return least
        return min(least, 0.0)

    def _versions(self, name: str) -> list[Queue]:
        since = self.world.now - self.options.in_flight_seconds
        return [self.world.queues[name], *(queue for until, queue in self._former[name] if until >= since)]

    def _reclaim_path(self, own: str, other: str) -> tuple[str, ...]:
        """Return where the minimum run time is looked up: from the child of the common ancestor upwards (``lca``)."""
        path = self.world.path(other)
        if self.options.reclaim_resolve_method != "lca":
            return path
        shared = set(self.world.path(own))
        below = [index for index, name in enumerate(path) if name not in shared]
        return path[below[-1] :] if below else path
