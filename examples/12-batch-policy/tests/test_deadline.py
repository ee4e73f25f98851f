"""The policy `deadline` in a batch profile on a fake cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler import ConfigError
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler_batch.dialects import QUEUE_DIALECTS

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

CONFIG = (Path(__file__).parents[1] / "profile.yaml").read_text(encoding="utf-8")
HOUR = 3600.0
KAI_QUEUES = next(row for row in QUEUE_DIALECTS if row.name == "kai").kinds[0]
KAI_PODGROUPS = DialectTable(DIALECTS).named("kai").kinds[0]


def add_queue(cluster: FakeCluster, name: str, quota: int) -> None:
    """Create a queue with a quota of GPUs."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": {**free, "quota": quota}, "cpu": free, "memory": free}
    manifest = {"apiVersion": KAI_QUEUES.type.api_version, "kind": "Queue", "metadata": {"name": name}}
    cluster.add({**manifest, "spec": {"resources": resources}}, KAI_QUEUES.type)


def add_job(cluster: FakeCluster, name: str, queue: str, deadline: float | None = None) -> None:
    """Create a job of one pod with one GPU."""
    manifest = {"apiVersion": KAI_PODGROUPS.type.api_version, "kind": "PodGroup"}
    metadata = {"name": name, "namespace": "default"}
    cluster.add({**manifest, "metadata": metadata, "spec": {"minMember": 1, "queue": queue}}, KAI_PODGROUPS.type)
    annotations = {"pod-group-name": name}
    if deadline is not None:
        annotations["acme.example/deadline"] = str(int(deadline))
    requests: dict[str, Any] = {"cpu": "1", "nvidia.com/gpu": "1"}
    cluster.add_pod(name, requests=requests, annotations=annotations, scheduler_name="batch")


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Give a cluster with one GPU and two queues, where queue `a` has the quota."""
    for kind in (KAI_QUEUES, KAI_PODGROUPS):
        pyscheduler_cluster.serve(kind)
    pyscheduler_cluster.add_node("n1", allocatable={"cpu": "8", "nvidia.com/gpu": "1"})
    add_queue(pyscheduler_cluster, "a", 1)
    add_queue(pyscheduler_cluster, "b", 0)
    return pyscheduler_cluster


async def test_the_nearest_deadline_is_served_first(cluster: FakeCluster) -> None:
    """A younger job with a near deadline gets the GPU before an older one without."""
    now = cluster.clock.wall()
    add_job(cluster, "old", "a")
    await cluster.clock.advance(5)
    add_job(cluster, "late", "a", now + 9 * HOUR)
    add_job(cluster, "soon", "a", now + HOUR)
    await cluster.framework(config=CONFIG).start()
    await cluster.clock.advance(2)
    assert [pod.name for pod in cluster.pods() if pod.node_name] == ["soon"]


@pytest.mark.parametrize(("seconds_left", "is_evicted"), [(300, False), (HOUR, True)])
async def test_a_job_near_its_deadline_is_not_evicted(
    cluster: FakeCluster, seconds_left: float, is_evicted: bool
) -> None:
    """Reclaim takes the borrowed GPU of a job, but not in the last ten minutes before its deadline."""
    await cluster.framework(config=CONFIG).start()
    add_job(cluster, "borrower", "b", cluster.clock.wall() + seconds_left)
    await cluster.clock.advance(2)
    assert cluster.pod("borrower").node_name == "n1"
    add_job(cluster, "owner", "a")
    await cluster.clock.advance(2)
    assert cluster.pod("borrower").is_terminating == is_evicted


@pytest.mark.parametrize(("seconds_late", "is_evicted"), [(60, True), (-HOUR, False)])
async def test_a_job_that_missed_its_deadline_gives_its_node(
    cluster: FakeCluster, seconds_late: float, is_evicted: bool
) -> None:
    """The action evicts it for a waiting job of its queue; before its deadline it stays."""
    await cluster.framework(config=CONFIG).start()
    add_job(cluster, "running", "a", cluster.clock.wall() - seconds_late)
    await cluster.clock.advance(2)
    add_job(cluster, "next", "a")
    await cluster.clock.advance(2)
    assert cluster.pod("running").is_terminating == is_evicted
    cluster.delete_pod("running")
    await cluster.clock.advance(2)
    assert cluster.pod("next").node_name == "n1"


async def test_arguments_that_nobody_reads_are_refused(cluster: FakeCluster) -> None:
    """A typing mistake in the profile is an error, not a default."""
    with pytest.raises(ConfigError, match='no argument "spareSecond"'):
        cluster.framework(config=CONFIG.replace("spareSeconds", "spareSecond"))


async def test_a_system_of_its_own(cluster: FakeCluster) -> None:
    """A profile with the preset `deadlines` places the next deadline first, and lets it evict who missed his."""
    start, end = CONFIG.index("preset: kai"), len(CONFIG)
    config = CONFIG.replace(CONFIG[start:end], "preset: deadlines\n")
    now = cluster.clock.wall()
    add_job(cluster, "late", "a", now + 9 * HOUR)
    add_job(cluster, "soon", "b", now + 10)
    await cluster.framework(config=config).start()
    await cluster.clock.advance(2)
    assert [pod.name for pod in cluster.pods() if pod.node_name] == ["soon"]
    await cluster.clock.advance(15)
    add_job(cluster, "urgent", "b", now + HOUR)
    await cluster.clock.advance(2)
    assert cluster.pod("soon").is_terminating
    cluster.delete_pod("soon")
    await cluster.clock.advance(2)
    assert cluster.pod("urgent").node_name == "n1"
    assert not cluster.pod("late").node_name
