"""Volcano's sla: jobs whose waiting time is over are enqueued, and keep what they were promised."""

from __future__ import annotations

from typing import Any

import pytest

TIERS = (
    "tiers: [{plugins: [{name: priority}, {name: gang}, {name: sla%s}]},"
    " {plugins: [{name: overcommit}, {name: predicates}, {name: proportion}, {name: nodeorder}]}]"
)
ARGUMENTS = ", arguments: {sla-waiting-time: 20m}"


def waiting(volcano: Any, name: str, seconds: str) -> None:
    """Give a group a waiting time of its own."""
    annotations = {"volcano.sh/sla-waiting-time": seconds}
    volcano.cluster.patch(volcano.group_kind.type, name, {"metadata": {"annotations": annotations}})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("arguments", "own", "minutes"), [("", "10m", 10), (ARGUMENTS, "", 20), (ARGUMENTS, "5m", 5)])
async def test_a_job_is_enqueued_when_its_waiting_time_ends(
    volcano: Any, arguments: str, own: str, minutes: int
) -> None:
    """Overcommit keeps the job out until then; nothing but the time changes."""
    volcano.nodes(1, cpu="1")
    volcano.queue("default")
    await volcano.start(TIERS % arguments)
    volcano.group("big", "default", 1, minResources={"cpu": "4"})
    if own:
        waiting(volcano, "big", own)
    await volcano.pass_time(minutes * 60 - 10)
    assert volcano.group_status("big")["phase"] == "Pending"
    await volcano.pass_time(15)
    assert volcano.group_status("big")["phase"] == "Inqueue"


@pytest.mark.slow
async def test_a_job_without_a_waiting_time_is_not_hurried(volcano: Any) -> None:
    """Without argument and annotation, the policy has no opinion."""
    volcano.nodes(1, cpu="1")
    volcano.queue("default")
    await volcano.start(TIERS % "")
    volcano.group("big", "default", 1, minResources={"cpu": "4"})
    await volcano.pass_time(7200)
    assert volcano.group_status("big")["phase"] == "Pending"


async def test_the_earlier_deadline_comes_first(volcano: Any) -> None:
    """Of two jobs for one node, the younger one with the shorter waiting time gets it."""
    volcano.queue("default")
    await volcano.start(TIERS % ARGUMENTS)
    volcano.job("old", "default", 1)
    await volcano.pass_time(5)
    volcano.job("urgent", "default", 1)
    waiting(volcano, "urgent", "60s")
    await volcano.pass_time(5)
    volcano.nodes(1, cpu="1")
    await volcano.pass_time(5)
    assert (volcano.nodes_of("old"), volcano.nodes_of("urgent")) == ([""], ["n0"])
