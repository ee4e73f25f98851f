"""NodeVolumeLimits: how many volumes a node's CSI drivers can attach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_objects.csi_migration import MigrationError
from pyscheduler.api import Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, QueueingHint
from pyscheduler.plugins.node_volume_limits import hints
from pyscheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import (
    StorageHandle,
    attachment,
    claim,
    csi_driver,
    csi_node,
    read,
    storage_class,
    using,
    volume,
)

SnapshotOf = Callable[..., Snapshot]
FULL = "node(s) exceed max volume count"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
BAD_EBS = {"awsElasticBlockStore": {"volumeID": "aws://zone/nonsense"}}


def with_disk(name: str, disk: dict[str, Any], **keywords: Any) -> Pod:
    """Make a pod that names a disk itself."""
    return make_pod(name, spec={"volumes": [{"name": "d", **disk}]}, **keywords)


def refusals(plugin: NodeVolumeLimits, pod: Pod, snapshot: Snapshot) -> dict[str, tuple[Code, str]]:
    """Return code and reason of each node that is refused."""
    state = CycleState()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    statuses = plugin.filter_nodes(state, pod, snapshot.nodes)
    if statuses is None:
        return {}
    found = {snapshot.nodes.name(row): statuses.status(row) for row in range(len(statuses))}
    return {name: (status.code, status.message) for name, status in found.items() if status is not None}


@pytest.mark.parametrize(
    ("spec", "skipped"),
    [
        pytest.param({}, True, id="no volumes"),
        pytest.param({"volumes": [{"name": "v", "emptyDir": {}}]}, True, id="nothing to attach"),
        pytest.param({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, True, id="inline CSI"),
        pytest.param(using("c"), False, id="claim"),
        pytest.param({"volumes": [{"name": "v", "ephemeral": {}}]}, False, id="ephemeral"),
        pytest.param({"volumes": [{"name": "v", "azureFile": {"shareName": "s"}}]}, False, id="from before CSI"),
    ],
)
def test_pods_with_nothing_to_attach_are_skipped(spec: dict[str, Any], skipped: bool, snapshot_of: SnapshotOf) -> None:
    """Nothing is counted for them."""
    status = NodeVolumeLimits(None, StorageHandle()).pre_filter(
        CycleState(), make_pod("p", spec=spec), snapshot_of([]).nodes
    )
    assert (status is not None and status.is_skip) is skipped


def test_a_missing_claim_refuses_all_nodes_for_good(snapshot_of: SnapshotOf) -> None:
    """The pod waits for the claim; preempting pods does not help."""
    snapshot = snapshot_of([make_node("n")])
    found = refusals(NodeVolumeLimits(None, StorageHandle(snapshot)), make_pod("p", spec=using("c")), snapshot)
    message = 'looking up PVC default/c: persistentvolumeclaim "c" not found'
    assert found == {"n": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)}


def test_a_disk_from_before_csi_counts_where_there_is_csi(snapshot_of: SnapshotOf) -> None:
    """With its driver's limit, and only on nodes with a CSINode; one that makes no sense is an error there."""
    nodes = [make_node(name) for name in ("plain", "full", "free")]
    there = [with_disk("q", {"awsElasticBlockStore": {"volumeID": "vol-2"}}, node_name="full")]
    snapshot = snapshot_of(nodes, there)
    manifests = [csi_node("full", ebs_csi_aws_com=1), csi_node("free", ebs_csi_aws_com=1)]
    plugin = NodeVolumeLimits(None, StorageHandle(snapshot, manifests))
    assert refusals(plugin, with_disk("p", EBS), snapshot) == {"full": (Code.UNSCHEDULABLE, FULL)}
    bad = refusals(plugin, with_disk("p", BAD_EBS), snapshot)
    assert sorted(bad) == ["free", "full"]
    assert {code for code, _ in bad.values()} == {Code.ERROR}
    assert "converting volume(d) from inline to csi" in bad["free"][1]


def test_one_volume_is_attached_once(snapshot_of: SnapshotOf) -> None:
    """A pod that shares a volume with one that is there needs no room; elsewhere it does."""
    snapshot = snapshot_of([make_node("n1"), make_node("n2")], [make_pod("q", node_name="n1", spec=using("c"))])
    manifests = [claim(volume="v"), volume(), csi_node("n1", csi_example_com=1), csi_node("n2", csi_example_com=0)]
    plugin = NodeVolumeLimits(None, StorageHandle(snapshot, manifests))
    assert refusals(plugin, make_pod("p", spec=using("c")), snapshot) == {"n2": (Code.UNSCHEDULABLE, FULL)}


