"""Pods with resource claims on a whole scheduler: what is allocated, written, waited for and taken back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod, ResourceClaim
from pyscheduler.framework import (
    CycleState,
    PermitPlugin,
    Status,
)
from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger
from pyscheduler.plugins.dynamic_resources.plugin import DynamicResources
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.scheduler.evaluation import evaluate
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.plugins.devices import (
    DRIVER,
    FINALIZER,
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
    taken_twice,
    users_of,
    using,
)

READY, FAILED = "example.com/ready", "example.com/failed"


def two_nodes(cluster: FakeCluster) -> None:
    """Add two nodes, of which the second has two devices."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    add(cluster, device_class(), resource_slice("n2", "gpu-0", "gpu-1"))


def ledger_of(framework: FakeFramework) -> ClaimLedger:
    """Return the account of devices."""
    plugin = framework.plugin("DynamicResources")
    assert isinstance(plugin, DynamicResources)
    return plugin._ledger


def set_status(cluster: FakeCluster, name: str, status: Mapping[str, Any]) -> None:
    """Change the status of a claim as its driver or a controller would."""
    cluster.patch(ResourceClaim, name, {"status": status}, status=True)


def allocated(cluster: FakeCluster, *devices: str, pool: str, users: Mapping[str, str], **given: Any) -> None:
    """Add the claim `c`, which has devices already and is used by pods, whose uids are given by name."""
    reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in users.items()]
    status = {"allocation": allocation(*devices, pool=pool, **given), "reservedFor": reserved}
    add(cluster, {**claim(metadata={"finalizers": [FINALIZER]}), "status": status})


async def test_a_claim_is_allocated_and_reserved(cluster: FakeCluster) -> None:
    """Before the pod is bound, its claim bears the finalizer, the devices, the time, and the pod's name."""
    two_nodes(cluster)
    add(cluster, claim("c", request(count=2)))
    framework = cluster.framework()
    assert (await framework.schedule("p", spec=using("c"))).node == "n2"
    found = get_claim(cluster)
    assert found.metadata.finalizers == (FINALIZER,)
    assert devices_of(found) == ["n2/gpu-0", "n2/gpu-1"]
    given = found.status.allocation
    assert given is not None
    assert given.node_selector is not None
    assert given.allocation_timestamp == "2026-01-01T00:00:00Z"
    (user,) = found.status.reserved_for
    assert (user.api_group, user.resource, user.name, user.uid) == ("", "pods", "p", cluster.pod("p").uid)


async def test_pods_share_a_claim(cluster: FakeCluster) -> None:
    """The second pod follows the first to the node of the devices; both may use the claim then."""
    two_nodes(cluster)
    add(cluster, claim())
    framework = cluster.framework()
    for name in ("p", "q"):
        assert (await framework.schedule(name, spec=using("c"))).node == "n2"
    assert users_of(get_claim(cluster)) == ["p", "q"]


async def test_a_pod_names_a_claim_twice(cluster: FakeCluster) -> None:
    """It is allocated once, and the pod is bound."""
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim())
    spec = {"resourceClaims": [{"name": name, "resourceClaimName": "c"} for name in ("a", "b")]}
    assert (await cluster.framework().schedule("p", spec=spec)).node == "n1"
    assert (devices_of(get_claim(cluster)), users_of(get_claim(cluster))) == (["n1/gpu-0"], ["p"])


async def test_devices_that_are_promised_are_not_given_twice(cluster: FakeCluster) -> None:
    """Three pods come at once for two devices: two get one each, and the third says why it waits."""
    two_nodes(cluster)
    names = [f"c{number}" for number in range(3)]
    add(cluster, *map(claim, names))
    framework = cluster.framework()
    await framework.start()
    for name in names:
        cluster.add_pod(f"p-{name}", spec=using(name))
    await framework.settle()
    claims = cluster.objects(ResourceClaim)
    assert sorted(each for found in claims for each in devices_of(found)) == ["n2/gpu-0", "n2/gpu-1"]
    (waiting,) = [name for name in names if not framework.result(f"p-{name}").bound]
    assert framework.result(f"p-{waiting}").message == (
        "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: 0/2 nodes are "
        "available: 2 Preemption is not helpful for scheduling."
    )


