"""A small correct batch scheduler that writes logs, and faults that break one rule each.

The cluster is one node. Queues are flat with quotas and no over-quota weight, so a fair share is the smaller one of
quota and request; or they form a tree with limits, and nobody reclaims. A job that was evicted neither evicts nor is
evicted again before news from outside.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import attrs

from tests.batch.checker.log import GPU, Log

__all__ = ["FAULTS", "ToyScheduler"]

_PRIORITIES: Final = {"low": 10, "train": 50, "build": 100}
_NON_PREEMPTIBLE: Final = 100
_NODE: Final = "n1"


@attrs.define
class _Queue:
    name: str
    parent: str
    quota: int
    limit: int


@attrs.define
class _Job:
    name: str
    queue: str
    priority: int
    minimum: int
    pods: list[str]
    bound: set[str] = attrs.Factory(set)
    #: Number of the news since which the job has not been evicted.
    evicted_at: int = -1

    @property
    def waiting(self) -> list[str]:
        """Return the pods without a node, in order."""
        return [pod for pod in self.pods if pod not in self.bound]

    @property
    def preemptible(self) -> bool:
        """Return True if the job may be evicted."""
        return self.priority < _NON_PREEMPTIBLE


class ToyScheduler:
    """One random history. `counts` says how often each kind of write happened."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.log = Log()
        self.counts: Counter[str] = Counter()
        self.gpus = self.rng.randint(4, 10)
        self.log.node(_NODE, self.gpus)
        for name, value in _PRIORITIES.items():
            self.log.create("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
        self.tree = self.rng.random() < 0.3
        self.queues = {queue.name: queue for queue in self._make_queues()}
        self.leaves = [name for name in self.queues if not any(one.parent == name for one in self.queues.values())]
        for queue in self.queues.values():
            self.log.queue(queue.name, queue.parent, quota=queue.quota, limit=queue.limit, overQuotaWeight=0)
        self.jobs: dict[str, _Job] = {}
        self.news = 0
        self._made = 0
        self.log.pod("foreign", "", 0, node=_NODE, scheduler="other")

    def _make_queues(self) -> list[_Queue]:
        names = [f"q{index}" for index in range(self.rng.randint(2, 4))]
        if not self.tree:
            share = self.gpus // len(names)
            return [_Queue(name, "", self.rng.randint(0, share), -1) for name in names]
        top = _Queue("top", "", self.gpus, self.rng.randint(2, self.gpus))
        return [top, *(_Queue(name, "top", self.gpus, self.rng.randint(1, self.gpus)) for name in names)]

    # --- what happens outside -----------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Let so many things happen; the scheduler runs after each, and once more when all is quiet."""
        for _ in range(steps):
            self.news += 1
            self.log.wait(self.rng.uniform(2.0, 40.0))
            self.rng.choice([self._submit, self._submit, self._end, self._lose_a_pod])()
            self.schedule()
        self.log.wait(30.0)
        self.schedule()

    def _submit(self) -> None:
        self._made += 1
        count = self.rng.randint(1, 4)
        minimum = self.rng.randint(1, count)
        priority = self.rng.choice(list(_PRIORITIES))
        name, queue = f"j{self._made}", self.rng.choice(self.leaves)
        self.log.job(name, queue, count, minimum, priorityClassName=priority)
        pods = [f"{name}-{index}" for index in range(count)]
        self.jobs[name] = _Job(name, queue, _PRIORITIES[priority], minimum, pods)
        self.counts["submitted"] += 1

    def _end(self) -> None:
        running = [job for job in self.jobs.values() if len(job.bound) == len(job.pods) >= job.minimum]
        if running:
            job = self.jobs.pop(self.rng.choice(running).name)
            for pod in job.pods:
                self.log.update("Pod", pod, status={"phase": "Succeeded"})
            self.counts["ended"] += 1

    def _lose_a_pod(self) -> None:
        running = [job for job in self.jobs.values() if job.bound]
        if running:
            job = self.rng.choice(running)
            pod = self.rng.choice(sorted(job.bound))
            job.bound.discard(pod)
            self.log.delete("Pod", pod)
            if self.rng.random() < 0.3:  # nobody replaces it
                job.pods.remove(pod)
            else:
                self.log.pod(pod, job.name)
            self.counts["lost"] += 1

    # --- the scheduler ------------------------------------------------------------------------------

    def schedule(self) -> None:
        """Repair or evict broken gangs, bind what fits, evict for what may, and write status and reasons."""
        for job in list(self.jobs.values()):
            if 0 < len(job.bound) < job.minimum and not self._bind(job, job.minimum - len(job.bound)):
                self.write_status()
                self.log.wait(61.0)
                self.evict(job, sorted(job.bound), "stalegangeviction")
        for job in sorted(self.jobs.values(), key=lambda one: -one.priority):
            if len(job.bound) < job.minimum and not self._bind(job, job.minimum - len(job.bound)):
                self._evict_for(job)
            while job.waiting and len(job.bound) >= job.minimum and self._bind(job, 1):
                pass
        self.write_status()
        for job in self.jobs.values():
            self.log.reason(*job.waiting)

    def used(self, queue: str = "", *, fixed: bool = False) -> int:
        """Return the GPUs in use below a queue, or in all; `fixed`: only of jobs that are not preemptible."""
        return sum(
            len(job.bound)
            for job in self.jobs.values()
            if queue in {"", job.queue, self.queues[job.queue].parent} and not (fixed and job.preemptible)
        )

    def _gates_open(self, job: _Job, count: int, lost: int = 0) -> bool:
        for name in {job.queue, self.queues[job.queue].parent} - {""}:
            queue = self.queues[name]
            if queue.limit >= 0 and self.used(name) - lost + count > queue.limit:
                return False
            if not job.preemptible and self.used(name, fixed=True) + count > queue.quota:
                return False
        return True

    def _bind(self, job: _Job, count: int) -> bool:
        if len(job.waiting) < count or self.used() + count > self.gpus or not self._gates_open(job, count):
            return False
        for pod in job.waiting[:count]:
            self.log.bind(pod)
            job.bound.add(pod)
        self.counts["bound"] += count
        return True

    def _evict_for(self, job: _Job) -> None:
        """Preempt in the own queue; else reclaim up to the quota from queues above theirs."""
        if job.evicted_at == self.news or job.bound or len(job.pods) < job.minimum:
            return
        victims = [one for one in self.jobs.values() if one.bound and one.preemptible and one.evicted_at != self.news]
        for action, plan in (("preempt", self._preemption(job, victims)), ("reclaim", self._reclaim(job, victims))):
            lost = sum(map(len, plan.values())) if action == "preempt" else 0
            if plan and self._gates_open(job, job.minimum, lost):
                for name, pods in plan.items():
                    self.evict(self.jobs[name], pods, action, job)
                assert self._bind(job, job.minimum)
                return

    def _preemption(self, job: _Job, victims: list[_Job]) -> dict[str, list[str]]:
        free, plan = self.gpus - self.used(), {}
        for victim in victims:
            if free < job.minimum and victim.queue == job.queue and victim.priority < job.priority:
                plan[victim.name] = sorted(victim.bound)
                free += len(victim.bound)
        return plan if free >= job.minimum else {}

    def _reclaim(self, job: _Job, victims: list[_Job]) -> dict[str, list[str]]:
        """Return what to reclaim: of each job its surplus pods one by one, then the rest at once."""
        plan: dict[str, list[str]] = {}
        if self.tree or self.used(job.queue) + job.minimum > self.queues[job.queue].quota:
            return plan
        free, left = self.gpus - self.used(), {name: self.used(name) for name in self.leaves}
        for victim in victims:
            pods = sorted(victim.bound)
            units = [[pod] for pod in pods[victim.minimum :]] + [pods[: victim.minimum]]
            for unit in units:
                above = left[victim.queue] > self.queues[victim.queue].quota
                if free < job.minimum and victim.queue != job.queue and above:
                    plan.setdefault(victim.name, []).extend(unit)
                    free += len(unit)
                    left[victim.queue] -= len(unit)
        return plan if free >= job.minimum else {}

    def evict(self, victim: _Job, pods: list[str], action: str, by: _Job | None = None) -> None:
        """Evict pods, whose controller creates them again."""
        self.log.evict(*pods, action=action, by=by.name if by is not None else "")
        victim.bound -= set(pods)
        victim.evicted_at = self.news
        for pod in pods:
            self.log.pod(pod, victim.name)
        self.counts[action] += len(pods)

    def write_status(self) -> None:
        """Write the status of all queues."""
        for name in self.queues:
            asked = sum(
                len(job.pods) for job in self.jobs.values() if name in {job.queue, self.queues[job.queue].parent}
            )
            amounts = {
                field: {"cpu": str(count), "memory": f"{count}Gi", GPU: str(count)}
                for field, count in (
                    ("allocated", self.used(name)),
                    ("allocatedNonPreemptible", self.used(name, fixed=True)),
                    ("requested", asked),
                )
            }
            self.log.update("Queue", name, status=amounts)


# --- faults: each breaks one rule at the end of a history, or returns False if it finds no object -----------------


def _first(toy: ToyScheduler, *, bound: bool, **fields: bool) -> _Job | None:
    jobs = [
        job
        for job in toy.jobs.values()
        if len(job.pods) >= job.minimum
        and (len(job.bound) >= job.minimum if bound else not job.bound)
        and all(getattr(job, name) == value for name, value in fields.items())
    ]
    return toy.rng.choice(jobs) if jobs else None


def bind_part(toy: ToyScheduler) -> bool:
    """Bind one member of a waiting gang."""
    job = _first(toy, bound=False)
    if job is None or job.minimum < 2:
        return False
    toy.log.bind(job.pods[0])
    return True


def evict_part(toy: ToyScheduler) -> bool:
    """Evict one member of an exact gang."""
    job, by = _first(toy, bound=True, preemptible=True), _first(toy, bound=False)
    if job is None or by is None or len(job.bound) != job.minimum or job.minimum < 2:
        return False
    toy.log.evict(job.pods[0], action="reclaim", by=by.name)
    return True


def exceed_limit(toy: ToyScheduler) -> bool:
    """Lower a limit below its use, and bind one more pod a while later."""
    job = next((one for one in toy.jobs.values() if one.waiting and len(one.bound) >= one.minimum), None)
    if job is None:
        return False
    gpu = {"quota": 0, "limit": 0, "overQuotaWeight": 0}
    toy.log.update("Queue", job.queue, spec={"resources": {"gpu": gpu}})
    toy.log.wait(30.0)
    toy.log.bind(job.waiting[0])
    return True


def evict_protected(toy: ToyScheduler) -> bool:
    """Evict a job that is not preemptible."""
    job, by = _first(toy, bound=True, preemptible=False), _first(toy, bound=False)
    if job is None or by is None:
        return False
    toy.log.evict(*sorted(job.bound), action="reclaim", by=by.name)
    return True


def evict_foreign(toy: ToyScheduler) -> bool:
    """Evict a pod of another scheduler."""
    by = _first(toy, bound=False)
    if by is None:
        return False
    toy.log.evict("foreign", action="reclaim", by=by.name)
    return True


def evict_in_vain(toy: ToyScheduler) -> bool:
    """Evict for a job that never starts."""
    job, by = _first(toy, bound=True, preemptible=True), _first(toy, bound=False)
    if job is None or by is None:
        return False
    toy.log.evict(*sorted(job.bound), action="reclaim", by=by.name)
    toy.log.wait(300.0)
    return True


def evict_whole_as_broken(toy: ToyScheduler) -> bool:
    """Evict a whole gang as a broken one."""
    job = _first(toy, bound=True)
    if job is None:
        return False
    toy.log.evict(*sorted(job.bound), action="stalegangeviction")
    return True


def reclaim_unfairly(toy: ToyScheduler) -> bool:
    """Reclaim from a queue that is within its quota."""
    job, by = _first(toy, bound=True, preemptible=True), _first(toy, bound=False)
    if job is None or by is None or toy.tree or toy.used(job.queue) > toy.queues[job.queue].quota:
        return False
    toy.log.evict(*sorted(job.bound), action="reclaim", by=by.name)
    return True


def evict_again(toy: ToyScheduler) -> bool:
    """Evict a job, start it again, and evict it again."""
    job, by = _first(toy, bound=True, preemptible=True), _first(toy, bound=False)
    if job is None or by is None:
        return False
    for _ in range(2):
        toy.log.evict(job.pods[0], action="preempt", by=by.name)
        toy.log.pod(job.pods[0], job.name)
        toy.log.bind(job.pods[0])
    return True


def close_a_cycle(toy: ToyScheduler) -> bool:
    """Let two jobs evict each other."""
    job, by = _first(toy, bound=True, preemptible=True), _first(toy, bound=False)
    if job is None or by is None:
        return False
    for victim, evictor in ((job, by), (by, job)):
        toy.log.evict(victim.pods[0], action="preempt", by=evictor.name)
        toy.log.pod(victim.pods[0], victim.name)
        toy.log.bind(evictor.pods[0])
    return True


def evict_late(toy: ToyScheduler) -> bool:
    """Evict long after the last change from outside."""
    job, by = _first(toy, bound=True, preemptible=True), _first(toy, bound=False)
    if job is None or by is None:
        return False
    toy.log.wait(1000.0)
    toy.log.evict(*sorted(job.bound), action="reclaim", by=by.name)
    return True


def forget_reason(toy: ToyScheduler) -> bool:
    """Remove the conditions of a pending pod."""
    job = _first(toy, bound=False)
    if job is None:
        return False
    toy.log.update("Pod", job.pods[0], status={"conditions": []})
    return True


def write_wrong_status(toy: ToyScheduler) -> bool:
    """Write a status with one GPU too many."""
    count = str(toy.used(toy.leaves[0]) + 1)
    toy.log.update("Queue", toy.leaves[0], status={"allocated": {"cpu": count, "memory": f"{count}Gi", GPU: count}})
    return True


#: Faults with the rule that each breaks.
FAULTS: Final = {
    bind_part: 1,
    evict_part: 1,
    exceed_limit: 2,
    evict_protected: 3,
    evict_foreign: 3,
    evict_in_vain: 4,
    evict_whole_as_broken: 4,
    reclaim_unfairly: 5,
    evict_again: 6,
    close_a_cycle: 6,
    evict_late: 7,
    forget_reason: 8,
    write_wrong_status: 9,
}
