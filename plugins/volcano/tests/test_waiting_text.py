"""The condition of a pod that waits says why: soon after a pass, and without a storm of writes."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.wait_texts import LATE_AT_ONCE, LATE_PERIOD_SECONDS, LATE_SECONDS

_CONFIG = 'actions: "allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]'


async def begin(volcano: Any, *waiting: str) -> None:
    """Start with a queue that holds 2 of 4 CPU units; each of `waiting` is a job that needs 4."""
    volcano.nodes(1, cpu="32")
    volcano.queue("q", capability={"cpu": "4"})
    volcano.job("small", "q", 1)
    volcano.job("other", "q", 1)
    await volcano.start(_CONFIG)
    await volcano.pass_time(1.0)
    for name in waiting:
        volcano.job(name, "q", 1, requests={"cpu": "4"})
    await volcano.pass_time(LATE_SECONDS)


async def test_amounts_in_a_message_are_written_soon_though_no_pass_follows(volcano: Any) -> None:
    """A message that differs in amounts only is written a second after the pass, by a timer."""
    await begin(volcano, "large")
    assert message(volcano) == "QueueLimit: queue q is full: cpu 6 of 4"
    volcano.cluster.delete(Pod, "small-0")
    await volcano.pass_time(LATE_SECONDS / 2)
    sessions = sessions_of(volcano.scheduler.scheduler)[0]
    passes = sessions.passes
    assert message(volcano) == "QueueLimit: queue q is full: cpu 6 of 4"
    await volcano.pass_time(LATE_SECONDS)
    assert message(volcano) == "QueueLimit: queue q is full: cpu 5 of 4"
    assert sessions.passes == passes


@pytest.mark.slow
async def test_amounts_that_change_all_the_time_are_written_at_a_pace(volcano: Any) -> None:
    """Messages of many pods that change with each pass are written at most once a second each, and in portions."""
    names = [f"large-{number}" for number in range(60)]
    await begin(volcano, *names)
    await volcano.pass_time(5.0)
    written = volcano.writes("/pods/large-[0-9]+-0/status")
    in_portion = []
    for number in range(30):
        if number % 2:
            volcano.job(f"tiny-{number}", "q", 1, requests={"cpu": "100m"})
        hits = written.hits
        await volcano.pass_time(LATE_PERIOD_SECONDS)
        in_portion.append(written.hits - hits)
    assert 0 < written.hits <= 3 * len(names)
    assert max(in_portion) <= 2 * LATE_AT_ONCE
    await volcano.pass_time(LATE_SECONDS + LATE_PERIOD_SECONDS * len(names) / LATE_AT_ONCE)
    assert {message(volcano, name) for name in names} == {"QueueLimit: queue q is full: cpu 7500m of 4"}


async def test_a_text_is_written_once_as_long_as_it_holds(volcano: Any) -> None:
    """Passes that change other jobs write nothing; a pod that is created again gets the text again."""
    await begin(volcano, "large")
    written = volcano.writes("/pods/large-0/status")
    for number in range(5):
        volcano.job(f"no-room-{number}", "q", 1, requests={"cpu": "64"})
        await volcano.pass_time()
    assert written.hits == 0
    volcano.cluster.delete(Pod, "large-0")
    await volcano.pass_time()
    volcano.pods("large", 1, requests={"cpu": "4"})
    await volcano.pass_time()
    assert (written.hits, message(volcano)) == (1, "QueueLimit: queue q is full: cpu 6 of 4")


async def test_a_text_stays_written_when_the_group_of_a_pod_comes(volcano: Any) -> None:
    """The pod then belongs to a job, of which the next report speaks for the first time."""
    await begin(volcano)
    volcano.pods("late", 1, requests={"cpu": "4"})
    await volcano.pass_time()
    assert message(volcano, "late").startswith("PodGroupDoesNotExist")
    written = volcano.writes("/pods/late-0/status")
    volcano.group("late", "q", 1)
    await volcano.pass_time()
    volcano.job("no-room", "q", 1, requests={"cpu": "64"})
    await volcano.pass_time()
    assert (written.hits, message(volcano, "late")) == (1, "QueueLimit: queue q is full: cpu 6 of 4")


def message(cluster: Any, job: str = "large") -> str:
    """Return why the pod of a job waits."""
    conditions = cluster.cluster.pod(f"{job}-0").status.conditions
    return next(each.message for each in conditions if each.type == "PodScheduled")
