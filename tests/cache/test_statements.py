"""Statements at random: every rollback finds everything identical to what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from hypothesis import given

from pyscheduler.cache.snapshot import Snapshot

if TYPE_CHECKING:
    from pyscheduler.framework import PodInfo
    from pyscheduler.framework.snapshot import Checkpoint
    from tests.cache.conftest import World

Look = Callable[[Snapshot], dict[str, object]]

TERM = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
AFFINITIES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
)

pods = st.fixed_dictionaries(
    {
        "requests": st.dictionaries(
            st.sampled_from(["cpu", "memory", "example.com/gpu", "example.com/nic"]), st.sampled_from(["1", "2"])
        ),
        "host_ports": st.lists(st.sampled_from([80, 443]), unique=True),
        "affinity": st.sampled_from(AFFINITIES),
        "labels": st.sampled_from([{}, {"app": "a"}, {"app": "b"}]),
        "spec": st.sampled_from([None, {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}]),
    }
)
nodes = st.fixed_dictionaries(
    {
        "labels": st.dictionaries(st.sampled_from(["zone", "disk"]), st.sampled_from(["1", "2", ""])),
        "images": st.dictionaries(st.sampled_from(["red:latest", "blue:latest"]), st.sampled_from([1, 2])),
        "taints": st.sampled_from([(), ({"key": "k", "effect": "NoSchedule"},)]),
    }
)
#: What is done, to which pod (place, evict, nominate) or checkpoint (rollback), on which node.
steps = st.tuples(
    st.sampled_from(["place", "evict", "nominate", "checkpoint", "rollback"]),
    st.integers(0, 7),
    st.integers(0, 3),
)


class Story:
    """A snapshot, the statements open on it, and what it looked like at each checkpoint."""

    def __init__(self, world: World, look: Look, pods: list[PodInfo]) -> None:
        self.snapshot = world.update()
        self.look = look
        self.placed = {pod.pod.uid: pod.pod.node_name for pod in pods if pod.pod.node_name}
        self.pods = pods
        self.open: list[tuple[Checkpoint, dict[str, object], dict[str, str]]] = []
        for key in ("zone", "disk"):
            self.snapshot.nodes.labels(key)

    def tell(self, action: str, number: int, node: int) -> None:
        """Do one step, if there is anything to do it to."""
        snapshot, names = self.snapshot, list(self.snapshot.names)
        name = names[node % len(names)]
        pod = self.pods[number % len(self.pods)]
        on = self.placed.get(pod.pod.uid)
        if action == "place" and on is None:
            snapshot.place(pod, name)
            self.placed[pod.pod.uid] = name
        elif action == "evict" and on is not None:
            snapshot.evict(pod, on)
            del self.placed[pod.pod.uid]
        elif action == "nominate":
            snapshot.nominate(pod, name)
        elif action == "checkpoint":
            self.open.append((snapshot.checkpoint(), self.look(snapshot), dict(self.placed)))
        elif self.open and action == "rollback":
            level = number % len(self.open)
            checkpoint, before, placed = self.open[level]
            del self.open[level:]
            snapshot.rollback(checkpoint)
            assert self.look(snapshot) == before
            self.placed = placed
        snapshot.check_invariants()


@given(
    node_specs=st.lists(nodes, min_size=1, max_size=4),
    pod_specs=st.lists(st.tuples(pods, st.none() | st.integers(0, 3)), min_size=1, max_size=8),
    story=st.lists(steps, max_size=25),
)
def test_a_rollback_restores_everything(
    make_world: type[World],
    raw: Look,
    picture: Look,
    node_specs: list[dict[str, Any]],
    pod_specs: list[tuple[dict[str, Any], int | None]],
    story: list[tuple[str, int, int]],
) -> None:
    """Whatever a statement did: all arrays, ids, counts, indices and objects are back, as in a snapshot made anew."""
    world = make_world()
    for number, spec in enumerate(node_specs):
        world.node(f"n{number}", **spec)
    infos = []
    for number, (spec, node) in enumerate(pod_specs):
        info = world.pod(f"p{number}", f"n{node % len(node_specs)}" if node is not None else "", **spec)
        if node is not None:
            world.cache.add_pod(info)
        infos.append(info)
    told = Story(world, raw, infos)
    for step in story:
        if not told.open:
            told.tell("checkpoint", 0, 0)
        told.tell(*step)
    if told.open:
        told.tell("rollback", 0, 0)
        assert picture(world.snapshot) == picture(world.fresh())
    world.update()
    assert picture(world.snapshot) == picture(world.fresh())
    world.check()
