"""VolumeRestrictions: disks and claims that only one pod may use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.api import Pod, Volume
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, NodeInfo, PodInfo, QueueingHint
from pyscheduler.plugins.volume_restrictions import VolumeRestrictions
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import StorageHandle, claim, read, using

SnapshotOf = Callable[..., Snapshot]
DISK: Final = "node(s) had no available disk"
IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
FIRED: Counter[str] = Counter()


def with_disks(name: str, *disks: Mapping[str, Any], **keywords: Any) -> Pod:
    """Make a pod that names disks itself."""
    return make_pod(
        name, spec={"volumes": [{"name": f"d{number}", **disk} for number, disk in enumerate(disks)]}, **keywords
    )


def gce(name: str, *, read_only: bool = False) -> dict[str, Any]:
    """Make a Google disk."""
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "i", pool: str = "p", read_only: bool = False) -> dict[str, Any]:
    """Make a Ceph image."""
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


def iscsi(iqn: str, *, portal: str = "here", read_only: bool = False) -> dict[str, Any]:
    """Make an iSCSI disk."""
    return {"iscsi": {"targetPortal": portal, "iqn": iqn, "lun": 0, "readOnly": read_only}}


def ebs(name: str, *, read_only: bool = False) -> dict[str, Any]:
    """Make an Amazon disk."""
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def refused(plugin: VolumeRestrictions, pod: Pod, snapshot: Snapshot) -> dict[str, str]:
    """Return why nodes are refused; every refusal can be helped by preemption."""
    state = CycleState()
    status = plugin.pre_filter(state, pod, snapshot.nodes)
    if status is not None:
        assert status.is_skip
        return {}
    statuses = plugin.filter_nodes(state, pod, snapshot.nodes)
    found = {snapshot.nodes.name(row): statuses.status(row) for row in range(len(snapshot.nodes))} if statuses else {}
    assert {status.code for status in found.values() if status is not None} <= {Code.UNSCHEDULABLE}
    return {name: status.message for name, status in found.items() if status is not None}


@pytest.mark.parametrize(
    ("ours", "theirs", "clash"),
    [
        pytest.param(gce("d"), gce("d"), True, id="gce"),
        pytest.param(gce("d", read_only=True), gce("d", read_only=True), False, id="gce, both read"),
        pytest.param(gce("d", read_only=True), gce("d"), True, id="gce, one writes"),
        pytest.param(gce("d"), gce("e"), False, id="gce, others"),
        pytest.param(ebs("d", read_only=True), ebs("d", read_only=True), True, id="aws, though both read"),
        pytest.param(ebs("d"), gce("d"), False, id="names of different kinds"),
        pytest.param(iscsi("q"), iscsi("q", portal="there"), True, id="iscsi, whatever the portal"),
        pytest.param(iscsi("q", read_only=True), iscsi("q", read_only=True), False, id="iscsi, both read"),
        pytest.param(rbd("a", "b"), rbd("b", "c"), True, id="rbd, a monitor in common"),
        pytest.param(rbd("a"), rbd("b"), False, id="rbd, no monitor in common"),
        pytest.param(rbd("a"), rbd("a", pool="q"), False, id="rbd, another pool"),
        pytest.param(rbd("a", read_only=True), rbd("a", read_only=True), False, id="rbd, both read"),
    ],
)
def test_a_disk_is_mounted_once_per_node(
    ours: dict[str, Any], theirs: dict[str, Any], clash: bool, snapshot_of: SnapshotOf
) -> None:
    """The node that has it is refused, the other is not; the pod that had it wakes who wants it when it goes."""
    there = with_disks("q", theirs, node_name="n1")
    snapshot = snapshot_of([make_node("n1"), make_node("n2")], [there])
    plugin = VolumeRestrictions(None, StorageHandle(snapshot))
    pod = with_disks("p", ours)
    assert refused(plugin, pod, snapshot) == ({"n1": DISK} if clash else {})
    hint = plugin.after_pod_deleted(pod, there, None)
    assert hint is (QueueingHint.QUEUE if clash else QueueingHint.SKIP)
    stranger = with_disks("q", theirs, node_name="n1", namespace="other")
    assert plugin.after_pod_deleted(pod, stranger, None) is QueueingHint.SKIP


def test_a_claim_of_one_pod_refuses_all_nodes_while_in_use(snapshot_of: SnapshotOf) -> None:
    """And none when preemption takes its user away, or when nobody uses it."""
    user = make_pod("q", node_name="n1", spec=using("c"))
    snapshot = snapshot_of([make_node("n1"), make_node("n2")], [user])
    plugin = VolumeRestrictions(None, StorageHandle(snapshot, [claim(accessModes=["ReadWriteOncePod"]), claim("d")]))
    pod = make_pod("p", spec=using("c"))
    assert refused(plugin, pod, snapshot) == {"n1": IN_USE, "n2": IN_USE}
    assert refused(plugin, make_pod("p", spec=using("d")), snapshot) == {}
    state = CycleState()
    assert plugin.pre_filter(state, pod, snapshot.nodes) is None
    copy = state.clone()
    node = snapshot.get("n1")
    assert isinstance(node, NodeInfo)
    plugin.remove_pod(copy, pod, PodInfo.of(user), node)
    statuses = plugin.filter_nodes(copy, pod, snapshot.nodes)
    assert statuses is None or statuses.passed().all()
    plugin.add_pod(copy, pod, PodInfo.of(user), node)
    for each in (state, copy):
        again = plugin.filter_nodes(each, pod, snapshot.nodes)
        assert again is not None
        assert not again.passed().any()


def test_a_missing_claim_rejects_the_pod(snapshot_of: SnapshotOf) -> None:
    """Its access modes cannot be read; the claim wakes the pod when it comes, other claims do not."""
    snapshot = snapshot_of([make_node("n")])
    plugin = VolumeRestrictions(None, StorageHandle(snapshot))
    pod = make_pod("p", spec=using("c"))
    status = plugin.pre_filter(CycleState(), pod, snapshot.nodes)
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        'persistentvolumeclaim "c" not found',
    )
    assert plugin.after_claim_added(pod, None, read(claim("c"))) is QueueingHint.QUEUE
    assert plugin.after_claim_added(pod, None, read(claim("d"))) is QueueingHint.SKIP
    elsewhere = read(claim("c", metadata={"namespace": "other"}))
    assert plugin.after_claim_added(pod, None, elsewhere) is QueueingHint.SKIP


def test_pods_with_the_same_claim_wake_each_other() -> None:
    """Whatever its access mode, which is not looked up for each event."""
    plugin = VolumeRestrictions(None, StorageHandle())
    pod = make_pod("p", spec=using("c"))
    assert plugin.after_pod_deleted(pod, make_pod("q", spec=using("c")), None) is QueueingHint.QUEUE
    assert plugin.after_pod_deleted(pod, make_pod("q", spec=using("d")), None) is QueueingHint.SKIP


# --- against the rule for two volumes -------------------------------------------------------------------------------


def clashes(ours: Volume, theirs: Volume) -> bool:
    """Tell whether two volumes cannot be mounted on one node."""
    if ours.gce_persistent_disk is not None and theirs.gce_persistent_disk is not None:
        one, other = ours.gce_persistent_disk, theirs.gce_persistent_disk
        return one.pd_name == other.pd_name and not (one.read_only and other.read_only)
    if ours.aws_elastic_block_store is not None and theirs.aws_elastic_block_store is not None:
        return ours.aws_elastic_block_store.volume_id == theirs.aws_elastic_block_store.volume_id
    if ours.iscsi is not None and theirs.iscsi is not None:
        return ours.iscsi.iqn == theirs.iscsi.iqn and not (ours.iscsi.read_only and theirs.iscsi.read_only)
    if ours.rbd is not None and theirs.rbd is not None:
        same = set(ours.rbd.monitors) & set(theirs.rbd.monitors) and ours.rbd.pool == theirs.rbd.pool
        return bool(same) and ours.rbd.image == theirs.rbd.image and not (ours.rbd.read_only and theirs.rbd.read_only)
    return False


def draw_pod(rng: Random, name: str, node: str = "") -> Pod:
    """Draw a pod with up to two disks."""
    read_only = rng.random() < 0.5
    kinds = [
        gce(rng.choice("de"), read_only=read_only),
        ebs(rng.choice("de")),
        iscsi(rng.choice("de"), read_only=read_only),
        rbd(*rng.sample("abc", rng.randrange(1, 3)), image=rng.choice("ij"), read_only=read_only),
    ]
    return with_disks(name, *rng.sample(kinds, rng.randrange(3)), node_name=node)


def live(rng: Random) -> None:
    """Let pods come and go, and compare with the rule for two volumes after every step."""
    cache, snapshot = Cache(), Snapshot()
    names = ["n1", "n2", "n3"]
    for name in names:
        cache.add_node(make_node(name))
    plugin = VolumeRestrictions(None, StorageHandle(snapshot))
    placed: list[PodInfo] = []
    for step in range(20):
        if placed and rng.random() < 0.4:
            cache.remove_pod(placed.pop(rng.randrange(len(placed))).pod)
        else:
            placed.append(PodInfo.of(draw_pod(rng, f"q{step}", rng.choice(names))))
            cache.add_pod(placed[-1])
        cache.update_snapshot(snapshot)
        pod = draw_pod(rng, "p")
        expected = {}
        for info in snapshot.nodes:
            pairs = (
                (ours, theirs) for each in info.pods for ours in pod.spec.volumes for theirs in each.pod.spec.volumes
            )
            found = [ours for ours, theirs in pairs if clashes(ours, theirs)]
            if found:
                expected[info.name] = DISK
            FIRED["clash" if found else "fits"] += 1
        assert refused(plugin, pod, snapshot) == expected


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_what_is_remembered_of_nodes_is_what_looking_at_each_pair_gives(rng: Random) -> None:
    """While pods come and go."""
    live(rng)


def test_both_answers_have_their_turn() -> None:
    """Among the same histories every time, nodes are refused and taken many times."""
    FIRED.clear()
    for seed in range(20):
        live(Random(seed))
    assert FIRED["clash"] >= 50
    assert FIRED["fits"] >= 50
