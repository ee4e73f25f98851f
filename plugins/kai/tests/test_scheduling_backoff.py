"""Groups of KAI with `schedulingBackoff: 1`: each node pool tries them once."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler_batch.sessions.assembly import sessions_of

POOL = "kai.scheduler/node-pool"
CPU = {"cpu": "4", "memory": "8Gi", "pods": "9"}


def waiting(scheduler: Any) -> dict[str, str]:
    """Return by job key why it waits."""
    return dict(sessions_of(scheduler.scheduler)[0].waiting)


async def tried_in_vain(kai: Any, backoff: int) -> Any:
    """Return a scheduler whose cluster got room for the group `one` after a pass that found none."""
    kai.nodes(1, cpu="1")
    kai.queue("a")
    scheduler = await kai.start()
    kai.group("one", "a", 1, schedulingBackoff=backoff)
    kai.pods("one", 1, requests={"cpu": "2"})
    await kai.pass_time()
    assert [each["nodePool"] for each in kai.group_status("one")["schedulingConditions"]] == ["default"]
    kai.cluster.add_node("large", allocatable=CPU)
    await kai.pass_time()
    return scheduler


async def test_a_group_without_backoff_is_tried_again(kai: Any) -> None:
    """With -1, the group starts as soon as there is room."""
    await tried_in_vain(kai, -1)
    assert kai.nodes_of("one") == ["large"]


async def test_a_pool_tries_a_group_with_backoff_once(kai: Any) -> None:
    """The group waits although there is room now, says so, and keeps its condition; without it, the group starts."""
    scheduler = await tried_in_vain(kai, 1)
    assert kai.nodes_of("one") == [""]
    (condition,) = kai.group_status("one")["schedulingConditions"]
    assert condition["message"].startswith("Node-Pool 'default': PodSchedulingErrors")
    assert waiting(scheduler)["default/one"].startswith('SchedulingBackoff: node pool "default" has tried the group')
    assert [each[1] for each in kai.events("one")] == ["Unschedulable"]
    kai.patch_status(kai.group_kind, "one", {"schedulingConditions": []})
    await kai.pass_time()
    assert kai.nodes_of("one") == ["large"]


@pytest.mark.parametrize(
    ("last", "node"),
    [
        pytest.param("b", "large", id="another pool tried last"),
        pytest.param("default", "", id="this pool tried last"),
    ],
)
async def test_the_last_transition_counts(kai: Any, last: str, node: str) -> None:
    """A pool tries a group again that another pool has tried since; the number of the transition decides."""
    kai.cluster.add_node("large", allocatable=CPU)
    kai.queue("a")
    kai.group("one", "a", 1, schedulingBackoff=1)
    conditions = [
        {"type": "UnschedulableOnNodePool", "nodePool": pool, "transitionID": "2" if pool == last else "1"}
        for pool in ("default", "b")
    ]
    kai.patch_status(kai.group_kind, "one", {"schedulingConditions": conditions})
    await kai.start()
    kai.pods("one", 1)
    await kai.pass_time()
    assert kai.nodes_of("one") == [node]


async def test_a_group_that_runs_is_not_held_back(kai: Any) -> None:
    """A condition from an earlier time does not keep a running group from growing."""
    kai.cluster.add_node("large", allocatable=CPU)
    kai.queue("a")
    await kai.start()
    kai.group("one", "a", 1, schedulingBackoff=1)
    kai.pods("one", 1)
    await kai.pass_time()
    conditions = [{"type": "UnschedulableOnNodePool", "nodePool": "default", "transitionID": "1"}]
    kai.patch_status(kai.group_kind, "one", {"schedulingConditions": conditions})
    kai.pods("one", 1, start=1)
    await kai.pass_time()
    assert kai.nodes_of("one") == ["large", "large"]
