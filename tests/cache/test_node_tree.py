"""The order of nodes over zones."""

from __future__ import annotations

import pytest

from pyscheduler.cache.node_tree import NodeTree, zone_of
from pyscheduler.testing.builders import make_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"


def tree_of(zones: dict[str, str]) -> NodeTree:
    """Make a tree of nodes by name, each with its zone."""
    tree = NodeTree()
    for name, zone in zones.items():
        tree.put(make_node(name, labels={ZONE: zone}))
    return tree


@pytest.mark.parametrize(
    ("labels", "zone"),
    [
        pytest.param({}, ("", ""), id="no labels"),
        pytest.param({ZONE: "z"}, ("", "z"), id="zone alone"),
        pytest.param({REGION: "r"}, ("r", ""), id="region alone"),
        pytest.param({REGION: "r", ZONE: "z"}, ("r", "z"), id="both"),
        pytest.param({OLD_REGION: "r", OLD_ZONE: "z"}, ("r", "z"), id="old names"),
        pytest.param({OLD_ZONE: "old", ZONE: "new", REGION: "r"}, ("r", "old"), id="old names go first"),
        pytest.param({OLD_ZONE: "", ZONE: "new"}, ("", ""), id="an empty old name hides the new one"),
    ],
)
def test_a_node_says_its_zone_in_labels(labels: dict[str, str], zone: tuple[str, str]) -> None:
    """Region and zone are read as kube-scheduler reads them."""
    assert zone_of(make_node("n", labels=labels)) == zone


@pytest.mark.parametrize(
    ("zones", "order"),
    [
        pytest.param({}, [], id="no nodes"),
        pytest.param({"a": "1", "b": "1", "c": "1"}, ["a", "b", "c"], id="one zone"),
        pytest.param({"a": "1", "b": "1", "c": "2", "d": "3"}, ["a", "c", "d", "b"], id="zones run out"),
        pytest.param({"a": "1", "b": "2", "c": "1", "d": "2"}, ["a", "b", "c", "d"], id="zones of one size"),
        pytest.param({"a": "", "b": "1", "c": ""}, ["a", "b", "c"], id="no zone counts as one"),
    ],
)
def test_each_zone_takes_its_turn(zones: dict[str, str], order: list[str]) -> None:
    """The order has the first node of each zone, then the second, and so on."""
    assert tree_of(zones).order() == order


def test_a_node_that_stays_in_its_zone_keeps_its_place() -> None:
    """An update that leaves the zone alone changes nothing, not even the version."""
    tree = tree_of({"a": "1", "b": "1"})
    version = tree.version
    tree.put(make_node("a", labels={ZONE: "1", "more": "labels"}))
    assert (tree.order(), tree.version) == (["a", "b"], version)


def test_a_node_that_changes_its_zone_goes_to_the_end_of_the_new_one() -> None:
    """The old zone vanishes with its last node."""
    tree = tree_of({"a": "1", "b": "2", "c": "2"})
    tree.put(make_node("a", labels={ZONE: "2"}))
    assert tree.order() == ["b", "c", "a"]
    tree.check_invariants({name: make_node(name, labels={ZONE: "2"}) for name in "abc"})


def test_a_zone_that_comes_back_stands_last() -> None:
    """Zones stand in the order in which they got their first node."""
    tree = tree_of({"a": "1", "b": "2"})
    tree.remove("a")
    tree.remove("unknown")
    tree.put(make_node("a", labels={ZONE: "1"}))
    assert tree.order() == ["b", "a"]
    assert len(tree) == 2
