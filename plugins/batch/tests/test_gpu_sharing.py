"""Fractions of GPUs: devices that pods share, reservation pods, and what queues count."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import ConfigMap, Namespace, Pod
from pyscheduler.framework import ConfigError
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_batch.binder.requests import BIND_REQUESTS
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL, groups_of
from pyscheduler_batch.gpu_sharing.plugin import GpuSharing
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_lab.testing import BatchCluster, gpus

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster, FakeFramework

GPU = "nvidia.com/gpu"
RESERVED = "kai-resource-reservation"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: GpuSharing}]}}
  pluginConfig: [{name: GpuSharing, args: {ARGS}}]
"""
BATCH = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}, {name: GpuSharing}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig:
  - {name: Batch, args: {preset: kai}}
  - {name: GpuSharing, args: {allocationTimeout: 0s}}
"""


def add_namespace(cluster: FakeCluster) -> None:
    """Create the namespace of reservation pods."""
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVED}}, Namespace)


class Sharing:
    """A cluster with nodes of two GPUs."""

    def __init__(self, cluster: FakeCluster, nodes: int = 1, **labels: str) -> None:
        self.cluster = cluster
        add_namespace(cluster)
        for number in range(nodes):
            cluster.add_node(
                f"n{number}",
                allocatable={"cpu": "64", "memory": "64Gi", GPU: "2"},
                labels={key.replace("_", "."): value for key, value in labels.items()},
            )

    async def start(self, args: str = "allocationTimeout: 0s") -> FakeFramework:
        """Start a scheduler."""
        measured = self.cluster.framework(config=CONFIG.replace("ARGS", args))
        await measured.start()
        return measured

    def pod(self, name: str, fraction: str = "", *, gpus: int = 0, priority: int = 0, **annotations: str) -> None:
        """Create a pod with a fraction, with other annotations, or with whole GPUs."""
        given = {key.replace("_", "-"): value for key, value in annotations.items()}
        if fraction:
            given["gpu-fraction"] = fraction
        requests = {"cpu": "1", **({GPU: str(gpus)} if gpus else {})}
        self.cluster.add_pod(name, requests=requests, annotations=given, priority=priority)

    def victims(self) -> list[str]:
        """Return the names of pods that preemption has chosen, in order."""
        return sorted(event["regarding"]["name"] for event in self.cluster.events("Preempted"))

    def groups(self, name: str) -> tuple[str, ...]:
        """Return the devices of a pod; () as long as it has no node."""
        pod = self.cluster.pod(name)
        return groups_of(pod) if pod.node_name else ()

    def reservations(self) -> dict[str, Pod]:
        """Return the reservation pods by device."""
        found = self.cluster.objects(Pod, namespace=RESERVED)
        by_group = {pod.labels[GROUP_LABEL]: pod for pod in found}
        assert len(by_group) == len(found)
        return by_group

    async def pass_time(self, seconds: float = 1.0) -> None:
        """Let the scheduler work."""
        await self.cluster.clock.advance(seconds)


@pytest.fixture
def sharing(pyscheduler_cluster: FakeCluster) -> Sharing:
    """Return a cluster with one node."""
    return Sharing(pyscheduler_cluster)


async def test_pods_share_a_device_until_it_is_full(sharing: Sharing) -> None:
    """A device is filled before the next one is shared; each shared device has one reservation pod."""
    for number, fraction in enumerate(("0.5", "0.25", "0.25", "0.5")):
        sharing.pod(f"p{number}", fraction)
    await sharing.start()
    await sharing.pass_time()
    devices = [sharing.groups(f"p{number}") for number in range(4)]
    assert devices[0] == devices[1] == devices[2] != devices[3]
    assert {*sharing.reservations()} == {device for (device,) in devices}
    for pod in sharing.reservations().values():
        assert pod.node_name == "n0"
        assert pod.spec.containers[0].resources.requests[GPU] == "1"
    assert sharing.cluster.pod("p0").annotations["received-resource-type"] == "Fraction"
    sharing.pod("large", "0.6")
    sharing.pod("small", "0.5")
    await sharing.pass_time()
    assert sharing.groups("large") == ()
    assert sharing.groups("small") == devices[3]
    (event,) = sharing.cluster.events("FailedScheduling")
    assert "1 node(s) didn't have enough resources: GPUs" in event["note"]


async def test_whole_and_shared_devices_exclude_each_other(sharing: Sharing) -> None:
    """Also before the reservation pod exists, and again once the last pod of a device is gone."""
    slow = Fault(method="POST", path=f"/{RESERVED}/pods$", delay_seconds=1.0)
    sharing.cluster.server.faults.add(slow)
    sharing.pod("share", "0.1")
    await sharing.start()
    sharing.pod("both", gpus=2)
    await sharing.pass_time(0.5)
    assert (slow.hits, sharing.reservations()) == (1, {})
    assert sharing.cluster.pod("both").node_name == ""
    await sharing.pass_time()
    sharing.pod("one", gpus=1)
    await sharing.pass_time()
    assert sharing.groups("share")
    assert [sharing.cluster.pod(name).node_name for name in ("both", "one")] == ["", "n0"]
    sharing.cluster.delete_pod("one")
    sharing.cluster.delete_pod("share")
    await sharing.pass_time(20)
    assert sharing.reservations() == {}
    assert sharing.cluster.pod("both").node_name == "n0"
    sharing.pod("late", "0.1")
    await sharing.pass_time()
    assert sharing.groups("late") == ()


async def test_a_pod_may_share_several_devices(sharing: Sharing) -> None:
    """Each device has a label of its own."""
    sharing.pod("one", "0.5")
    sharing.pod("two", "0.5", gpu_fraction_num_devices="2")
    sharing.pod("three", "0.1", gpu_fraction_num_devices="3")
    await sharing.start()
    await sharing.pass_time()
    assert len(sharing.groups("two")) == len(sharing.reservations()) == 2
    assert {*sharing.groups("one")} < {*sharing.groups("two")}
    assert {*sharing.cluster.pod("two").labels} == {f"{GROUP_LABEL}/{device}" for device in sharing.groups("two")}
    assert sharing.groups("three") == ()


async def test_memory_counts_by_the_label_of_the_node(pyscheduler_cluster: FakeCluster) -> None:
    """Two pods of 8000 MiB share a device of 16000; a third one takes the next; more than a device is impossible."""
    sharing = Sharing(pyscheduler_cluster, nvidia_com="x")
    pyscheduler_cluster.patch(
        type(pyscheduler_cluster.nodes()[0]), "n0", {"metadata": {"labels": {"nvidia.com/gpu.memory": "16050"}}}
    )
    for number in range(3):
        sharing.pod(f"p{number}", gpu_memory="8000")
    sharing.pod("large", gpu_memory="20000")
    await sharing.start()
    await sharing.pass_time()
    devices = [sharing.groups(f"p{number}") for number in range(3)]
    assert devices[0] == devices[1] != devices[2]
    assert sharing.groups("large") == ()


async def test_wrong_annotations_are_reported(sharing: Sharing) -> None:
    """The pod's event has the sentence of KAI's admission."""
    sharing.pod("p", "1.5")
    await sharing.start()
    await sharing.pass_time()
    (event,) = sharing.cluster.events("FailedScheduling")
    assert "gpu-fraction annotation value must be a positive number smaller than 1.0" in event["note"]


async def test_shares_may_be_spread(sharing: Sharing) -> None:
    """With `spread`, a device of its own comes first."""
    for number in range(3):
        sharing.pod(f"p{number}", "0.2")
    await sharing.start("allocationTimeout: 0s, spread: true")
    await sharing.pass_time()
    assert len({sharing.groups(f"p{number}") for number in range(3)}) == 2


async def test_a_restarted_scheduler_reads_the_labels(sharing: Sharing) -> None:
    """It knows how much of each device is left, and deletes reservations that nobody needs."""
    sharing.pod("p0", "0.5")
    first = await sharing.start()
    await sharing.pass_time()
    await first.close()
    spec = {"nodeName": "n0", "containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
    idle = {"metadata": {"name": "gpu-reservation-idle", "namespace": RESERVED, "labels": {GROUP_LABEL: "idle"}}}
    sharing.cluster.add({"apiVersion": "v1", "kind": "Pod", **idle, "spec": spec}, Pod)
    sharing.pod("p1", "0.5")
    sharing.pod("p2", "0.5")
    await sharing.start()
    await sharing.pass_time(20)
    assert sharing.groups("p1") == sharing.groups("p0") != sharing.groups("p2")
    assert "idle" not in sharing.reservations()


async def test_a_label_of_a_crashed_scheduler_is_replaced(sharing: Sharing) -> None:
    """Killed between label and binding: the pod gets a device anew, and no reservation pod is left over."""
    sharing.pod("p", "0.5")
    fault = sharing.cluster.server.faults.add(Fault(method="POST", path="/binding$", status=500))
    first = await sharing.start()
    await sharing.pass_time(0.5)
    stopping = asyncio.create_task(first.scheduler.stop(at_once=True))
    await sharing.pass_time(15)
    await stopping
    assert sharing.cluster.pod("p").labels.keys() == {GROUP_LABEL}
    fault.times = fault.hits
    sharing.pod("whole", gpus=1)
    await sharing.start()
    await sharing.pass_time(20)
    assert {*sharing.reservations()} == {*sharing.groups("p")}
    assert sharing.cluster.pod("whole").node_name == "n0"


async def test_a_failed_attempt_keeps_no_device(sharing: Sharing) -> None:
    """A pod that failed after its devices were reserved, and fits nowhere now, gives its reservation pod back."""
    sharing.cluster.server.faults.add(Fault(method="POST", path="/p/binding$", status=403, times=1))
    sharing.pod("p", "0.5")
    await sharing.start()
    await sharing.pass_time(0.5)
    assert len(sharing.reservations()) == 1
    assert sharing.cluster.pod("p").labels.keys() == {GROUP_LABEL}
    sharing.cluster.add_pod("local", node_name="n0", requests={"cpu": "64"})
    await sharing.pass_time(10)
    assert sharing.reservations() == {}
    assert sharing.cluster.pod("p").labels == {}
    sharing.cluster.delete_pod("local")
    await sharing.pass_time(10)
    assert {*sharing.reservations()} == {*sharing.groups("p")}


async def test_profiles_share_the_books(sharing: Sharing) -> None:
    """What a pod of one profile has is taken for the pods of another one, also before its label is written."""
    slow = Fault(method="PATCH", path="/pods/p[0-9]$", delay_seconds=1.0)
    sharing.cluster.server.faults.add(slow)
    second = "- schedulerName: second\n" + CONFIG.partition("- schedulerName: pyscheduler\n")[2]
    config = (CONFIG + second).replace("ARGS", "allocationTimeout: 0s")
    for number in range(6):
        name = "second" if number % 2 else "pyscheduler"
        sharing.cluster.add_pod(f"p{number}", annotations={"gpu-fraction": "0.5"}, scheduler_name=name)
    await sharing.cluster.framework(config=config).start()
    await sharing.pass_time(5)
    assert len([pod for pod in sharing.cluster.pods() if pod.node_name and pod.namespace != RESERVED]) == 4
    assert check_devices(sharing.cluster, 2) == (2, 4)
    with pytest.raises(ConfigError, match="only spread may differ"):
        sharing.cluster.framework(config=config.replace("allocationTimeout: 0s", "allocationTimeout: 1s", 1))


async def test_shares_of_live_bind_requests_are_kept(sharing: Sharing) -> None:
    """A restarted scheduler counts the shares of pods whose binder has not bound them yet."""
    sharing.cluster.serve(BIND_REQUESTS)
    config = CONFIG.replace("ARGS", "allocationTimeout: 0s").replace(
        "[{name: GpuSharing}]", "[{name: GpuSharing}, {name: BindRequest}], disabled: [{name: DefaultBinder}]"
    )
    sharing.pod("p0", "0.75")
    sharing.pod("p1", "0.75")
    first = sharing.cluster.framework(config=config)
    await first.start()
    await sharing.pass_time()
    stopping = asyncio.create_task(first.scheduler.stop(at_once=True))
    await sharing.pass_time(15)
    await stopping
    before = {pod.name: groups_of(pod) for pod in sharing.cluster.pods() if pod.namespace == "default"}
    sharing.pod("late", "0.5")
    sharing.pod("small", "0.25")
    second = sharing.cluster.framework(config=config)
    await second.start()
    await sharing.pass_time(2)
    assumed = second.scheduler.cache.is_assumed
    assert {name: assumed(sharing.cluster.pod(name).uid) for name in ("p0", "p1", "small", "late")} == {
        "p0": True,
        "p1": True,
        "small": True,
        "late": False,
    }
    with_binder = "{name: BindRequest}, {name: BindRequestReconciler}]"
    binder = sharing.cluster.framework(
        config=config.replace("{name: BindRequest}]", with_binder).replace(
            "schedulerName: pyscheduler", "schedulerName: binder"
        ),
    )
    await binder.start()
    await sharing.pass_time(20)
    assert {name: sharing.groups(name) for name in before} == before
    assert sharing.groups("small") in before.values()
    assert sharing.groups("late") == ()
    assert len(sharing.reservations()) == 2


async def test_the_pod_learns_its_device(sharing: Sharing) -> None:
    """The binding waits for the index of the device, which goes to the ConfigMaps of KAI's admission."""
    sharing.cluster.add_pod(
        "p",
        requests={"cpu": "1"},
        annotations={"gpu-fraction": "0.25", "runai/shared-gpu-configmap": "p-x-shared-gpu"},
    )
    await sharing.start("")
    await sharing.pass_time()
    assert sharing.cluster.pod("p").node_name == ""
    (reservation,) = sharing.reservations().values()
    index = {"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": "GPU-7"}}}
    sharing.cluster.patch(Pod, reservation.name, index, namespace=RESERVED)
    await sharing.pass_time()
    assert sharing.cluster.pod("p").node_name == "n0"
    found = {each.name: dict(each.data) for each in sharing.cluster.objects(ConfigMap)}
    assert found == {
        "p-x-shared-gpu-0": {"NVIDIA_VISIBLE_DEVICES": "GPU-7", "GPU_PORTION": "0.25", "RUNAI_NUM_OF_GPUS": "0.25"},
        "p-x-shared-gpu-0-evar": {"NVIDIA_VISIBLE_DEVICES": "GPU-7"},
    }


