"""VolumeBinding against its rules written down once more for one node at a time, over random clusters."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kube_objects.csi_migration import disk_kind, translated_affinity
from pyscheduler.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    compile_label_selector,
    compile_node_selector,
    parse_quantity,
    quantity_value,
)
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, NodeStatuses, Status
from pyscheduler.plugins.volume_binding.placement import Choice
from pyscheduler.plugins.volume_binding.plugin import _STATE, VolumeBinding
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import (
    HOST,
    MIGRATED,
    SELECTED,
    ZONE,
    Manifest,
    StorageHandle,
    capacity,
    claim,
    csi_driver,
    csi_node,
    reachable_from,
    storage_class,
    using,
    volume,
)

UNREACHED: Final = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
NO_ROOM: Final = "node(s) did not have enough free storage"
LOST: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
GKE_ZONE: Final = "topology.gke.io/zone"

NODES: Final = ["n1", "n2", "n3", "n4"]
ZONES: Final = ["a", "b"]
SIZES: Final = ["1Gi", "2Gi", "3Gi"]
CLASSES: Final = ["made", "by-hand", "reported", "zoned"]
FIRED: Counter[str] = Counter()

SSD: Final = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
WRONG: Final = {"matchExpressions": [{"key": "disk", "operator": "Wrong"}]}
ANY_DISK: Final = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
NAMED: Final = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


def place(rng: Random) -> Manifest | None:
    """Draw from where a volume is reached."""
    zone = reachable_from(ZONE, rng.choice(ZONES))
    terms = rng.choice([[SSD], [ANY_DISK], [WRONG], [NAMED], [*zone["required"]["nodeSelectorTerms"], SSD]])
    host = reachable_from(HOST, rng.choice(NODES))
    return rng.choice([None, zone, zone, host, {"required": {"nodeSelectorTerms": terms}}])


def draw_volume(rng: Random, name: str, classes: list[str]) -> Manifest:
    """Draw a volume that is free, promised or bound; some are of a kind from before CSI."""
    return volume(
        name,
        of=rng.choice(classes),
        size=rng.choice(SIZES),
        at=place(rng),
        promised_to=rng.choice(["", "", "", "", "", "c0", "other"]),
        phase=rng.choice(["Available", "Available", "Available", "Released"]),
        labels=rng.choice([{}, {}, {"tier": "gold"}]),
        accessModes=rng.choice([["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]]),
        **rng.choice([{}, {}, {"gcePersistentDisk": {"pdName": name}}]),
    )


def draw_claim(rng: Random, name: str, classes: list[str]) -> Manifest:
    """Draw a claim that waits, or is bound to a volume that may be gone."""
    bound = rng.choice(["", "", "", "v0", "v1", "gone"])
    promised = {SELECTED: rng.choice(NODES)} if not bound and rng.random() < 0.1 else {}
    return claim(
        name,
        of=rng.choice(classes),
        size=rng.choice(SIZES),
        volume=bound,
        annotations=promised,
        accessModes=rng.choice([["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadOnlyMany"]]),
        **rng.choice([{}, {}, {}, {"selector": {"matchLabels": {"tier": "gold"}}}]),
    )


def draw_node(rng: Random, name: str) -> Node:
    """Draw a node."""
    zone = rng.choice([*ZONES, None])
    labels = {ZONE: zone, "disk": rng.choice(["ssd", "hdd", None]), GKE_ZONE: rng.choice([zone, None])}
    return make_node(name, labels={key: value for key, value in labels.items() if value is not None})


def draw_world(rng: Random) -> list[Manifest]:
    """Draw everything but nodes, volumes and claims."""
    topology = {"matchLabelExpressions": [{"key": ZONE, "values": [rng.choice(ZONES)]}]}
    world = [
        storage_class("made"),
        storage_class("by-hand", provisioner="kubernetes.io/no-provisioner"),
        storage_class("reported", provisioner="reporting.example.com"),
        storage_class("zoned", allowedTopologies=[topology]),
        csi_driver("reporting.example.com", storageCapacity=True),
    ]
    for number in range(rng.randrange(4)):
        selected = rng.choice([{}, {"topology": {}}, {"topology": {ZONE: rng.choice(ZONES)}}])
        limit = rng.choice([{}, {"maximumVolumeSize": "1Gi"}])
        world.append(capacity(f"r{number}", of="reported", capacity=rng.choice(SIZES), **selected, **limit))
    for name in NODES:
        served = rng.choice([None, {}, {MIGRATED: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}])
        if served is not None:
            world.append(csi_node(name, annotations=served))
    return world


# --- the rules ------------------------------------------------------------------------------------------------------


class Model:
    """The rules for one pod on one node."""

    def __init__(self, handle: StorageHandle, claims: list[PersistentVolumeClaim]) -> None:
        self.handle, self.claims = handle, claims

    def reaches(self, node: Node, each: PersistentVolume, *, bound: bool) -> bool:
        """Tell whether a node reaches a volume; a volume that is not bound yet is taken as it stands."""
        affinity = each.spec.node_affinity
        csi = self.handle.lister(CSINode).get(node.name)
        migrated = csi is not None and "kubernetes.io/gce-pd" in csi.annotations.get(MIGRATED, "").split(",")
        if bound and migrated and disk_kind(each.spec) is not None:
            affinity = translated_affinity(each)
            if affinity != each.spec.node_affinity:
                FIRED["translated"] += 1
        if affinity is None or affinity.required is None:
            return True
        return compile_node_selector(affinity.required).matches(node.labels, "")

    def find(self, wanted: PersistentVolumeClaim, node: Node, taken: set[str]) -> PersistentVolume | None:
        """Return the volume that a claim takes."""
        best: PersistentVolume | None = None
        for each in sorted(self.handle.lister(PersistentVolume), key=lambda one: one.name):
            if each.spec.storage_class_name != wanted.spec.storage_class_name or each.name in taken:
                continue
            reference = each.spec.claim_ref
            if reference is not None and reference.name != wanted.name:
                continue
            if size(each.spec.capacity) < size(wanted.spec.resources.requests):
                continue
            reached = self.reaches(node, each, bound=False)
            if reference is not None:
                FIRED["promised volume"] += 1
                return each if reached else None
            if each.status.phase != "Available" or not reached:
                continue
            if wanted.spec.selector is not None and not compile_label_selector(wanted.spec.selector).matches(
                each.labels
            ):
                FIRED["selector"] += 1
                continue
            if not set(wanted.spec.access_modes) <= set(each.spec.access_modes):
                FIRED["access mode"] += 1
                continue
            if best is None or size(each.spec.capacity) < size(best.spec.capacity):
                best = each
        return best

    def judge(self, node: Node) -> tuple[list[str], Choice]:
        """Return why the node is refused, and what would be done on it."""
        reasons = []
        for each in self.claims:
            if not each.spec.volume_name:
                continue
            there = self.handle.lister(PersistentVolume).get(each.spec.volume_name)
            if there is None:
                reasons.append(LOST)
                break
            if not self.reaches(node, there, bound=True):
                reasons.append(UNREACHED)
                break
        waiting = [each for each in self.claims if not each.spec.volume_name]
        promised = [each for each in waiting if SELECTED in each.annotations]
        if any(each.annotations[SELECTED] != node.name for each in promised):
            return in_order([*reasons, NO_VOLUME]), Choice()
        bindings, provisions = [], list(promised)
        taken: set[str] = set()
        for each in sorted(waiting, key=lambda one: size(one.spec.resources.requests)):
            if each in promised:
                continue
            found = self.find(each, node, taken)
            if found is None:
                provisions.append(each)
            else:
                taken.add(found.name)
                bindings.append((each, found))
        for each in provisions:
            refusal = self.cannot_make(each, node)
            if refusal:
                reasons.append(refusal)
                break
        return in_order(reasons), Choice(tuple(bindings), tuple(provisions))

    def cannot_make(self, wanted: PersistentVolumeClaim, node: Node) -> str:
        """Return why no volume can be made for a claim."""
        by = self.handle.lister(StorageClass).get(wanted.spec.storage_class_name)
        if by.provisioner == "kubernetes.io/no-provisioner":
            return NO_VOLUME
        terms = by.allowed_topologies
        if terms and not any(
            all(node.labels.get(each.key) in each.values for each in term.match_label_expressions) for term in terms
        ):
            FIRED["topology"] += 1
            return NO_VOLUME
        driver = self.handle.lister(CSIDriver).get(by.provisioner)
        if driver is None:
            return ""
        for each in self.handle.lister(CSIStorageCapacity):
            limit = each.maximum_volume_size or each.capacity
            if each.node_topology is None or quantity_value(limit) < quantity_value(
                wanted.spec.resources.requests["storage"]
            ):
                continue
            if compile_label_selector(each.node_topology).matches(node.labels):
                return ""
        return NO_ROOM


def in_order(reasons: list[str]) -> list[str]:
    """Return the reasons in the order in which users read them."""
    return sorted(reasons, key=[UNREACHED, NO_VOLUME, NO_ROOM, LOST].index)


def size(amounts: Any) -> int:
    """Return the amount of storage."""
    return parse_quantity(amounts["storage"])


def judged(plugin: VolumeBinding, pod: Pod, snapshot: Snapshot) -> tuple[CycleState, NodeStatuses | None]:
    """Run the plugin up to Filter."""
    state = CycleState()
    status = plugin.pre_filter(state, pod, snapshot.nodes)
    assert status is None, status
    return state, plugin.filter_nodes(state, pod, snapshot.nodes)


def compare(rng: Random) -> None:
    """Draw a cluster and a pod, and compare reasons and choices on each node."""
    drawn = [draw_node(rng, name) for name in NODES]
    manifests = draw_world(rng)
    # As a rule, claims of one class compete for the same volumes.
    classes = rng.choice([CLASSES, ["made"], ["by-hand"], ["zoned", "reported"]])
    manifests += [draw_volume(rng, f"v{number}", classes) for number in range(rng.randrange(2, 8))]
    names = [f"c{number}" for number in range(rng.randrange(1, 5))]
    manifests += [draw_claim(rng, name, classes) for name in names]
    # A pod may mount one claim twice; it is asked about twice.
    names += rng.choice([[], [], [], names[:1]])
    cache, snapshot = Cache(), Snapshot()
    for node in drawn:
        cache.add_node(node)
    cache.update_snapshot(snapshot)
    handle = StorageHandle(snapshot, manifests)
    state, statuses = judged(VolumeBinding(None, handle), make_pod("p", spec=using(*names)), snapshot)
    model = Model(handle, [handle.lister(PersistentVolumeClaim).get(name, "default") for name in names])
    for row in range(len(snapshot.nodes)):
        node = snapshot.nodes[row].node
        assert node is not None
        reasons, choice = model.judge(node)
        status = statuses.status(row) if statuses is not None else None
        assert status == (Status.unresolvable(*reasons) if reasons else None)
        for reason in reasons:
            FIRED[reason] += 1
        if not reasons:
            FIRED["fits"] += 1
            FIRED["takes several"] += len(choice.bindings) > 1
            FIRED["takes and makes"] += bool(choice.bindings and choice.provisions)
            FIRED["one claim twice"] += len(set(names)) < len(names)
            placement = state.read(_STATE).placement
            assert placement is not None
            assert placement.choose(node.labels) == choice


@given(st.randoms(use_true_random=False))
def test_all_nodes_at_once_are_judged_like_each_alone(rng: Random) -> None:
    """Reasons of every node, and what would be done on it: volumes taken and claims to make volumes for."""
    compare(rng)


@pytest.mark.slow
def test_every_rule_has_its_turn() -> None:
    """Among the same few hundred clusters every time, each rule decides several times."""
    FIRED.clear()
    for seed in range(400):
        compare(Random(seed))
    rules = {UNREACHED, NO_VOLUME, NO_ROOM, LOST, "fits", "takes several", "takes and makes", "translated"}
    rules |= {"one claim twice", "promised volume", "selector", "access mode", "topology"}
    assert all(FIRED[rule] >= 10 for rule in rules), FIRED
