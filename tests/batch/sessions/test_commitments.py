"""Commitments about evictions: which jobs may not be evicted again, by which jobs, and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.testing import make_pod
from pyscheduler_batch.model.decisions import Decision, DecisionKind, Decisions
from pyscheduler_batch.model.tasks import Job, Task, TaskState
from pyscheduler_batch.sessions.backoff import BACKOFF_SECONDS
from pyscheduler_batch.sessions.commitments import LEASE_SECONDS, REST_SECONDS, Commitments
from pyscheduler_batch.sessions.eviction import FailedEviction

FIRST, LONGEST = BACKOFF_SECONDS
GRACE = 30.0


def job(name: str) -> Job:
    """Return a job of one task."""
    made = Job(uid=name, key=f"default/{name}", queue="q")
    made.add(Task(uid=f"{name}-0", key=f"default/{name}-0", job=made, request=np.zeros(1)))
    return made


@pytest.fixture
def jobs() -> dict[str, Job]:
    """Return three jobs by uid."""
    return {name: job(name) for name in ("a", "b", "c")}


def evict(victim: Job, by: Job | None, action: str = "reclaim") -> Decision:
    """Return the eviction of the job's task."""
    return Decision(DecisionKind.EVICT, next(iter(victim.tasks.values())), 0, action, by)


def place(job: Job) -> Decision:
    """Return the binding of the job's task."""
    return Decision(DecisionKind.BIND, next(iter(job.tasks.values())), 0)


def decided(commitments: Commitments, decisions: list[Decision], jobs: dict[str, Job], now: float) -> None:
    """Take in the decisions of a pass."""
    commitments.decided(decisions, jobs, ["n1"], now=now, wall=now)


def test_a_job_that_comes_back_rests_twice_as_long_each_time(jobs: dict[str, Job]) -> None:
    """The rest doubles from ten seconds to ten minutes."""
    guards, now, rests = Commitments(), 0.0, []
    for _ in range(8):
        decided(guards, [evict(jobs["b"], jobs["c"])], jobs, now)
        decided(guards, [place(jobs["b"])], jobs, now)
        guards.changed_outside()
        began = now
        while "b" in guards.protected(jobs["a"], now, jobs):
            now += 1.0
        rests.append(now - began)
    assert rests[0] == FIRST
    assert rests[1:4] == [20, 40, 80]
    assert rests[-1] == LONGEST


def test_a_job_of_which_nothing_came_back_does_not_rest(jobs: dict[str, Job]) -> None:
    """A job may lose one surplus pod after the other; that makes no later rest longer."""
    guards = Commitments()
    for now in range(5):
        decided(guards, [evict(jobs["b"], jobs["c"])], jobs, float(now))
        guards.promises.clear()
        assert not guards.protected(jobs["a"], now + 0.5, jobs)
    decided(guards, [place(jobs["b"])], jobs, 5.0)
    assert guards.protected(jobs["a"], 6.0, jobs) == {"b"}, "without news"
    guards.changed_outside()
    assert guards.protected(jobs["a"], 6.0, jobs) == {"b"}
    assert not guards.protected(jobs["a"], 4.0 + FIRST, jobs)


def test_a_job_that_keeps_its_minimum_rests_no_longer_each_time(jobs: dict[str, Job]) -> None:
    """It loses the work of one surplus pod, not of all."""
    guards = Commitments()
    jobs["b"].counts[TaskState.RUNNING] = 1
    for now in (0.0, 100.0, 200.0):
        decided(guards, [evict(jobs["b"], jobs["c"])], jobs, now)
        decided(guards, [place(jobs["b"])], jobs, now)
        guards.changed_outside()
        assert "b" in guards.protected(jobs["a"], now + FIRST - 1, jobs)
        assert "b" not in guards.protected(jobs["a"], now + FIRST, jobs)


def test_an_evicted_job_does_not_evict_its_evictor(jobs: dict[str, Job]) -> None:
    """The evictor is safe from its victim, and from the victims of its victim."""
    guards = Commitments()
    decided(guards, [evict(jobs["b"], jobs["a"])], jobs, 0.0)
    assert "a" in guards.protected(jobs["b"], 1.0, jobs)
    assert "a" in guards.protected(jobs["c"], 1.0, jobs), "a waits for the room of its victim"
    guards.promises.clear()  # its promise is kept
    assert "a" not in guards.protected(jobs["c"], 1.0, jobs)
    decided(guards, [evict(jobs["a"], jobs["c"])], jobs, FIRST + 1)
    guards.promises.clear()
    later = 3 * FIRST
    assert "c" in guards.protected(jobs["a"], later, jobs)
    assert "c" in guards.protected(jobs["b"], later, jobs)
    guards.changed_outside()
    assert not guards.protected(jobs["b"], later, jobs)


def test_evictions_close_no_cycle(jobs: dict[str, Job]) -> None:
    """The evictor of an evictor is safe, whichever of the two evictions came first."""
    guards = Commitments()
    decided(guards, [evict(jobs["b"], jobs["a"])], jobs, 0.0)
    decided(guards, [evict(jobs["c"], jobs["b"])], jobs, 1.0)
    assert "a" in guards.protected(jobs["c"], 1.0, jobs)


def test_jobs_do_not_evict_each_other_in_one_pass(jobs: dict[str, Job]) -> None:
    """An eviction of the present pass counts for cycles; apart from that the pass decides as its model does."""
    guards, decisions = Commitments(), Decisions()
    decisions.evict(next(iter(jobs["b"].tasks.values())), action="reclaim", by=jobs["a"])
    assert guards.protected(jobs["b"], 0.0, jobs, decisions.takers) == {"a"}
    assert not guards.protected(jobs["c"], 0.0, jobs, decisions.takers)
    decided(guards, [evict(jobs["a"], jobs["c"])], jobs, 0.0)
    assert "c" in guards.protected(jobs["b"], 0.0, jobs, decisions.takers)