async def test_a_device_without_index_is_given_up(sharing: Sharing) -> None:
    """After the timeout the reservation pod is deleted, the pod's event says so, and the pod is tried again."""
    sharing.pod("p", "0.25")
    await sharing.start("allocationTimeout: 5s")
    await sharing.pass_time(5.5)
    (event,) = sharing.cluster.events("FailedScheduling")
    assert "failed waiting for GPU reservation pod to allocate: kai-resource-reservation/gpu-res" in event["note"]
    assert sharing.reservations() == {}
    await sharing.pass_time(4)
    (reservation,) = sharing.reservations().values()
    index = {"metadata": {"annotations": {"run.ai/reserve_for_gpu_index": "GPU-7"}}}
    sharing.cluster.patch(Pod, reservation.name, index, namespace=RESERVED)
    await sharing.pass_time()
    assert sharing.groups("p") == (reservation.labels[GROUP_LABEL],)


def begin(kai: BatchCluster, policies: str | None = None) -> FakeFramework:
    """Return a scheduler with a batch profile of KAI that shares GPUs; `policies` are those besides the necessary."""
    add_namespace(kai.cluster)
    config = BATCH
    if policies is not None:
        names = ", ".join(f"{{name: {name}}}" for name in ("predicates", "proportion", *policies.split(", ")) if name)
        config = BATCH.replace("preset: kai", f"preset: kai, tiers: [{{plugins: [{names}]}}]")
    kai.scheduler = kai.cluster.framework(config=config)
    return kai.scheduler


