"""NodeVolumeLimits against its rules written down once more for one node, over random histories of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.api import CSINode, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, VolumeAttachment
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, PodInfo
from pyscheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from pyscheduler.testing.builders import make_node, make_pod
from tests.plugins.storage import Manifest, StorageHandle, attachment, claim, csi_node, storage_class, using, volume

FULL: Final = "node(s) exceed max volume count"
NODES: Final = ["n1", "n2", "n3"]
CLAIMS: Final = [f"c{number}" for number in range(6)]
DRIVERS: Final = ["csi.example.com", "pd.csi.storage.gke.io"]
FIRED: Counter[str] = Counter()


def draw_claim(rng: Random, name: str) -> Manifest:
    """Draw a claim, bound or to be bound by one of the classes."""
    number = rng.randrange(4)
    return claim(name, of=rng.choice(["slow", "gce", "gone"]), volume=rng.choice(["", "", f"v{number}", "missing"]))


def draw_volume(rng: Random, name: str) -> Manifest:
    """Draw a volume of CSI, of a kind from before it, or of neither."""
    disk: dict[str, Any] = rng.choice(
        [{}, {}, {"gcePersistentDisk": {"pdName": name}}, {"azureDisk": {"diskURI": "x"}}]
    )
    return volume(name, **disk)


def draw_csi_node(rng: Random, name: str) -> Manifest:
    """Draw the limits of a node; a driver may have none."""
    limits = {driver.replace(".", "_"): rng.choice([None, 0, 1, 2, 3]) for driver in DRIVERS}
    return csi_node(name, **limits)


def draw_pod(rng: Random, name: str, node: str = "") -> Pod:
    """Draw a pod with claims, and perhaps a disk from before CSI."""
    spec = using(*rng.sample(CLAIMS, rng.randrange(4)))
    if rng.random() < 0.3:
        disk = {"pdName": f"inline-{rng.randrange(2)}"}
        spec["volumes"].append({"name": "disk", "gcePersistentDisk": disk})
    return make_pod(name, node_name=node, spec=spec)


class Model:
    """The rules, looked up anew each time."""

    def __init__(self, handle: StorageHandle) -> None:
        self.handle = handle

    def volumes(self, pod: Pod, *, csi: bool) -> set[tuple[str, str]]:
        """Return driver and handle of the pod's volumes."""
        found = set()
        for each in pod.spec.volumes:
            if each.persistent_volume_claim is not None:
                name = each.persistent_volume_claim.claim_name
                wanted = self.handle.lister(PersistentVolumeClaim).get(name, pod.namespace)
                known = self.behind(wanted, csi=csi) if wanted is not None else None
            elif each.gce_persistent_disk is not None and csi:
                known = (DRIVERS[1], f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{each.gce_persistent_disk.pd_name}")
            else:
                known = None
            if known is not None:
                found.add(known)
        return found

    def behind(self, wanted: PersistentVolumeClaim, *, csi: bool) -> tuple[str, str] | None:
        """Return driver and handle of a claim's volume."""
        bound = self.handle.lister(PersistentVolume).get(wanted.spec.volume_name)
        if bound is None:
            of = self.handle.lister(StorageClass).get(wanted.spec.storage_class_name)
            if of is None:
                return None
            if of.provisioner == "kubernetes.io/gce-pd":
                return (DRIVERS[1], f"claim {wanted.name}") if csi else None
            return of.provisioner, f"claim {wanted.name}"
        if bound.spec.csi is not None:
            return bound.spec.csi.driver, bound.spec.csi.volume_handle
        if not csi:
            return None
        if bound.spec.gce_persistent_disk is not None:
            return DRIVERS[1], f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{bound.spec.gce_persistent_disk.pd_name}"
        return "disk.csi.azure.com", "x"

    def refusal(self, pod: Pod, name: str, there: Sequence[PodInfo]) -> str | None:
        """Return why a node with these pods is refused."""
        csi = self.handle.lister(CSINode).get(name)
        if csi is None:
            return None
        used = {each for info in there for each in self.volumes(info.pod, csi=True)}
        attached = set()
        for each in self.handle.lister(VolumeAttachment):
            bound = self.handle.lister(PersistentVolume).get(each.spec.source.persistent_volume_name)
            if each.spec.node_name == name and bound is not None and bound.spec.csi is not None:
                attached.add((each.spec.attacher, bound.spec.csi.volume_handle))
        FIRED["attached, not used"] += bool(attached - used)
        new = self.volumes(pod, csi=True)
        FIRED["shared"] += bool(new & used)
        for driver in csi.spec.drivers:
            limit = driver.allocatable.count if driver.allocatable is not None else None
            wanted = sum(each[0] == driver.name for each in new - used)
            if (
                limit is not None
                and wanted
                and sum(each[0] == driver.name for each in used | attached) + wanted > limit
            ):
                FIRED[f"full of {driver.name}"] += 1
                return FULL
        return None


class History:
    """A cluster to which things happen, and the plugin beside it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.cache, self.snapshot = Cache(), Snapshot()
        self.handle = StorageHandle(
            self.snapshot, [storage_class("slow"), storage_class("gce", provisioner="kubernetes.io/gce-pd")]
        )
        for name in NODES:
            self.cache.add_node(make_node(name))
            self.handle.put(draw_csi_node(rng, name))
        for name in CLAIMS:
            self.handle.put(draw_claim(rng, name))
        for number in range(4):
            self.handle.put(draw_volume(rng, f"v{number}"))
        self.pods: list[PodInfo] = []
        self.plugin = NodeVolumeLimits(None, self.handle)
        self.version = 1

    def go_on(self) -> None:
        """Let one thing happen."""
        rng = self.rng
        self.version += 1
        what = rng.choice(["pod", "pod", "pod gone", "claim", "volume", "limits", "attachment", "nothing"])
        if what == "pod":
            info = PodInfo.of(draw_pod(rng, f"p{self.version}", rng.choice(NODES)))
            self.pods.append(info)
            self.cache.add_pod(info)
        elif what == "pod gone" and self.pods:
            self.cache.remove_pod(self.pods.pop(rng.randrange(len(self.pods))).pod)
        elif what == "claim":
            self.handle.put(draw_claim(rng, rng.choice(CLAIMS)), version=str(self.version))
        elif what == "volume":
            self.handle.put(draw_volume(rng, f"v{rng.randrange(4)}"), version=str(self.version))
        elif what == "limits":
            self.handle.put(draw_csi_node(rng, rng.choice(NODES)), version=str(self.version))
        elif what == "attachment":
            made = attachment(f"a{rng.randrange(3)}", node=rng.choice(NODES), of=f"v{rng.randrange(4)}")
            if self.handle.lister(VolumeAttachment).get(made["metadata"]["name"]) is not None and rng.random() < 0.5:
                self.handle.drop(made)
            else:
                self.handle.put(made, version=str(self.version))
        self.cache.update_snapshot(self.snapshot)

    def compare(self) -> None:
        """Ask plugin and model about a pod; once more where another pod is put on a node in a what-if."""
        pod = draw_pod(self.rng, "incoming")
        self._compare(pod)
        if self.rng.random() < 0.5:
            with self.snapshot.undo_at_end():
                self.snapshot.place(PodInfo.of(draw_pod(self.rng, "imagined")), self.rng.choice(NODES))
                self._compare(pod)
            self._compare(pod)

    def _compare(self, pod: Pod) -> None:
        nodes = self.snapshot.nodes
        statuses = self.plugin.filter_nodes(CycleState(), pod, nodes)
        model = Model(self.handle)
        for row in range(len(nodes)):
            status = statuses.status(row) if statuses is not None else None
            expected = model.refusal(pod, nodes.name(row), nodes[row].pods)
            assert (status.message if status is not None else None) == expected
            FIRED["fits"] += expected is None


def live(rng: Random) -> None:
    """Let a cluster live for a while, and compare after every step."""
    history = History(rng)
    for _ in range(25):
        history.go_on()
        history.compare()


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_what_is_kept_up_to_date_is_what_counting_anew_gives(rng: Random) -> None:
    """After any change to pods, claims, volumes, limits or attachments, and within what-ifs."""
    live(rng)


@pytest.mark.slow
def test_every_rule_has_its_turn() -> None:
    """Among the same histories every time, each rule decides several times."""
    FIRED.clear()
    for seed in range(40):
        live(Random(seed))
    rules = {"fits", "shared", "attached, not used", *(f"full of {driver}" for driver in DRIVERS)}
    assert all(FIRED[rule] >= 10 for rule in rules), FIRED
