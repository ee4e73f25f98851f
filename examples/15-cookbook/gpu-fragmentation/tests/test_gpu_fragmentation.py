"""GpuFragmentation: free GPUs stay where the target workload can use them."""

import pytest

from gpu_fragmentation.plugin import GpuFragmentation
from pyscheduler import ConfigError, Pod
from pyscheduler.testing import check_plugin, make_pod

GPU = "nvidia.com/gpu"
WORKLOAD = [{"cpu": "4", "gpus": 4, "weight": 1}, {"cpu": "1", "gpus": 1, "weight": 3}]


def start(cluster, **args):
    """Return a framework with a workload of one-GPU and four-GPU pods."""
    return cluster.framework(enable=[GpuFragmentation], args={"GpuFragmentation": {"workload": WORKLOAD, **args}})


def raw(framework, pod):
    """Return by node how much its fragmentation would grow, in thousandths of a GPU."""
    nodes = framework.nodes()
    scores = framework.plugin("GpuFragmentation").score_nodes(None, pod, nodes)
    return {nodes.name(row): -int(score) for row, score in enumerate(scores)}


def pod(name, gpus, cpu="1"):
    """Return a pod with so many GPUs."""
    return make_pod(name, requests={"cpu": cpu, GPU: str(gpus)})


def test_growth_is_as_in_the_paper(pyscheduler_cluster):
    """By hand, for a pod with one GPU.

    `whole`: four GPUs are usable by all; then three are left, of no use to a quarter of the workload: 0.75.
    `part`: three are of no use to that quarter, then two: 0.5 - 0.75.
    `starved`: without CPU for anything else its other three GPUs become fragments for all: 3 - 0.
    """
    cluster = pyscheduler_cluster
    cluster.add_node("whole", allocatable={"cpu": "64", GPU: "4"})
    cluster.add_node("part", allocatable={"cpu": "64", GPU: "4"})
    cluster.add_pod("there", node_name="part", requests={"cpu": "1", GPU: "1"})
    cluster.add_node("starved", allocatable={"cpu": "4", GPU: "4"})
    framework = start(cluster)
    growth = raw(framework, pod("p", 1, cpu="4"))
    assert growth == {"whole": 750, "part": -250, "starved": 3000}
    scores = framework.run_score(pod("p", 1, cpu="4"))
    assert {name: each["GpuFragmentation"] for name, each in scores.items()} == {"part": 100, "whole": 69, "starved": 0}


def test_pods_without_gpus_avoid_the_last_cpu_beside_free_gpus(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("plain", allocatable={"cpu": "4"})
    cluster.add_node("gpus", allocatable={"cpu": "4", GPU: "4"})
    assert raw(start(cluster), make_pod("p", requests={"cpu": "4"})) == {"plain": 0, "gpus": 4000}


def test_gpus_are_fragments_to_pods_without_gpus(pyscheduler_cluster):
    """Such a kind adds the same to every node with GPUs, so it does not change the order."""
    pyscheduler_cluster.add_node("n", allocatable={GPU: "4"})
    framework = start(pyscheduler_cluster, workload=[{"cpu": "1"}])
    assert raw(framework, pod("p", 1)) == {"n": -1000}


async def test_small_pods_leave_whole_nodes_to_large_ones(pyscheduler_cluster):
    """Four pods with one GPU fill one node, although the default plugins spread them."""
    cluster = pyscheduler_cluster
    for name in ("a", "b"):
        cluster.add_node(name, allocatable={"cpu": "64", GPU: "4"})
    args = {"GpuFragmentation": {"workload": WORKLOAD}}
    framework = cluster.framework(enable=[GpuFragmentation], disable=["NodeResourcesFit"], args=args)
    nodes = {(await framework.schedule(pod(f"p{number}", 1))).node for number in range(4)}
    assert len(nodes) == 1


async def test_the_workload_is_learned_and_forgotten(pyscheduler_cluster):
    """Without a workload in the args, it is the pods of the cluster, those that wait included; also after a restart."""
    cluster = pyscheduler_cluster
    cluster.add_node("n", allocatable={"cpu": "8", GPU: "1"})
    for run in ("first", "second"):
        framework = start(cluster, workload=[])
        await framework.start()
        if run == "first":
            for number in range(3):
                await framework.schedule(pod(f"p{number}", 1))
            await framework.schedule(pod("large", 4))
            cluster.delete_pod("p2")
            await framework.settle()
        plugin = framework.plugin("GpuFragmentation")
        assert dict(plugin.seen) == {(1000, 0, 1): 2, (1000, 0, 4): 1}
        assert not plugin.may_reuse(pod("p", 1))
        await framework.close()
    for name in ("p0", "p1", "large"):
        cluster.delete(Pod, name)


def test_an_empty_workload_prefers_no_node(pyscheduler_cluster):
    for name in ("a", "b"):
        pyscheduler_cluster.add_node(name, allocatable={GPU: "4"})
    scores = start(pyscheduler_cluster, workload=[]).run_score(pod("p", 1))
    assert {each["GpuFragmentation"] for each in scores.values()} == {100}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param({"cpu": "many"}, r"many.*args\.workload\[0\]", id="quantity"),
        pytest.param({"gpus": 1, "weight": 0}, r"weight.*args\.workload\[0\]", id="weight"),
        pytest.param({"gpu": 1}, r'"gpu".*args\.workload\[0\]', id="unknown key"),
    ],
)
def test_args_are_checked(pyscheduler_cluster, kind, message):
    with pytest.raises(ConfigError, match=message):
        start(pyscheduler_cluster, workload=[kind])


def draw(rng, draft):
    """Give nodes and pods GPUs."""
    draft.nodes += [{"allocatable": {GPU: number}} for number in ("0", "1", "4")]
    draft.pods += [{}, {"requests": {GPU: "1"}}, {"requests": {GPU: "2"}}]


@pytest.mark.parametrize("workload", [WORKLOAD, []], ids=["given", "learned"])
def test_the_contract_of_plugins(workload):
    check_plugin(GpuFragmentation, {"workload": workload}, draw=draw)
