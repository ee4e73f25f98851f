"""What stands for all amounts of a row: equal where every amount is, and nowhere else."""

from __future__ import annotations

from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.testing.builders import make_node, make_pod


def test_equally_full_nodes_are_equal_and_the_number_of_pods_counts() -> None:
    """Two pods of half the size are not one pod."""
    cache, snapshot = Cache(), Snapshot()
    for name in ("a", "b", "c"):
        cache.add_node(make_node(name))
    for name, node, cpu in (("1", "a", "1"), ("2", "b", "1"), ("3", "c", "500m"), ("4", "c", "500m")):
        cache.add_pod(make_pod(name, node_name=node, requests={"cpu": cpu, "memory": "0"}))
    cache.update_snapshot(snapshot)
    one, same, other = (snapshot.nodes.amounts(row) for row in range(3))
    assert one == same
    assert one != other


def test_what_was_said_of_other_resources_is_not_mistaken() -> None:
    """When a line comes to mean another resource, nothing from before is equal to anything."""
    cache, snapshot = Cache(), Snapshot()
    seen = set()
    for number in range(12):
        cache.add_node(make_node("a", allocatable={f"example.com/r{number}": "1"}))
        cache.update_snapshot(snapshot)
        seen.add(snapshot.nodes.amounts(0))
    assert len(seen) == 12


def test_amounts_beyond_64_bits_are_told_apart_as_far_as_they_are_kept() -> None:
    """Sums wrap around in the columns, and what stands for them is made of the columns then."""
    cache, snapshot = Cache(), Snapshot()
    for name, memory in (("a", 2**63 - 1), ("b", 2**63 - 1), ("c", 2**62)):
        cache.add_node(make_node(name))
        for number in range(2):
            cache.add_pod(make_pod(f"{name}{number}", node_name=name, requests={"memory": str(memory)}))
    cache.update_snapshot(snapshot)
    one, same, other = (snapshot.nodes.amounts(row) for row in range(3))
    assert snapshot.nodes.requested("memory").tolist() == [-2, -2, -(2**63)]
    assert one == same
    assert one != other
