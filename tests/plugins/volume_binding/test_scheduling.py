"""Volumes as users meet them: pods placed by a whole scheduler, claims bound and volumes made."""

from __future__ import annotations

from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import PersistentVolume, PersistentVolumeClaim, Pod
from pyscheduler.framework import CycleState, PermitPlugin, PodInfo, Status
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.plugins.storage import (
    HOST,
    SELECTED,
    ZONE,
    Controller,
    add,
    claim,
    get,
    reachable_from,
    storage_class,
    using,
    volume,
)


async def test_a_static_volume_is_bound_to_the_claim_then_the_pod_to_the_node(cluster: FakeCluster) -> None:
    """The smallest that fits is taken, on the node that reaches it; the pod waits until the controller is done."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    at = reachable_from(HOST, "n2")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner"), claim())
    add(cluster, volume("large", size="5Gi", at=at), volume("fits", size="2Gi", at=at), volume("small", size="1Mi"))
    framework = cluster.framework()
    result = await framework.schedule("p", spec=using("c"))
    assert result.state == "pending"
    taken = get(cluster, PersistentVolume, "fits")
    wanted = get(cluster, PersistentVolumeClaim, "c")
    assert (taken.spec.claim_ref.name, taken.spec.claim_ref.uid) == ("c", wanted.uid)
    assert taken.annotations["pv.kubernetes.io/bound-by-controller"] == "yes"
    await cluster.clock.advance(5)
    assert cluster.pod("p").status.nominated_node_name == "n2"
    assert not framework.result("p").bound
    Controller(cluster).work()
    await cluster.clock.advance(1)
    assert framework.result("p").node == "n2"
    assert get(cluster, PersistentVolumeClaim, "c").spec.volume_name == "fits"
    assert [each.name for each in cluster.objects(PersistentVolume) if each.spec.claim_ref] == ["fits"]


async def test_a_volume_is_made_for_the_node(cluster: FakeCluster) -> None:
    """The claim bears the node's name, the provisioner makes the volume there, and the pod is bound."""
    cluster.add_node("n1", labels={ZONE: "a"})
    cluster.add_node("n2", labels={ZONE: "b"})
    topology = {"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}
    add(cluster, storage_class(allowedTopologies=[topology]), claim())
    framework = cluster.framework()
    assert (await framework.schedule("p", spec=using("c"))).state == "pending"
    assert get(cluster, PersistentVolumeClaim, "c").annotations[SELECTED] == "n2"
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n2"


async def test_a_pod_mounts_one_claim_twice(cluster: FakeCluster) -> None:
    """A volume is made for it once, and the pod is bound."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim())
    framework = cluster.framework()
    assert (await framework.schedule("p", spec=using("c", "c"))).state == "pending"
    assert get(cluster, PersistentVolumeClaim, "c").annotations[SELECTED] == "n1"
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n1"


async def test_two_pods_do_not_take_one_volume(cluster: FakeCluster) -> None:
    """What was decided for the first counts for the second, before the API server has heard of it."""
    cluster.add_node("n1")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner"), claim("c1"), claim("c2"))
    add(cluster, volume("v1"), volume("v2"))
    framework = cluster.framework()
    await framework.start()
    for number in (1, 2):
        cluster.add_pod(f"p{number}", spec=using(f"c{number}"))
    await framework.settle()
    promised = {each.spec.claim_ref.name: each.name for each in cluster.objects(PersistentVolume)}
    assert promised == {"c1": "v1", "c2": "v2"}
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert {framework.result(name).node for name in ("p1", "p2")} == {"n1"}


@pytest.mark.parametrize("static", [True, False])
async def test_two_pods_share_a_claim(cluster: FakeCluster, static: bool) -> None:
    """The second follows the first to where the volume is taken or made, and both are bound."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner" if static else "csi.example.com"), claim())
    if static:
        add(cluster, volume(at=reachable_from(HOST, "n2"), promised_to="c"))
    framework = cluster.framework()
    await framework.start()
    for name in ("p1", "p2"):
        cluster.add_pod(name, spec=using("c"))
    await framework.settle()
    for _ in range(40):
        Controller(cluster).work()
        await cluster.clock.advance(1)
    placed = {framework.result(name).node for name in ("p1", "p2")}
    assert len(placed) == 1
    assert placed <= ({"n2"} if static else {"n1", "n2"})


async def gang_of_two(cluster: FakeCluster) -> FakeFramework:
    """Let two pods that use the claim `c` be decided about together."""
    if not cluster.serves(IN_TREE_PODGROUPS):
        cluster.serve(IN_TREE_PODGROUPS)
    group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    cluster.add({**group, "metadata": {"name": "g", "namespace": "default"}, "spec": policy}, InTreePodGroup)
    framework = cluster.framework(feature_gates="GenericWorkload=true,GangScheduling=true")
    await framework.start()
    for name in ("p1", "p2"):
        cluster.add_pod(name, spec={"schedulingGroup": {"podGroupName": "g"}, **using("c")})
    await framework.settle()
    return framework