def share(kai: BatchCluster, name: str, queue: str, fraction: str, **keywords: Any) -> None:
    """Create a pod without a group."""
    kai.cluster.add_pod(
        name,
        requests={"cpu": "1"},
        scheduler_name="batch",
        labels={"kai.scheduler/queue": queue},
        annotations={"gpu-fraction": fraction},
        **keywords,
    )


def bound(kai: BatchCluster) -> set[str]:
    """Return the names of the pods of the profile that have a node."""
    return {pod.name for pod in kai.cluster.pods() if pod.node_name and pod.namespace == "default"}


async def test_queues_count_fractions(kai: BatchCluster) -> None:
    """A limit of one GPU holds two halves; reservation pods count for no queue and not as foreign."""
    kai.nodes(1, **{GPU: "4", "cpu": "64"})
    kai.queue("q", resources=gpus(1, limit=1))
    for number in range(3):
        share(kai, f"p{number}", "q", "0.5")
    measured = begin(kai)
    await measured.start()
    await kai.pass_time()
    assert len(bound(kai)) == 2
    (queue,) = kai.cluster.objects(kai.queue_kind.type)
    assert queue.status["allocated"][GPU] == "1"


SPREADING = ("gpuspread", "gpupack, gpuspread", "gpupack", "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("policies", SPREADING)
async def test_policies_choose_whether_pods_share_a_device(kai: BatchCluster, policies: str) -> None:
    """`gpuspread` gives the second pod a device of its own, `gpupack` that of the first; both fill devices."""
    kai.nodes(1, **{GPU: "2", "cpu": "64"})
    kai.queue("q", resources=gpus(2))
    measured = begin(kai, policies)
    await measured.start()
    for number in range(2):
        share(kai, f"p{number}", "q", "0.2")
    await kai.pass_time()
    devices = {groups_of(kai.cluster.pod(f"p{number}")) for number in range(2)}
    assert () not in devices
    assert len(devices) == (2 if policies == "gpuspread" else 1)


async def test_a_shard_that_spreads_gives_each_pod_a_device(kai: BatchCluster) -> None:
    """`placementStrategy.gpu: spread` stands for the policy `gpuspread`, also after a reload."""
    kai.nodes(1, **{GPU: "3", "cpu": "64"})
    kai.queue("q", resources=gpus(3))
    add_namespace(kai.cluster)
    text = BATCH.replace("preset: kai", "preset: kai, shard: {placementStrategy: {gpu: %s, cpu: binpack}}")
    kai.scheduler = measured = kai.cluster.framework(config=text % "spread")
    await measured.start()
    for number in range(2):
        share(kai, f"p{number}", "q", "0.2")
    await kai.pass_time()
    assert len({groups_of(kai.cluster.pod(f"p{number}")) for number in range(2)}) == 2
    args = {"preset": "kai", "shard": {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}}}
    measured.scheduler.profiles["batch"].plugins["Batch"].prepare_args(args)()
    share(kai, "p2", "q", "0.2")
    await kai.pass_time()
    assert len({groups_of(kai.cluster.pod(f"p{number}")) for number in range(3)}) == 2


