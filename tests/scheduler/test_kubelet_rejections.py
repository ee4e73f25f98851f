"""Bound pods that a kubelet refuses to run, by its reason, and whether another scheduler uses the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kube_testserver.serving.faults import Fault
from kube_testserver.virtual_time import settle
from pyscheduler import Pod
from tests.scheduler.measured import Measured

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

NAME = "pyscheduler_kubelet_rejections_total"
TEXT = "Pod was rejected: Node didn't have enough resource: cpu"


async def bound(cluster: FakeCluster) -> Measured:
    """Return a scheduler that has bound the pod `p` to the node `n`."""
    cluster.add_node("n")
    measured = Measured(cluster)
    await measured.start()
    cluster.add_pod("p", requests={"cpu": "1"})
    await cluster.clock.advance(1)
    assert cluster.pod("p").node_name == "n"
    return measured


def refuse(cluster: FakeCluster, reason: str = "OutOfcpu", **status: Any) -> None:
    """Write what a kubelet writes that refuses the pod: with the time at which it saw the pod, without containers."""
    written = {"phase": "Failed", "reason": reason, "message": TEXT, "startTime": "2026-11-29T08:00:00Z", **status}
    cluster.patch(Pod, "p", patch={"status": written}, status=True)


def found(measured: Measured) -> dict[tuple[str, str], float]:
    """Return the counts that are not 0, by reason and `other_scheduler`."""
    values = measured.scheduler.handlers.rejections.values()
    return {(labels[0][1], labels[1][1]): count for labels, count in values.items() if count}


async def test_rejection_is_counted_by_reason(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """A refused pod is counted once, logged, and noted in its story; the usual reasons are shown with 0 before."""
    measured = await bound(cluster)
    shown = measured.values(NAME, by="reason")
    assert shown["OutOfcpu"] == shown["OutOfpods"] == 0
    refuse(cluster)
    await cluster.clock.advance(1)
    assert found(measured) == {("OutOfcpu", "false"): 1}
    (story,) = measured.stories.of("default/p")
    assert [run.reason for run in story.runs] == ["Scheduled", "RejectedByKubelet"]
    assert (story.runs[-1].message, story.runs[-1].node) == (f"OutOfcpu: {TEXT}", "n")
    assert "Kubelet rejected a bound pod pod=default/p node=n reason=OutOfcpu otherScheduler=False" in caplog.text


@pytest.mark.parametrize(
    ("since", "is_other"),
    [pytest.param(1, "true", id="bound after"), pytest.param(-60, "false", id="bound long before")],
)
async def test_pod_of_another_scheduler_on_the_node_is_noted(cluster: FakeCluster, since: float, is_other: str) -> None:
    """Only a pod that another scheduler bound after the refused pod was created can have taken its room."""
    if since < 0:
        cluster.add_node("n")
        cluster.add_pod("theirs", scheduler_name="default-scheduler", node_name="n")
        await cluster.clock.advance(-since)
        measured = Measured(cluster)
        await measured.start()
        cluster.add_pod("p")
        await cluster.clock.advance(1)
    else:
        measured = await bound(cluster)
        await cluster.clock.advance(since)
        cluster.add_pod("theirs", scheduler_name="default-scheduler", node_name="n")
    await cluster.clock.advance(1)
    refuse(cluster)
    await cluster.clock.advance(1)
    assert found(measured) == {("OutOfcpu", is_other): 1}


async def test_race_of_two_schedulers_is_counted(cluster: FakeCluster) -> None:
    """Another scheduler takes the node while our binding is on its way: the kubelet refuses the second pod."""
    cluster.add_node("n", allocatable={"cpu": "1"})
    kubelets = cluster.server.lifecycle(run_pods=False)
    kubelets.start()
    measured = Measured(cluster)
    await measured.start()
    binding = cluster.server.faults.add(Fault(method="POST", path="/pods/p/binding$", delay_seconds=1))
    cluster.add_pod("p", requests={"cpu": "1"})
    await cluster.clock.advance(0.5)
    assert binding.hits == 1
    cluster.add_pod("theirs", scheduler_name="default-scheduler", node_name="n", requests={"cpu": "1"})
    await cluster.clock.advance(2)
    assert cluster.pod("p").status.reason == "OutOfcpu"
    assert found(measured) == {("OutOfcpu", "true"): 1}
    assert measured.stories.of("default/p")[0].reason == "RejectedByKubelet"
    kubelets.stop()


async def test_other_ends_of_pods_are_not_counted(cluster: FakeCluster) -> None:
    """A pod whose containers ran, a deleted pod, and a pod that failed without a reason, were not refused."""
    for end in ("ran", "deleted", "no reason", "succeeded"):
        measured = await bound(cluster)
        if end == "ran":
            refuse(cluster, "Evicted", containerStatuses=[{"name": "c", "state": {"terminated": {"exitCode": 137}}}])
        elif end == "deleted":
            cluster.delete_pod("p")
        elif end == "no reason":
            refuse(cluster, "")
        else:
            cluster.patch(Pod, "p", patch={"status": {"phase": "Succeeded"}}, status=True)
        await cluster.clock.advance(1)
        assert found(measured) == {}
        assert measured.stories.of("default/p")[-1].reason == "Scheduled"
        await measured.scheduler.stop()
        if any(pod.name == "p" for pod in cluster.pods()):
            cluster.delete_pod("p")
        cluster.delete_node("n")
        await settle()


async def test_standby_counts_nothing(cluster: FakeCluster) -> None:
    """Two replicas see the same refusal, and only the leader counts it."""
    leader = await bound(cluster)
    standby = Measured(cluster)
    await standby.scheduler.start()
    refuse(cluster)
    await cluster.clock.advance(1)
    assert found(leader) == {("OutOfcpu", "false"): 1}
    assert found(standby) == {}


async def test_reasons_are_bounded(cluster: FakeCluster) -> None:
    """The number of series is bounded, although a status of a pod may have any reason."""
    cluster.add_node("n")
    measured = Measured(cluster)
    await measured.start()
    for number in range(60):
        cluster.add_pod("p")
        await cluster.clock.advance(1)
        refuse(cluster, f"MadeUp{number}")
        await cluster.clock.advance(1)
        cluster.delete_pod("p")
    counted = found(measured)
    assert len({reason for reason, _ in counted}) <= 51
    assert counted["other", "false"] == 60 - 45
    assert sum(counted.values()) == 60


async def test_storm_of_pods_is_bounded(cluster: FakeCluster) -> None:
    """Pods that disappear while a thousand others wait to be read are counted as a warning."""
    measured = await bound(cluster)
    rejections = measured.scheduler.handlers.rejections
    for _ in range(1_002):
        rejections.disappeared(cluster.pod("p"))
    assert measured.values("pyscheduler_warnings_total", by="kind")["kubelet_rejections_not_read"] == 2
    await cluster.clock.advance(60)
    assert rejections.idle
    assert found(measured) == {}
