"""Gangs that grow, complete, or have enough sub-groups are not broken: `stalegangeviction` leaves them alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.api import Pod

if TYPE_CHECKING:
    from pyscheduler_lab.testing import BatchCluster

REACHED = "pyscheduler.io/reached-minimum"
LABEL = "kai.scheduler/subgroup-name"


async def start(kai: BatchCluster, cpu: str = "3", args: str = "stalenessGracePeriod: 20s") -> None:
    """Start a scheduler for one node."""
    kai.nodes(1, cpu=cpu)
    kai.queue("a")
    await kai.start(args)
    kai.cluster.server.lifecycle(start_seconds=0.0, stop_seconds=0.0).start()


async def start_another(kai: BatchCluster) -> None:
    """Stop the scheduler, and start another one that knows what the API server knows."""
    assert kai.scheduler is not None
    await kai.scheduler.close()
    await kai.start("stalenessGracePeriod: 20s")


def bound(kai: BatchCluster) -> list[str]:
    """Return the names of the pods that are bound and have not ended."""
    return sorted(pod.name for pod in kai.cluster.pods() if pod.node_name and not pod.is_terminal)


def members(kai: BatchCluster, part: str, count: int) -> None:
    """Create pods of a sub-group."""
    for number in range(count):
        kai.cluster.add_pod(
            f"gang-{part}{number}",
            annotations={"pod-group-name": "gang"},
            labels={LABEL: part},
            scheduler_name="batch",
            requests={"cpu": "1"},
        )


def parts(**minima: int) -> list[dict[str, Any]]:
    """Return sub-groups."""
    return [{"name": name, "minMember": least} for name, least in minima.items()]


def reached(kai: BatchCluster) -> Any:
    """Return the minimums that the gang had, as its annotation says."""
    return json.loads(kai.raw(kai.group_kind, "gang")["metadata"]["annotations"][REACHED])


@pytest.mark.parametrize("changes", [0, 1])
async def test_a_minimum_that_is_raised_evicts_nobody(kai: BatchCluster, changes: int) -> None:
    """The minimum that the gang had is what it must keep, also for the next leader."""
    await start(kai)
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    assert reached(kai) == {"": 2}
    for _ in range(changes):
        await start_another(kai)
    kai.pods("gang", 2, start=2)
    kai.cluster.patch(kai.group_kind.type, "gang", {"spec": {"minMember": 4}})
    await kai.pass_time(30)
    for _ in range(changes):
        await start_another(kai)
    await kai.pass_time(40)
    assert bound(kai) == ["gang-0", "gang-1"]


async def test_a_minimum_that_is_raised_while_no_leader_works_evicts_nobody(kai: BatchCluster) -> None:
    """The annotation was written when the gang started."""
    await start(kai)
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    assert kai.scheduler is not None
    await kai.scheduler.close()
    kai.cluster.patch(kai.group_kind.type, "gang", {"spec": {"minMember": 4}})
    kai.pods("gang", 2, start=2)
    await kai.start("stalenessGracePeriod: 20s")
    await kai.pass_time(60)
    assert bound(kai) == ["gang-0", "gang-1"]


async def test_a_raised_gang_that_loses_a_member_is_broken(kai: BatchCluster) -> None:
    """It has less than it had before; it does not come back, and is evicted."""
    await start(kai)
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    kai.cluster.patch(kai.group_kind.type, "gang", {"spec": {"minMember": 4}})
    await kai.pass_time(30)
    kai.cluster.delete_pod("gang-1")
    await kai.pass_time(30)
    assert bound(kai) == []


async def test_a_gang_that_grew_needs_its_new_minimum(kai: BatchCluster) -> None:
    """Once it had four, three are too few."""
    await start(kai, cpu="4")
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    kai.pods("gang", 2, start=2)
    kai.cluster.patch(kai.group_kind.type, "gang", {"spec": {"minMember": 4}})
    await kai.pass_time(3)
    assert len(bound(kai)) == 4
    assert reached(kai) == {"": 4}
    kai.cluster.delete_pod("gang-3")
    await kai.pass_time(30)
    assert bound(kai) == []


@pytest.mark.parametrize("changes", [0, 1])
async def test_a_gang_that_completes_pod_by_pod_keeps_the_others(kai: BatchCluster, changes: int) -> None:
    """Pods that have succeeded may be removed."""
    await start(kai)
    kai.job("gang", "a", 3)
    await kai.pass_time(3)
    for name in ("gang-0", "gang-1"):
        kai.go("Succeeded", name)
        kai.cluster.delete(Pod, name)
        await kai.pass_time(1)
    for _ in range(changes):
        await start_another(kai)
    await kai.pass_time(60)
    assert bound(kai) == ["gang-2"]


async def test_a_gang_that_starts_anew_has_nothing_of_its_first_run(kai: BatchCluster) -> None:
    """Its members succeeded in the first run; in the second one a lost member breaks it."""
    await start(kai)
    kai.job("gang", "a", 2)
    await kai.pass_time(3)
    kai.go("Succeeded", "gang-0")
    await kai.pass_time(1)
    kai.go("Succeeded", "gang-1")
    for name in ("gang-0", "gang-1"):
        kai.cluster.delete(Pod, name)
    await kai.pass_time(3)
    kai.pods("gang", 2, start=2)
    await kai.pass_time(3)
    assert reached(kai) == {"": 2}
    kai.cluster.delete_pod("gang-3")
    await kai.pass_time(30)
    assert bound(kai) == []


async def test_a_lost_sub_group_that_the_job_does_not_need_is_evicted_alone(kai: BatchCluster) -> None:
    """The job has `minSubGroup` sub-groups; what is left of another one is of no use."""
    await start(kai, cpu="4")
    kai.group("gang", "a", 1, subGroups=parts(x=2, y=2), minSubGroup=1)
    members(kai, "x", 2)
    members(kai, "y", 2)
    await kai.pass_time(3)
    assert len(bound(kai)) == 4
    kai.cluster.delete_pod("gang-y1")
    await kai.pass_time(60)
    assert bound(kai) == ["gang-x0", "gang-x1"]


async def test_a_lost_sub_group_that_the_job_needs_ends_all(kai: BatchCluster) -> None:
    """All sub-groups are needed by default."""
    await start(kai, cpu="4")
    kai.group("gang", "a", 1, subGroups=parts(x=2, y=2))
    members(kai, "x", 2)
    members(kai, "y", 2)
    await kai.pass_time(3)
    kai.cluster.delete_pod("gang-y1")
    await kai.pass_time(60)
    assert bound(kai) == []


async def test_a_sub_group_that_is_added_or_grows_evicts_nobody(kai: BatchCluster) -> None:
    """`y` is new, and `x` needs three pods now; there is no room for either."""
    await start(kai)
    kai.group("gang", "a", 1, subGroups=parts(x=2))
    members(kai, "x", 2)
    await kai.pass_time(3)
    kai.cluster.patch(kai.group_kind.type, "gang", {"spec": {"subGroups": parts(x=3, y=2)}})
    members(kai, "y", 2)
    await kai.pass_time(60)
    assert bound(kai) == ["gang-x0", "gang-x1"]


@pytest.mark.parametrize("pods", [{"x": 2, "y": 1}, {"y": 1, "x": 2}, {"x": 1, "y": 2}], ids=str)
async def test_a_sub_group_does_not_start_in_part(kai: BatchCluster, pods: dict[str, int]) -> None:
    """The other one satisfies `minSubGroup`. The pod that waits says how many are missing."""
    await start(kai, cpu="4")
    kai.group("gang", "a", 1, subGroups=parts(x=2, y=2), minSubGroup=1)
    for part, count in pods.items():
        members(kai, part, count)
    await kai.pass_time(10)
    (whole,) = (part for part, count in pods.items() if count == 2)
    (short,) = (part for part, count in pods.items() if count == 1)
    assert bound(kai) == [f"gang-{whole}0", f"gang-{whole}1"]
    (waiting,) = (pod for pod in kai.cluster.pods() if pod.name == f"gang-{short}0")
    (condition,) = (each for each in waiting.status.conditions if each.type == "PodScheduled")
    assert f"1 of at least 2 pods of sub-group {short} are present" in condition.message
    kai.cluster.add_pod(
        f"gang-{short}1",
        annotations={"pod-group-name": "gang"},
        labels={LABEL: short},
        scheduler_name="batch",
        requests={"cpu": "1"},
    )
    await kai.pass_time(5)
    assert len(bound(kai)) == 4


async def test_an_annotation_that_cannot_be_read_counts_for_nothing(kai: BatchCluster) -> None:
    """A warning names it; the gang is placed as always."""
    await start(kai)
    kai.group("gang", "a", 2)
    kai.cluster.patch(kai.group_kind.type, "gang", {"metadata": {"annotations": {REACHED: "[1"}}})
    kai.pods("gang", 2)
    await kai.pass_time(5)
    assert reached(kai) == {"": 2}
    assert any(reason == "InvalidPodGroup" and REACHED in text for _, reason, text in kai.events("gang"))


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube_batch"])
async def test_the_last_pods_of_a_job_with_more_completions_start(preset: str, request: pytest.FixtureRequest) -> None:
    """The job controller makes as many pods as there are completions left; those that succeeded count."""
    batch: BatchCluster = request.getfixturevalue(preset)
    batch.nodes(1, cpu="3")
    batch.queue("a")
    await batch.start()
    batch.job("gang", "a", 3)
    await batch.pass_time(5)
    assert len(bound(batch)) == 3
    batch.go("Running", "gang-0", "gang-1", "gang-2")
    batch.go("Succeeded", "gang-0", "gang-1")
    await batch.pass_time(2)
    batch.pods("gang", 1, start=3)
    await batch.pass_time(5)
    assert bound(batch) == ["gang-2", "gang-3"]
    batch.go("Succeeded", "gang-2", "gang-3")
    batch.pods("gang", 1, start=4)
    await batch.pass_time(5)
    assert bound(batch) == ["gang-4"]


async def test_the_last_pods_of_a_sub_group_start(kai: BatchCluster) -> None:
    """The pods that succeeded count in their own sub-group only."""
    await start(kai, cpu="4")
    kai.group("gang", "a", 1, subGroups=parts(x=2, y=2))
    members(kai, "x", 2)
    members(kai, "y", 2)
    await kai.pass_time(3)
    kai.go("Running", "gang-x0", "gang-x1", "gang-y0", "gang-y1")
    kai.go("Succeeded", "gang-x0", "gang-x1", "gang-y0")
    kai.cluster.add_pod(
        "gang-x2",
        annotations={"pod-group-name": "gang"},
        labels={LABEL: "x"},
        scheduler_name="batch",
        requests={"cpu": "1"},
    )
    await kai.pass_time(5)
    assert bound(kai) == ["gang-x2", "gang-y1"]


async def test_members_that_succeeded_are_no_gang(kai: BatchCluster) -> None:
    """Of three pods one has succeeded and one was lost: the one that is left needs another one, not two."""
    await start(kai)
    kai.job("gang", "a", 3)
    await kai.pass_time(3)
    kai.go("Running", "gang-0", "gang-1", "gang-2")
    kai.go("Succeeded", "gang-0")
    for name in ("gang-1", "gang-2"):
        kai.cluster.delete_pod(name)
    kai.pods("gang", 1, start=3)
    await kai.pass_time(5)
    assert bound(kai) == []
    kai.pods("gang", 1, start=4)
    await kai.pass_time(5)
    assert bound(kai) == ["gang-3", "gang-4"]
