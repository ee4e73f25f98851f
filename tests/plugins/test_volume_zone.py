"""VolumeZone: a pod goes to the zone and region of its volumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kube_objects.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Code, CycleState, QueueingHint
from pyscheduler.plugins.volume_zone import VolumeZone
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import Manifest, StorageHandle, claim, read, storage_class, using, volume

SnapshotOf = Callable[..., Snapshot]
OUTSIDE: Final = "node(s) had no available volume zone"
LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
FIRED: Counter[str] = Counter()


def refused(plugin: VolumeZone, snapshot: Snapshot, *claims: str, pre_filter: bool = True) -> set[str]:
    """Return the nodes that are refused, unresolvably."""
    state, pod = CycleState(), make_pod("p", spec=using(*claims))
    if pre_filter:
        status = plugin.pre_filter(state, pod, snapshot.nodes)
        if status is not None:
            assert status.is_skip
            return set()
    statuses = plugin.filter_nodes(state, pod, snapshot.nodes)
    found = {snapshot.nodes.name(row): statuses.status(row) for row in range(len(snapshot.nodes))} if statuses else {}
    assert {(s.code, s.message) for s in found.values() if s} <= {(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, OUTSIDE)}
    return {name for name, status in found.items() if status is not None}


@pytest.mark.parametrize(
    ("labels", "outside"),
    [
        pytest.param({ZONE: "a"}, {"b", "old"}, id="a zone; old labels do not stand for new ones"),
        pytest.param({ZONE: "a__"}, set(), id="an empty zone makes the label void"),
    ],
)
def test_a_volume_says_where_it_is(labels: dict[str, str], outside: set[str], snapshot_of: SnapshotOf) -> None:
    """Nodes elsewhere are refused; one without any such label is nowhere, and is not."""
    drawn: list[tuple[str, Mapping[str, str]]] = [
        ("a", {ZONE: "a", REGION: "r"}),
        ("b", {ZONE: "b", REGION: "r"}),
        ("old", {BETA_ZONE: "a"}),
        ("nowhere", {}),
    ]
    snapshot = snapshot_of([make_node(name, labels=each) for name, each in drawn])
    plugin = VolumeZone(None, StorageHandle(snapshot, [claim(volume="v"), volume(labels=labels)]))
    assert refused(plugin, snapshot, "c") == outside
    assert refused(plugin, snapshot, "c", pre_filter=False) == outside


@pytest.mark.parametrize(
    ("manifests", "name", "message"),
    [
        pytest.param([], "c", 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param([], "", "PersistentVolumeClaim had no name", id="no name"),
        pytest.param([claim(volume="v")], "c", 'persistentvolume "v" not found', id="no volume"),
        pytest.param(
            [claim(of=None)], "c", "PersistentVolumeClaim had no pv name and storageClass name", id="no class"
        ),
        pytest.param([claim(of="x")], "c", 'storageclass.storage.k8s.io "x" not found', id="missing class"),
        pytest.param(
            [claim(), storage_class(volumeBindingMode="Immediate")], "c", "PersistentVolume had no name", id="unbound"
        ),
        pytest.param(
            [claim(), storage_class(volumeBindingMode=None)],
            "c",
            'VolumeBindingMode not set for StorageClass "slow"',
            id="no mode",
        ),
    ],
)
def test_what_cannot_be_told_rejects_the_pod(
    manifests: list[Manifest], name: str, message: str, snapshot_of: SnapshotOf
) -> None:
    """In PreFilter, or on all nodes where a profile disables that."""
    snapshot = snapshot_of([make_node("n")])
    plugin, pod = VolumeZone(None, StorageHandle(snapshot, manifests)), make_pod("p", spec=using(name))
    expected = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, message)
    status = plugin.pre_filter(CycleState(), pod, snapshot.nodes)
    assert (status.code, status.message) == expected
    statuses = plugin.filter_nodes(CycleState(), pod, snapshot.nodes)
    assert statuses is not None
    found = statuses.status(0)
    assert found is not None
    assert (found.code, found.message) == expected


def test_a_claim_that_waits_for_the_pod_is_nowhere(snapshot_of: SnapshotOf) -> None:
    """Its volume will be where the pod goes."""
    snapshot = snapshot_of([make_node("n", labels={ZONE: "a"})])
    plugin = VolumeZone(None, StorageHandle(snapshot, [claim(), storage_class()]))
    assert refused(plugin, snapshot, "c") == set()


def test_hints() -> None:
    """Classes that wait, claims of the pod's, and volumes that are new or somewhere else."""
    plugin, pod = VolumeZone(None, StorageHandle()), make_pod("p", spec=using("c"))
    queue, skip = QueueingHint.QUEUE, QueueingHint.SKIP
    assert plugin.after_class_added(pod, None, read(storage_class())) is queue
    assert plugin.after_class_added(pod, None, read(storage_class(volumeBindingMode="Immediate"))) is skip
    assert plugin.after_claim_change(pod, None, read(claim("c"))) is queue
    assert plugin.after_claim_change(pod, None, read(claim("d"))) is skip
    here, there = read(volume(labels={ZONE: "a"})), read(volume(labels={ZONE: "b", "color": "red"}))
    painted = read(volume(labels={ZONE: "a", "color": "red"}))
    assert plugin.after_volume_change(pod, None, here) is queue
    assert plugin.after_volume_change(pod, here, there) is queue
    assert plugin.after_volume_change(pod, here, painted) is skip


# --- against the rule for one node ----------------------------------------------------------------------------------


def compare(rng: Random) -> None:
    """Draw nodes and volumes, and compare with the rule for one node and one label."""

    def labels(values: list[str | None]) -> dict[str, str]:
        drawn = {label: rng.choice(values) for label in LABELS}
        return {label: value for label, value in drawn.items() if value is not None}

    nodes = [make_node(f"n{number}", labels=labels(["a", "b", None, None])) for number in range(5)]
    values: list[Any] = ["a", "a__b", None, None, None]
    volumes = [volume(f"v{number}", labels=labels(values)) for number in range(2)]
    manifests = [*volumes, *(claim(f"c{number}", volume=f"v{number}") for number in range(2))]
    cache, snapshot = Cache(), Snapshot()
    for node in nodes:
        cache.add_node(node)
    cache.update_snapshot(snapshot)
    expected = set()
    for node in nodes:
        for each in volumes:
            for label, zones in each["metadata"]["labels"].items():
                successor = label.replace("failure-domain.beta", "topology")
                value = node.labels.get(label, node.labels.get(successor))
                if set(LABELS) & set(node.labels) and value not in zones.split("__"):
                    expected.add(node.name)
        FIRED["outside" if node.name in expected else "inside"] += 1
    assert refused(VolumeZone(None, StorageHandle(snapshot, manifests)), snapshot, "c0", "c1") == expected


@given(st.randoms(use_true_random=False))
def test_all_nodes_at_once_are_judged_like_each_alone(rng: Random) -> None:
    """Labels old and new, several zones, two volumes."""
    compare(rng)


def test_both_answers_have_their_turn() -> None:
    """Among the same clusters every time."""
    FIRED.clear()
    for seed in range(100):
        compare(Random(seed))
    assert min(FIRED["outside"], FIRED["inside"]) >= 50
