"""Images: one size for the cluster, counts by node, rows in the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.cache.images import NO_IMAGES
from pyscheduler.framework import ImageState
from pyscheduler.testing.builders import make_node

if TYPE_CHECKING:
    from tests.cache.conftest import World


def seen(world: World, image: str) -> tuple[list[str], int, int] | None:
    """Return the nodes that have an image, its size and the number of nodes, as the snapshot has them."""
    nodes = world.update().nodes
    column = nodes.image(image)
    world.check()
    return None if column is None else ([nodes.name(row) for row in column.rows], column.size, column.num_nodes)


def test_the_first_node_to_report_an_image_gives_its_size(world: World) -> None:
    """Later nodes may disagree; nobody listens."""
    world.node("a", images={"red:1": 10})
    world.node("b", images={"red:1": 20})
    assert seen(world, "red:1") == (["a", "b"], 10, 2)
    assert seen(world, "green:1") is None


def test_the_size_stays_when_the_first_node_goes(world: World) -> None:
    """The size belongs to the image, not to the node that reported it."""
    first = world.node("a", images={"red:1": 10})
    world.node("b", images={"red:1": 20})
    assert seen(world, "red:1") == (["a", "b"], 10, 2)
    world.cache.remove_node(first)
    assert seen(world, "red:1") == (["b"], 10, 1)


def test_the_only_node_left_gives_its_own_size_at_its_next_report(world: World) -> None:
    """As in kube-scheduler, where an update counts the old list out before it counts the new one in."""
    first = world.node("a", images={"red:1": 10})
    second = world.node("b", images={"red:1": 20})
    assert seen(world, "red:1") == (["a", "b"], 10, 2)
    world.cache.remove_node(first)
    world.cache.update_node(second, make_node("b", images={"red:1": 20}, resource_version="2"))
    assert seen(world, "red:1") == (["b"], 20, 1)


def test_an_image_is_gone_with_its_last_node(world: World) -> None:
    """What no node has is forgotten, in the cache and in the snapshot."""
    node = world.node("a", images={"red:1": 10, "green:1": 5})
    assert seen(world, "red:1") == (["a"], 10, 1)
    world.cache.update_node(node, make_node("a", images={"green:1": 5}))
    assert seen(world, "red:1") is None
    world.cache.remove_node(node)
    assert seen(world, "green:1") is None
    assert not world.cache._images.entries
    assert not world.snapshot._columns.images.entries


def test_all_names_of_an_image_count_once_per_node(world: World) -> None:
    """An image is found under each of its names; a name listed twice counts once, with its first size."""
    listed = [{"names": ["red:1", "red:2"], "sizeBytes": 10}, {"names": ["red:1"], "sizeBytes": 99}]
    world.node("a", status={"images": listed})
    assert seen(world, "red:1") == (["a"], 10, 1)
    assert seen(world, "red:2") == (["a"], 10, 1)


def test_a_node_shows_its_images_with_current_counts(world: World) -> None:
    """`NodeInfo.image_states` of the snapshot counts the snapshot's nodes, also those that came later."""
    world.node("a", images={"red:1": 10})
    info = world.update().get("a")
    assert info is not None
    assert dict(info.image_states) == {"red:1": ImageState(size=10, num_nodes=1)}
    world.node("b", images={"red:1": 10})
    assert info.image_states["red:1"].num_nodes == 1
    world.update()
    assert info.image_states["red:1"].num_nodes == 2
    assert (len(info.image_states), "green:1" in info.image_states) == (1, False)


def test_nodes_without_images_share_one_empty_mapping(world: World) -> None:
    """Most test clusters, and virtual nodes, list no images."""
    world.node("a")
    world.node("b")
    assert all(info.image_states is NO_IMAGES for info in world.update().nodes)


def test_a_heartbeat_that_lists_the_same_images_costs_the_snapshot_nothing(world: World) -> None:
    """Equal lists are recognised: the snapshot keeps the mapping it has."""
    node = world.node("a", images={"red:1": 10})
    world.node("b", images={"red:1": 10})
    before = world.update().nodes[0].image_states
    world.cache.update_node(node, make_node("a", images={"red:1": 10}, resource_version="2"))
    assert world.update().nodes[0].image_states is before


def test_a_size_renewed_by_others_reaches_every_row(world: World) -> None:
    """Between two updates an image may vanish and come back with another size, on nodes that look unchanged."""
    first, second = make_node("a", images={"red:1": 10}), make_node("b", images={"red:1": 20})
    world.cache.add_node(first)
    world.cache.add_node(second)
    assert seen(world, "red:1") == (["a", "b"], 10, 2)
    world.cache.update_node(second, make_node("b"))
    world.cache.update_node(first, make_node("a"))
    world.cache.update_node(second, make_node("b", images={"red:1": 20}))
    world.cache.update_node(first, make_node("a", images={"red:1": 10}))
    assert seen(world, "red:1") == (["a", "b"], 20, 2)


def test_rows_are_ascending_and_read_only(world: World) -> None:
    """However the nodes came to have the image."""
    for number in range(70):
        world.node(f"n{number}")
    world.update()
    for number in (64, 1):
        world.cache.update_node(None, make_node(f"n{number}", images={"red:1": 1}))
    column = world.update().nodes.image("red:1")
    assert column is not None
    assert (column.rows.tolist(), column.rows.flags.writeable) == ([1, 64], False)
