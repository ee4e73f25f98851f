"""VolumeBinding extension point by extension point: what it says of claims, reserves, waits for and gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyscheduler.api import Node, PersistentVolume, PersistentVolumeClaim, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, PreBindPreFlightResult, QueueingHint, StateNotFoundError, Status
from pyscheduler.framework.in_tree_args import UtilizationShapePoint, VolumeBindingArgs
from pyscheduler.plugins.volume_binding.hints import after_csi_node_change
from pyscheduler.plugins.volume_binding.plugin import VolumeBinding
from pyscheduler.plugins.volume_binding.scoring import score_use, shape_of
from pyscheduler.testing import FakeCluster, VirtualClock
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import (
    COMPLETED,
    HOST,
    MIGRATED,
    SELECTED,
    ZONE,
    Controller,
    Manifest,
    StorageHandle,
    add,
    capacity,
    claim,
    csi_driver,
    csi_node,
    get,
    reachable_from,
    read,
    storage_class,
    using,
    volume,
)

SnapshotOf = Callable[..., Snapshot]
POD = make_pod("p", spec=using("c"))
BY_HAND = storage_class(provisioner="kubernetes.io/no-provisioner")


class Client:
    """Takes patches, and gives back the objects that follow from them in version 2."""

    def __init__(self) -> None:
        self.patches: list[tuple[str, Mapping[str, Any]]] = []

    async def patch(self, kind: type, name: str, namespace: str = "", *, patch: Mapping[str, Any]) -> Any:
        """Remember the patch."""
        self.patches.append((name, patch))
        return read({"kind": kind.__name__, "metadata": {"name": name, "namespace": namespace}}, version="2")


def made(snapshot: Snapshot, *manifests: Manifest, **gates: bool) -> tuple[StorageHandle, VolumeBinding]:
    """Make the plugin, with a client, a clock, a node and the pod to look up."""
    handle = StorageHandle(snapshot, manifests, gates)
    handle.client = Client()
    handle.clock = VirtualClock()
    handle.lister(Node).put(make_node("n1"))
    handle.lister(Pod).put(POD)
    return handle, VolumeBinding(None, handle)


@pytest.mark.parametrize(
    ("manifests", "code", "message"),
    [
        pytest.param(
            [],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            'persistentvolumeclaim "c" not found',
            id="missing",
        ),
        pytest.param(
            [{**claim(bound=False), "status": {"phase": "Lost"}}],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            'persistentvolumeclaim "c" bound to non-existent persistentvolume ""',
            id="lost",
        ),
        pytest.param(
            [claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            'persistentvolumeclaim "c" is being deleted',
            id="being deleted",
        ),
        pytest.param(
            [claim(of=None)],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
            id="no class",
        ),
        pytest.param(
            [claim(volume="v", bound=False), storage_class()],
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "pod has unbound immediate PersistentVolumeClaims",
            id="names a volume, is not bound yet",
        ),
        pytest.param(
            [claim(), storage_class(volumeBindingMode=None)],
            Code.ERROR,
            'VolumeBindingMode not set for StorageClass "slow"',
            id="a class without a mode",
        ),
    ],
)
def test_claims_that_make_the_pod_wait(
    manifests: list[Manifest], code: Code, message: str, snapshot_of: SnapshotOf
) -> None:
    """Whatever node it might go to."""
    snapshot = snapshot_of([make_node("n1")])
    _, plugin = made(snapshot, *manifests)
    status = plugin.pre_filter(CycleState(), POD, snapshot.nodes)
    assert (status.code, status.message) == (code, message)


def test_pods_without_claims_have_nothing_to_bind(snapshot_of: SnapshotOf) -> None:
    """They are skipped, and so is PreBind."""
    snapshot = snapshot_of([make_node("n1")])
    _, plugin = made(snapshot)
    state, pod = CycleState(), make_pod("p")
    assert plugin.pre_filter(state, pod, snapshot.nodes).is_skip
    assert plugin.filter_nodes(state, pod, snapshot.nodes) is None
    assert plugin.reserve(state, pod, "n1") is None
    assert plugin.pre_bind_pre_flight(state, pod, "n1").is_skip
    plugin.unreserve(state, pod, "n1")
    plugin.unreserve(CycleState(), pod, "n1")


def test_a_profile_without_pre_filter_does_not_pass_over_claims(snapshot_of: SnapshotOf) -> None:
    """Pods without claims go on; one with claims would be placed as if it had none, so that is an error."""
    snapshot = snapshot_of([make_node("n1")])
    _, plugin = made(snapshot, claim(), storage_class())
    state, plain = CycleState(), make_pod("q")
    assert plugin.filter_nodes(state, plain, snapshot.nodes) is None
    assert plugin.reserve(state, plain, "n1") is None
    assert plugin.pre_bind_pre_flight(state, plain, "n1").is_skip
    for method in (plugin.reserve, plugin.pre_bind_pre_flight):
        with pytest.raises(StateNotFoundError):
            method(state, POD, "n1")
    with pytest.raises(StateNotFoundError):
        plugin.filter_nodes(state, POD, snapshot.nodes)


def filtered(plugin: VolumeBinding, snapshot: Snapshot, pod: Pod = POD) -> CycleState:
    """Run the plugin up to Filter; every node fits."""
    state = CycleState()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    statuses = plugin.filter_nodes(state, pod, snapshot.nodes)
    assert statuses is None or statuses.passed().all()
    return state


@pytest.mark.parametrize(
    ("manifests", "message"),
    [
        pytest.param([claim(of="slow"), storage_class()], 'failed to find storage class "slow"', id="class gone"),
        pytest.param([claim(size="much"), storage_class()], "quantity 'much' is malformed", id="a size that is none"),
        pytest.param(
            [
                claim(selector={"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]}),
                storage_class(),
            ],
            "not a valid label selector operator",
            id="a selector that is none",
        ),
    ],
)
def test_what_makes_no_sense_is_an_error_of_the_attempt(
    manifests: list[Manifest], message: str, snapshot_of: SnapshotOf
) -> None:
    """The pod is tried again; the plugin does not raise."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, *manifests)
    state = CycleState()
    assert plugin.pre_filter(state, POD, snapshot.nodes) is None
    if "find" in message:
        handle.drop(storage_class())
    statuses = plugin.filter_nodes(state, POD, snapshot.nodes)
    assert statuses is not None
    status = statuses.status(0)
    assert status is not None
    assert status.code == Code.ERROR
    assert message in status.message
    assert handle.recorder.stages == ["predicate"]