def test_a_job_is_evicted_once_until_something_changes(jobs: dict[str, Job]) -> None:
    """A job is not evicted again after its backoff unless there is news, for no other job and not for itself."""
    guards = Commitments()
    decided(guards, [evict(jobs["b"], jobs["a"]), evict(jobs["c"], jobs["c"])], jobs, 0.0)
    decided(guards, [place(jobs["b"]), place(jobs["c"])], jobs, 1.0)
    later = 10 * LONGEST
    for claimant in jobs.values():
        assert {"b", "c"} <= set(guards.protected(claimant, later, jobs))
    guards.changed_outside()
    assert not guards.protected(jobs["a"], later, jobs)


def test_a_moved_job_rests_for_ten_minutes(jobs: dict[str, Job]) -> None:
    """Consolidation moves a job once in ten minutes."""
    guards = Commitments()
    decided(guards, [evict(jobs["b"], jobs["a"], "consolidation"), place(jobs["b"])], jobs, 0.0)
    guards.changed_outside()
    assert "b" in guards.protected(jobs["c"], REST_SECONDS - 1, jobs)
    assert "b" not in guards.protected(jobs["c"], REST_SECONDS + 1, jobs)


def test_a_job_that_lets_its_promise_lapse_evicts_nobody_for_a_while(jobs: dict[str, Job]) -> None:
    """A job that was given room and did not use it backs off; one that was bound does not."""
    guards = Commitments()
    decided(guards, [evict(jobs["b"], jobs["a"])], jobs, 0.0)
    lapse = LEASE_SECONDS + GRACE
    decided(guards, [], jobs, lapse)
    assert set(guards.protected(jobs["a"], lapse + 1, jobs)) == set(jobs)
    assert not guards.protected(jobs["a"], lapse + FIRST + 1, jobs)

    kept = Commitments()
    decided(kept, [evict(jobs["b"], jobs["a"])], jobs, 0.0)
    kept.promises.clear()
    decided(kept, [], jobs, lapse)
    assert not kept.protected(jobs["a"], lapse + 1, jobs)


def test_a_plan_that_a_paused_victim_puts_off_is_no_failure(jobs: dict[str, Job]) -> None:
    """The job evicts nobody until the pause of the victim ends, and its next backoff is as long as before."""
    guards, eviction = Commitments(), evict(jobs["b"], jobs["a"])
    decided(guards, [eviction], jobs, 0.0)
    guards.evictions_failed([FailedEviction(eviction, 5.0, was_tried=False)], 1.0)
    assert not guards.promises
    assert guards.next_end(1.0) == 5.0
    assert set(guards.protected(jobs["a"], 4.9, jobs)) == set(jobs)
    assert not guards.protected(jobs["a"], 5.0, jobs)
    for began, backoff in ((5.0, FIRST), (20.0, 2 * FIRST)):
        guards.evictions_failed([FailedEviction(eviction, began)], began)
        assert guards.next_end(began) == began + backoff
        ended = began + backoff
        guards.evictions_failed([FailedEviction(eviction, ended + 1, was_tried=False)], ended)
        assert guards.next_end(ended) == ended + 1


def test_a_job_waits_for_the_pauses_of_all_its_victims(jobs: dict[str, Job]) -> None:
    """The victims of a plan are refused one after the other, so that their pauses end one after the other."""
    guards, eviction = Commitments(), evict(jobs["b"], jobs["a"])
    guards.evictions_failed([FailedEviction(eviction, FIRST)], 0.5)
    guards.evictions_failed([FailedEviction(eviction, FIRST + 1)], 1.5)
    assert guards.next_end(1.5) == FIRST + 1
    guards.evictions_failed([FailedEviction(eviction, LONGEST)], 1.5)
    assert guards.next_end(1.5) == FIRST + 1, "another plan may do without the victim"


def test_a_job_plans_again_while_a_victim_has_a_long_pause(jobs: dict[str, Job]) -> None:
    """Another plan may do without the victim; the waits double, and the last one ends with the pause."""
    guards, eviction = Commitments(), evict(jobs["b"], jobs["a"])
    now, waits = 0.0, []
    while now < 100.0:
        guards.evictions_failed([FailedEviction(eviction, 100.0, was_tried=False)], now)
        end = guards.next_end(now)
        assert end is not None
        waits.append(end - now)
        now = end
    assert waits == [10, 20, 40, 30]


def test_old_evictions_are_forgotten(jobs: dict[str, Job]) -> None:
    """Nothing is kept of jobs whose backoffs ended long ago."""
    guards = Commitments()
    decided(guards, [evict(jobs["b"], jobs["a"])], jobs, 0.0)
    decided(guards, [], {}, 10 * LONGEST)
    assert guards.next_end(10 * LONGEST) is None


def test_a_promise_lasts_as_long_as_the_slowest_victim(jobs: dict[str, Job]) -> None:
    """A victim that leaves at once does not shorten the time of one that was evicted before."""
    guards = Commitments()
    for name, seconds in (("a", 600), ("b", 0)):
        (task,) = jobs[name].tasks.values()
        task.pod = make_pod(name, spec={"terminationGracePeriodSeconds": seconds})
    decided(guards, [evict(jobs["a"], jobs["c"]), evict(jobs["b"], jobs["c"])], jobs, 0.0)
    decided(guards, [evict(jobs["b"], jobs["c"])], jobs, 10.0)
    assert guards.promises["c"].until == LEASE_SECONDS + 600
