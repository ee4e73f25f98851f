"""What an update costs: as much as changed, however large the cluster is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pytest

from pyscheduler.api import selector_from_labels
from pyscheduler.testing.builders import make_node

if TYPE_CHECKING:
    from tests.cache.conftest import World


APP: Final = selector_from_labels({"app": "a"})
NAMESPACES: Final = frozenset({"default"})


def calls(act: Callable[[], object]) -> int:
    """Return how many functions, Python's and C's, are called while `act` runs."""
    number = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal number
        number += event in {"call", "c_call"}

    gc.disable()  # whose callbacks would be counted
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(None)
        gc.enable()
    return number


def costs(world: World) -> dict[str, int]:
    """Return the number of calls for each kind of change, in a world whose snapshot is up to date."""
    cache, snapshot = world.cache, world.snapshot
    nodes = [make_node(f"n{number}", labels={"disk": "ssd"}) for number in (0, 20)]
    pod = world.pod("what-if", requests={"cpu": "1"}, host_ports=[80])

    def changed(act: Callable[[], object]) -> int:
        act()
        return calls(world.update)

    def think() -> None:
        with snapshot.undo_at_end():
            snapshot.place(pod, "n3")

    return {
        "nothing": calls(world.update),
        "assume": changed(lambda: world.assumed("p", "n7", requests={"cpu": "1"})),
        "remove a pod": changed(lambda: cache.remove_pod(world.pod("p", "n7").pod)),
        "update a node": changed(lambda: cache.update_node(None, nodes[0])),
        "add a node": changed(lambda: world.node("new")),
        "remove a node": changed(lambda: cache.remove_node(nodes[1])),
        "what if": calls(think),
        "affinity pods": calls(lambda: bool(snapshot.nodes_with_affinity_pods)),
        "a column": calls(lambda: snapshot.nodes.requested("cpu")),
        "labels": calls(lambda: snapshot.nodes.labels("disk")),
        "matching pods": changed_matches(world),
        "ports": calls(lambda: snapshot.nodes.host_port_conflicts("0.0.0.0", "TCP", 80)),
    }


def changed_matches(world: World) -> int:
    """Return the number of calls for a question asked before, after one pod came."""
    world.assumed("asked", "n7", labels={"app": "a"})
    nodes = world.update().nodes
    return calls(lambda: nodes.matching_pods(APP, NAMESPACES))


@pytest.mark.slow
def test_work_follows_what_changed_not_the_size_of_the_cluster(make_world: type[World]) -> None:
    """With 30 nodes and with 1,500 the same changes take the same number of calls."""
    found = []
    for size in (30, 1500):
        world = make_world()
        for number in range(size):
            world.node(f"n{number}", labels={"disk": "ssd"})
            world.bound(f"bound-{number}", f"n{number}")
        world.update().nodes.labels("disk")
        world.update().nodes.matching_pods(APP, NAMESPACES)
        # Room for the node that comes, so that neither world has to grow just then.
        assert world.snapshot._columns._capacity > size
        found.append(costs(world))
    assert found[0] == found[1]
    assert max(found[1].values()) < 300, found[1]