def test_a_volume_that_cannot_be_read_is_passed_over(snapshot_of: SnapshotOf) -> None:
    """And so is a report of room; others are taken."""
    snapshot = snapshot_of([make_node("n1")])
    _, plugin = made(snapshot, claim(), BY_HAND, volume("a", size="much"), volume("b"))
    state = filtered(plugin, snapshot)
    assert plugin.reserve(state, POD, "n1") is None
    assert plugin._world.volumes.get("b").spec.claim_ref.name == "c"
    reports = [capacity("r", capacity="much", topology={}), capacity("s", capacity="9Gi", topology={})]
    _, plugin = made(snapshot, claim(), storage_class(), csi_driver(storageCapacity=True), *reports)
    filtered(plugin, snapshot)


def test_a_reservation_that_fails_half_way_keeps_nothing(snapshot_of: SnapshotOf) -> None:
    """The volume of the first claim is free again when the second claim has changed."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, claim("c"), storage_class(), claim("d", size="9Gi"), volume())
    pod = make_pod("p", spec=using("c", "d"))
    state = filtered(plugin, snapshot, pod)
    handle.put(claim("d", size="9Gi"), version="2")
    status = plugin.reserve(state, pod, "n1")
    assert status is not None
    assert '"default/d" is out of sync' in status.message
    assert len(plugin._world.volumes) == len(plugin._claims) == 0


def test_a_volume_that_goes_before_it_is_reserved_costs_an_attempt(snapshot_of: SnapshotOf) -> None:
    """The loop may turn in between; a claim whose class makes no volumes must not be told to wait for one."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, claim(), BY_HAND, volume())
    state = filtered(plugin, snapshot)
    handle.drop(volume())
    status = plugin.reserve(state, POD, "n1")
    assert status is not None
    assert (status.code, status.message) == (
        Code.ERROR,
        'volumes have changed since node "n1" was chosen',
    )
    handle.put(volume("w"))
    assert plugin.reserve(state, POD, "n1") is None
    assert plugin._world.volumes.get("w").spec.claim_ref.name == "c"


