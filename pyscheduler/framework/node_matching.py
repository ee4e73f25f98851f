"""Match a selector against all nodes at once.

A requirement on a label is evaluated once for each distinct value of the label, not for each node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kube_objects.requirements import DOES_NOT_EXIST, EXISTS, GT, LT, NOT_IN, parse_int64

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pyscheduler.api import (
        CompiledNodeSelector,
        CompiledSelector,
        NodeSelectorTerm,
        NodeTerm,
        PreferredTerms,
        RequiredNodeAffinity,
        Requirement,
    )
    from pyscheduler.framework.nodes import LabelColumn, Nodes

__all__ = [
    "match_labels",
    "match_node_selector",
    "match_required_affinity",
    "node_selector_text",
    "score_preferred_terms",
]


def match_labels(selector: CompiledSelector, nodes: Nodes) -> NDArray[np.bool_]:
    """Return bool[n]: which nodes' labels meet `selector`."""
    matched = np.ones(len(nodes), dtype=np.bool_)
    for requirement in selector.requirements:
        matched &= _meets(requirement, nodes.labels(requirement.key))
    return matched


def match_node_selector(selector: CompiledNodeSelector, nodes: Nodes) -> NDArray[np.bool_]:
    """Return bool[n]: which nodes meet one of the terms; a term with errors meets none."""
    matched = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        matched |= _match_term(term, nodes)
    return matched


def match_required_affinity(affinity: RequiredNodeAffinity, nodes: Nodes) -> NDArray[np.bool_]:
    """Return bool[n]: which nodes a pod with these demands may run on."""
    matched = match_labels(affinity.labels, nodes)
    if affinity.affinity is not None:
        matched &= match_node_selector(affinity.affinity, nodes)
    return matched


def score_preferred_terms(terms: PreferredTerms, nodes: Nodes) -> NDArray[np.int64]:
    """Return int64[n]: the sum of the weights of the wishes that each node meets."""
    scores = np.zeros(len(nodes), dtype=np.int64)
    for weight, term in terms.terms:
        scores += weight * _match_term(term, nodes)
    return scores


def node_selector_text(terms: Iterable[NodeSelectorTerm]) -> str:
    """Return the terms for people, such as `zone In a,b and disktype Exists or metadata.name In n1`."""
    requirements = [[*term.match_expressions, *term.match_fields] for term in terms]
    texts = [" and ".join(f"{e.key} {e.operator} {','.join(e.values)}".rstrip() for e in term) for term in requirements]
    return " or ".join(texts)


def _match_term(term: NodeTerm, nodes: Nodes) -> NDArray[np.bool_]:
    if term.errors:
        return np.zeros(len(nodes), dtype=np.bool_)
    matched = match_labels(term.labels, nodes)
    for name, negated in term.names:
        row = nodes.index(name)
        if negated:
            if row is not None:
                matched[row] = False
        else:
            kept = row is not None and bool(matched[row])
            matched[:] = False
            if kept:
                matched[row] = True
    return matched


def _meets(requirement: Requirement, column: LabelColumn) -> NDArray[np.bool_]:
    """Return bool[n]: which nodes' values meet the requirement."""
    operator, values = requirement.operator, requirement.values
    if operator in {GT, LT}:
        return _compares(requirement, column)
    met: NDArray[np.bool_]
    if operator in {EXISTS, DOES_NOT_EXIST}:
        met = column.ids != 0
    elif len(values) == 1:
        met = column.ids == column.id_of(values[0])
    else:
        listed = np.zeros(len(column.values), dtype=np.bool_)
        listed[[wanted for value in values if (wanted := column.id_of(value)) > 0]] = True
        met = listed[column.ids]
    # A node without the label is in no list, which is what NotIn asks for too.
    return ~met if operator in {DOES_NOT_EXIST, NOT_IN} else met


def _compares(requirement: Requirement, column: LabelColumn) -> NDArray[np.bool_]:
    bound = parse_int64(requirement.values[0])
    meets = np.zeros(len(column.values), dtype=np.bool_)
    if bound is not None:
        for value, number in enumerate(column.values):
            have = parse_int64(number) if number is not None else None
            if have is not None:
                meets[value] = have > bound if requirement.operator == GT else have < bound
    return meets[column.ids]