def test_an_attachment_counts_while_it_lasts(snapshot_of: SnapshotOf) -> None:
    """A volume whose pod is gone is still attached, until it is not."""
    snapshot = snapshot_of([make_node("n")])
    held = attachment("a", node="n", of="old")
    manifests = [storage_class(), claim(), volume("old"), csi_node("n", csi_example_com=1), held]
    handle = StorageHandle(snapshot, manifests)
    plugin = NodeVolumeLimits(None, handle)
    pod = make_pod("p", spec=using("c"))
    assert refusals(plugin, pod, snapshot) == {"n": (Code.UNSCHEDULABLE, FULL)}
    handle.drop(held)
    assert refusals(plugin, pod, snapshot) == {}


def test_a_driver_that_must_be_there_refuses_nodes_without_it(snapshot_of: SnapshotOf) -> None:
    """Only with VolumeLimitScaling, and only for a driver that says so."""
    snapshot = snapshot_of([make_node("bare"), make_node("other"), make_node("has")])
    manifests = [
        storage_class(),
        claim(),
        csi_driver(preventPodSchedulingIfMissing=True),
        csi_node("other", ebs_csi_aws_com=1),
        csi_node("has", csi_example_com=None),
    ]
    pod = make_pod("p", spec=using("c"))
    assert refusals(NodeVolumeLimits(None, StorageHandle(snapshot, manifests)), pod, snapshot) == {}
    scaling = StorageHandle(snapshot, manifests, gates={"VolumeLimitScaling": True})
    message = "csi.example.com CSI driver is not installed on the node"
    refused = (Code.UNSCHEDULABLE, message)
    assert refusals(NodeVolumeLimits(None, scaling), pod, snapshot) == {"bare": refused, "other": refused}


def test_a_foreign_claim_of_a_pod_that_is_there_is_an_error(snapshot_of: SnapshotOf) -> None:
    """What is attached cannot be told, as in kube-scheduler; nodes without limits do not care."""
    ephemeral = {"volumes": [{"name": "s", "ephemeral": {}}]}
    there = [make_pod("q", node_name=name, spec=ephemeral) for name in ("n",)]
    snapshot = snapshot_of([make_node("n"), make_node("m")], there)
    manifests = [storage_class(), claim(), claim("q-s"), csi_node("n", csi_example_com=5)]
    plugin = NodeVolumeLimits(None, StorageHandle(snapshot, manifests))
    found = refusals(plugin, make_pod("p", spec=using("c")), snapshot)
    assert found == {"n": (Code.ERROR, "PVC default/q-s was not created for pod default/q (pod is not owner)")}


def test_a_class_that_comes_is_counted(snapshot_of: SnapshotOf) -> None:
    """An unbound claim of a pod on the node counts once its class says who would make the volume."""
    there = [make_pod("q", node_name="n", spec=using("old"))]
    snapshot = snapshot_of([make_node("n")], there)
    manifests = [claim(volume="v"), volume(), claim("old", of="later"), csi_node("n", csi_example_com=1)]
    handle = StorageHandle(snapshot, manifests)
    plugin = NodeVolumeLimits(None, handle)
    pod = make_pod("p", spec=using("c"))
    assert refusals(plugin, pod, snapshot) == {}
    handle.put(storage_class("later"))
    assert refusals(plugin, pod, snapshot) == {"n": (Code.UNSCHEDULABLE, FULL)}


def test_a_detached_disk_wakes_pods_of_its_driver() -> None:
    """Or any pod with claims; a disk that has no driver's name is an error, which counts as Queue."""
    detached = read(attachment("a", node="n", of="v", driver="ebs.csi.aws.com"))
    assert hints.after_attachment_deleted(with_disk("p", EBS), detached, None) is QueueingHint.QUEUE
    other = {"cinder": {"volumeID": "x"}}
    assert hints.after_attachment_deleted(with_disk("p", other), detached, None) is QueueingHint.SKIP
    assert hints.after_attachment_deleted(make_pod("p", spec=using("c")), detached, None) is QueueingHint.QUEUE
    with pytest.raises(MigrationError, match="Invalid format for AWS volume"):
        hints.after_attachment_deleted(with_disk("p", BAD_EBS), detached, None)
