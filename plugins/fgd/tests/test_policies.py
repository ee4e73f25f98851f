"""The six policies in a profile with `GpuSharing`: scores, devices, args, and what they learn of the cluster."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from pyscheduler.api import Namespace
from pyscheduler.framework import ConfigError
from pyscheduler.testing import CHECKS, check_plugin, make_pod
from pyscheduler_fgd.gradient import FGD
from pyscheduler_fgd.policies import BestFit, DotProd, GpuClustering, GpuPacking, Random

if TYPE_CHECKING:
    import random

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.testing import FakeCluster, FakeFramework
    from pyscheduler.testing.checks.drawing import Draft
    from pyscheduler_fgd.policy import Candidates, Demand

GPU = "nvidia.com/gpu"
POLICIES = (FGD, BestFit, DotProd, GpuClustering, GpuPacking, Random)
#: As `profile.yaml` of the distribution, but with a policy of choice, and nobody waits for the index of a device.
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins:
    multiPoint: {enabled: [{name: GpuSharing}]}
    score: {enabled: [{name: POLICY}], disabled: [{name: "*"}]}
  pluginConfig:
  - {name: GpuSharing, args: {allocationTimeout: 0s, namespace: reservations}}
  - {name: POLICY, args: {ARGS}}
"""


class Gpus:
    """A cluster whose GPUs have 1,000 MiB each."""

    def __init__(self, cluster: FakeCluster, nodes: dict[str, int], cpu: str = "128") -> None:
        self.cluster = cluster
        cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "reservations"}}, Namespace)
        for name, gpus in nodes.items():
            labels = {"nvidia.com/gpu.memory": "1000", "nvidia.com/gpu.product": "T4"}
            cluster.add_node(name, allocatable={"cpu": cpu, "memory": "64Gi", GPU: str(gpus)}, labels=labels)

    def framework(self, policy: str, args: str = "") -> FakeFramework:
        """Return a scheduler with a policy."""
        return self.cluster.framework(config=CONFIG.replace("POLICY", policy).replace("ARGS", args))


async def place(framework: FakeFramework, name: str, *, cpu: str = "1", part: int = 0, gpus: int = 0) -> str | None:
    """Return the node that a pod gets, which requests thousandths of a GPU or whole ones."""
    requests = {"cpu": cpu, **({GPU: str(gpus)} if gpus else {})}
    annotations = {"gpu-memory": str(part)} if part else {}
    return (await framework.schedule(name, requests=requests, annotations=annotations)).node


async def test_fgd_keeps_gpus_usable_for_the_typical_tasks(pyscheduler_cluster: FakeCluster) -> None:
    """A share goes where the rest of the GPU is still of use, and whole GPUs stay together for tasks of two."""
    gpus = Gpus(pyscheduler_cluster, {"a": 2, "b": 2})
    tasks = "typicalTasks: [{cpuMilli: 1000, gpus: 2, count: 1}, {cpuMilli: 1000, gpus: 1, gpuMilli: 300, count: 1}]"
    framework = gpus.framework("FGD", tasks)
    first = await place(framework, "p0", part=400)
    assert await place(framework, "p1", part=300) == first
    assert await place(framework, "p2", part=300) == first
    assert await place(framework, "two", gpus=2) not in {first, None}
    devices = {pyscheduler_cluster.pod(name).labels["runai-gpu-group"] for name in ("p0", "p1", "p2")}
    assert len(devices) == 1


async def test_fgd_chooses_the_device_by_fragmentation(pyscheduler_cluster: FakeCluster) -> None:
    """The fullest GPU would take the share, but the other one keeps room for a typical task then."""
    gpus = Gpus(pyscheduler_cluster, {"a": 2})
    framework = gpus.framework("FGD", "typicalTasks: [{cpuMilli: 1000, gpus: 1, gpuMilli: 500, count: 1}]")
    await place(framework, "half", part=400)
    await place(framework, "more", part=700)
    await place(framework, "small", part=100)
    label = {name: pyscheduler_cluster.pod(name).labels["runai-gpu-group"] for name in ("half", "more", "small")}
    assert label["half"] != label["more"]
    assert label["small"] == label["more"]
    await place(framework, "last", part=200)
    assert pyscheduler_cluster.pod("last").labels["runai-gpu-group"] == label["more"]