@pytest.mark.parametrize(("policies", "node"), [("gpusharingorder", "n1"), ("", "n0")])
async def test_pods_go_to_the_node_of_a_shared_device(kai: BatchCluster, policies: str, node: str) -> None:
    """With `gpusharingorder`, a node whose shared device has room comes first; otherwise the first by name."""
    kai.nodes(2, **{GPU: "2", "cpu": "64"})
    kai.queue("q", resources=gpus(4))
    measured = begin(kai, policies)
    await measured.start()
    share(kai, "p0", "q", "0.5", node_selector={"kubernetes.io/hostname": "n1"})
    await kai.pass_time()
    share(kai, "large", "q", "0.6")
    await kai.pass_time()
    assert kai.cluster.pod("large").node_name == "n0", "no shared device has room"
    kai.cluster.delete_pod("large")
    await kai.pass_time()
    share(kai, "p1", "q", "0.5")
    await kai.pass_time()
    assert kai.cluster.pod("p1").node_name == node


async def test_a_job_reclaims_a_shared_device(kai: BatchCluster) -> None:
    """Both pods that share a device are evicted for a job within its quota that needs a whole one."""
    kai.nodes(1, **{GPU: "2", "cpu": "64"})
    kai.queue("owner", resources=gpus(1))
    kai.queue("borrower", resources=gpus(1))
    for number in range(4):
        share(kai, f"p{number}", "borrower", "0.5")
    measured = begin(kai)
    await measured.start()
    await kai.pass_time()
    assert len(bound(kai)) == 4
    for number in range(4):
        kai.go("Running", f"p{number}")
    kai.group("whole", "owner", 1)
    kai.pods("whole", 1, requests={"cpu": "1", GPU: "1"})
    for _ in range(20):
        await kai.pass_time(1)
        for pod in kai.cluster.pods():
            if pod.is_terminating:
                kai.cluster.delete_pod(pod.name, namespace=pod.namespace)
    assert "whole-0" in bound(kai)
    assert len(bound(kai)) == 3