async def test_members_of_a_group_are_not_both_given_a_claim_for_one(cluster: FakeCluster) -> None:
    """The second sees the first use it, though neither has a node yet, and so the gang does not come to be."""
    cluster.add_node("n1")
    single = {"accessModes": ["ReadWriteOncePod"]}
    add(cluster, claim(volume="v", **single), volume(promised_to="c", phase="Bound", **single))
    framework = await gang_of_two(cluster)
    messages = sorted(framework.result(name).message for name in ("p1", "p2"))
    assert "ReadWriteOncePod access mode already in-use" in messages[0]
    assert "waiting for minCount pods from a gang" in messages[1]


@pytest.mark.parametrize("static", [True, False])
async def test_members_of_a_group_share_a_claim(cluster: FakeCluster, static: bool) -> None:
    """What they reserve in thought, they reserve again in earnest."""
    cluster.add_node("n1")
    cluster.add_node("n2")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner" if static else "csi.example.com"), claim())
    if static:
        add(cluster, volume(at=reachable_from(HOST, "n2")))
    framework = await gang_of_two(cluster)
    for _ in range(40):
        Controller(cluster).work()
        await cluster.clock.advance(1)
    placed = {framework.result(name).node for name in ("p1", "p2")}
    assert len(placed) == 1
    assert placed <= ({"n2"} if static else {"n1", "n2"})


async def test_a_binding_that_takes_too_long_is_tried_again(cluster: FakeCluster) -> None:
    """The pod's condition says what was waited for; a later attempt goes on where the first one stood."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim())
    framework = cluster.framework(args={"VolumeBinding": {"bindTimeoutSeconds": 20}})
    await framework.schedule("p", spec=using("c"))
    await cluster.clock.advance(19)
    assert framework.result("p").message.startswith("binding to n1 is under way")
    await cluster.clock.advance(2)
    message = framework.result("p").message
    assert message == 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'
    await cluster.clock.advance(5)  # the backoff
    Controller(cluster).work()
    await cluster.clock.advance(5)
    assert framework.result("p").node == "n1"


async def test_a_provisioner_that_gives_up_sends_the_pod_elsewhere(cluster: FakeCluster) -> None:
    """It takes the node's name off the claim; the pod is tried again, and may go to another node."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim())
    framework = cluster.framework()
    await framework.schedule("p", spec=using("c"))
    cluster.add_node("n2")
    cluster.patch(PersistentVolumeClaim, "c", {"metadata": {"annotations": {SELECTED: None, "tried": "n1"}}})
    cluster.patch(type(cluster.nodes()[0]), "n1", {"spec": {"unschedulable": True}})
    await cluster.clock.advance(1)
    assert 'provisioning failed for PVC "c"' in framework.result("p").message
    await cluster.clock.advance(10)
    assert get(cluster, PersistentVolumeClaim, "c").annotations[SELECTED] == "n2"
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n2"


async def test_a_volume_that_changes_under_the_write_is_looked_at_again(cluster: FakeCluster) -> None:
    """The write holds for the version that was decided upon; a conflict costs an attempt, nothing else."""
    cluster.add_node("n1")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner"), claim(), volume())
    framework = cluster.framework()
    await framework.start()
    bind = framework.plugin("VolumeBinding")._binder.bind

    async def meddle(*args: object) -> None:
        cluster.patch(PersistentVolume, "v", {"metadata": {"labels": {"changed": "meanwhile"}}})
        framework.plugin("VolumeBinding")._binder.bind = bind
        await bind(*args)

    framework.plugin("VolumeBinding")._binder.bind = meddle
    result = await framework.schedule("p", spec=using("c"))
    assert result.state == "pending"
    assert "the object has been modified" in result.message
    assert get(cluster, PersistentVolume, "v").spec.claim_ref is None
    await cluster.clock.advance(5)
    assert get(cluster, PersistentVolume, "v").spec.claim_ref.name == "c"
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n1"
    assert len(framework.plugin("VolumeBinding")._world.volumes) == 0


async def test_a_write_that_fails_gives_the_volume_back(cluster: FakeCluster) -> None:
    """Unreserve takes back what was assumed: the volume is free for the next pod at once."""
    cluster.add_node("n1")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner"), claim("c1"), claim("c2"), volume())
    framework = cluster.framework(allow_plugin_errors=True)
    await framework.start()
    volumes = framework.plugin("VolumeBinding")._world.volumes
    bind = framework.plugin("VolumeBinding")._binder.bind

    async def fail(*_: object) -> None:
        assert len(volumes) == 1
        raise RuntimeError("no")

    framework.plugin("VolumeBinding")._binder.bind = fail
    assert (await framework.schedule("p1", spec=using("c1"))).state == "pending"
    assert len(volumes) == 0
    framework.plugin("VolumeBinding")._binder.bind = bind
    await framework.schedule("p2", spec=using("c2"))
    assert get(cluster, PersistentVolume, "v").spec.claim_ref.name == "c2"


