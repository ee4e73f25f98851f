"""Random histories of passes that obey the commitments: an arithmetic model knows what must never happen."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings, strategies as st

from pyscheduler.testing import make_pod
from pyscheduler_batch.model.decisions import Decision, DecisionKind
from pyscheduler_batch.model.tasks import ACTIVE, ALLOCATED, Job, Task, TaskState
from pyscheduler_batch.sessions.backoff import BACKOFF_SECONDS
from pyscheduler_batch.sessions.commitments import LEASE_SECONDS, REST_SECONDS, Commitments
from pyscheduler_batch.sessions.eviction import FailedEviction

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE = 30.0
NAMES = [f"n{row}" for row in range(3)]


class Toy:
    """A cluster of equal tasks, and passes that place, evict and bind at random. Each task takes one unit of a node."""

    def __init__(self, seed: int) -> None:
        self.rng, self.now, self.made = random.Random(seed), 1000.0, 0
        self.commitments = Commitments()
        self.jobs: dict[str, Job] = {}
        self.room = [2, 2, 3]
        self.bound: set[str] = set()
        self.leaving: list[Decision] = []
        self.decisions: list[Decision] = []
        self.counts: Counter[str] = Counter()
        # The model. By uid of a job, until when it rests if it is back, evicts nobody, or is not placed, at least.
        self.rests: dict[str, float] = {}
        self.lapses: dict[str, float] = {}
        self.holds: dict[str, float] = {}
        # The victims that are back. Since the last change outside: pairs of a victim and the job that took its room,
        # and the victims of earlier passes.
        self.back: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        self.victims: set[str] = set()
        # The jobs with a promise for which pods were evicted, and how many since the last change outside.
        self.paid: set[str] = set()
        self.freed: Counter[str] = Counter()

    # The cluster

    def tasks(self, *states: TaskState) -> Iterator[Task]:
        return (task for job in self.jobs.values() for task in job.tasks.values() if task.state in states)

    def move(self, task: Task, state: TaskState, node: int) -> None:
        task.job.counts[task.state] -= 1
        task.state, task.node = state, node
        task.job.counts[state] += 1

    def free(self, node: int, *, later: bool) -> int:
        """Return the units that no task has; `later`: or will have, once all victims have ended."""
        states = ACTIVE if later else {*ALLOCATED, TaskState.RELEASING}
        return self.room[node] - sum(task.node == node for task in self.tasks(*states))

    def add_task(self, job: Job) -> None:
        self.made += 1
        pod = make_pod(f"{job.uid}-{self.made}")
        job.add(Task(uid=pod.uid, job=job, request=np.ones(1), pod=pod))

    def takers(self, uid: str) -> set[str]:
        return {taker for victim, taker in self.pairs if victim == uid}

    def takers_in_turn(self, uid: str) -> set[str]:
        found, fresh = set[str](), {uid}
        while fresh:
            fresh = {taker for each in fresh for taker in self.takers(each)} - found
            found |= fresh
        return found

    def changed(self) -> None:
        self.commitments.changed_outside()
        self.pairs.clear()
        self.freed.clear()

    # What happens

    def add_job(self) -> None:
        self.made += 1
        uid, size = f"j{self.made}", self.rng.randint(1, 3)
        self.jobs[uid] = Job(uid=uid, key=f"default/{uid}", queue="q", min_member=self.rng.randint(1, size))
        for _ in range(size):
            self.add_task(self.jobs[uid])
        self.changed()

    def end_job(self) -> None:
        if self.jobs:
            del self.jobs[self.rng.choice([*self.jobs])]
            self.changed()

    def resize_node(self) -> None:
        self.room[self.rng.randrange(len(self.room))] = self.rng.randint(0, 4)
        self.changed()

    def end_victim(self) -> None:
        if self.leaving:
            task = self.leaving.pop().task
            self.move(task, TaskState.FAILED, -1)
            if task.job.uid in self.jobs:
                self.add_task(task.job)

    def fail_eviction(self) -> None:
        if self.leaving:
            each = self.leaving.pop()
            victim, by = each.task.job.uid, each.by.uid if each.by else ""
            self.move(each.task, TaskState.RUNNING, each.task.node)
            was_tried = self.rng.random() < 0.7
            failed = FailedEviction(each, self.now + self.rng.choice([0.0, 5.0, 40.0]), was_tried=was_tried)
            self.commitments.evictions_failed([failed], self.now)
            assert by not in self.commitments.promises
            self.pairs -= {(victim, by), *([] if self.takers(victim) - {by, ""} else [(victim, "")])}
            if by and was_tried and self.lapses.get(by, 0.0) <= self.now:
                self.lapses[by] = self.now + BACKOFF_SECONDS[0]
            self.holds.pop(victim, None)
            self.counts["eviction failed"] += 1

    def wait(self) -> None:
        self.now += self.rng.choice([0.1, 1.0, 10.0, 30.0, 100.0, 700.0])

    # A pass

    def run_pass(self, *, is_quiet: bool = False) -> None:
        """Decide as a pass does, within the limits; check the limits, and what is promised afterwards."""
        promised = set(self.commitments.promises)
        for uid, lost in self.commitments.seen(self.jobs, self.now, lambda pod: pod.uid in self.bound).items():
            if uid in self.jobs:
                self.jobs[uid].lost = lost
        assert self.commitments.promises.keys() <= self.jobs.keys()
        self.counts["promise kept, or its job gone"] += len(promised - self.commitments.promises.keys())
        self.counts["promise of lost bindings"] += len(self.commitments.promises.keys() - promised)
        self.decisions, self.victims = [], {victim for victim, _ in self.pairs}
        self.hold()
        for job in self.rng.sample([*self.jobs.values()], len(self.jobs)):
            self.allocate(job)
            if not is_quiet and self.rng.random() < 0.5:
                self.evict(job)
        before = set(self.commitments.promises)
        self.commitments.decided(self.decisions, self.jobs, NAMES, now=self.now, wall=self.now)
        actions = {(each.task.job.uid, each.action) for each in self.decisions}
        evicted, placed = {uid for uid, action in actions if action}, {uid for uid, action in actions if not action}
        for uid in evicted:
            is_moved = (uid, "consolidation") in actions
            self.rests[uid] = self.now + (REST_SECONDS if is_moved else BACKOFF_SECONDS[0])
        self.back = (self.back - evicted) | (placed & self.rests.keys())
        for uid in before - self.commitments.promises.keys():
            assert uid in self.paid, "the promise of a gang in parts ends without a lapse"
            self.counts["promise expired"] += 1
            self.lapses[uid] = self.now + BACKOFF_SECONDS[0]
        self.paid &= self.commitments.promises.keys()
        self.freed += Counter(each.by.uid for each in self.decisions if each.by is not None)
        self.freed = Counter({uid: self.freed[uid] for uid in self.paid})
        self.check()
        self.send(is_quiet=is_quiet)

    def place(self, task: Task, node: int) -> None:
        kind, state = DecisionKind.NOMINATE, TaskState.PIPELINED
        if self.free(node, later=False) > 0:
            kind, state = DecisionKind.BIND, TaskState.ALLOCATED
        self.decisions.append(Decision(kind, task, node))
        self.move(task, state, node)

    def is_held(self, job: Job) -> bool:
        """Return True if a job must not be placed."""
        is_held = job.uid in self.commitments.held(self.now) and not job.count(ALLOCATED)
        assert is_held or job.count(ALLOCATED) or self.holds.get(job.uid, 0.0) <= self.now, "the gang is not held"
        return is_held

    def hold(self) -> None:
        for uid, promise in self.commitments.promises.items():
            for task in self.jobs[uid].tasks.values() if not self.is_held(self.jobs[uid]) else ():
                node = NAMES.index(promise.nodes.get(task.uid, NAMES[0]))
                if task.uid in promise.nodes and task.state is TaskState.PENDING and self.free(node, later=True) > 0:
                    self.place(task, node)

    def allocate(self, job: Job) -> None:
        for task in job.tasks.values() if not self.is_held(job) else ():
            node = next((row for row in range(len(NAMES)) if self.free(row, later=True) > 0), -1)
            if task.state is TaskState.PENDING and node >= 0:
                self.place(task, node)

    def evict(self, claimant: Job) -> None:
        """Evict for the waiting tasks of a job, or end a gang that stays in parts."""
        running = [each for each in claimant.tasks.values() if each.state in ALLOCATED]
        if claimant.lost and running and self.rng.random() < 0.3:
            self.counts["gang held"] += 1
            if self.holds.get(claimant.uid, 0.0) <= self.now:
                self.holds[claimant.uid] = self.now + BACKOFF_SECONDS[0]
            for task in running:
                self.take(task, None)
            return
        takers: dict[str, set[str]] = {}
        for each in self.decisions:
            takers.setdefault(each.task.job.uid, set()).update({each.by.uid} if each.by is not None else ())
        pending = [each for each in claimant.tasks.values() if each.state is TaskState.PENDING]
        for task in pending if not self.is_held(claimant) else ():
            safe = {*self.commitments.protected(claimant, self.now, self.jobs, takers), claimant.uid}
            victims = [each for each in self.tasks(*ACTIVE) if each.job.uid not in safe]
            victims = [each for each in victims if self.free(each.node, later=True) >= 0]
            if victims:
                victim = self.rng.choice(victims)
                node = victim.node
                self.take(victim, claimant)
                self.place(task, node)

    def take(self, victim: Task, by: Job | None) -> None:
        uid, action = victim.job.uid, self.rng.choice(["reclaim", "consolidation"])
        if by is not None:
            assert self.lapses.get(by.uid, 0.0) <= self.now, "it lapsed"
            assert uid not in self.back or self.rests[uid] <= self.now, "the victim rests"
            assert uid not in self.back & self.victims, "evicted again, without a change outside"
            assert uid not in self.takers_in_turn(by.uid), "the victim took the room of this job"
            assert uid not in self.commitments.promises, "the victim is promised room"
            wanted = by.count((TaskState.PENDING, TaskState.PIPELINED))
            assert self.freed[by.uid] < wanted or by.uid not in self.commitments.promises, "its victims are enough"
            self.paid.add(by.uid)
            self.counts["evicted"] += 1
        self.pairs.add((uid, by.uid if by is not None else ""))
        self.decisions.append(Decision(DecisionKind.EVICT, victim, victim.node, action, by))
        is_thought = victim.uid not in self.bound
        self.move(victim, TaskState.PENDING if is_thought else TaskState.RELEASING, -1 if is_thought else victim.node)

    def send(self, *, is_quiet: bool) -> None:
        """Bind, evict, and forget what was only thought."""
        for each in self.decisions:
            task = each.task
            if each.kind is DecisionKind.EVICT and task.state is TaskState.RELEASING:
                self.leaving.append(each)
            elif each.kind is DecisionKind.BIND and task.state is TaskState.ALLOCATED:
                if is_quiet or self.rng.random() < 0.8:
                    self.move(task, TaskState.BOUND, each.node)
                    self.bound.add(task.uid)
                    continue
                self.move(task, TaskState.PENDING, -1)
                node_name = self.rng.choice([NAMES[each.node], NAMES[each.node], None])
                has_failed = self.rng.random() < 0.7
                self.commitments.binding_lost(task, node_name, has_failed=has_failed, wall=self.now)
                self.counts["binding lost"] += 1
            elif task.state is TaskState.PIPELINED:
                self.move(task, TaskState.PENDING, -1)
        self.rng.shuffle(self.leaving)

    def check(self) -> None:
        """Check what is promised at the end of a pass."""
        used, promised = Counter(task.node for task in self.tasks(*ALLOCATED)), Counter[int]()
        for uid, promise in self.commitments.promises.items():
            assert self.now < promise.until <= self.now + LEASE_SECONDS + GRACE
            for task, name in promise.nodes.items():
                assert task in self.jobs[uid].tasks, "a promise outlived its task"
                promised[NAMES.index(name)] += self.jobs[uid].tasks[task].state not in ALLOCATED
            self.counts["promise"] += bool(promise.nodes)
        for row, count in promised.items():
            assert not count or used[row] + count <= self.room[row], "room is promised twice"


EVENTS = [Toy.add_job, Toy.end_job, Toy.resize_node, Toy.fail_eviction, *[Toy.end_victim, Toy.wait] * 2]


def after(seed: int, steps: int) -> Toy:
    """Return a toy cluster after a random history."""
    toy = Toy(seed)
    for _ in range(4):
        toy.add_job()
    for _ in range(steps):
        toy.rng.choice(EVENTS)(toy)
        toy.run_pass()
    return toy


@given(seed=st.integers(0, 2**32), steps=st.integers(0, 40))
@settings(deadline=None)
def test_commitments_end(seed: int, steps: int) -> None:
    """No room is promised twice, no guard is broken, and without further troubles all promises and backoffs end."""
    toy = after(seed, steps)
    for _ in range(80):
        toy.now = toy.commitments.next_end(toy.now) or toy.now + 1.0
        toy.end_victim()
        toy.run_pass(is_quiet=True)
    assert not toy.commitments.promises
    assert not toy.commitments.held(toy.now)
    assert toy.commitments.next_end(toy.now) is None


def test_every_commitment_has_its_turn() -> None:
    """In a hundred histories each commitment begins and ends in each way."""
    counts = sum((after(seed, 40).counts for seed in range(100)), Counter[str]())
    print(dict(counts))  # noqa: T201 - how often each thing happened
    assert len(counts) == 8
    assert min(counts.values()) >= 20