def test_what_was_reserved_before_does_not_count_once_the_claims_are_bound(snapshot_of: SnapshotOf) -> None:
    """A member of a group is reserved in thought first; when its claims are bound by then, nothing is to be written."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, claim(), BY_HAND, volume())
    state = filtered(plugin, snapshot)
    assert plugin.reserve(state, POD, "n1") is None
    plugin.unreserve(state, POD, "n1")
    handle.put(claim(volume="v"), version="2")
    assert plugin.reserve(state, POD, "n1") is None
    status = plugin.pre_bind_pre_flight(state, POD, "n1")
    assert isinstance(status, Status)
    assert status.is_skip


@pytest.mark.parametrize(
    ("promised_to", "uid", "patch"),
    [
        pytest.param(
            "",
            "",
            {"metadata": {"resourceVersion": "1", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}},
            id="free",
        ),
        pytest.param("c", "", {"metadata": {"resourceVersion": "1"}}, id="named by its maker, without uid"),
        pytest.param("c", "uid-c", None, id="named already"),
    ],
)
async def test_what_is_written_to_a_volume(
    promised_to: str,
    uid: str,
    patch: dict[str, Any] | None,
    snapshot_of: SnapshotOf,
) -> None:
    """The claim's name, uid and version; a mark where the claim was found for it; the version it holds for."""
    snapshot = snapshot_of([make_node("n1")])
    offered = volume(promised_to=promised_to)
    if uid:
        offered["spec"]["claimRef"]["uid"] = uid
    handle, plugin = made(snapshot, claim(), BY_HAND, offered)
    state = filtered(plugin, snapshot)
    assert plugin.reserve(state, POD, "n1") is None
    assert plugin.pre_bind_pre_flight(state, POD, "n1") == PreBindPreFlightResult(allow_parallel=True)
    handle.put(claim(volume="v"), version="2")
    handle.put({**offered, "spec": {**offered["spec"], "claimRef": {"name": "c", "uid": "uid-c"}}}, version="2")
    finished = await past(handle.clock, plugin.pre_bind(state, POD, "n1"))
    assert finished is None
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": "uid-c",
        "resourceVersion": "1",
    }
    expected = [] if patch is None else [("v", {**patch, "spec": {"claimRef": reference}})]
    assert handle.client.patches == expected


async def past(clock: VirtualClock, work: Any, seconds: float = 5) -> Any:
    """Await something that waits on the clock."""
    task = asyncio.ensure_future(work)
    await clock.advance(seconds)
    return await task