async def test_a_pod_that_is_deleted_meanwhile_is_not_waited_for(cluster: FakeCluster) -> None:
    """The binding cycle ends soon after the pod is gone, and the claim can be another pod's."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim())
    framework = cluster.framework()
    await framework.schedule("p", spec=using("c"))
    cluster.delete_pod("p")
    await cluster.clock.advance(2)
    await framework.schedule("q", spec=using("c"))
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert framework.result("q").node == "n1"


async def test_claims_that_come_or_are_bound_later_wake_the_pod(cluster: FakeCluster) -> None:
    """A missing claim, then one that is to be bound at once: each message names what is waited for."""
    cluster.add_node("n1")
    add(cluster, storage_class("fast", volumeBindingMode="Immediate"))
    framework = cluster.framework()
    missing = await framework.schedule("p", spec=using("c"))
    assert 'persistentvolumeclaim "c" not found' in missing.message
    add(cluster, claim(of="fast"))
    await cluster.clock.advance(10)
    assert "pod has unbound immediate PersistentVolumeClaims" in framework.result("p").message
    bound = volume("v", of="fast", promised_to="c", phase="Bound")
    bound["spec"]["claimRef"]["uid"] = get(cluster, PersistentVolumeClaim, "c").uid
    add(cluster, bound)
    Controller(cluster).bind()
    await cluster.clock.advance(30)
    assert framework.result("p").node == "n1"


async def test_an_ephemeral_volume_waits_for_its_claim_and_looks_at_its_owner(cluster: FakeCluster) -> None:
    """A claim of the right name that belongs to nobody is not taken."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim("q-scratch"))
    template = {"spec": claim()["spec"]}
    spec = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]}
    framework = cluster.framework()
    waiting = await framework.schedule("p", spec=spec)
    wanted = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"'
    assert wanted in waiting.message
    foreign = await framework.schedule("q", spec=spec)
    assert "PVC default/q-scratch was not created for pod default/q (pod is not owner)" in foreign.message
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": waiting.pod.uid, "controller": True}
    add(cluster, claim("p-scratch", metadata={"ownerReferences": [owner]}))
    await cluster.clock.advance(10)
    Controller(cluster).work()
    await cluster.clock.advance(2)
    assert framework.result("p").node == "n1"


async def test_a_lost_volume_is_told(cluster: FakeCluster) -> None:
    """The claim names a volume that is gone: VolumeZone sees it first, as in kube-scheduler."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim(volume="gone"))
    result = await cluster.framework().schedule("p", spec=using("c"))
    assert 'persistentvolume "gone" not found' in result.message


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 409, "times": 1}, id="conflict"),
        pytest.param({"status": 500, "times": 9}, id="server error"),
        pytest.param({"lose": "answer", "times": 1}, id="lost answer"),
    ],
)
@pytest.mark.parametrize("kind", ["persistentvolumeclaims", "persistentvolumes"])
async def test_writes_that_go_wrong_are_tried_again(cluster: FakeCluster, fault: dict[str, Any], kind: str) -> None:
    """Whatever becomes of the write to a claim or a volume, the pod is bound in the end."""
    cluster.add_node("n1")
    add(cluster, storage_class(), claim("made"), storage_class("local"), claim("taken", of="local"))
    add(cluster, volume(of="local"))
    armed = cluster.server.faults.add(Fault(path=f"/{kind}/", method="PATCH", **fault))
    framework = cluster.framework()
    await framework.schedule("p", spec=using("made", "taken"))
    for _ in range(60):
        await cluster.clock.advance(1)
        Controller(cluster).work()
    assert armed.hits == fault["times"]
    assert framework.result("p").node == "n1"
    assert {each.name for each in cluster.objects(PersistentVolume)} == {"v", "made-made"}


class Waits(PermitPlugin):
    """Holds all pods."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait(timeout=60)


async def test_a_trial_frees_the_volume_that_a_waiting_pod_has_taken(cluster: FakeCluster) -> None:
    """The volume is free for another pod while the first is evicted, and taken again afterwards."""
    cluster.add_node("n1")
    add(cluster, storage_class(provisioner="kubernetes.io/no-provisioner"), claim("c"), claim("d"), volume("v"))
    framework = cluster.framework(enable=[Waits])
    assert (await framework.schedule("p", spec=using("c"))).state == "waiting"
    other = PodInfo.of(cluster.add_pod("other", spec=using("d"), scheduler_name="nobody"))
    await framework.settle()
    async with framework.profile.handle.what_if() as trial:
        assert trial.find_node(other) == ""
        node = trial.snapshot.get("n1")
        assert node is not None
        with trial.statement.undo_at_end():
            trial.statement.evict(node.pods[0], "n1")
            assert trial.find_node(other) == "n1"
        assert trial.find_node(other) == ""
