"""Images: one size for the cluster, counts by node, rows in the snapshot."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.cache.images import NO_IMAGES
from pyscheduler.framework import PodInfo
from pyscheduler.testing.builders import make_node, make_pod

if TYPE_CHECKING:
    from pyscheduler.api import Node, Pod
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


def known(world: World, image: str = "red:1") -> dict[str, int]:
    """Return by node the number of nodes with an image that it goes by; column, subset and NodeInfo agree."""
    snapshot = world.update()
    nodes = snapshot.nodes
    column = nodes.image(image)
    world.check()
    assert column is not None
    found = dict(zip([nodes.name(row) for row in column.rows], column.counts.tolist(), strict=True))
    assert found == {info.name: info.image_states[image].num_nodes for info in nodes if image in info.image_states}
    part = nodes.take(np.arange(len(nodes))[::-1])
    again = part.image(image)
    assert again is not None
    assert found == dict(zip([part.name(row) for row in again.rows], again.counts.tolist(), strict=True))
    return found


def test_a_node_goes_by_the_number_of_nodes_when_it_last_changed(world: World) -> None:
    """As in kube-scheduler, where only what has a new generation is copied into the snapshot."""
    first = world.node("a", images={"red:1": 10})
    assert known(world) == {"a": 1}
    world.node("b", images={"red:1": 10})
    assert known(world) == {"a": 1, "b": 2}
    world.node("c")
    world.cache.update_node(None, make_node("c", images={"red:1": 10}))
    assert known(world) == {"a": 1, "b": 2, "c": 3}
    world.cache.update_node(first, make_node("a", images={"red:1": 10}, resource_version="2"))
    assert known(world) == {"a": 3, "b": 2, "c": 3}
    world.cache.assume_pod(make_pod("p", node_name="b"))
    assert known(world) == {"a": 3, "b": 3, "c": 3}
    world.cache.remove_node(first)
    assert known(world) == {"b": 3, "c": 3}
    # That the API server confirms what was assumed is a change there, too.
    world.cache.add_pod(make_pod("p", node_name="b"))
    assert known(world) == {"b": 2, "c": 3}
    world.cache.update_pod(make_pod("p", node_name="b"), PodInfo.of(make_pod("p", node_name="b")))
    world.cache.update_node(None, make_node("c", images={"red:1": 10, "green:1": 1}))
    assert known(world) == {"b": 2, "c": 2}


def test_changes_say_which_rows_learned_of_other_nodes(world: World) -> None:
    """Scores by images are kept until some node changes; that one hears of another is such a change."""
    world.node("a", images={"red:1": 10, "green:1": 1})
    world.node("b", images={"red:1": 10, "green:1": 1})
    world.update()
    log = world.snapshot.nodes.changes
    world.cache.update_node(None, make_node("b", images={"green:1": 1}))
    world.update()
    before = log.position
    world.cache.assume_pod(make_pod("p", node_name="a"))
    assert known(world) == {"a": 1}
    assert log.since(before).nodes.tolist() == [0]
    before = log.position
    world.cache.assume_pod(make_pod("q", node_name="a"))
    world.update()
    assert (log.since(before).nodes.tolist(), log.since(before).pods.tolist()) == ([], [0])


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


def test_rows_follow_when_a_node_takes_the_place_of_another(world: World) -> None:
    """The last node moves into the row of the one that goes; its images move with it."""
    first = world.node("a", images={"red:1": 10, "green:1": 1})
    world.node("b", images={"green:1": 1})
    world.node("c", images={"red:1": 10})
    assert seen(world, "red:1") == (["a", "c"], 10, 2)
    world.cache.remove_node(first)
    assert seen(world, "red:1") == (["c"], 10, 1)
    assert seen(world, "green:1") == (["b"], 1, 1)


class Counted:
    """What kube-scheduler's cache and snapshot hold of images, kept the plainest way."""

    def __init__(self) -> None:
        #: By image the size and the names of nodes, by node its images, and by node what the snapshot says.
        self.states: dict[str, tuple[int, set[str]]] = {}
        self.images: dict[str, dict[str, int]] = {}
        self.snapshot: dict[str, dict[str, tuple[int, int]]] = {}
        #: Nodes that changed, or a pod on them did, since the snapshot.
        self.changed: set[str] = set()

    def node(self, name: str, images: dict[str, int] | None) -> None:
        for image in self.images.pop(name, {}):
            self.states[image][1].discard(name)
            if not self.states[image][1]:
                del self.states[image]
        if images is not None:
            self.images[name] = images
            for image, size in images.items():
                self.states.setdefault(image, (size, set()))[1].add(name)
        self.changed.add(name)

    def update(self) -> None:
        for name in self.changed:
            self.snapshot.pop(name, None)
            if name in self.images:
                states = {image: self.states[image] for image in self.images[name]}
                self.snapshot[name] = {image: (size, len(names)) for image, (size, names) in states.items()}
        self.changed.clear()


def test_any_history_leaves_the_counts_that_kube_scheduler_has(make_world: type[World]) -> None:
    """Nodes come, go and pull images, pods come, are confirmed, change and go, and now and then a snapshot is taken."""
    fired: Counter[str] = Counter()
    for seed in range(30):
        rng, world, model = random.Random(seed), make_world(), Counted()
        nodes: dict[str, Node] = {}
        pods: dict[str, Pod] = {}
        for step in range(80):
            name = rng.choice("abcde")
            what = rng.choice(
                ("node", "node", "remove node", "assume", "confirm", "update", "remove pod", "look", "look")
            )
            fired[what] += 1
            chosen = rng.choice(sorted(pods)) if pods else ""
            if what == "node":
                images = {image: rng.choice((10, 20)) for image in ("red:1", "blue:1") if rng.random() < 0.6}
                nodes[name] = make_node(name, images=images)
                world.cache.add_node(nodes[name])
                model.node(name, images)
            elif what == "remove node" and name in nodes:
                world.cache.remove_node(nodes.pop(name))
                model.node(name, None)
            elif what == "assume":
                pods[f"p{step}"] = make_pod(f"p{step}", node_name=name)
                world.cache.assume_pod(pods[f"p{step}"])
                model.changed.add(name)
            elif chosen and what in {"confirm", "update"}:
                pod = pods[chosen]
                if world.cache.is_assumed(pod.uid) is (what == "confirm"):
                    info = world.cache.get_pod(pod.uid)
                    assert info is not None
                    again = info.with_pod(make_pod(chosen, node_name=pod.node_name, resource_version=str(step)))
                    world.cache.add_pod(again) if what == "confirm" else world.cache.update_pod(pod, again)
                    model.changed.add(pod.node_name)
            elif chosen and what == "remove pod":
                model.changed.add(pods[chosen].node_name)
                world.cache.remove_pod(pods.pop(chosen))
            elif what == "look":
                model.update()
                found = {
                    info.name: {image: (state.size, state.num_nodes) for image, state in info.image_states.items()}
                    for info in world.update().nodes
                }
                assert found == model.snapshot, f"seed {seed}, step {step}"
                fired["stale"] += any(
                    count != len(model.states[image][1])
                    for images in found.values()
                    for image, (_, count) in images.items()
                    if image in model.states
                )
        world.check()
    print(dict(sorted(fired.items())))  # noqa: T201 - how often each event had its turn
    assert min(fired.values()) > 50
