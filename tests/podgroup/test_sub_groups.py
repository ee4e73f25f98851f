"""Sub-groups: what objects say about them, and when a tree has its minimum."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyscheduler.podgroup import GroupDirectory, GroupId
from pyscheduler.podgroup.sub_group_fields import kai_sub_groups, volcano_sub_groups
from pyscheduler.podgroup.sub_groups import SubGroup, cut_off, least, missing, shortage
from pyscheduler.podgroup.wire import GroupObject
from pyscheduler.testing import make_pod
from tests.podgroup.builders import make_group

#: A leader and two workers, twice; one of both is enough.
REPLICAS = SubGroup(
    "",
    1,
    (
        SubGroup("r", None, (SubGroup("rl", 1), SubGroup("rw", 2))),
        SubGroup("s", None, (SubGroup("sl", 1), SubGroup("sw", 2))),
    ),
)


def kai(**spec: Any) -> GroupObject:
    """Return a group of KAI."""
    group = make_group("g", dialect="kai", **spec)
    assert isinstance(group, GroupObject)
    return group


def volcano(**spec: Any) -> GroupObject:
    """Return a group of Volcano."""
    group = make_group("g", dialect="volcano", **spec)
    assert isinstance(group, GroupObject)
    return group


@pytest.mark.parametrize(
    ("counts", "lacks", "text", "waiting"),
    [
        ({}, 3, "0 of 1 sub-groups (rl 0/1, rw 0/2, sl 0/1, sw 0/2)", {"rl", "rw", "sl", "sw"}),
        ({"rl": 1, "sl": 1, "sw": 1}, 1, "0 of 1 sub-groups (rw 0/2, sw 1/2)", {"rl", "rw", "sl", "sw"}),
        ({"rl": 1, "sl": 1, "sw": 2}, 0, "", {"rl", "rw"}),
        ({"rl": 9, "rw": 9, "sl": 9, "sw": 9}, 0, "", set()),
    ],
)
def test_a_branch_needs_some_of_its_children(counts: dict[str, int], lacks: int, text: str, waiting: set[str]) -> None:
    """A part counts only whole, and members of other parts have to wait."""
    assert missing(REPLICAS, counts) == lacks
    assert shortage(REPLICAS, counts).replace("r: ", "").replace("s: ", "") == text
    assert cut_off(REPLICAS, counts) == waiting


def test_policies_make_their_sub_groups_of_labels() -> None:
    """Two slices of three are needed; sub-groups that do not exist yet count as missing."""
    root = SubGroup("", None, (SubGroup("p", 2, size=3),))
    assert least(root) == 6
    grown = root.with_leaves(["p/0", "p/1", "other/0", ""])
    assert [child.name for child in grown.children[0].children] == ["p/0", "p/1"]
    assert missing(grown, {"p/0": 3, "p/1": 1}) == 2
    assert missing(root.with_leaves(["p/0"]), {"p/0": 3}) == 3


TREES = st.recursive(
    st.builds(lambda minimum: ("leaf", minimum), st.integers(0, 3)),
    lambda inner: st.tuples(st.none() | st.integers(0, 3), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=4,
)


def built(shape: Any, names: list[str]) -> SubGroup:
    """Return the tree of a shape; the names of its leaves are added to `names`."""
    first, second = shape
    if first == "leaf":
        names.append(f"leaf{len(names)}")
        return SubGroup(names[-1], second)
    children = tuple(built(child, names) for child in second)
    return SubGroup("", None if first is None else min(first, len(children)), children)


def is_satisfied(node: SubGroup, counts: dict[str, int]) -> bool:
    """Say what a minimum means, without counting what is missing."""
    if not node.children:
        return counts.get(node.name, 0) >= node.needed
    return sum(is_satisfied(child, counts) for child in node.children) >= node.needed


@given(TREES, st.lists(st.integers(0, 3), min_size=4, max_size=4))
def test_missing_is_the_fewest_members_that_satisfy_the_tree(shape: Any, have: list[int]) -> None:
    """Compared with a search over all ways to add members."""
    names: list[str] = []
    tree = built(shape, names)
    counts = dict(zip(names, have, strict=False))
    fewest = min(
        sum(added)
        for added in product(range(4), repeat=len(names))
        if is_satisfied(tree, {name: counts[name] + more for name, more in zip(names, added, strict=True)})
    )
    assert missing(tree, counts) == fewest
    assert bool(shortage(tree, counts)) == (fewest > 0)


def test_kai_describes_a_tree() -> None:
    """Parents ignore their `minMember`; the tree replaces that of the group."""
    said = kai_sub_groups(
        kai(
            minMember=7,
            subGroups=[
                {"name": "r", "minMember": 5, "minSubGroup": 1},
                {"name": "a", "parent": "r", "minMember": 2},
                {"name": "b", "parent": "r", "minMember": 3},
                {"name": "c"},
            ],
        )
    )
    (tree,) = said.trees
    children = (SubGroup("a", 2), SubGroup("b", 3))
    assert tree.root == SubGroup("", None, (SubGroup("r", 1, children), SubGroup("c", 0)))
    assert (said.replaces_minimum, said.is_usable, said.problems) == (True, True, ())
    assert kai_sub_groups(kai(minMember=3, minSubGroup=2)).trees == ()


@pytest.mark.parametrize(
    ("sub_groups", "problem"),
    [
        ([{"name": "a"}, {"name": "a"}], "spec.subGroups[1].name: 'a' is empty or the name of an earlier sub-group"),
        ([{"name": ""}], "spec.subGroups[0].name: '' is empty or the name of an earlier sub-group"),
        ([{"name": "a", "parent": "b"}], "'b' does not exist; add that sub-group or remove the parent"),
        ([{"name": "a", "parent": "a"}], "'a' closes a cycle; give one of these sub-groups another parent"),
        (
            [{"name": str(level), "parent": str(level - 1) if level else ""} for level in range(2000)],
            "is more than 64 levels below the group; remove levels",
        ),
    ],
)
def test_what_makes_no_tree_leaves_the_group_undeclared(sub_groups: list[Any], problem: str) -> None:
    """One problem says where and how to mend it."""
    said = kai_sub_groups(kai(subGroups=sub_groups))
    assert not said.is_usable
    (found,) = map(str, said.problems)
    assert problem in found
    directory = GroupDirectory()
    directory.object_added(kai(minMember=1, subGroups=sub_groups))
    state = directory.get(GroupId("default", "g", "kai"))
    assert state is not None
    assert not state.group.is_declared


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ENTRY = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        (
            "name",
            "parent",
            "minMember",
            "minSubGroup",
            "minSubGroups",
            "subGroupSize",
            "labelSelector",
            "matchLabelKeys",
        ),
        JSON,
    ),
)


@given(st.lists(ENTRY | JSON, max_size=4) | JSON, JSON, JSON)
def test_whatever_an_object_says_the_group_can_be_computed(entries: Any, minimum: Any, roles: Any) -> None:
    """Mistakes become problems, never errors."""
    pod = make_pod("p", labels={"a": "b"}, annotations={"volcano.sh/task-spec": "w"})
    for said in (
        kai_sub_groups(kai(subGroups=entries, minSubGroup=minimum)),
        volcano_sub_groups(volcano(minMember=minimum, minTaskMember=roles, subGroupPolicy=entries)),
    ):
        for tree in said.trees:
            leaf = tree.naming.leaf(pod)
            assert missing(tree.root.with_leaves([leaf]), {leaf: 1}) >= 0


def test_volcano_roles_and_policies_are_trees_of_their_own() -> None:
    """The first policy that matches a pod names its sub-group; without keys or with a bad selector it matches none."""
    said = volcano_sub_groups(
        volcano(
            minMember=4,
            minTaskMember={"worker": 3, "master": 1},
            subGroupPolicy=[
                {"name": "none"},
                {"name": "bad", "matchLabelKeys": ["x"], "labelSelector": {"matchLabels": {"x": "///"}}},
                {"name": "p", "matchLabelKeys": ["x", "y"], "labelSelector": {"matchLabels": {"x": "1"}}},
            ],
        )
    )
    policies, roles = said.trees
    pod = make_pod("p", labels={"x": "1", "y": "2", "volcano.sh/task-spec": "worker"})
    assert (policies.naming.leaf(pod), roles.naming.leaf(pod)) == ("p/1-2", "worker")
    assert policies.naming.leaf(make_pod("q", labels={"x": "1"})) == ""
    assert roles.root == SubGroup("", None, (SubGroup("worker", 3), SubGroup("master", 1)))
    assert [problem.where for problem in said.problems] == ["spec.subGroupPolicy[1].labelSelector"]
    assert volcano_sub_groups(volcano(minMember=3, minTaskMember={"worker": 3, "master": 1})).trees == ()
