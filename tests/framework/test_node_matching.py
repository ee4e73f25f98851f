"""Selectors asked about all nodes: the same answers as for each node alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from pyscheduler.api import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    compile_label_selector,
    compile_node_selector,
    compile_preferred_terms,
    selector_from_labels,
)
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import Nodes
from pyscheduler.framework.node_matching import (
    match_labels,
    match_node_selector,
    score_preferred_terms,
)
from pyscheduler.testing.builders import make_node

KEYS = st.sampled_from(["zone", "rank", "absent"])
VALUES = st.sampled_from(["a", "b", "", "1", "7", "-3", "x1"])
NAMES = ["n0", "n1", "n2", "n3"]


def requirements(keys: st.SearchStrategy[str]) -> st.SearchStrategy[NodeSelectorRequirement]:
    """Draw a requirement on a label."""
    operators = {
        ("In", "NotIn"): st.lists(VALUES, min_size=1, max_size=3),
        ("Exists", "DoesNotExist"): st.just([]),
        ("Gt", "Lt"): st.lists(st.sampled_from(["0", "5", "-5", "99999999999999999999"]), min_size=1, max_size=1),
        ("Near",): st.just([]),
    }
    return st.one_of(
        st.builds(
            NodeSelectorRequirement,
            key=keys,
            operator=st.sampled_from(names),
            values=values.map(tuple),
        )
        for names, values in operators.items()
    )


TERMS = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(requirements(KEYS), max_size=3).map(tuple),
    match_fields=st.lists(
        st.builds(
            NodeSelectorRequirement,
            key=st.sampled_from(["metadata.name", "spec.other"]),
            operator=st.sampled_from(["In", "NotIn"]),
            values=st.sampled_from([*NAMES, "gone", ""]).map(lambda name: (name,)),
        ),
        max_size=2,
    ).map(tuple),
)


@st.composite
def views(draw: st.DrawFn) -> Nodes:
    """Draw nodes with random labels, seen whole or in part."""
    cache = Cache()
    for name in NAMES:
        cache.add_node(make_node(name, labels=draw(st.dictionaries(st.sampled_from(["zone", "rank"]), VALUES))))
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    rows = draw(st.one_of(st.none(), st.lists(st.sampled_from(range(len(NAMES))), unique=True)))
    return snapshot.nodes if rows is None else snapshot.nodes.take(np.array(rows, dtype=np.int64))


@given(nodes=views(), terms=st.lists(TERMS, max_size=3).map(tuple))
def test_a_node_selector(nodes: Nodes, terms: tuple[NodeSelectorTerm, ...]) -> None:
    """Terms are alternatives; one that does not parse matches no node."""
    selector = compile_node_selector(NodeSelector(node_selector_terms=terms))
    expected = [selector.matches(each.node.labels, each.name) for each in nodes]
    assert match_node_selector(selector, nodes).tolist() == expected


@given(nodes=views(), terms=st.lists(TERMS, max_size=3), weights=st.lists(st.integers(0, 100), min_size=3, max_size=3))
def test_preferred_terms(nodes: Nodes, terms: list[NodeSelectorTerm], weights: list[int]) -> None:
    """The weights of the wishes that hold are added up."""
    parsed = [each for each in terms if not compile_node_selector(NodeSelector(node_selector_terms=(each,))).errors]
    wishes = compile_preferred_terms(
        tuple(
            PreferredSchedulingTerm(weight=weight, preference=term)
            for weight, term in zip(weights, parsed, strict=False)
        )
    )
    expected = [wishes.score(each.node.labels, each.name) for each in nodes]
    assert score_preferred_terms(wishes, nodes).tolist() == expected


@given(nodes=views(), labels=st.dictionaries(KEYS, VALUES))
def test_labels(nodes: Nodes, labels: dict[str, str]) -> None:
    """All labels asked for have to be there."""
    selector = selector_from_labels(labels)
    assert match_labels(selector, nodes).tolist() == [selector.matches(each.node.labels) for each in nodes]


@given(nodes=views())
def test_a_selector_that_is_not_there_selects_nothing(nodes: Nodes) -> None:
    """As everywhere, no selector means nothing."""
    assert not match_labels(compile_label_selector(None), nodes).any()
