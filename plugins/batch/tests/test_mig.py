"""MIG in the preset kai: profiles count as GPUs in queues, and pods do not share a GPU that is partitioned."""

from __future__ import annotations

import pytest

from plugins.batch.tests.test_gpu_sharing import begin, bound, share
from pyscheduler.api import Node
from pyscheduler.testing import make_node
from pyscheduler_batch.gpu_sharing.mig import gpus_of_profile, sharing_refusal
from pyscheduler_lab.testing import BatchCluster, gpus

GPU = "nvidia.com/gpu"
STRATEGY = "nvidia.com/mig.strategy"
ENABLED = "node-role.kubernetes.io/mig-enabled"


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("nvidia.com/mig-1g.5gb", 1),
        ("nvidia.com/mig-7g.80gb", 7),
        ("nvidia.com/gpu", 0),
        ("nvidia.com/mig-1g.10gb.me", 0),
        ("example.com/mig-1g.5gb", 0),
    ],
)
def test_profiles_count_by_their_slices(resource: str, expected: int) -> None:
    """A MIG profile counts as many GPUs as it has slices, as in KAI; other resources count none."""
    assert gpus_of_profile(resource) == expected


@pytest.mark.parametrize(
    ("labels", "resources", "strategy"),
    [
        pytest.param({ENABLED: "true", STRATEGY: "single"}, {GPU: "7"}, "single", id="single"),
        pytest.param({STRATEGY: "mixed"}, {"nvidia.com/mig-1g.5gb": "7"}, "mixed", id="by resource"),
        pytest.param({STRATEGY: "single"}, {GPU: "8"}, "", id="a strategy, but no MIG"),
        pytest.param({ENABLED: "false", STRATEGY: "mixed"}, {"nvidia.com/mig-1g.5gb": "7"}, "", id="switched off"),
        pytest.param({ENABLED: "true"}, {GPU: "8"}, "", id="no strategy"),
    ],
)
def test_partitioned_gpus_are_not_shared(labels: dict[str, str], resources: dict[str, str], strategy: str) -> None:
    """A node with MIG refuses parts of GPUs if it has a strategy."""
    refusal = sharing_refusal(make_node("n", labels=labels, allocatable=resources))
    assert (refusal is not None) == bool(strategy)
    assert refusal is None or f"MigStrategy='{strategy}'" in refusal.message


async def test_a_part_of_a_gpu_goes_to_a_node_without_mig(kai: BatchCluster) -> None:
    """A pod with a part of a GPU waits beside a node with MIG, and runs once MIG is off there."""
    kai.nodes(1, {ENABLED: "true", STRATEGY: "single"}, **{GPU: "2", "cpu": "64"})
    kai.queue("q", resources=gpus(2))
    share(kai, "p", "q", "0.5")
    measured = begin(kai)
    await measured.start()
    await kai.pass_time()
    assert bound(kai) == set()
    kai.cluster.patch(Node, "n0", {"metadata": {"labels": {ENABLED: "false"}}}, namespace="")
    await kai.pass_time()
    assert bound(kai) == {"p"}


async def test_profiles_count_in_limits_and_shares(kai: BatchCluster) -> None:
    """A limit of two GPUs holds one profile of two slices, and a queue takes its quota back from another one."""
    profile = "nvidia.com/mig-2g.10gb"
    kai.nodes(1, **{profile: "2", "cpu": "64"})
    kai.queue("limited", resources=gpus(0, limit=2))
    kai.queue("owner", resources=gpus(4))
    kai.job("first", "limited", 1, requests={"cpu": "1", profile: "1"})
    kai.job("second", "limited", 1, requests={"cpu": "1", profile: "1"})
    await kai.start()
    await kai.pass_time()
    assert sorted([*kai.nodes_of("first"), *kai.nodes_of("second")]) == ["", "n0"]
    kai.go("Running", *bound(kai))
    kai.job("owned", "owner", 2, requests={"cpu": "1", profile: "1"})
    await kai.pass_time()
    for pod in filter(lambda each: each.is_terminating, kai.cluster.pods()):
        kai.cluster.delete_pod(pod.name)
    await kai.pass_time()
    assert kai.nodes_of("owned") == ["n0", "n0"]
