"""Pods with extended resources that device classes stand for, on a whole scheduler."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import DeviceClass, ResourceClaim, decode
from pyscheduler.framework import QueueingHint, Status
from pyscheduler.framework.extended_resources import ExtendedResources
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.plugins.node_resources.fit import NodeResourcesFit
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import FakeCluster, FakeFramework, make_node, make_pod
from tests.plugins.devices import (
    DRIVER,
    FINALIZER,
    Manifest,
    add,
    cel,
    claim,
    device,
    device_class,
    devices_of,
    get_claim,
    request,
    resource_slice,
    taken_twice,
    users_of,
    using,
)

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


def named_class(name: str = "gpu", resource: str = GPU, **spec: Any) -> Manifest:
    """Make a class that stands for a resource."""
    made = device_class(name)
    made["spec"] = {"extendedResourceName": resource, **spec}
    return made


def one_class(cluster: FakeCluster, *devices: str) -> FakeFramework:
    """Add a plain node, one with devices, and a class that stands for a resource; return the scheduler."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    add(cluster, named_class(), resource_slice("n2", *(devices or ("gpu-0", "gpu-1"))))
    return cluster.framework()


def made(cluster: FakeCluster) -> list[ResourceClaim]:
    """Return the claims that were made for extended resources."""
    return [each for each in cluster.objects(ResourceClaim) if each.annotations.get(ANNOTATION) == "true"]


def plugin(framework: FakeFramework) -> DynamicResources:
    """Return the plugin."""
    found = framework.plugin("DynamicResources")
    assert isinstance(found, DynamicResources)
    return found


@pytest.mark.parametrize("resource", [pytest.param(GPU, id="explicit"), pytest.param(IMPLICIT, id="implicit")])
async def test_a_pod_gets_devices_for_an_extended_resource(cluster: FakeCluster, resource: str) -> None:
    """Before the pod is bound, a claim of its own is there with devices, and the pod's status names it."""
    result = await one_class(cluster).schedule("p", requests={resource: "2"})
    assert result.node == "n2"
    (found,) = made(cluster)
    pod = cluster.pod("p")
    assert found.name.startswith("p-extended-resources-")
    (owner,) = found.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller) == ("v1", "Pod", "p", pod.uid, True)
    assert found.metadata.finalizers == (FINALIZER,)
    (asked,) = found.spec.devices.requests
    assert asked.exactly is not None
    assert (asked.name, asked.exactly.device_class_name, asked.exactly.count) == ("container-0-request-0", "gpu", 2)
    assert devices_of(found) == ["n2/gpu-0", "n2/gpu-1"]
    assert users_of(found) == ["p"]
    status = pod.status.extended_resource_claim_status
    assert status is not None
    assert status.resource_claim_name == found.name
    (mapping,) = status.request_mappings
    assert (mapping.container_name, mapping.resource_name, mapping.request_name) == ("c0", resource, asked.name)


async def test_devices_are_not_given_twice(cluster: FakeCluster) -> None:
    """Of three pods that come at once for two devices, one waits, and comes to its turn once a pod has ended."""
    framework = one_class(cluster)
    await framework.start()
    for name in ("p0", "p1", "p2"):
        cluster.add_pod(name, requests={GPU: "1"})
    await framework.settle()
    assert sorted(each for found in made(cluster) for each in devices_of(found)) == ["n2/gpu-0", "n2/gpu-1"]
    waiting, *_ = [name for name in ("p0", "p1", "p2") if not framework.result(name).bound]
    assert framework.result(waiting).message == (
        "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are "
        "available: 2 Preemption is not helpful for scheduling."
    )
    ended = next(name for name in ("p0", "p1", "p2") if name != waiting)
    cluster.delete_pod(ended)
    (left,) = [each for each in made(cluster) if users_of(each) == [ended]]
    for nothing in ({"reservedFor": None}, {"allocation": None}):
        cluster.patch(ResourceClaim, left.name, {"status": nothing}, status=True)
    await cluster.clock.advance(3)
    assert framework.result(waiting).bound
    assert not taken_twice(cluster.objects(ResourceClaim))
    assert len(made(cluster)) == 3


