"""The cache against a naive model, over histories that no cluster would have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from pyscheduler.cache.errors import CacheError
from pyscheduler.testing.builders import make_node

if TYPE_CHECKING:
    from pyscheduler.api import Node
    from pyscheduler.framework import PodInfo
    from tests.cache.conftest import World

Look = Callable[..., dict[str, object]]

NODE_NAMES = st.sampled_from([f"n{number}" for number in range(5)])
POD_NAMES = st.sampled_from([f"p{number}" for number in range(8)])
TERM = {"labelSelector": {}, "topologyKey": "zone"}

NODE_SPECS = st.fixed_dictionaries(
    {
        "allocatable": st.dictionaries(st.sampled_from(["cpu", "example.com/gpu"]), st.sampled_from(["1", "8"])),
        "labels": st.dictionaries(
            st.sampled_from(["zone", "disk", "topology.kubernetes.io/zone"]), st.sampled_from(["", "1", "2"])
        ),
        "images": st.dictionaries(st.sampled_from(["red:latest", "blue:latest"]), st.sampled_from([1, 2])),
        "taints": st.sampled_from([(), ({"key": "k", "effect": "NoSchedule"},), ({"key": "l"},)]),
        "unschedulable": st.booleans(),
        "status": st.sampled_from([{}, {"declaredFeatures": ["F"]}]),
    }
)
POD_SPECS = st.fixed_dictionaries(
    {
        "requests": st.dictionaries(
            st.sampled_from(["cpu", "memory", "example.com/gpu", "example.com/nic"]), st.sampled_from(["1", "2"])
        ),
        "host_ports": st.lists(st.sampled_from([80, 443]), unique=True),
        "labels": st.sampled_from([{}, {"app": "a"}, {"app": "b"}]),
        "affinity": st.sampled_from(
            [None, {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}]
        ),
        "spec": st.sampled_from([None, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "logs"}}]}]),
    }
)


class History(RuleBasedStateMachine):
    """Does to a cache whatever informers and a scheduler might do, and keeps count in dicts."""

    def __init__(self, world: World, picture: Look, make_world: type[World]) -> None:
        super().__init__()
        self.world = world
        self.cache = world.cache
        self.picture = picture
        self.make_world = make_world
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, PodInfo] = {}
        self.assumed: set[str] = set()
        self.thoughts = 0

    def forget(self, name: str) -> None:
        """Drop a pod from the model."""
        self.pods.pop(name, None)
        self.assumed.discard(name)

    @rule(name=NODE_NAMES, spec=NODE_SPECS, adds=st.booleans())
    def put_node(self, name: str, spec: dict[str, Any], *, adds: bool) -> None:
        node = make_node(name, **spec)
        if adds:
            self.cache.add_node(node)
        else:
            self.cache.update_node(self.nodes.get(name), node)
        self.nodes[name] = node

    @rule(name=NODE_NAMES)
    def remove_node(self, name: str) -> None:
        node = self.nodes.pop(name, None)
        if node is None:
            with pytest.raises(CacheError):
                self.cache.remove_node(make_node(name))
        else:
            self.cache.remove_node(node)

    @rule(name=POD_NAMES, node=NODE_NAMES, spec=POD_SPECS)
    def assume(self, name: str, node: str, spec: dict[str, Any]) -> None:
        info = self.world.pod(name, node, **spec)
        if name in self.pods:
            with pytest.raises(CacheError):
                self.cache.assume_pod(info)
        else:
            self.cache.assume_pod(info)
            self.pods[name] = info
            self.assumed.add(name)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), node=st.none() | NODE_NAMES, spec=st.none() | POD_SPECS, labels=st.sampled_from(["", "new"]))
    def report_bound(self, data: st.DataObject, node: str | None, spec: dict[str, Any] | None, labels: str) -> None:
        """Confirm an assumption, as it was, with a label more, or on another node and with other requests."""
        name = data.draw(st.sampled_from(sorted(self.assumed)))
        info = self.pods[name]
        if labels:
            metadata = info.pod.metadata
            metadata = replace(metadata, labels={**metadata.labels, labels: ""})
            info = info.with_pod(replace(info.pod, metadata=metadata))
        if node is not None or spec is not None:
            info = self.world.pod(name, node or info.pod.node_name, **(spec or {}))
        self.cache.add_pod(info)
        self.forget(name)
        self.pods[name] = info

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def forget_assumed(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.assumed)))
        self.cache.forget_pod(self.pods[name].pod)
        self.forget(name)

    @rule(name=POD_NAMES, node=NODE_NAMES, spec=POD_SPECS)
    def add_foreign(self, name: str, node: str, spec: dict[str, Any]) -> None:
        info = self.world.pod(name, node, **spec)
        if name not in self.pods:
            self.cache.add_pod(info)
            self.pods[name] = info
        elif name not in self.assumed:
            with pytest.raises(CacheError):
                self.cache.add_pod(info)

    @rule(name=POD_NAMES, spec=POD_SPECS)
    def update(self, name: str, spec: dict[str, Any]) -> None:
        known = self.pods.get(name)
        info = self.world.pod(name, known.pod.node_name if known is not None else "n0", **spec)
        if known is None or name in self.assumed:
            with pytest.raises(CacheError):
                self.cache.update_pod(info.pod, info)
        else:
            self.cache.update_pod(known.pod, info)
            self.pods[name] = info

    @rule(name=POD_NAMES)
    def remove(self, name: str) -> None:
        known = self.pods.get(name)
        if known is None:
            with pytest.raises(CacheError):
                self.cache.remove_pod(self.world.pod(name, "n0").pod)
        else:
            self.cache.remove_pod(known.pod)
            self.forget(name)

    @rule(pod=POD_SPECS)
    def think(self, pod: dict[str, Any]) -> None:
        """Open a statement and roll it back."""
        snapshot = self.world.snapshot
        checkpoint = snapshot.checkpoint()
        for name in snapshot.names:
            self.thoughts += 1
            snapshot.place(self.world.pod(f"thought-{self.thoughts}", **pod), name)
        snapshot.rollback(checkpoint)
        snapshot.check_invariants()

    @rule()
    def update_snapshot(self) -> None:
        """Find the snapshot as one made at once, and as one of a cache that was told the outcome only."""
        snapshot = self.world.update()
        snapshot.check_invariants()
        fresh = self.world.fresh()
        assert self.picture(snapshot) == self.picture(fresh)
        generations = [
            dict(zip((info.name for info in each.nodes), each.nodes.generations().tolist(), strict=True))
            for each in (snapshot, fresh)
        ]
        assert generations[0] == generations[1]
        rebuilt = self.make_world()
        for info in self.pods.values():
            rebuilt.cache.add_pod(info)
        for node in self.nodes.values():
            rebuilt.cache.add_node(node)
        # The size of an image depends on who reported it first.
        assert self.picture(snapshot, sizes=False) == self.picture(rebuilt.update(), sizes=False)
        order = [snapshot.nodes.name(row) for row in snapshot.order()]
        assert order == [fresh.nodes.name(row) for row in fresh.order()]

    @invariant()
    def counts_agree(self) -> None:
        """Find in the cache what the model knows."""
        self.cache.check_invariants()
        assert self.cache.pod_count == len(self.pods)
        assert self.cache.assumed_count == len(self.assumed)
        for name, info in self.pods.items():
            assert self.cache.get_pod(f"uid-{name}") is info
            assert self.cache.is_assumed(f"uid-{name}") is (name in self.assumed)
        assert self.cache.node_count == len(self.nodes.keys() | {info.pod.node_name for info in self.pods.values()})

    def teardown(self) -> None:
        """Whatever happened, the next update puts the snapshot right."""
        self.update_snapshot()


@pytest.mark.slow
def test_any_history_gives_the_same_snapshot(make_world: type[World], picture: Look) -> None:
    """Nodes and pods in any order, assumptions that end in every way, statements in between."""
    run_state_machine_as_test(
        lambda: History(make_world(), picture, make_world),
        settings=settings(stateful_step_count=40),
    )
