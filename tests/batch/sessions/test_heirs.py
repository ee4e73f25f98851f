"""An eviction names the job that has the room at the end of the pass."""

from __future__ import annotations

import numpy as np
import pytest

from pyscheduler.testing import make_pod
from pyscheduler_batch.model.decisions import Decision, DecisionKind
from pyscheduler_batch.model.tasks import Job, Task, TaskState
from pyscheduler_batch.sessions.submission import attributed


def job(name: str, *states: TaskState, node: str = "") -> Job:
    """Return a job with a task in each state; its pods are on a node, or wait."""
    made = Job(uid=name, key=f"default/{name}", queue="q")
    for number, state in enumerate(states):
        pod = make_pod(f"{name}-{number}", node_name=node)
        made.add(Task(uid=pod.uid, job=made, request=np.zeros(1), state=state, pod=pod))
    return made


def evict(victim: Job, by: Job | None) -> Decision:
    """Return the eviction of the first task of a job."""
    return Decision(DecisionKind.EVICT, next(iter(victim.tasks.values())), 0, "reclaim", by)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        pytest.param((TaskState.RELEASING,), "third", id="it lost all it was promised"),
        pytest.param((TaskState.RELEASING, TaskState.RUNNING), "third", id="it lost all but what it had"),
        pytest.param((TaskState.RELEASING, TaskState.PIPELINED), "first", id="it keeps its minimum"),
    ],
)
def test_a_later_plan_that_takes_the_room_is_named(first: tuple[TaskState, ...], expected: str) -> None:
    """The room of a running pod goes from job to job, as far as the jobs lose their places."""
    victim = job("victim", TaskState.RELEASING, node="n1")
    jobs = [job("first", *first), job("second", TaskState.RELEASING), job("third", TaskState.PIPELINED)]
    decisions = [evict(victim, jobs[0]), evict(jobs[0], jobs[1]), evict(jobs[1], jobs[2]), evict(victim, None)]
    found = attributed(decisions)
    assert found[0].by is not None
    assert (found[0].by.uid, found[3].by) == (expected, None)
    assert found[0].planner is (None if expected == "first" else jobs[0])


def test_jobs_that_take_the_room_of_each_other_are_followed_once() -> None:
    """A circle of takers ends the search."""
    victim = job("victim", TaskState.RELEASING, node="n1")
    left, right = job("left", TaskState.RELEASING), job("right", TaskState.RELEASING)
    (found, *_) = attributed([evict(victim, left), evict(left, right), evict(right, left)])
    assert found.by in {left, right}
