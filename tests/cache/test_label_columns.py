"""Label columns: made when asked for, kept up to date, gone with their key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.testing.builders import make_node

if TYPE_CHECKING:
    from pyscheduler.cache.snapshot import Snapshot
    from tests.cache.conftest import World


def values(snapshot: Snapshot, key: str) -> list[str | None]:
    """Return the value of a label on each node, by way of the column."""
    column = snapshot.nodes.labels(key)
    return [column.values[number] for number in column.ids]


def made(snapshot: Snapshot) -> set[str]:
    """Return the keys for which there is a column."""
    return set(snapshot._columns.labels._columns)


def test_a_column_is_made_when_first_asked_for(world: World) -> None:
    """Keys that nobody asks about cost a counter."""
    world.node("a", labels={"disk": "ssd", "zone": "1"})
    world.node("b", labels={"zone": "2"})
    snapshot = world.update()
    assert made(snapshot) == set()
    assert values(snapshot, "disk") == ["ssd", None]
    assert made(snapshot) == {"disk"}


def test_ids_are_looked_up_by_text(world: World) -> None:
    """`id_of` knows the values in use, and -1 stands for all others."""
    world.node("a", labels={"disk": "ssd"})
    column = world.update().nodes.labels("disk")
    assert column.id_of("ssd") == column.ids[0]
    assert column.id_of("hdd") == -1


def test_one_column_stands_for_all_absent_keys(world: World) -> None:
    """Asking about keys that no node has leaves nothing behind, and a key that appears later is found."""
    node = world.node("a")
    snapshot = world.update()
    absent = snapshot.nodes.labels("one")
    assert snapshot.nodes.labels("two").ids.base is absent.ids.base
    assert (absent.ids.tolist(), absent.values, absent.index) == ([0], [None], {})
    assert made(snapshot) == set()
    world.cache.update_node(node, make_node("a", labels={"one": "now"}))
    assert values(world.update(), "one") == ["now"]


def test_a_column_goes_with_the_last_node_that_has_its_key(world: World) -> None:
    """Keys that come and go leave nothing behind."""
    world.node("a")
    node = world.node("b", labels={"disk": "ssd"})
    assert values(world.update(), "disk") == [None, "ssd"]
    world.cache.remove_node(node)
    assert values(world.update(), "disk") == [None]
    assert made(world.snapshot) == set()


def test_columns_grow_with_the_cluster(world: World) -> None:
    """More nodes than there was room for: existing columns and the absent one are as long as the view."""
    world.node("first", labels={"disk": "ssd"})
    assert values(world.update(), "disk") == ["ssd"]
    for number in range(200):
        world.node(f"n{number}", labels={"disk": "hdd"} if number % 2 else {})
    assert values(world.update(), "disk") == ["ssd", *[None, "hdd"] * 100]
    assert values(world.snapshot, "absent") == [None] * 201


def test_a_column_that_grew_unseen_is_read_anew(world: World) -> None:
    """As many nodes as when it was last asked for, but in larger arrays and not the same nodes."""
    nodes = [world.node(f"n{number}", labels={"disk": "ssd"}) for number in range(64)]
    assert values(world.update(), "disk") == ["ssd"] * 64
    world.node("last", labels={"disk": "hdd"})
    world.update()
    world.cache.remove_node(nodes[0])
    assert values(world.update(), "disk") == ["hdd", *["ssd"] * 63]


def test_a_value_of_its_own_on_every_node_is_released_with_it(world: World) -> None:
    """Hostnames of nodes that came and went leave room for others."""
    world.node("stays")
    assert values(world.update(), "kubernetes.io/hostname") == ["stays"]
    for number in range(100):
        node = world.node(f"n{number}")
        assert values(world.update(), "kubernetes.io/hostname") == ["stays", f"n{number}"]
        world.cache.remove_node(node)
    assert values(world.update(), "kubernetes.io/hostname") == ["stays"]
    assert len(world.snapshot.nodes.labels("kubernetes.io/hostname").values) <= 3


def test_ids_are_read_only(world: World) -> None:
    """A plugin that writes into a column fails at once instead of spoiling the snapshot."""
    world.node("a", labels={"disk": "ssd"})
    with pytest.raises(ValueError, match="read-only"):
        world.update().nodes.labels("disk").ids[0] = 0