def taken(**changes: Any) -> Manifest:
    """Make the volume as it is once written."""
    made_of = volume(promised_to="c", **changes)
    made_of["spec"]["claimRef"]["uid"] = "uid-c"
    return made_of


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda h: h.drop(volume()), 'failed to check binding: persistentvolumes "v" not found', id="gone"),
        pytest.param(
            lambda h: (h.put(taken(), version="2"), h.drop(claim())),
            'failed to check binding: persistentvolumeclaims "default/c" not found',
            id="claim gone",
        ),
        pytest.param(lambda h: h.put(volume(), version="2"), 'ClaimRef got reset for pv "v"', id="unbound again"),
        pytest.param(
            lambda h: h.put(taken(at=reachable_from(ZONE, "x")), version="2"),
            'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="moved",
        ),
        pytest.param(
            lambda h: (
                h.put(csi_node("n1", annotations={MIGRATED: "kubernetes.io/aws-ebs"})),
                h.put(taken(awsElasticBlockStore={"volumeID": "aws://zone/none"}), version="2"),
            ),
            "failed to translate pv to csi: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://zone/none)",
            id="no equivalent in CSI",
        ),
        pytest.param(
            lambda h: h.lister(Node).drop("n1", ""), 'failed to get node "n1": node "n1" not found', id="node gone"
        ),
        pytest.param(
            lambda h: h.lister(Pod).drop("p"), 'pod does not exist any more: pod "p" not found', id="pod gone"
        ),
        pytest.param(lambda h: None, "context deadline exceeded", id="nothing happens"),
        pytest.param(lambda h: h.put(taken(), version="2"), "context deadline exceeded", id="the claim is left alone"),
    ],
)
async def test_bindings_that_are_given_up(
    change: Callable[[StorageHandle], object], message: str, snapshot_of: SnapshotOf
) -> None:
    """The status says why; the pod is tried again."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, claim(), BY_HAND, volume())
    state = filtered(plugin, snapshot)
    assert plugin.reserve(state, POD, "n1") is None
    change(handle)
    status = await past(handle.clock, plugin.pre_bind(state, POD, "n1"), 601)
    assert (status.code, status.message) == (Code.ERROR, f"binding volumes: {message}")
    assert handle.recorder.stages == ["bind"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            lambda h: h.drop(claim()),
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
            id="claim gone",
        ),
        pytest.param(
            lambda h: h.put(claim(), version="2"), 'selectedNode annotation reset for PVC "c"', id="no annotations"
        ),
        pytest.param(
            lambda h: h.put(claim(annotations={SELECTED: "n2"}), version="2"),
            'provisioning failed for PVC "c"',
            id="another node",
        ),
        pytest.param(
            lambda h: (
                h.put(claim(annotations={SELECTED: "n1"}, volume="v"), version="2"),
                h.put(volume(at=reachable_from(HOST, "n2"))),
            ),
            'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="made elsewhere",
        ),
        pytest.param(
            lambda h: h.put(claim(annotations={SELECTED: "n1"}, volume="v"), version="2"),
            "context deadline exceeded",
            id="its volume is never seen",
        ),
    ],
)
async def test_provisioning_that_is_given_up(
    change: Callable[[StorageHandle], object], message: str, snapshot_of: SnapshotOf
) -> None:
    """The status says why; the pod is tried again, perhaps elsewhere."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, claim(), storage_class())
    state = filtered(plugin, snapshot)
    assert plugin.reserve(state, POD, "n1") is None
    assert plugin._claims.get("c", "default").annotations == {SELECTED: "n1"}
    change(handle)
    status = await past(handle.clock, plugin.pre_bind(state, POD, "n1"), 601)
    assert handle.client.patches == [("c", {"metadata": {"resourceVersion": "1", "annotations": {SELECTED: "n1"}}})]
    assert (status.code, status.message) == (Code.ERROR, f"binding volumes: {message}")


async def test_news_that_are_older_than_the_write_are_waited_out(snapshot_of: SnapshotOf) -> None:
    """The claim without the annotation is the one from before it; only then it counts as given up."""
    snapshot = snapshot_of([make_node("n1")])
    handle, plugin = made(snapshot, claim(), storage_class())
    state = filtered(plugin, snapshot)
    assert plugin.reserve(state, POD, "n1") is None
    handle.clock.call_later(
        3.5, lambda: (handle.put(volume()), handle.put(claim(annotations={SELECTED: "n1"}, volume="v"), version="3"))
    )
    assert await past(handle.clock, plugin.pre_bind(state, POD, "n1"), 4.5) is None


def test_a_volume_from_before_csi_is_reached_by_its_drivers_zone(snapshot_of: SnapshotOf) -> None:
    """On nodes where CSI serves such disks; one that makes no sense there is an error there."""
    zone = {"topology.gke.io/zone": "a"}
    nodes = [make_node("old", labels={ZONE: "a"}), make_node("new", labels=zone), make_node("far", labels=zone)]
    snapshot = snapshot_of(nodes)
    served = {MIGRATED: "kubernetes.io/gce-pd"}
    disk = volume("v", at=reachable_from(ZONE, "a"), gcePersistentDisk={"pdName": "d"})
    _, plugin = made(snapshot, claim(volume="v"), disk, csi_node("new", annotations=served), csi_node("far"))
    state = CycleState()
    assert plugin.pre_filter(state, POD, snapshot.nodes) is None
    statuses = plugin.filter_nodes(state, POD, snapshot.nodes)
    assert statuses is not None
    refused = {snapshot.nodes.name(row) for row in range(3) if statuses.status(row) is not None}
    assert refused == {"far"}
    bad = volume("v", gcePersistentDisk={"pdName": "d"}, labels={ZONE: "x__y"})
    handle, plugin = made(snapshot, claim(volume="v"), bad, csi_node("new", annotations=served))
    plugin.pre_filter(state, POD, snapshot.nodes)
    statuses = plugin.filter_nodes(state, POD, snapshot.nodes)
    assert statuses is not None
    errors = {snapshot.nodes.name(row): statuses.status(row) for row in range(3) if statuses.status(row)}
    assert sorted(errors) == ["new"]
    assert errors["new"].code == Code.ERROR
    assert "could not translate pv: failed to get region from zones" in errors["new"].message
    assert handle.recorder.stages == ["predicate"]


