"""The condition of a pod that waits says why, and is not written with every pass."""

from __future__ import annotations

from typing import Any

from pyscheduler.api import Pod
from pyscheduler.scheduler.sessions.submission import REPEAT_SECONDS


async def test_amounts_in_a_message_are_written_again_after_a_pause(volcano: Any) -> None:
    """A pass within the pause does not write a message that differs in amounts only; a pass after it does."""
    volcano.nodes(1, cpu="32")
    volcano.queue("q", capability={"cpu": "4"})
    volcano.job("small", "q", 1)
    volcano.job("other", "q", 1)
    await volcano.start('actions: "allocate", tiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]')
    await volcano.pass_time(1.0)
    volcano.job("large", "q", 1, requests={"cpu": "4"})
    await volcano.pass_time(1.0)
    assert message(volcano) == "QueueLimit: queue q is full: cpu 6000 of 4000"
    volcano.cluster.delete(Pod, "small-0")
    await volcano.pass_time(1.0)
    assert message(volcano) == "QueueLimit: queue q is full: cpu 6000 of 4000"
    await volcano.pass_time(REPEAT_SECONDS)
    volcano.group("news", "q", 1)
    await volcano.pass_time(1.0)
    assert message(volcano) == "QueueLimit: queue q is full: cpu 5000 of 4000"


def message(cluster: Any) -> str:
    """Return why the pod waits."""
    conditions = cluster.cluster.pod("large-0").status.conditions
    return next(each.message for each in conditions if each.type == "PodScheduled")