async def test_no_answer_is_kept_of_such_pods(cluster: FakeCluster) -> None:
    """Pods of one template get a device each, one after the other, also after pods like them were refused."""
    cluster.add_node("n1")
    framework = cluster.framework()
    for number in range(3):
        assert (await framework.schedule(f"early{number}", requests={GPU: "1"})).message.startswith(
            "0/1 nodes are available: 1 Insufficient example.com/gpu."
        )
    add(cluster, named_class(), resource_slice("n1", *(f"gpu-{number}" for number in range(6))))
    for number in range(3):
        assert (await framework.schedule(f"late{number}", requests={GPU: "1"})).bound
    await cluster.clock.advance(5)
    assert all(framework.result(f"early{number}").bound for number in range(3))
    assert not taken_twice(cluster.objects(ResourceClaim))
    assert (await framework.schedule("last", requests={GPU: "1"})).message.startswith(
        "0/1 nodes are available: 1 cannot allocate all claims."
    )


async def test_nodes_that_offer_the_resource_themselves(cluster: FakeCluster) -> None:
    """There NodeResourcesFit decides, and no claim is made; a node that offers none of it serves by devices."""
    cluster.add_node("own", allocatable={GPU: "1"})
    cluster.add_node("none", allocatable={GPU: "0"})
    add(cluster, named_class(), resource_slice("none"))
    framework = cluster.framework()
    pods = {name: (await framework.schedule(name, requests={GPU: "1"})).node for name in ("p", "q")}
    assert sorted(pods.values(), key=str) == ["none", "own"]
    (found,) = made(cluster)
    (user,) = users_of(found)
    assert pods[user] == "none"
    by_itself = next(name for name, node in pods.items() if node == "own")
    assert cluster.pod(by_itself).status.extended_resource_claim_status is None
    assert (await framework.schedule("r", requests={GPU: "1"})).message.startswith(
        "0/2 nodes are available: 1 Insufficient example.com/gpu, 1 cannot allocate all claims."
    )


async def test_some_resources_as_devices_and_some_not(cluster: FakeCluster) -> None:
    """Each node's claim asks for what the node does not offer itself."""
    cluster.add_node("n1", allocatable={"example.com/nic": "4"})
    add(cluster, named_class(), named_class("nic", "example.com/nic"), resource_slice("n1"))
    framework = cluster.framework()
    assert (await framework.schedule("p", requests={GPU: "1", "example.com/nic": "2"})).bound
    (found,) = made(cluster)
    assert [each.name for each in found.spec.devices.requests] == ["container-0-request-0"]


async def test_beside_claims_of_the_pod(cluster: FakeCluster) -> None:
    """Devices for both come from one search, so that none is given twice."""
    framework = one_class(cluster)
    add(cluster, claim("c"))
    assert (await framework.schedule("p", requests={GPU: "1"}, spec=spec_with("c", GPU))).node == "n2"
    assert devices_of(get_claim(cluster)) == ["n2/gpu-0"]
    assert devices_of(made(cluster)[0]) == ["n2/gpu-1"]
    add(cluster, claim("d"))
    assert not (await framework.schedule("q", spec=spec_with("d", GPU))).bound


async def test_no_claim_where_the_node_offers_the_resource(cluster: FakeCluster) -> None:
    """A pod with a claim of its own goes to a node that offers its extended resource itself, without a second claim."""
    cluster.add_node("n1", allocatable={GPU: "1"})
    add(cluster, named_class(), resource_slice("n1"), claim("c"))
    assert (await cluster.framework().schedule("p", spec=spec_with("c", GPU))).bound
    assert devices_of(get_claim(cluster)) == ["n1/gpu-0"]
    assert not made(cluster)


def spec_with(name: str, resource: str) -> Manifest:
    """Make the spec of a pod with a claim and an extended resource."""
    return {**using(name), "containers": [{"name": "c0", "image": "app", "resources": {"requests": {resource: "1"}}}]}


