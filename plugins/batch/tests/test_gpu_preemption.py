"""Preemption of pods that share GPUs: sharers are victims, their reservation pods leave with the last of them."""

from __future__ import annotations

import pytest

from kube_testserver.serving.faults import Fault
from plugins.batch.tests.test_gpu_sharing import GPU, RESERVED, Sharing
from pyscheduler.testing import FakeCluster


@pytest.mark.parametrize(
    ("pods", "preemptor", "victims"),
    [
        pytest.param({"a": ("0.5", 0), "b": ("", 0)}, ("", 2, 10), ["a", "b"], id="all-devices"),
        pytest.param({"a": ("0.5", 0), "b": ("0.5", 0), "c": ("", 9)}, ("", 1, 5), ["a", "b"], id="both-sharers"),
        pytest.param({"a": ("0.5", 9), "b": ("0.5", 0), "c": ("", 9)}, ("", 1, 5), [], id="one-sharer-stays"),
        pytest.param({"a": ("0.5", 9), "b": ("0.5", 0), "c": ("", 9)}, ("0.5", 0, 5), ["b"], id="for-a-share"),
        pytest.param({"a": ("0.9", 9), "b": ("0.9", 9)}, ("", 1, 5), [], id="reservations-are-no-victims"),
    ],
)
async def test_preemption_evicts_the_pods_that_share_a_device(
    pyscheduler_cluster: FakeCluster,
    pods: dict[str, tuple[str, int]],
    preemptor: tuple[str, int, int],
    victims: list[str],
) -> None:
    """Reservation pods are no victims, whatever their priority: they leave with the last pod of their device."""
    sharing = Sharing(pyscheduler_cluster)
    await sharing.start()
    for name, (fraction, priority) in pods.items():
        sharing.pod(name, fraction, gpus=0 if fraction else 1, priority=priority)
    await sharing.pass_time()
    assert all(sharing.cluster.pod(name).node_name for name in pods)
    fraction, gpus, priority = preemptor
    sharing.pod("preemptor", fraction, gpus=gpus, priority=priority)
    for _ in range(20):
        await sharing.pass_time()
        for pod in sharing.cluster.pods():
            if pod.is_terminating:
                sharing.cluster.delete_pod(pod.name)
    assert sharing.victims() == victims
    assert bool(sharing.cluster.pod("preemptor").node_name) is bool(victims)


async def test_reservation_pod_is_no_victim_of_a_pod_without_gpus(pyscheduler_cluster: FakeCluster) -> None:
    """It stays even if the node has as many pods as it may have, and its priority is lower."""
    sharing = Sharing(pyscheduler_cluster, nodes=0)
    pyscheduler_cluster.add_node("n0", allocatable={"cpu": "64", "memory": "64Gi", GPU: "2", "pods": "2"})
    await sharing.start()
    sharing.pod("share", "0.5", priority=9)
    await sharing.pass_time()
    sharing.pod("preemptor", priority=5)
    await sharing.pass_time(20)
    assert sharing.cluster.pod("share").node_name
    assert not sharing.cluster.pod("preemptor").node_name
    assert sharing.victims() == []
    (reservation,) = sharing.reservations().values()
    assert not reservation.is_terminating


async def test_preemptor_waits_until_the_reservation_of_its_victim_is_deleted(pyscheduler_cluster: FakeCluster) -> None:
    """It evicts no second pod while the reservation pod is still on the node."""
    sharing = Sharing(pyscheduler_cluster, nodes=2)
    await sharing.start()
    for number in range(4):
        sharing.pod(f"p{number}", "0.9")
    await sharing.pass_time()
    slow = Fault(method="DELETE", path=f"/{RESERVED}/pods/", delay_seconds=15.0)
    sharing.cluster.server.faults.add(slow)
    sharing.pod("preemptor", gpus=1, priority=10)
    for second in range(60):
        await sharing.pass_time()
        for pod in sharing.cluster.pods():
            if pod.is_terminating and second > 5:
                sharing.cluster.delete_pod(pod.name)
    assert len(sharing.victims()) == 1
    assert sharing.cluster.pod("preemptor").node_name
    assert slow.hits
