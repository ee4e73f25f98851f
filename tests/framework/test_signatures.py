"""Fragments of pod signatures: equal for pods that schedule alike."""

from __future__ import annotations

from itertools import permutations

import pytest

from pyscheduler.api import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    Toleration,
)
from pyscheduler.framework import SignFragment
from pyscheduler.framework.signatures import sign_node_affinity, sign_node_selector, sign_tolerations


def affine(*terms: NodeSelectorTerm, wishes: tuple[PreferredSchedulingTerm, ...] = ()) -> Pod:
    """Make a pod with required terms and wishes."""
    affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=NodeSelector(node_selector_terms=terms),
        preferred_during_scheduling_ignored_during_execution=wishes,
    )
    return Pod(spec=PodSpec(affinity=Affinity(node_affinity=affinity)))


def requirement(key: str, *values: str, operator: str = "In") -> NodeSelectorRequirement:
    """Make a requirement on a label."""
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def test_the_order_of_tolerations_means_nothing() -> None:
    """Pods that tolerate the same taints have one signature."""
    tolerations = [
        Toleration(key="a", operator="Exists"),
        Toleration(key="a", value="x", effect="NoSchedule"),
        Toleration(operator="Exists", effect="NoExecute"),
    ]
    signatures = {sign_tolerations(Pod(spec=PodSpec(tolerations=order))) for order in permutations(tolerations)}
    assert len(signatures) == 1
    assert signatures != {sign_tolerations(Pod(spec=PodSpec(tolerations=tuple(tolerations[:2]))))}


def test_the_order_of_labels_means_nothing() -> None:
    """Pods with the same node selector have one signature."""
    one = sign_node_selector(Pod(spec=PodSpec(node_selector={"a": "1", "b": "2"})))
    assert one == sign_node_selector(Pod(spec=PodSpec(node_selector={"b": "2", "a": "1"})))
    assert one == SignFragment("v1.Pod.Spec.Affinity.NodeSelector", (("a", "1"), ("b", "2")))


FIRST = NodeSelectorTerm(match_expressions=(requirement("a", "1", "2"), requirement("b", operator="Exists")))
SECOND = NodeSelectorTerm(match_fields=(requirement("metadata.name", "n1"),))
WISHES = (PreferredSchedulingTerm(weight=1, preference=SECOND), PreferredSchedulingTerm(weight=5, preference=FIRST))


def test_the_order_within_node_affinity_means_nothing() -> None:
    """Terms, requirements, values and wishes may be listed in any order."""
    shuffled = NodeSelectorTerm(match_expressions=(requirement("b", operator="Exists"), requirement("a", "2", "1")))
    one = sign_node_affinity(affine(FIRST, SECOND, wishes=WISHES))
    assert one == sign_node_affinity(affine(SECOND, shuffled, wishes=WISHES[::-1]))
    assert hash(one.value) == hash(sign_node_affinity(affine(SECOND, shuffled, wishes=WISHES[::-1])).value)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(Pod(), id="no affinity"),
        pytest.param(affine(FIRST, wishes=WISHES), id="a term less"),
        pytest.param(affine(FIRST, SECOND), id="no wishes"),
        pytest.param(affine(FIRST, SECOND, wishes=WISHES[:1]), id="a wish less"),
        pytest.param(
            affine(NodeSelectorTerm(match_fields=FIRST.match_expressions), SECOND, wishes=WISHES),
            id="fields, not labels",
        ),
    ],
)
def test_other_node_affinity_is_another_signature(other: Pod) -> None:
    """What nodes a pod may and would rather run on is all in the fragment."""
    assert sign_node_affinity(affine(FIRST, SECOND, wishes=WISHES)) != sign_node_affinity(other)