async def test_a_device_that_is_given_back_brings_the_pod_back(cluster: FakeCluster) -> None:
    """The claim of another pod is deallocated; that event lets the waiting pod be tried."""
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim("c"), claim("d"))
    framework = cluster.framework()
    assert (await framework.schedule("p", spec=using("c"))).bound
    assert not (await framework.schedule("q", spec=using("d"))).bound
    cluster.delete_pod("p")
    set_status(cluster, "c", {"reservedFor": None})
    set_status(cluster, "c", {"allocation": None})
    await cluster.clock.advance(2)
    assert framework.result("q").bound
    assert not taken_twice(cluster.objects(ResourceClaim))


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param([device_class()], "2 cannot allocate all claims", id="no devices"),
        pytest.param([], "request gpu: device class gpu does not exist", id="no class"),
        pytest.param(
            [device_class("gpu", 'device.attributes["x.example.com"].y == 1'), resource_slice("n2")],
            "class gpu: selector #0: CEL runtime error: no such key: y",
            id="a selector that fails",
        ),
    ],
)
async def test_why_a_pod_waits(cluster: FakeCluster, objects: list[Any], message: str) -> None:
    """Its condition has kube-scheduler's words."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    add(cluster, *objects, claim())
    result = await cluster.framework().schedule("p", spec=using("c"))
    assert result.state == "pending"
    assert message in result.message


async def test_a_class_that_comes_later(cluster: FakeCluster) -> None:
    """The pod is tried again when the class is there, and when a slice is."""
    cluster.add_node("n1")
    add(cluster, claim())
    framework = cluster.framework()
    assert not (await framework.schedule("p", spec=using("c"))).bound
    add(cluster, device_class())
    await cluster.clock.advance(2)
    assert "cannot allocate all claims" in framework.result("p").message
    add(cluster, resource_slice())
    await cluster.clock.advance(4)
    assert framework.result("p").bound


async def test_a_pod_does_not_enter_the_queue_without_its_claims(cluster: FakeCluster) -> None:
    """It is gated until the claim is there."""
    two_nodes(cluster)
    framework = cluster.framework()
    assert (await framework.schedule("p", spec=using("c"))).state == "gated"
    add(cluster, claim())
    await framework.settle()
    assert framework.result("p").node == "n2"


async def test_a_claim_from_a_template(cluster: FakeCluster) -> None:
    """The pod waits until its status names the claim that was made for it, and that claim must be its own."""
    two_nodes(cluster)
    framework = cluster.framework()
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    assert (await framework.schedule("p", spec=spec)).state == "gated"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": cluster.pod("p").uid, "controller": True}
    add(cluster, claim("foreign"), claim("own", metadata={"ownerReferences": [owner]}))
    made = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "foreign"}]}}
    cluster.patch(Pod, "p", made, status=True)
    await framework.settle()
    assert framework.result("p").state == "gated"
    made["status"]["resourceClaimStatuses"][0]["resourceClaimName"] = "own"
    cluster.patch(Pod, "p", made, status=True)
    await framework.settle()
    assert framework.result("p").node == "n2"
    assert users_of(get_claim(cluster, "own")) == ["p"]
    assert not devices_of(get_claim(cluster, "foreign"))


async def test_the_node_with_the_better_way_is_chosen(cluster: FakeCluster) -> None:
    """Of the nodes, that one scores highest which offers the first of several ways."""
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
        model = {"model": {"string": "large" if name == "n2" else "small"}}
        add(cluster, resource_slice(name, device("gpu-0", attributes=model)))
    ways = [
        {
            "name": model,
            "deviceClassName": "gpu",
            "selectors": [cel(f'device.attributes["{DRIVER}"].model == "{model}"')],
        }
        for model in ("large", "small")
    ]
    add(cluster, device_class(), claim("c", {"name": "gpu", "firstAvailable": ways}))
    add(cluster, claim("d", {"name": "gpu", "firstAvailable": ways}))
    framework = cluster.framework()
    assert (await framework.schedule("p", spec=using("c"))).node == "n2"
    given = get_claim(cluster).status.allocation
    assert given is not None
    assert given.devices.results[0].request == "gpu/large"
    assert (await framework.schedule("q", spec=using("d"))).node in {"n1", "n3"}


async def test_a_claim_whose_devices_are_out_of_reach_is_given_back(cluster: FakeCluster) -> None:
    """PostFilter takes the devices away from a claim that nobody else uses, so that others can be tried."""
    two_nodes(cluster)
    pod = cluster.add_pod("p", spec=using("c"))
    allocated(cluster, "x", pool="n9", users={"p": pod.uid})
    framework = cluster.framework()
    await framework.schedule("p")
    await cluster.clock.advance(2)
    (event,) = cluster.events("FailedScheduling")
    assert "2 resourceclaim not available on the node. deallocation of ResourceClaim completed" in event["note"]
    assert framework.result("p").node == "n2"
    assert devices_of(get_claim(cluster)) == ["n2/gpu-0"]


async def test_a_claim_that_others_use_is_not_given_back(cluster: FakeCluster) -> None:
    """The pod waits for them to end."""
    two_nodes(cluster)
    other = cluster.add_pod("other", node_name="n1")
    allocated(cluster, "x", pool="n9", users={"other": other.uid})
    result = await cluster.framework().schedule("p", spec=using("c"))
    assert "still not schedulable" in result.message
    assert devices_of(get_claim(cluster)) == ["n9/x"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 409}, id="conflict"),
        pytest.param({"lose": "answer"}, id="answer lost"),
        pytest.param({"lose": "request"}, id="request lost"),
        pytest.param({"status": 503}, id="busy"),
    ],
)
@pytest.mark.parametrize("part", ["c$", "c/status$"])
async def test_a_write_that_goes_wrong_once(cluster: FakeCluster, part: str, fault: dict[str, Any]) -> None:
    """It is tried again, on the version that is there by then, and the pod is bound."""
    two_nodes(cluster)
    add(cluster, claim())
    armed = cluster.server.faults.add(Fault(method="PATCH", path=f"/resourceclaims/{part}", times=1, **fault))
    framework = cluster.framework()
    await framework.schedule("p", spec=using("c"))
    for _ in range(20):
        await cluster.clock.advance(0.1)
    assert armed.hits == 1
    assert framework.result("p").node == "n2"
    assert users_of(get_claim(cluster)) == ["p"]
    assert ledger_of(framework).promised(get_claim(cluster).uid) is None


async def test_a_write_that_is_refused(cluster: FakeCluster) -> None:
    """The pod is tried again after its backoff; its devices are free for others meanwhile."""
    two_nodes(cluster)
    add(cluster, claim())
    cluster.server.faults.add(Fault(method="PATCH", path="/resourceclaims/c/status$", status=403, times=1))
    framework = cluster.framework()
    result = await framework.schedule("p", spec=using("c"))
    assert "add allocation and reservation to claim default/c: " in result.message
    assert len(ledger_of(framework)) == 0
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n2"


async def test_devices_stay_promised_while_nobody_knows(cluster: FakeCluster) -> None:
    """Where the API server answers no more, the devices are given to nobody else until the claim could be read."""
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim("c"), claim("d"))
    faults = cluster.server.faults
    faults.add(Fault(method="PATCH", path="/resourceclaims/c/status$", lose="request"))
    faults.add(Fault(method="GET", path="/resourceclaims/c$", lose="request"))
    framework = cluster.framework()
    await framework.schedule("p", spec=using("c"))
    ledger = ledger_of(framework)
    for _ in range(30):
        await cluster.clock.advance(1)
        assert len(ledger.allocated.devices) == 1
    assert not framework.result("p").bound
    await framework.schedule("q", spec=using("d"))
    assert not framework.result("q").bound
    faults.clear()
    for _ in range(60):
        await cluster.clock.advance(1)
    assert framework.result("p").bound
    assert len(ledger) == 0
    assert not taken_twice(cluster.objects(ResourceClaim))


async def test_a_reservation_is_taken_back(cluster: FakeCluster) -> None:
    """Where the binding fails, the claim keeps its devices and forgets the pod; the next attempt reserves it again."""
    two_nodes(cluster)
    keeper = cluster.add_pod("keeper", node_name="n2", spec=using("c"))
    allocated(cluster, "gpu-0", pool="n2", users={"keeper": keeper.uid})
    cluster.server.faults.add(Fault(method="POST", path="/pods/p/binding$", status=403, times=1))
    framework = cluster.framework()
    assert not (await framework.schedule("p", spec=using("c"))).bound
    assert users_of(get_claim(cluster)) == ["keeper"]
    assert devices_of(get_claim(cluster)) == ["n2/gpu-0"]
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n2"
    assert users_of(get_claim(cluster)) == ["keeper", "p"]


def fabric(cluster: FakeCluster) -> None:
    """Add a node with two devices that have to be attached first."""
    cluster.add_node("n1")
    slow = {"bindingConditions": [READY], "bindingFailureConditions": [FAILED]}
    add(cluster, device_class(), resource_slice("n1", device("gpu-0", **slow), device("gpu-1", **slow)), claim())


def report(cluster: FakeCluster, name: str, condition: str) -> None:
    """Say as the driver that a condition of a device is true."""
    now = "2026-01-01T00:00:00Z"
    told = {"type": condition, "status": "True", "reason": "Attached", "message": "m", "lastTransitionTime": now}
    of_device = {"driver": DRIVER, "pool": "n1", "device": name, "conditions": [told]}
    set_status(cluster, "c", {"devices": [of_device]})


async def test_a_pod_waits_for_its_devices(cluster: FakeCluster) -> None:
    """It is bound when the conditions are true, and an event says meanwhile what it waits for."""
    fabric(cluster)
    framework = cluster.framework()
    await framework.schedule("p", spec=using("c"))
    await cluster.clock.advance(30)
    assert not framework.result("p").bound
    (event,) = cluster.events("BindingConditionsPending")
    assert event["note"] == "waiting for binding conditions for device on node n1"
    report(cluster, "gpu-0", READY)
    await cluster.clock.advance(6)
    assert framework.result("p").node == "n1"


@pytest.mark.parametrize("fails", [True, False])
async def test_devices_that_do_not_get_ready(cluster: FakeCluster, fails: bool) -> None:
    """The claim is given back, and devices are allocated anew; the wait is 600 s unless the driver gives up."""
    fabric(cluster)
    framework = cluster.framework()
    await framework.schedule("p", spec=using("c"))
    if fails:
        report(cluster, "gpu-0", FAILED)
        await cluster.clock.advance(6)
        assert 'device binding failed: claim=c, reason=Attached, message="m"' in framework.result("p").message
    else:
        await cluster.clock.advance(600)
        assert "device binding timeout: " in framework.result("p").message
    before = get_claim(cluster).status.allocation
    assert before is not None
    for _ in range(20):
        await cluster.clock.advance(1)
    after = get_claim(cluster).status.allocation
    assert after is not None
    assert after.allocation_timestamp != before.allocation_timestamp
    report(cluster, devices_of(get_claim(cluster))[0].partition("/")[2], READY)
    await cluster.clock.advance(6)
    assert framework.result("p").node == "n1"


async def gang(cluster: FakeCluster, *claims: str) -> FakeFramework:
    """Add a gang with a pod for each of these claims, and let it be tried."""
    if not cluster.serves(IN_TREE_PODGROUPS):
        cluster.serve(IN_TREE_PODGROUPS)
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    policy = {"schedulingPolicy": {"gang": {"minCount": len(claims)}}}
    cluster.add({**group, "metadata": {"name": "g", "namespace": "default"}, "spec": policy}, InTreePodGroup)
    add(cluster, *map(claim, sorted(set(claims))))
    framework = cluster.framework(feature_gates="GenericWorkload=true,GangScheduling=true")
    await framework.start()
    for number, name in enumerate(claims):
        cluster.add_pod(f"p{number}", spec={**using(name), "schedulingGroup": {"podGroupName": "g"}})
    await framework.settle()
    for _ in range(10):
        await cluster.clock.advance(0.05)
    return framework


async def test_a_gang_shares_a_claim_that_is_not_allocated_yet(cluster: FakeCluster) -> None:
    """Members see what was promised to those before them, and all of them may use it in the end."""
    two_nodes(cluster)
    framework = await gang(cluster, "c", "c", "c")
    assert {framework.result(f"p{number}").node for number in range(3)} == {"n2"}
    assert sorted(users_of(get_claim(cluster))) == ["p0", "p1", "p2"]
    assert len(ledger_of(framework)) == 0


async def test_a_gang_with_a_device_for_each(cluster: FakeCluster) -> None:
    """Each member gets a device of its own."""
    two_nodes(cluster)
    framework = await gang(cluster, "c0", "c1")
    assert {framework.result(f"p{number}").node for number in range(2)} == {"n2"}
    assert not taken_twice(cluster.objects(ResourceClaim))
    assert len(ledger_of(framework).allocated.devices) == 2


async def test_a_gang_that_lacks_a_device(cluster: FakeCluster) -> None:
    """It gets none, and holds none."""
    two_nodes(cluster)
    framework = await gang(cluster, "c0", "c1", "c2")
    assert not any(framework.result(f"p{number}").bound for number in range(3))
    assert len(ledger_of(framework).allocated.devices) == 0


class Hold(PermitPlugin):
    """Lets every pod wait until its time is up."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Wait."""
        return Status.wait(timeout=5)


