"""`BindRequest`, `pyscheduler binder` and `GpuSharing` under the roles that are printed for them."""

from __future__ import annotations

import random

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.serving.faults import Fault
from pyscheduler.testing import VirtualClock, node_manifest, pod_manifest
from tests.deploy.conftest import ROOT
from tests.integration.granted import Granted, unused


async def test_scheduler_and_binder_of_bind_requests_need_what_they_ask_for() -> None:
    """Old requests are replaced, pods are bound, bindings fail: no refusal, and no idle rule of either."""
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, rng=random.Random(1), authorization="rbac")
    cluster.load((ROOT / "configs/crds/bindrequests.scheduling.run.ai.yaml").read_bytes())
    cluster.add(node_manifest("n1", allocatable={"cpu": "4"}))
    scheduling = (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: true}\n"
        "profiles: [{schedulerName: pyscheduler, plugins: {multiPoint: "
        "{enabled: [{name: BindRequest}], disabled: [{name: DefaultBinder}]}}}]\n"
    )
    writer = Granted.of(cluster, "writer", scheduling)
    binder = Granted.of(cluster, "binder", (ROOT / "configs/binder.yaml").read_text(encoding="utf-8"))
    for each in (writer, binder):
        await each.start()
    # A request of another pod of that name, which the watch has not shown yet.
    cluster.faults.add(Fault(method="POST", path="/bindrequests$", delay_seconds=1.0, times=1))
    cluster.faults.add(Fault(method="POST", path="/binding$", lose="answer", times=1))
    cluster.add(pod_manifest("p"))
    await clock.advance(0.5)
    old = {"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest", "spec": {"podName": "p"}}
    cluster.add({**old, "metadata": {"name": "p", "namespace": "default"}})
    cluster.add(pod_manifest("own", scheduler_name="pyscheduler-binder"))
    await clock.advance(10)
    # A failure that repeats makes a series of its events.
    cluster.faults.add(Fault(method="POST", path="/binding$", status=403, times=3))
    cluster.add(pod_manifest("q"))
    await clock.advance(700)
    for each in (writer, binder):
        await each.stop()
    assert cluster.get("v1", "Pod", "p", namespace="default")["spec"]["nodeName"] == "n1"
    assert "nodeName" not in cluster.get("v1", "Pod", "own", namespace="default")["spec"]
    assert cluster.rbac.usage.refusals() == {}
    assert [line for line in unused(cluster, writer.roles) if "bindrequests" in line or "pods/binding" in line] == []
    assert unused(cluster, binder.roles) == []


async def test_shared_gpus_need_what_they_ask_for() -> None:
    """Reservation pods are made, found and deleted, and pods learn their devices: no refusal, and no idle rule."""
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, rng=random.Random(1), authorization="rbac")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-resource-reservation"}}
    cluster.add(namespace, node_manifest("n1", allocatable={"cpu": "4", "nvidia.com/gpu": "2"}))
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "leaderElection: {leaderElect: true}\n"
        "profiles: [{schedulerName: pyscheduler, plugins: {multiPoint: {enabled: [{name: GpuSharing}]}}, "
        "pluginConfig: [{name: GpuSharing, args: {allocationTimeout: 0s}}]}]\n"
    )
    granted = Granted.of(cluster, "sharing", text)
    await granted.start()
    # The answer to the creation is lost, so it is created twice and read; the ConfigMap of the second pod exists.
    cluster.faults.add(Fault(method="POST", path="/kai-resource-reservation/pods$", lose="answer", times=1))
    cluster.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-0", "namespace": "default"}})
    annotations = {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": "c"}
    cluster.add(pod_manifest("p", annotations=annotations))
    await clock.advance(30)
    assert cluster.get("v1", "Pod", "p", namespace="default")["spec"]["nodeName"] == "n1"
    assert cluster.get("v1", "ConfigMap", "c-0", namespace="default")["data"]["GPU_PORTION"] == "0.50"
    assert len(cluster.objects("v1", "Pod", namespace="kai-resource-reservation")) == 1
    cluster.remove("v1", "Pod", "p", namespace="default")
    await clock.advance(30)
    assert cluster.objects("v1", "Pod", namespace="kai-resource-reservation") == []
    await granted.stop()
    assert cluster.rbac.usage.refusals() == {}
    own = ("configmaps", "kai-resource-reservation", "patch pods")
    idle = [line for line in unused(cluster, granted.roles) if line.endswith(own) or own[1] in line]
    assert idle == []