@pytest.mark.slow
async def test_without_the_namespace_of_reservations_attempts_back_off(kai: BatchCluster) -> None:
    """The pod says what to create, is tried after its backoff, and has a device once the namespace exists."""
    kai.nodes(1, cpu="8", **{GPU: "2"})
    kai.queue("a")
    scheduler = await kai.start(plugins=", {name: GpuSharing}")
    share(kai, "one", "a", "0.5")
    await kai.pass_time(240)
    text = f'no GPU can be reserved: namespace "{RESERVED}" does not exist; create it'
    (condition,) = kai.cluster.pod("one").status.conditions
    assert condition.message == f'running PreBind plugin "GpuSharing": {text}'
    assert 20 <= scheduler.warnings["attempt_error"] <= 30
    assert sessions_of(scheduler.scheduler)[0].passes <= 60
    add_namespace(kai.cluster)
    await kai.pass_time(20)
    assert [pod.node_name for pod in kai.cluster.pods() if pod.namespace == RESERVED] == ["n0"]
    await scheduler.close()  # a binding waits for the index of the device


def test_the_plugin_is_offered() -> None:
    """`GpuSharing` is a plugin of the distribution."""
    assert discover().load("GpuSharing") is GpuSharing


def check_devices(cluster: FakeCluster, gpus_of_node: int) -> tuple[int, int]:
    """Check that no device has too much; return the numbers of shared devices and of pods that share."""
    shares: dict[str, list[float]] = {}
    places: dict[str, set[str]] = {}
    whole: dict[str, int] = {}
    for pod in cluster.pods():
        if not pod.node_name or pod.namespace == RESERVED:
            continue
        whole[pod.node_name] = whole.get(pod.node_name, 0) + int(pod.spec.containers[0].resources.requests.get(GPU, 0))
        for group in groups_of(pod):
            shares.setdefault(group, []).append(float(pod.annotations["gpu-fraction"]))
            places.setdefault(group, set()).add(pod.node_name)
    assert all(sum(parts) <= 1.0 for parts in shares.values()), shares
    assert all(len(nodes) == 1 for nodes in places.values())
    for node in cluster.nodes():
        shared = sum(node.name in nodes for nodes in places.values())
        assert whole.get(node.name, 0) + shared <= gpus_of_node
    return len(shares), sum(map(len, shares.values()))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
