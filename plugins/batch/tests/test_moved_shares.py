"""Parts of GPUs that wait for others, and that move to another GPU of their node."""

from __future__ import annotations

from plugins.batch.tests.test_gpu_sharing import begin, bound, share
from pyscheduler_batch.gpu_sharing.books import groups_of
from pyscheduler_lab.testing import BatchCluster, gpus

GPU = "nvidia.com/gpu"


def devices(kai: BatchCluster) -> dict[str, tuple[str, ...]]:
    """Return by pod the GPUs that it shares."""
    return {pod.name: groups_of(pod) for pod in kai.cluster.pods() if pod.namespace == "default" and pod.node_name}


async def test_a_part_waits_for_a_gpu_that_is_shared_already(kai: BatchCluster) -> None:
    """While a share is being released, a pod that would take its place waits, and takes no GPU that is free."""
    kai.nodes(1, **{GPU: "2", "cpu": "64"})
    kai.queue("q", resources=gpus(2))
    for name in ("stays", "leaves"):
        share(kai, name, "q", "0.5")
    measured = begin(kai)
    await measured.start()
    await kai.pass_time()
    kai.go("Running", "stays", "leaves")
    kai.cluster.server.remove("v1", "Pod", "leaves", namespace="default", grace_seconds=60)
    share(kai, "comes", "q", "0.5")
    await kai.pass_time()
    assert "comes" not in bound(kai)
    kai.cluster.delete_pod("leaves")
    await kai.pass_time()
    assert devices(kai)["comes"] == devices(kai)["stays"]


async def test_consolidation_moves_a_part_to_another_gpu_of_its_node(kai: BatchCluster) -> None:
    """Two halves on two GPUs of a node make room for a pod with a whole one: one of them moves to the other."""
    kai.nodes(1, **{GPU: "2", "cpu": "64"})
    kai.queue("q", resources=gpus(2))
    for number in range(3):
        share(kai, f"p{number}", "q", "0.5")
    measured = begin(kai)
    await measured.start()
    await kai.pass_time()
    kai.go("Running", *bound(kai))
    alone, together = (pods for pods in (["p2"], ["p0", "p1"]))
    assert len({devices(kai)[name] for name in together}) == 1
    kai.cluster.delete_pod(together[0])
    await kai.pass_time()
    kai.group("whole", "q", 1)
    kai.pods("whole", 1, requests={"cpu": "1", GPU: "1"})
    await kai.pass_time()
    (moved,) = (pod.name for pod in kai.cluster.pods() if pod.is_terminating and pod.namespace == "default")
    assert moved in (*alone, *together)
    kai.cluster.delete_pod(moved)
    share(kai, "again", "q", "0.5")
    await kai.pass_time(30)
    assert {"whole-0", "again"} <= bound(kai)
    assert len(set(devices(kai).values()) - {()}) == 1
