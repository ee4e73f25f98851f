"""Nodes that other plugins reject: what DynamicResources finds there must not matter to the pod."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod, ResourceSlice
from pyscheduler.framework import CycleState, FilterPlugin, NodeInfo, Status
from pyscheduler.testing import FakeCluster, Step, check_plugin
from tests.plugins.devices import (
    DRIVER,
    TYPES,
    Manifest,
    add,
    allocation,
    cel,
    claim,
    device,
    device_class,
    devices_of,
    get_claim,
    request,
    resource_slice,
    using,
)

MODEL_A = request(selectors=[cel(f'device.attributes["{DRIVER}"].model == "A"')])
TAINT = {"key": "gpu", "value": "restarting", "effect": "NoSchedule"}
INCOMPLETE = {"name": "n00", "generation": 1, "resourceSliceCount": 2}


def model(name: str) -> Manifest:
    """Make a device of a model."""
    return device("gpu-0", attributes={"model": {"string": name}})


class Refuse(FilterPlugin):
    """Refuses a node, and looks at one node at a time."""

    CONFIG = """
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
          - schedulerName: pyscheduler
            plugins:
              multiPoint:
                disabled: [{name: "*"}]
                enabled: [{name: Refuse}, {name: PrioritySort}, {name: DynamicResources}, {name: DefaultBinder}]
    """

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("refused") if node.name == "n00" else None


@pytest.mark.parametrize(
    ("ask", "first", "last", "node"),
    [
        pytest.param(MODEL_A, {"cpu": "2"}, "4", "n02", id="an expression fails on a node without CPUs"),
        pytest.param(MODEL_A, {"taints": [TAINT]}, "4", "n02", id="an expression fails on a tainted node"),
        pytest.param(MODEL_A, {"cpu": "2"}, "2", None, id="the node with the device has no CPUs either"),
    ],
)
async def test_an_error_on_a_rejected_node_hides_no_device(
    cluster: FakeCluster, ask: Manifest, first: dict[str, Any], last: str, node: str | None
) -> None:
    """The nodes after it are judged, and the pod is bound to the one that has its device."""
    cluster.add_node("n00", allocatable={"cpu": first.get("cpu", "16")}, taints=first.get("taints", []))
    cluster.add_node("n01", allocatable={"cpu": "16"})
    cluster.add_node("n02", allocatable={"cpu": last})
    add(cluster, device_class(), claim("c", ask))
    add(cluster, resource_slice("n00"), resource_slice("n01", model("B")), resource_slice("n02", model("A")))
    result = await cluster.framework().schedule("p", requests={"cpu": "3"}, spec=using("c"))
    assert result.node == node
    if node is None:
        assert "1 cannot allocate all claims" in result.message
        assert "2 Insufficient cpu" in result.message


async def test_an_error_on_a_node_that_an_earlier_one_node_filter_rejects_does_not_count(cluster: FakeCluster) -> None:
    """Filters of one node run after those of all nodes; that must not show."""
    for name in ("n00", "n01"):
        cluster.add_node(name)
    add(cluster, device_class(), claim("c", MODEL_A), resource_slice("n00"), resource_slice("n01", model("A")))
    framework = cluster.framework(enable=[Refuse], config=Refuse.CONFIG)
    assert (await framework.schedule("p", spec=using("c"))).node == "n01"
    add(cluster, claim("d", MODEL_A))
    result = await framework.schedule("q", spec=using("d"))
    assert "0/2 nodes are available: 1 cannot allocate all claims, 1 refused" in result.message


async def test_an_incomplete_pool_of_a_rejected_node_hides_no_device(cluster: FakeCluster) -> None:
    """The driver of a tainted node restarts while a pod asks for all devices of a node."""
    cluster.add_node("n00", taints=[TAINT])
    cluster.add_node("n01", allocatable={"cpu": "16"})
    cluster.add_node("n02", allocatable={"cpu": "4"})
    add(cluster, device_class(), claim("c", request(allocationMode="All")))
    add(cluster, resource_slice("n00", pool=INCOMPLETE), resource_slice("n02"))
    result = await cluster.framework().schedule("p", requests={"cpu": "3"}, spec=using("c"))
    assert result.node == "n02"


async def test_an_error_on_a_node_that_could_take_the_pod_fails_the_attempt(cluster: FakeCluster) -> None:
    """As in kube-scheduler: nobody chooses among the other nodes, wherever the node is in the list."""
    for name in ("n00", "n01", "n02"):
        cluster.add_node(name)
    add(cluster, device_class(), claim("c", MODEL_A))
    add(cluster, resource_slice("n00", model("A")), resource_slice("n01", model("B")), resource_slice("n02"))
    framework = cluster.framework()
    result = await framework.schedule("p", spec=using("c"))
    assert not result.bound
    assert "no such key: model" in result.message
    cluster.delete(ResourceSlice, "n02-slice")
    add(cluster, resource_slice("n02", model("A")))
    await cluster.clock.advance(15)
    assert framework.result("p").bound


def kept_claim(cluster: FakeCluster) -> None:
    """Add a claim with a device of a node that is gone, a claim for model A, and a pod's two nodes."""
    status = {"allocation": allocation("gpu-0", pool="gone")}
    add(cluster, device_class(), {**claim("k0"), "status": status}, claim("k1", MODEL_A))
    add(cluster, resource_slice("n00", model("A")), resource_slice("n01", model("B")))


@pytest.mark.parametrize("by_filter", [False, True], ids=["NodeResourcesFit", "a filter of one node"])
async def test_a_claim_keeps_its_devices_if_the_node_lacks_something_else(
    cluster: FakeCluster, by_filter: bool
) -> None:
    """Only a node that everything but the claim's devices suits is a reason to give them back."""
    cluster.add_node("n00", allocatable={"cpu": "16" if by_filter else "2"})
    cluster.add_node("n01")
    kept_claim(cluster)
    framework = cluster.framework(enable=[Refuse], config=Refuse.CONFIG) if by_filter else cluster.framework()
    result = await framework.schedule("p", requests={"cpu": "3"}, spec=using("k0", "k1"))
    assert not result.bound
    assert "still not schedulable" in result.message
    assert devices_of(get_claim(cluster, "k0")) == ["gone/gpu-0"]


async def test_a_claim_loses_devices_that_alone_keep_the_pod_from_a_node(cluster: FakeCluster) -> None:
    """Then another device may be found for it."""
    cluster.add_node("n00")
    cluster.add_node("n01")
    kept_claim(cluster)
    framework = cluster.framework()
    await framework.schedule("p", requests={"cpu": "3"}, spec=using("k0", "k1"))
    assert devices_of(get_claim(cluster, "k0")) == []


def test_answers_about_a_node_do_not_depend_on_other_nodes() -> None:
    """`check_plugin` asks about the nodes in two orders, and about parts of them."""
    slices = [resource_slice("n00"), resource_slice("n01", model("B")), resource_slice("n02", model("A"))]
    objects = [device_class(), *slices, claim("c", MODEL_A)]
    history = [
        *(Step("add_node", name) for name in ("n00", "n01", "n02")),
        *(Step("add", manifest, TYPES[manifest["kind"]]) for manifest in objects),
        Step("add_pod", "p", spec=using("c")),
    ]
    result = check_plugin("DynamicResources", histories=[history], checks=["node-order"])
    assert result.calls["Filter"] > 0