async def test_who_waits_at_permit_holds_its_devices(cluster: FakeCluster) -> None:
    """Nobody else is given them or uses the claim, and nothing is written; once it is gone they are free."""
    cluster.add_node("n1")
    add(cluster, device_class(), resource_slice(), claim("c"), claim("d"))
    framework = cluster.framework(enable=[Hold])
    assert (await framework.schedule("p", spec=using("c"))).state == "waiting"
    assert "cannot allocate all claims" in (await framework.schedule("q", spec=using("d"))).message
    result = await framework.schedule("r", spec=using("c"))
    assert "resource claim default/c is in the process of being allocated" in result.message
    found = get_claim(cluster)
    assert (found.status.allocation, found.metadata.finalizers) == (None, ())
    cluster.delete_pod("p")
    await framework.settle()
    assert framework.result("q").state == "waiting"
    await cluster.clock.advance(5)
    assert len(ledger_of(framework)) <= 1


async def test_explaining_takes_nothing_away(cluster: FakeCluster) -> None:
    """Who only asks is told that devices would be given back; the claim keeps them."""
    two_nodes(cluster)
    pod = cluster.add_pod("p", spec=using("c"), scheduler_name="somebody-else")
    allocated(cluster, "x", pool="n9", users={"p": pod.uid})
    framework = cluster.framework()
    await framework.start()
    evaluation = await evaluate(framework.scheduler, framework.profile, pod)
    assert evaluation.post_filter is not None
    assert "deallocation of ResourceClaim completed" in evaluation.post_filter.message
    assert devices_of(get_claim(cluster)) == ["n9/x"]


async def test_two_profiles_have_one_account(cluster: FakeCluster) -> None:
    """What one profile has promised is taken for the other, too."""
    framework = cluster.framework(
        config="""
        apiVersion: kubescheduler.config.k8s.io/v1
        kind: KubeSchedulerConfiguration
        profiles:
          - schedulerName: one
          - schedulerName: two
        """
    )
    plugins = [profile.plugins["DynamicResources"] for profile in framework.scheduler.profiles.values()]
    one, two = (each._ledger for each in plugins if isinstance(each, DynamicResources))
    assert one is two