@pytest.mark.parametrize("is_batch", [False, True], ids=["ordinary", "kai"])
async def test_random_histories_overcommit_no_device(kai: BatchCluster, is_batch: bool, seed: int) -> None:
    """Pods with fractions, several devices and whole GPUs come and go, and schedulers are restarted."""
    rng, cluster = random.Random(seed), kai.cluster
    kai.nodes(2, **{GPU: "3", "cpu": "64"})
    if is_batch:
        for name in ("a", "b"):
            kai.queue(name, resources=gpus(3))
    add_namespace(cluster)
    config = BATCH if is_batch else CONFIG.replace("ARGS", "allocationTimeout: 0s")
    cluster.server.faults.add(Fault(method="POST", path=f"/{RESERVED}/pods$", delay_seconds=0.5, probability=0.5))
    measured = cluster.framework(config=config)
    await measured.start()
    most = 0
    for number in range(40):
        alive = [pod for pod in cluster.pods() if pod.namespace == "default"]
        if alive and rng.random() < 0.4:
            cluster.delete_pod(rng.choice(alive).name)
        else:
            annotations, requests = {}, {"cpu": "1"}
            if rng.random() < 0.25:
                requests[GPU] = str(rng.randint(1, 2))
            else:
                annotations["gpu-fraction"] = rng.choice(["0.25", "0.5", "0.75"])
                if rng.random() < 0.25:
                    annotations["gpu-fraction-num-devices"] = "2"
            cluster.add_pod(
                f"p{number}",
                requests=requests,
                annotations=annotations,
                scheduler_name="batch" if is_batch else "pyscheduler",
                labels={"kai.scheduler/queue": rng.choice(["a", "b"])},
            )
        await cluster.clock.advance(rng.choice([0.0, 0.1, 2.0]))
        for pod in cluster.pods():
            if pod.is_terminating:
                cluster.delete_pod(pod.name, namespace=pod.namespace)
        devices, pods = check_devices(cluster, 3)
        most = max(most, pods - devices)
        if rng.random() < 0.05:
            stopping = asyncio.create_task(measured.scheduler.stop(at_once=rng.random() < 0.5))
            await cluster.clock.advance(15)
            await stopping
            measured = cluster.framework(config=config)
            await measured.start()
    await cluster.clock.advance(30)
    assert most > 0, "no device was shared"
    check_devices(cluster, 3)
    used = {group for pod in cluster.pods() if pod.namespace == "default" for group in groups_of(pod)}
    reserved = [pod.labels[GROUP_LABEL] for pod in cluster.objects(Pod, namespace=RESERVED)]
    assert sorted(reserved) == sorted(used)