async def test_the_gate_is_off(cluster: FakeCluster) -> None:
    """Then classes stand for nothing, and pods are refused in the words of NodeResourcesFit."""
    cluster.add_node("n1")
    add(cluster, named_class(), resource_slice("n1"))
    framework = cluster.framework(feature_gates="DRAExtendedResource=false")
    for resource in (GPU, IMPLICIT):
        name = resource.partition(".")[0]
        assert (await framework.schedule(name, requests={resource: "1"})).message == (
            f"0/1 nodes are available: 1 Insufficient {resource}. no new claims to deallocate, preemption: 0/1 nodes "
            "are available: 1 Preemption is not helpful for scheduling."
        )
    events = [each.event.resource.value for each in framework.plugin("NodeResourcesFit").events_to_register()]
    assert "resource.k8s.io/DeviceClass" not in events


async def test_without_the_plugin_nothing_is_left_to_it(cluster: FakeCluster) -> None:
    """In a profile without DynamicResources no pod is bound without the devices that it asks for."""
    cluster.add_node("n1")
    add(cluster, named_class(), resource_slice("n1"))
    result = await cluster.framework(disable=["DynamicResources"]).schedule("p", requests={GPU: "1"})
    assert "1 Insufficient example.com/gpu" in result.message


async def test_a_class_that_comes_or_is_renamed(cluster: FakeCluster) -> None:
    """The pod is tried again when a class stands for its resource, and not for other changes of classes."""
    cluster.add_node("n1")
    add(cluster, resource_slice("n1"), named_class("gpu", "example.com/other"))
    framework = cluster.framework()
    assert not (await framework.schedule("p", requests={GPU: "1"})).bound
    cluster.patch(DeviceClass, "gpu", {"metadata": {"labels": {"a": "b"}}}, namespace="")
    await cluster.clock.advance(5)
    assert framework.result("p").message.startswith("0/1 nodes are available: 1 Insufficient example.com/gpu.")
    cluster.patch(DeviceClass, "gpu", {"spec": {"extendedResourceName": GPU}}, namespace="")
    await cluster.clock.advance(5)
    assert framework.result("p").bound


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, "b", id="the newer one"),
        pytest.param({"a": 2, "b": 1}, "a", id="whatever its name"),
        pytest.param({"b": 1, "a": 1}, "a", id="the first by name of those of one age"),
    ],
)
async def test_several_classes_stand_for_a_resource(cluster: FakeCluster, ages: dict[str, int], expected: str) -> None:
    """The newest counts, so that an administrator can move from one class to another."""
    framework = cluster.framework()
    await framework.start()
    for age in (1, 2):
        await cluster.clock.advance(1)
        add(cluster, *(named_class(name) for name in ages if ages[name] == age))
    await framework.settle()
    found = ExtendedResources.of(framework.profile.handle).class_of(GPU)
    assert found is not None
    assert found.name == expected
    cluster.delete(DeviceClass, expected, namespace="")
    await framework.settle()
    other = ExtendedResources.of(framework.profile.handle).class_of(GPU)
    assert other is not None
    assert other.name == next(name for name in ages if name != expected)


CREATE = {"method": "POST", "path": "/resourceclaims$"}
ALLOCATE = {"method": "PATCH", "path": "/resourceclaims/p-[^/]*/status$"}
NAME = {"method": "PATCH", "path": "/pods/p/status$"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fault", [pytest.param({"status": 403}, id="refused"), pytest.param({"lose": "answer"}, id="lost")]
)
@pytest.mark.parametrize(
    "write", [pytest.param(CREATE, id="create"), pytest.param(ALLOCATE, id="allocate"), pytest.param(NAME, id="name")]
)
async def test_a_write_that_fails(cluster: FakeCluster, write: Manifest, fault: Manifest) -> None:
    """What was made is deleted, its devices are free, and the pod gets others in a later attempt."""
    framework = one_class(cluster, "gpu-0")
    armed = cluster.server.faults.add(Fault(**write, **fault, times=1))
    await framework.schedule("p", requests={GPU: "1"})
    for _ in range(100):
        await cluster.clock.advance(0.1)
    assert armed.hits == 1
    assert framework.result("p").node == "n2"
    (found,) = made(cluster)
    status = cluster.pod("p").status.extended_resource_claim_status
    assert status is not None
    assert (status.resource_claim_name, devices_of(found)) == (found.name, ["n2/gpu-0"])
    ledger = plugin(framework)._ledger
    assert (len(ledger), len(ledger.allocated.devices)) == (0, 1)


