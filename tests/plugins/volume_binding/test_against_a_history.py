"""What VolumeBinding assumes for pods that were reserved, against the same written down once more, over histories.

Volumes and claims change, come and go while pods hold some of them in thought; what the API server says ends what was
assumed, and so does giving it back, unless somebody has assumed something else since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from pyscheduler.api import KubeObject, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import CycleState, Status
from pyscheduler.plugins.volume_binding.placement import Choice
from pyscheduler.plugins.volume_binding.plugin import VolumeBinding
from pyscheduler.testing.builders import make_pod
from tests.plugins.storage import SELECTED, StorageHandle, using
from tests.plugins.volume_binding.test_against_a_model import (
    NODES,
    Model,
    draw_claim,
    draw_node,
    draw_volume,
    draw_world,
    judged,
)

CLAIMS: Final = ["c0", "c1", "c2"]
VOLUMES: Final = [f"v{number}" for number in range(6)]
MARK: Final = "pv.kubernetes.io/bound-by-controller"
FIRED: Counter[str] = Counter()


class Assumed:
    """The objects of one kind as they are assumed to be: what the model looks at."""

    def __init__(self, lister: Any) -> None:
        self.lister = lister
        self.stands_in: dict[str, KubeObject] = {}

    def get(self, name: str, namespace: str = "") -> Any:
        """Return an object; what was assumed of another version of it does not count any more."""
        stored = self.lister.get(name, namespace)
        assumed = self.stands_in.get(name)
        if assumed is not None and (stored is None or stored.resource_version != assumed.resource_version):
            FIRED["overtaken"] += 1
            del self.stands_in[name]
        return self.stands_in.get(name, stored)

    def __iter__(self) -> Iterator[Any]:
        return (self.get(each.name, each.namespace) for each in list(self.lister))

    def give_back(self, assumed: KubeObject) -> None:
        """Let the stored object be true again, unless what stands in for it is of another version."""
        there = self.stands_in.get(assumed.name)
        if there is not None and there.resource_version == assumed.resource_version:
            FIRED["given back"] += 1
            del self.stands_in[assumed.name]


class Sight:
    """A handle by which the model sees what is assumed."""

    def __init__(self, handle: StorageHandle) -> None:
        self.handle = handle
        self.volumes = Assumed(handle.lister(PersistentVolume))
        self.claims = Assumed(handle.lister(PersistentVolumeClaim))

    def lister(self, kind: type) -> Any:
        """Return a lister."""
        return self.volumes if kind is PersistentVolume else self.handle.lister(kind)


class History:
    """A cluster to which things happen, the plugin, and what the model knows."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.version = 1
        self.classes = rng.choice([["made"], ["by-hand"], ["by-hand", "made"], ["zoned", "reported"]])
        #: The class of a claim does not change.
        self.class_of = {name: rng.choice(self.classes) for name in CLAIMS}
        cache, self.snapshot = Cache(), Snapshot()
        for name in NODES:
            cache.add_node(draw_node(rng, name))
        cache.update_snapshot(self.snapshot)
        self.handle = StorageHandle(self.snapshot, draw_world(rng))
        self.sight = Sight(self.handle)
        self.plugin = VolumeBinding(None, self.handle)
        #: Pods that hold something, where, and what is assumed for them.
        self.held: list[tuple[CycleState, Pod, str, list[tuple[Assumed, KubeObject]]]] = []
        for name in CLAIMS:
            self.put_claim(name)
        for name in VOLUMES:
            self.put_volume(name)

    def put_volume(self, name: str) -> None:
        """Make or change a volume."""
        self.version += 1
        self.handle.put(draw_volume(self.rng, name, self.classes), version=str(self.version))

    def put_claim(self, name: str) -> None:
        """Make or change a claim."""
        self.version += 1
        self.handle.put(draw_claim(self.rng, name, [self.class_of[name]]), version=str(self.version))

    def go_on(self) -> None:
        """Let one thing happen."""
        rng = self.rng
        what = rng.choice(["pod", "pod", "pod", "volume", "volume", "claim", "unreserve", "written"])
        if what == "pod":
            self.schedule()
        elif what == "volume":
            name = rng.choice(VOLUMES)
            if self.handle.lister(PersistentVolume).get(name) is not None and rng.random() < 0.3:
                self.handle.lister(PersistentVolume).drop(name, "")
            else:
                self.put_volume(name)
        elif what == "claim":
            name = rng.choice(CLAIMS)
            if self.handle.lister(PersistentVolumeClaim).get(name, "default") is not None and rng.random() < 0.2:
                self.handle.lister(PersistentVolumeClaim).drop(name)
            else:
                self.put_claim(name)
        elif what == "unreserve" and self.held:
            state, pod, node, assumed = self.held.pop(rng.randrange(len(self.held)))
            self.plugin.unreserve(state, pod, node)
            for known, each in assumed:
                known.give_back(each)
        elif what == "written":
            self.hear_of_a_write()

    def hear_of_a_write(self) -> None:
        """Let the API server say what was assumed of something."""
        sight = self.sight
        assumed = [(each, known) for known in (sight.volumes, sight.claims) for each in known.stands_in.values()]
        if assumed:
            each, known = self.rng.choice(assumed)
            if known.get(each.name, each.namespace) is each:
                FIRED["written"] += 1
                self.version += 1
                metadata = msgspec.structs.replace(each.metadata, resource_version=str(self.version))
                known.lister.put(msgspec.structs.replace(each, metadata=metadata))

    def schedule(self) -> None:
        """Judge a pod, compare, and reserve it on one of the nodes that fit."""
        names = self.rng.choices(CLAIMS, k=self.rng.choice([1, 1, 2, 3]))
        claims = [self.sight.claims.get(name, "default") for name in names]
        if None in claims:
            return
        pod = make_pod("p", spec=using(*names))
        state, statuses = judged(self.plugin, pod, self.snapshot)
        model = Model(self.sight, claims)
        fit: dict[str, Choice] = {}
        for row in range(len(self.snapshot.nodes)):
            node = self.snapshot.nodes[row].node
            assert node is not None
            reasons, choice = model.judge(node)
            status = statuses.status(row) if statuses is not None else None
            assert status == (Status.unresolvable(*reasons) if reasons else None)
            if not reasons:
                fit[node.name] = choice
        if fit and not all(each.spec.volume_name for each in claims):
            node_name = self.rng.choice(sorted(fit))
            assert self.plugin.reserve(state, pod, node_name) is None
            self.held.append((state, pod, node_name, self.assume(fit[node_name], node_name)))

    def assume(self, choice: Choice, node_name: str) -> list[tuple[Assumed, KubeObject]]:
        """Note what follows from a choice; return what there is to give back."""
        assumed: list[tuple[Assumed, KubeObject]] = []
        held: list[tuple[Assumed, KubeObject]] = []
        for wanted, taken in choice.bindings:
            reference = taken.spec.claim_ref
            marks = {} if reference is not None else {MARK: "yes"}
            named = ObjectReference(
                api_version="v1",
                kind="PersistentVolumeClaim",
                namespace="default",
                name=wanted.name,
                uid=wanted.uid,
                resource_version=wanted.resource_version,
            )
            if reference is not None and reference.uid:
                # Nothing is left to write, but whoever gives it back gives it back for all, as in kube-scheduler.
                FIRED["shared volume"] += 1
                held.append((self.sight.volumes, taken))
                continue
            metadata = msgspec.structs.replace(taken.metadata, annotations={**taken.annotations, **marks})
            spec = msgspec.structs.replace(taken.spec, claim_ref=named)
            assumed.append((self.sight.volumes, msgspec.structs.replace(taken, metadata=metadata, spec=spec)))
        for wanted in choice.provisions:
            FIRED["shared claim"] += SELECTED in wanted.annotations
            annotations = {**wanted.annotations, SELECTED: node_name}
            metadata = msgspec.structs.replace(wanted.metadata, annotations=annotations)
            assumed.append((self.sight.claims, msgspec.structs.replace(wanted, metadata=metadata)))
        for known, each in assumed:
            known.stands_in[each.name] = each
        FIRED["assumed"] += len(assumed)
        return assumed + held

    def compare(self) -> None:
        """Compare what plugin and model take for true."""
        for name in VOLUMES:
            assert self.plugin._world.volumes.get(name) == self.sight.volumes.get(name)
        for name in CLAIMS:
            assert self.plugin._claims.get(name, "default") == self.sight.claims.get(name, "default")


def live(rng: Random) -> None:
    """Let a cluster live for a while, and compare after every step."""
    history = History(rng)
    for _ in range(40):
        history.go_on()
        history.compare()


@pytest.mark.slow
@given(st.randoms(use_true_random=False))
def test_what_is_assumed_is_what_was_decided_and_not_overtaken(rng: Random) -> None:
    """Through changes of volumes and claims, reservations, those given back, and news of writes."""
    live(rng)


@pytest.mark.slow
def test_every_rule_has_its_turn() -> None:
    """Among the same histories every time, each rule decides several times."""
    FIRED.clear()
    for seed in range(60):
        live(Random(seed))
    rules = {"assumed", "overtaken", "given back", "written", "shared volume", "shared claim"}
    assert all(FIRED[rule] >= 10 for rule in rules), FIRED