# --- scoring, which is off by default -------------------------------------------------------------------------------

SHAPE = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))


@pytest.mark.parametrize(
    ("manifests", "expected"),
    [
        pytest.param(
            [
                claim(size="1Gi"),
                BY_HAND,
                volume("a", size="4Gi", at=reachable_from(HOST, "n1")),
                volume("b", size="9Gi"),
            ],
            [25, 11],
            id="volumes that would be taken",
        ),
        pytest.param(
            [
                claim(size="1Gi"),
                storage_class(),
                csi_driver(storageCapacity=True),
                capacity("r", capacity="2Gi", topology={HOST: "n1"}),
                capacity("s", capacity="10Gi", topology={HOST: "n2"}),
            ],
            [50, 10],
            id="room that is reported",
        ),
        pytest.param([claim(), storage_class()], [0, 0], id="nothing is known"),
    ],
)
def test_scores_by_the_use_of_storage(manifests: list[Manifest], expected: list[int], snapshot_of: SnapshotOf) -> None:
    """What the pod asks for in percent of what there is, by the shape; with the gate StorageCapacityScoring only."""
    snapshot = snapshot_of([make_node("n1"), make_node("n2")])
    _, plain = made(snapshot, *manifests)
    state = filtered(plain, snapshot)
    assert plain.pre_score(state, POD, snapshot.nodes).is_skip
    assert plain.score_nodes(state, POD, snapshot.nodes).tolist() == [0, 0]
    handle = StorageHandle(snapshot, manifests, {"StorageCapacityScoring": True})
    plugin = VolumeBinding(VolumeBindingArgs(shape=SHAPE), handle)
    state = filtered(plugin, snapshot)
    assert plugin.pre_score(state, POD, snapshot.nodes) is None
    assert plugin.score_nodes(state, POD, snapshot.nodes).tolist() == expected


async def test_scores_decide_in_a_whole_scheduler(cluster: FakeCluster) -> None:
    """With the gate and the default shape, the node that would be used best is chosen."""
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    add(cluster, BY_HAND, claim())
    for name, size in (("n1", "9Gi"), ("n2", "2Gi"), ("n3", "5Gi")):
        add(cluster, volume(f"v-{name}", size=size, at=reachable_from(HOST, name)))
    framework = cluster.framework(feature_gates="StorageCapacityScoring=true")
    await framework.schedule("p", spec=using("c"))
    Controller(cluster).work()
    await cluster.clock.advance(2)
    bound = framework.result("p")
    assert get(cluster, PersistentVolumeClaim, "c").annotations[COMPLETED]
    assert bound.node in {"n1", "n2"}
    assert get(cluster, PersistentVolume, f"v-{bound.node}").spec.claim_ref is not None


def test_more_than_there_is_counts_as_full() -> None:
    """As does a class without any room at all; the mean is rounded half up."""
    shape = shape_of(SHAPE)
    assert score_use({}, shape) == 0
    assert score_use({"a": (5, 4)}, shape) == 100
    assert score_use({"a": (5, 0)}, shape) == 100
    assert score_use({"a": (1, 4), "b": (2, 4)}, shape) == 38
    assert shape == ((0, 0), (100, 100))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(None, {}, QueueingHint.QUEUE, id="new"),
        pytest.param({}, {MIGRATED: "kubernetes.io/aws-ebs"}, QueueingHint.QUEUE, id="serves other disks"),
        pytest.param({}, {MIGRATED: ""}, QueueingHint.SKIP, id="says that it serves none"),
        pytest.param({MIGRATED: "a"}, {MIGRATED: "a", "b": "c"}, QueueingHint.SKIP, id="something else"),
    ],
)
def test_which_changes_of_a_csi_node_matter(
    before: Mapping[str, str] | None, after: Mapping[str, str], expected: QueueingHint
) -> None:
    """Whether there is one, and which disks from before CSI it serves."""
    old = read(csi_node("n1", annotations=before)) if before is not None else None
    assert after_csi_node_change(POD, old, read(csi_node("n1", annotations=after))) is expected
