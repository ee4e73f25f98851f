"""The checks of cache and snapshot notice what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from pyscheduler.cache.columns import Columns
    from tests.cache.conftest import World

TERM = {"labelSelector": {}, "topologyKey": "zone"}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


@pytest.fixture
def spoilt(make_world: type[World]) -> World:
    """Give a world that has something of everything; the test breaks it."""
    world = make_world()
    world.node("a", labels={"disk": "ssd"}, images={"red:1": 1}, taints=[{"key": "k", "effect": "NoSchedule"}])
    world.node("b", allocatable={"example.com/gpu": "4"}, status={"declaredFeatures": ["F"]})
    claims: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    world.bound("p", "a", requests={"cpu": "1", "example.com/gpu": "1"}, host_ports=[80], affinity=ANTI, spec=claims)
    world.assumed("q", "b")
    world.update().nodes.labels("disk")
    world.snapshot.nodes.host_port_conflicts("0.0.0.0", "TCP", 80)
    world.check()
    return world


def columns_of(world: World) -> Columns:
    """Return the columns of the snapshot."""
    return world.snapshot._columns


SNAPSHOT_BUGS: dict[str, Callable[[World], object]] = {
    "generation": lambda world: columns_of(world).usage._array.__setitem__((0, 0), 0),
    "pod count": lambda world: columns_of(world).usage._array.__setitem__((1, 0), 9),
    "non-zero cpu": lambda world: columns_of(world).usage._array.__setitem__((2, 1), 9),
    "requested gpu": lambda world: columns_of(world).usage._array.__setitem__((7, 1), 9),
    "a line is lost": lambda world: columns_of(world).usage.scalars.clear(),
    "allocatable": lambda world: columns_of(world).offered._array.__setitem__((0, 0), 9),
    "free rows": lambda world: columns_of(world).offered._array.__setitem__((0, 60), 9),
    "unschedulable": lambda world: columns_of(world)._unschedulable.__setitem__(0, True),
    "taints": lambda world: columns_of(world)._taint_ids.__setitem__(1, 1),
    "taint counts": lambda world: columns_of(world).taints.acquire(columns_of(world).taints.values[1]),
    "features": lambda world: columns_of(world)._feature_ids.__setitem__(0, 1),
    "feature counts": lambda world: columns_of(world).features.acquire(frozenset({"G"})),
    "label keys": lambda world: columns_of(world).labels._keys.__setitem__("gone", 1),
    "label values": lambda world: columns_of(world).labels._columns["disk"].ids.__setitem__(1, 1),
    "image rows": lambda world: columns_of(world).images.entries["red:1"].rows.add(1),
    "image counts": lambda world: setattr(columns_of(world).images.entries["red:1"], "num_nodes", 5),
    "ports": lambda world: columns_of(world).ports._rows.clear(),
    "port answers": lambda world: columns_of(world).ports._arrays["TCP", 80].update({"10.0.0.1": np.zeros(0)}),
    "claims": lambda world: columns_of(world).claims._nodes.update({"default/data": 2}),
    "affinity": lambda world: columns_of(world).affinity.rows.append(1),
    "anti-affinity": lambda world: columns_of(world).anti_affinity._members.clear(),
    "names": lambda world: columns_of(world).index.update({"a": 1}),
    "order": lambda world: setattr(world.snapshot, "_order", world.snapshot.order()[:1]),
    "sums of a node": lambda world: setattr(columns_of(world).infos[0].requested, "memory", 1),
    "lists of a node": lambda world: columns_of(world).infos[0].pods_with_affinity.clear(),
    "claims of a node": lambda world: columns_of(world).infos[1].pvc_ref_counts.update({"default/data": 1}),
}

CACHE_BUGS: dict[str, Callable[[World], object]] = {
    "sums": lambda world: setattr(world.cache._nodes["a"].requested, "milli_cpu", 1),
    "order of generations": lambda world: world.cache._nodes.move_to_end("a"),
    "a node ahead": lambda world: setattr(world.cache, "_generation", 0),
    "a pod is lost": lambda world: world.cache._pods.pop("uid-p"),
    "an unknown assumption": lambda world: world.cache._assumed.update({"uid-z": None}),
    "the tree": lambda world: world.cache._tree.remove("a"),
    "numbers of nodes": lambda world: world.cache._serials.pop("a"),
    "images": lambda world: setattr(world.cache._images.entries["red:1"], "num_nodes", 2),
    "a wrong name": lambda world: world.cache._nodes.update({"c": world.cache._nodes["b"]}),
    "removals": lambda world: world.cache._removals.append((-1, "z")),
}


@pytest.mark.parametrize("bug", SNAPSHOT_BUGS)
def test_the_snapshot_notices(spoilt: World, bug: str) -> None:
    """Anything that differs from what a look at the nodes gives is reported."""
    SNAPSHOT_BUGS[bug](spoilt)
    with pytest.raises(AssertionError):
        spoilt.snapshot.check_invariants()


@pytest.mark.parametrize("bug", CACHE_BUGS)
def test_the_cache_notices(spoilt: World, bug: str) -> None:
    """So it is with the cache."""
    CACHE_BUGS[bug](spoilt)
    with pytest.raises(AssertionError):
        spoilt.cache.check_invariants()
