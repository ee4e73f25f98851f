"""The tree of HyperNodes: members, levels, and values that cannot be used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyscheduler.api import ObjectMeta
from pyscheduler.framework import LabelColumn
from pyscheduler_volcano.hyper_nodes import HyperNode, HyperNodeTree

NODES = ("n0", "n1", "r-2")


def tree_of(**specs: Any) -> HyperNodeTree:
    """Return the tree of HyperNodes with these specs; no node has a label."""
    items = [HyperNode(metadata=ObjectMeta(name=name), spec=spec) for name, spec in specs.items()]
    column = LabelColumn(ids=np.zeros(len(NODES), dtype=np.int32), values=(None,), index={})
    return HyperNodeTree.of(items, NODES, lambda _: column)


def member(name: str, kind: str = "Node") -> dict[str, Any]:
    """Return a member by its name."""
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def selecting(**selector: Any) -> dict[str, Any]:
    """Return the spec of a HyperNode with one member."""
    return {"tier": 1, "members": [{"type": "Node", "selector": selector}]}


def nodes_of(tree: HyperNodeTree, name: str) -> list[str]:
    """Return the nodes of a HyperNode."""
    members = tree.members[tree.names.index(name)].tolist()
    return [node for node, is_member in zip(NODES, members, strict=True) if is_member]


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        pytest.param([1], "spec: [1] is not a map; it does not count", id="spec"),
        pytest.param(
            {"tier": 10**30},
            "spec.tier: 1000000000000000000000000000000 is not between -1000 and 1000; 1000 counts",
            id="tier",
        ),
        pytest.param({"tier": "1"}, "spec.tier: '1' is not an integer; 0 counts", id="tier as text"),
        pytest.param({"tierName": 3}, "spec.tierName: 3 is not a string; it does not count", id="name of the tier"),
        pytest.param({"members": "n0"}, "spec.members: 'n0' is not a list; it does not count", id="members"),
        pytest.param({"members": [3]}, "spec.members[0]: 3 is not a map; it does not count", id="member"),
        pytest.param(
            {"members": [{"type": ["Node"]}]}, "spec.members[0].type: ['Node'] is neither Node nor HyperNode", id="type"
        ),
        pytest.param(
            selecting(regexMatch={"pattern": "r("}),
            "spec.members[0].selector.regexMatch.pattern: 'r(' cannot be used: error parsing regexp: missing closing )",
            id="pattern",
        ),
        pytest.param(
            selecting(labelMatch={"matchExpressions": [{"key": "a", "operator": "NotIn", "values": 3}]}),
            "spec.members[0].selector.labelMatch.matchExpressions[0].values: 3 is not a list",
            id="values",
        ),
        pytest.param(
            selecting(labelMatch={"matchExpressions": [{"key": "a", "operator": "Not"}]}),
            "spec.members[0].selector.labelMatch.matchExpressions[0].operator: 'Not' is none of In, NotIn, Exists",
            id="operator",
        ),
        pytest.param(
            selecting(labelMatch={"matchLabels": [1]}),
            "spec.members[0].selector.labelMatch.matchLabels: [1] is not a map",
            id="labels",
        ),
    ],
)
def test_a_value_that_cannot_be_used_selects_nothing(spec: Any, warning: str) -> None:
    """One sentence names the HyperNode and the field, and other HyperNodes have their nodes."""
    tree = tree_of(bad=spec, good={"tier": 1, "members": [member("n1")]})
    (found,) = tree.warnings
    assert found.startswith(f"HyperNode bad: {warning}")
    assert nodes_of(tree, "bad") == []
    assert nodes_of(tree, "good") == ["n1"]


def test_members_are_selected_by_name_pattern_and_label() -> None:
    """A HyperNode has the nodes of its members, and the root has all."""
    tree = tree_of(
        a={"tier": 1, "members": [member("n0"), member("gone")]},
        b=selecting(regexMatch={"pattern": "^r-"}),
        c=selecting(labelMatch={"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
        d={"tier": 2, "members": [member("a", "HyperNode"), member("b", "HyperNode")]},
    )
    assert [nodes_of(tree, name) for name in "abcd"] == [["n0"], ["r-2"], [*NODES], ["n0", "r-2"]]
    assert tree.members[-1].all()
    assert tree.warnings == ()


def test_hyper_nodes_in_a_cycle_have_the_same_nodes() -> None:
    """A cycle does not end the pass."""
    tree = tree_of(
        a={"tier": 1, "members": [member("b", "HyperNode"), member("n0")]},
        b={"tier": 2, "members": [member("a", "HyperNode"), member("n1")]},
    )
    assert nodes_of(tree, "a") == nodes_of(tree, "b") == ["n0", "n1"]


def test_a_chain_of_many_hyper_nodes_is_cut() -> None:
    """What is more than 64 levels below the top is in no other HyperNode, and one sentence says so."""
    specs: dict[str, Any] = {"h0000": {"tier": 1, "members": [member("n0")]}}
    for level in range(1, 1200):
        specs[f"h{level:04}"] = {"tier": 2, "members": [member(f"h{level - 1:04}", "HyperNode")]}
    tree = tree_of(**specs)
    assert tree.warnings == ("HyperNode h0000: it is more than 64 levels below the top; remove levels",)
    assert nodes_of(tree, "h0000") == ["n0"]
    assert nodes_of(tree, "h1199") == []
    assert len(tree.path(tree.names.index("h1136"))) == 65
    whole = tree_of(**{name: specs[name] for name in [*specs][:64]})
    assert nodes_of(whole, "h0063") == ["n0"]
    assert whole.warnings == ()