async def test_the_reason_of_a_refused_claim_is_told(cluster: FakeCluster) -> None:
    """The pod's condition says what the API server said about the claim."""
    framework = one_class(cluster)
    cluster.server.faults.add(Fault(**CREATE, status=403))
    result = await framework.schedule("p", requests={GPU: "1"})
    assert 'running PreBind plugin "DynamicResources": create claim for extended resources default/: ' in result.message
    assert len(plugin(framework)._ledger) == 0


async def test_a_claim_that_was_left_behind(cluster: FakeCluster) -> None:
    """A claim that an earlier attempt has made keeps the pod from all nodes, is deleted, and the pod is tried anew."""
    framework = one_class(cluster, "gpu-0")
    pod = cluster.add_pod("p", requests={GPU: "1"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    metadata = {"annotations": {ANNOTATION: "true"}, "ownerReferences": [owner], "finalizers": [FINALIZER]}
    add(cluster, claim("p-extended-resources-old", request("container-0-request-0"), metadata=metadata))
    await framework.schedule("p")
    await cluster.clock.advance(2)
    (event,) = cluster.events("FailedScheduling")
    assert "2 cannot schedule extended resource claim. deletion of ResourceClaim completed" in event["note"]
    assert framework.result("p").node == "n2"
    assert [each.name for each in made(cluster)] != ["p-extended-resources-old"]
    assert len(made(cluster)) == 1


async def test_asking_changes_nothing(cluster: FakeCluster) -> None:
    """`pyscheduler explain` shows what would be done about a claim that was left behind, and does not do it."""
    framework = one_class(cluster, "gpu-0")
    pod = make_pod("p", requests={GPU: "1"})
    await framework.start()
    evaluation = await evaluate(framework.scheduler, framework.profile, pod)
    assert evaluation.post_filter is None
    assert not made(cluster)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    metadata = {"annotations": {ANNOTATION: "true"}, "ownerReferences": [owner]}
    add(cluster, claim("p-extended-resources-old", request("container-0-request-0"), metadata=metadata))
    await framework.settle()
    evaluation = await evaluate(framework.scheduler, framework.profile, pod)
    assert evaluation.post_filter is not None
    assert "deletion of ResourceClaim completed" in evaluation.post_filter.message
    assert len(made(cluster)) == 1


async def test_signature(cluster: FakeCluster) -> None:
    """A pod has none while a class stands for a resource that it asks for."""
    framework = one_class(cluster)
    await framework.settle()
    asking = make_pod("p", requests={GPU: "1"})
    assert framework.profile.sign_pod(asking) is None
    for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation"):
        status = framework.plugin(name).sign_pod(asking)
        assert isinstance(status, Status)
        assert status.message == "signature disabled when dra extended resources are used in the cluster"
    assert not plugin(framework).may_reuse(asking)
    other = make_pod("p", requests={"example.com/other": "1"})
    assert plugin(framework).may_reuse(other)
    assert isinstance(framework.plugin("NodeResourcesFit").sign_pod(other), tuple)


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        pytest.param(GPU, None, named_class(), QueueingHint.QUEUE, id="a class comes"),
        pytest.param(IMPLICIT, None, device_class(), QueueingHint.QUEUE, id="a class comes that the resource names"),
        pytest.param(GPU, None, device_class(), QueueingHint.SKIP, id="a class for no resource"),
        pytest.param(GPU, device_class(), named_class(), QueueingHint.QUEUE, id="a class gets the resource"),
        pytest.param(IMPLICIT, device_class(), named_class(), QueueingHint.SKIP, id="another resource"),
        pytest.param(GPU, named_class(), named_class(), QueueingHint.SKIP, id="nothing changes"),
        pytest.param(GPU, named_class(), device_class(), QueueingHint.SKIP, id="a class loses the resource"),
    ],
)
async def test_after_a_class_changed(
    cluster: FakeCluster, resource: str, old: Manifest | None, new: Manifest, expected: QueueingHint
) -> None:
    """NodeResourcesFit wakes pods that ask for the resource that a class stands for from now on."""
    fit = cluster.framework().plugin("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFit)
    before, after = (None if each is None else decode(DeviceClass, msgspec.json.encode(each)) for each in (old, new))
    assert fit.after_class_change(make_pod("p", requests={resource: "1"}), before, after) is expected


async def test_after_a_node_changed(cluster: FakeCluster) -> None:
    """A node that does not offer the resource may help all the same, as its devices may."""
    framework = one_class(cluster)
    await framework.settle()
    fit = framework.plugin("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFit)
    pod, node = make_pod("p", requests={GPU: "1"}), make_node("n")
    labelled = make_node("n", labels={"a": "b"})
    assert fit.after_node_change(pod, None, node) is QueueingHint.QUEUE
    assert fit.after_node_change(pod, node, labelled) is QueueingHint.QUEUE
    small = make_node("n", allocatable={GPU: "1"})
    assert fit.after_node_change(make_pod("p", requests={GPU: "2"}), None, small) is QueueingHint.SKIP
    assert fit.after_node_change(make_pod("p", requests={"example.com/x": "1"}), None, node) is QueueingHint.SKIP


async def test_devices_count_in_scores(cluster: FakeCluster) -> None:
    """Where the strategy names the resource, the devices of its class count as what the node offers."""
    for name in ("n1", "n2"):
        cluster.add_node(name)
    large = {"attributes": {"model": {"string": "large"}}}
    add(
        cluster,
        named_class(selectors=[cel(f'device.attributes["{DRIVER}"].model == "large"')]),
        resource_slice("n1", *(device(f"gpu-{number}", **large) for number in range(4))),
        resource_slice("n2", device("gpu-0", **large), device("small", attributes={"model": {"string": "s"}})),
    )
    strategy = {"type": "LeastAllocated", "resources": [{"name": GPU, "weight": 1}]}
    framework = cluster.framework(args={"NodeResourcesFit": {"scoringStrategy": strategy}})
    await framework.settle()
    pod = make_pod("p", requests={GPU: "1"})
    scores = {name: of["NodeResourcesFit"] for name, of in framework.run_score(pod).items()}
    assert scores == {"n1": 75, "n2": 0}
    assert (await framework.schedule("first", requests={GPU: "1"})).node == "n1"
    scores = {name: of["NodeResourcesFit"] for name, of in framework.run_score(pod).items()}
    assert scores == {"n1": 50, "n2": 0}


async def test_a_group_of_pods_in_one_cycle(cluster: FakeCluster) -> None:
    """Members see the devices that were promised to members before them; each gets its own."""
    cluster.serve(IN_TREE_PODGROUPS) if not cluster.serves(IN_TREE_PODGROUPS) else None
    cluster.add_node("n1")
    cluster.add_node("n2")
    add(cluster, named_class(), resource_slice("n1"), resource_slice("n2"))
    gates = "GenericWorkload=true,GangScheduling=true"
    framework = cluster.framework(feature_gates=gates)
    group = {
        "apiVersion": IN_TREE_PODGROUPS.api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    cluster.add(group, InTreePodGroup)
    await framework.start()
    for name in ("m0", "m1"):
        spec = {
            "schedulingGroup": {"podGroupName": "g"},
            "containers": [{"name": "c0", "image": "app", "resources": {"requests": {GPU: "1"}}}],
        }
        cluster.add_pod(name, spec=spec)
    await framework.settle()
    assert {framework.result(name).node for name in ("m0", "m1")} == {"n1", "n2"}
    assert not taken_twice(cluster.objects(ResourceClaim))
    assert len(made(cluster)) == 2