@pytest.mark.parametrize("source", ["pods", "file"])
async def test_fgd_knows_the_tasks_of_the_cluster(
    pyscheduler_cluster: FakeCluster, tmp_path: Path, source: str
) -> None:
    """Without args, the pods count, also those that wait; a file of tasks has the same effect.

    All tasks want a whole GPU. So the two halves share one, and the next half makes a GPU useless on either node.
    """
    gpus, args = Gpus(pyscheduler_cluster, {"a": 2, "b": 2}), ""
    if source == "pods":
        for number in range(60):
            requests = {"cpu": "1", GPU: "1"}
            pyscheduler_cluster.add_pod(f"waiting{number}", requests=requests, spec={"schedulerName": "none"})
    else:
        file = tmp_path / "tasks.csv"
        file.write_text("cpu_milli,num_gpu,gpu_milli,count\n1000,1,1000,9\n", encoding="utf-8")
        args = f"typicalTasksFile: {file}"
    framework = gpus.framework("FGD", args)
    node = await place(framework, "first", part=300)
    assert [await place(framework, f"next{number}", part=300) for number in range(2)] == [node, node]
    plugin = framework.plugin("FGD")
    assert isinstance(plugin, FGD)
    kinds = plugin.fragmentation
    assert kinds.weight == (60 if source == "pods" else 9)


