"""Jobs of pods that are alike: what is known of them without their tasks equals what the tasks say."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pyscheduler.testing import make_pod
from pyscheduler_batch.model.axis import ResourceAxis
from pyscheduler_batch.model.tasks import NO_NODE, Job, TaskState
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.status.queues import sums_of
from pyscheduler_kai.gang import Gang, TaskRules
from pyscheduler_kai.orders import Elastic, Keys, Ray, TaskPriority

if TYPE_CHECKING:
    from pyscheduler_lab.testing import BatchCluster

REQUEST = np.array([500.0, 2.0**30, 2.0, 1.0])
AXIS = ResourceAxis.of(("nvidia.com/gpu",))
STATES = (TaskState.PENDING, TaskState.GATED, TaskState.BOUND, TaskState.RUNNING, TaskState.PIPELINED)
LABELS = ({}, {}, {"kai.scheduler/task-priority": "3"}, {"ray.io/node-type": "head"})


def alike(rng: random.Random) -> Job:
    """Return a job of pods that are alike, all waiting or in any states."""
    job = Job(uid="job", key="default/job", queue="q", queue_row=0, min_member=rng.randrange(6))
    pods, places = [], []
    for number in range(rng.randrange(1, 6)):
        state = rng.choice(STATES)
        gates = ["hold"] if state is TaskState.GATED else []
        pods.append(make_pod(f"pod-{number}", labels=rng.choice(LABELS), scheduling_gates=gates))
        places.append((state, NO_NODE if state in STATES[:2] else number))
    rng.shuffle(pods)
    job.add_alike(REQUEST, pods, places if rng.random() < 0.5 else ())
    return job


def answers(gang: Gang) -> tuple[Any, ...]:
    """Return what orders and actions ask of every waiting job."""
    first = gang.first_pending() if gang.has_pending() else ""
    requests = [request.tolist() for request in gang.pending_requests()]
    return gang.has_pending(), gang.is_ready(), gang.active, gang.elastic_state(), gang.requested(), first, requests


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_answers_alike_with_and_without_its_tree(seed: int) -> None:
    """Orders, requests and the first pod of a job do not depend on whether its tasks were made."""
    job = alike(random.Random(seed))
    keys = Keys([Elastic(), TaskPriority(), Ray()])
    rules = TaskRules(keys.of_task, keys.first_pod, lambda request: tuple(request[:3].tolist()), set())
    gang = Gang(job, rules)
    expected = [(pod.uid, state) for state in TaskState for pod in job.pods((state,))]
    before, counts, total = answers(gang), list(job.counts), sums_of(job, AXIS, lambda _: True)
    assert job._tasks is None, "nothing asked for a task"
    assert gang.leaves[0].tasks
    assert answers(gang) == before
    assert sorted(expected) == sorted((task.uid, task.state) for task in job.tasks.values())
    assert [sum(task.state is state for task in job.tasks.values()) for state in TaskState] == counts
    job.alike = None
    assert sums_of(job, AXIS, lambda _: True) == total


@pytest.mark.slow
async def test_a_pass_makes_no_tasks_of_jobs_that_it_need_not_try(kai: BatchCluster) -> None:
    """While no node has room, a pass and its report look at the counts of waiting jobs only."""
    kai.nodes(1, cpu="100", **{"nvidia.com/gpu": "2"})
    kai.queue("q")
    asked = {"cpu": "1", "nvidia.com/gpu": "1"}
    kai.job("running", "q", 2, requests=asked, node_name="n0")
    for number in range(80):
        kai.job(f"job-{number}", "q", 2, requests=asked)
    started = await kai.start()
    await kai.pass_time()
    jobs = sessions_of(started.scheduler)[0].tables.jobs.values()
    assert len(jobs) == 81
    assert sum(job._tasks is not None for job in jobs if job.counts[TaskState.PENDING]) <= 1
    assert len(sessions_of(started.scheduler)[0].waiting) == 80
