"""The commitments that a new leader reads from the API."""

from __future__ import annotations

import json

import numpy as np

from pyscheduler.api import Pod, decode, format_time
from pyscheduler.testing.builders import pod_manifest
from pyscheduler_batch.model.tasks import Job, Task, TaskState
from pyscheduler_batch.sessions.commitments import LEASE_SECONDS, Commitments
from pyscheduler_batch.sessions.recovery import read_back

WALL = 1_800_000_000.0


def job(name: str, pod: Pod, state: TaskState) -> Job:
    """Return a job of one task."""
    made = Job(uid=name, key=f"default/{name}", queue="q", min_member=1)
    made.add(Task(uid=pod.uid, key=f"default/{name}-0", job=made, request=np.zeros(1), pod=pod, state=state))
    return made


async def no_turn() -> None:
    """Let nobody else run."""


async def test_a_promise_lasts_until_victims_that_end_slowly_are_gone() -> None:
    """They may take longer than the time that a new leader gives to promises."""
    victim = pod_manifest(
        "low-0",
        node_name="n1",
        status={
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "action=preempt by=default/high",
                }
            ]
        },
    )
    victim["metadata"] |= {"uid": "low-0", "deletionTimestamp": format_time(WALL + 300)}
    waiting = pod_manifest("high-0", status={"nominatedNodeName": "n1"})
    waiting["metadata"]["uid"] = "high-0"
    jobs = {
        "low": job("low", decode(Pod, json.dumps(victim).encode()), TaskState.RELEASING),
        "high": job("high", decode(Pod, json.dumps(waiting).encode()), TaskState.PENDING),
    }
    commitments = Commitments()
    await read_back(commitments, jobs, now=1000.0, wall=WALL, turn=no_turn)
    promise = commitments.promises["high"]
    assert (promise.nodes, promise.until) == ({"high-0": "n1"}, 1000.0 + LEASE_SECONDS + 300)