async def test_kept_scores_are_discarded_when_the_tasks_change(
    pyscheduler_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod like an earlier one is scored on the node that has changed, and on all nodes once other pods have come."""
    gpus = Gpus(pyscheduler_cluster, dict.fromkeys("abc", 4))
    framework = gpus.framework("FGD")
    plugin = framework.plugin("FGD")
    assert isinstance(plugin, FGD)
    for number in range(60):
        pyscheduler_cluster.add_pod(f"waiting{number}", requests={GPU: "1"}, spec={"schedulerName": "none"})
    for number in range(3):
        await place(framework, f"half{number}", part=500)
    weight = plugin.fragmentation.weight
    scored: list[int] = []
    evaluate = plugin.evaluate

    def counted(demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        scored.append(len(candidates.rows))
        return evaluate(demand, candidates)

    monkeypatch.setattr(plugin, "evaluate", counted)
    await place(framework, "half3", part=500)
    assert scored == [1]
    for number in range(9):
        pyscheduler_cluster.add_pod(f"more{number}", requests={GPU: "2"}, spec={"schedulerName": "none"})
    await place(framework, "half4", part=500)
    assert scored == [1, 3]
    assert plugin.fragmentation.weight > weight


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # Shared GPU first, then a free GPU of a used node, then the smallest unused node.
        pytest.param("GpuPacking", ["one", "one", "eight", "eight"], id="GpuPacking"),
        # The least that is left.
        pytest.param("BestFit", ["one", "one", "eight", "eight"], id="BestFit"),
        # The smallest node first, then the one with the least free GPUs.
        pytest.param("DotProd", ["one", "one", "eight", "eight"], id="DotProd"),
        # The node with pods of the class, then an idle one.
        pytest.param("GpuClustering", ["one", "one", "eight", "eight"], id="GpuClustering"),
    ],
)
async def test_small_nodes_fill_first(pyscheduler_cluster: FakeCluster, policy: str, expected: list[str]) -> None:
    """Two halves share the GPU of the small node, whole GPUs follow on the other one."""
    framework = Gpus(pyscheduler_cluster, {"eight": 8, "one": 1}).framework(policy)
    found = [await place(framework, f"half{number}", part=500) for number in range(2)]
    found += [await place(framework, f"whole{number}", gpus=1) for number in range(2)]
    assert found == expected


async def test_gpu_clustering_separates_classes(pyscheduler_cluster: FakeCluster) -> None:
    """Pods that share a GPU and pods of whole GPUs get nodes of their own, as long as there are idle ones."""
    framework = Gpus(pyscheduler_cluster, {"a": 4, "b": 4}).framework("GpuClustering")
    shared = {await place(framework, f"part{number}", part=500) for number in range(3)}
    whole = {await place(framework, f"whole{number}", gpus=1) for number in range(3)}
    assert len(shared) == len(whole) == 1
    assert shared != whole


async def test_random_repeats_with_its_seed(pyscheduler_cluster: FakeCluster) -> None:
    """The same seed draws the same nodes; over some pods, several nodes are drawn."""
    gpus = Gpus(pyscheduler_cluster, {f"n{number}": 8 for number in range(5)})
    rounds = []
    for seed in (1, 1, 2):
        framework = gpus.framework("Random", f"seed: {seed}")
        rounds.append([await place(framework, f"p{number}", gpus=1) for number in range(8)])
        await framework.close()
        for number in range(8):
            pyscheduler_cluster.delete_pod(f"p{number}")
    assert rounds[0] == rounds[1] != rounds[2]
    assert len(set(rounds[0])) > 1


def draw(_: random.Random, draft: Draft) -> None:
    """Give nodes and pods GPUs."""
    draft.nodes += [{"allocatable": {GPU: number}} for number in ("0", "1", "4")]
    draft.pods += [{}, {"requests": {GPU: "1"}}, {"requests": {GPU: "2"}}]


@pytest.mark.parametrize("plugin", POLICIES, ids=lambda plugin: plugin.__name__)
def test_policies_keep_the_contract(plugin: type) -> None:
    """The checks of the test kit find nothing."""
    args = {"typicalTasks": [{"cpuMilli": 1000, "gpus": 1, "gpuMilli": 500}]} if plugin is FGD else None
    # Another process, for the hash seed, costs as much as the histories; the policies share their code.
    checks = [check for check in CHECKS if check != "hash-seed" or plugin in {FGD, Random}]
    histories = settings.default.max_examples // (2 if plugin is FGD else 5)
    assert not check_plugin(plugin, args=args, draw=draw, histories=histories, checks=checks).advice


@pytest.mark.parametrize("policy", [plugin.__name__ for plugin in POLICIES])
async def test_the_profile_of_the_distribution_places_pods(pyscheduler_cluster: FakeCluster, policy: str) -> None:
    """Each policy can stand in the place of FGD."""
    text = (files("pyscheduler_fgd") / "profile.yaml").read_text(encoding="utf-8")
    text = text.replace("{name: FGD}", f"{{name: {policy}}}").replace("pyscheduler-fgd", "pyscheduler")
    Gpus(pyscheduler_cluster, {"a": 2, "b": 2})
    framework = pyscheduler_cluster.framework(config=text)
    assert await place(framework, "p", gpus=1)
    assert list(framework.profile.score_weights) == [policy]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("cpu_milli,num_gpu\n1,2\n", "the first line lacks gpu_milli", id="column"),
        pytest.param("cpu_milli,num_gpu,gpu_milli\n1,1,x\n", "line 2: gpu_milli is 'x', not a whole number", id="text"),
        pytest.param("cpu_milli,num_gpu,gpu_milli\n1,2,500\n", "line 2: gpuMilli: a task of 2 GPUs", id="parts"),
        pytest.param("", "the first line lacks cpu_milli, num_gpu, gpu_milli", id="empty"),
        pytest.param(None, "cannot be read: No such file", id="missing"),
    ],
)
def test_a_wrong_file_of_tasks_is_reported(
    pyscheduler_cluster: FakeCluster, tmp_path: Path, content: str | None, text: str
) -> None:
    """The message names the file and the line."""
    file = tmp_path / "tasks.csv"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        Gpus(pyscheduler_cluster, {"a": 1}).framework("FGD", f"typicalTasksFile: {file}")
    assert text in str(caught.value)
    assert str(file) in str(caught.value)


def test_tasks_come_from_one_place(pyscheduler_cluster: FakeCluster) -> None:
    """A file beside a list is a mistake of the configuration."""
    with pytest.raises(ConfigError, match="not allowed together with typicalTasks"):
        Gpus(pyscheduler_cluster, {"a": 1}).framework("FGD", "typicalTasks: [{gpus: 1}], typicalTasksFile: x")


async def test_a_pod_that_shares_several_gpus_is_placed(pyscheduler_cluster: FakeCluster) -> None:
    """The paper has no such pods; GpuSharing chooses their devices, or the draw does."""
    gpus = Gpus(pyscheduler_cluster, {"a": 2, "b": 2})
    pod = make_pod("p", requests={"cpu": "1"}, annotations={"gpu-memory": "300", "gpu-fraction-num-devices": "2"})
    for plugin in POLICIES:
        framework = gpus.framework(plugin.__name__)
        assert (await framework.schedule(pod)).node
        await framework.close()
        pyscheduler_cluster.delete_pod("p")
