"""Node selectors: compile the required and preferred terms of a pod, and match nodes against them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from kube_objects.affinity import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from kube_objects.caching import bounded_cache
from kube_objects.errors import SelectorError
from kube_objects.requirements import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    CompiledSelector,
    Requirement,
    join_errors,
    requirement_errors,
)
from kube_objects.selectors import selector_from_labels

if TYPE_CHECKING:
    from kube_objects.pods import Pod

NODE_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST, GT, LT)
"""Operators of a node selector on labels; on fields only the first two, with exactly one value."""

_NAME_FIELD: Final = "metadata.name"
_CACHE: Final = 1 << 12


class NodeTerm(NamedTuple):
    """One compiled term; with `errors` it matches no node."""

    labels: CompiledSelector = EVERYTHING
    names: tuple[tuple[str, bool], ...] = ()
    """Conditions on the node's name: the text it must equal, or must not equal when the flag is set."""
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether a node with `labels` and `node_name` meets the term; without a name, names do not count."""
        if self.errors or not self.labels.matches(labels):
            return False
        return not (self.names and node_name) or all((node_name == name) != negated for name, negated in self.names)


class CompiledNodeSelector(NamedTuple):
    """Terms, one of which must hold; without any, no node matches."""

    terms: tuple[NodeTerm, ...] = ()

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the parse errors. kube-scheduler reports them only where no other term matches."""
        return tuple(error for term in self.terms for error in term.errors)

    @property
    def uses_names(self) -> bool:
        """Return whether the answer depends on the node's name and not on its labels alone."""
        return any(term.names for term in self.terms)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether a node with `labels` and `node_name` meets a term."""
        return any(term.matches(labels, node_name) for term in self.terms)

    def check(self) -> None:
        """Raise `SelectorError` if any term could not be parsed."""
        if self.errors:
            raise SelectorError(join_errors(self.errors))


class PreferredTerms(NamedTuple):
    """Wishes with their weights."""

    terms: tuple[tuple[int, NodeTerm], ...] = ()

    @property
    def uses_names(self) -> bool:
        """Return whether the score depends on the node's name and not on its labels alone."""
        return any(term.names for _, term in self.terms)

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        """Return the sum of the weights of the terms that a node with `labels` and `node_name` meets."""
        return sum(weight for weight, term in self.terms if term.matches(labels, node_name))


class RequiredNodeAffinity(NamedTuple):
    """The demands of a pod on a node: its node selector and its required node affinity, both."""

    labels: CompiledSelector = EVERYTHING
    affinity: CompiledNodeSelector | None = None

    @property
    def uses_names(self) -> bool:
        """Return whether the answer depends on the node's name and not on its labels alone."""
        return self.affinity is not None and self.affinity.uses_names

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Return whether the pod may run on a node with `labels` and `node_name`."""
        if not self.labels.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, node_name)


@bounded_cache(_CACHE)
def compile_node_selector(selector: NodeSelector, path: str = "") -> CompiledNodeSelector:
    """Return the compiled form; errors, worded with the `path` of the selector, are kept inside."""
    prefix = f"{path}.nodeSelectorTerms" if path else "nodeSelectorTerms"
    return CompiledNodeSelector(
        tuple(
            _compile_term(term, f"{prefix}[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
            if not _is_empty(term)
        )
    )


@bounded_cache(_CACHE)
def compile_preferred_terms(terms: tuple[PreferredSchedulingTerm, ...], path: str = "") -> PreferredTerms:
    """Return the compiled form of wishes; those of weight 0 and empty ones are left out.

    Raise `SelectorError`, worded with `path`, if any other cannot be parsed.
    """
    compiled = tuple(
        (term.weight, _compile_term(term.preference, f"{path}[{index}]"))
        for index, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    )
    if errors := [error for _, term in compiled for error in term.errors]:
        raise SelectorError(join_errors(errors))
    return PreferredTerms(compiled)


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """Return what `pod` demands of a node; pods that demand the same get the same object."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return _required(tuple(sorted(pod.spec.node_selector.items())), required)


@bounded_cache(_CACHE)
def _required(labels: tuple[tuple[str, str], ...], selector: NodeSelector | None) -> RequiredNodeAffinity:
    return RequiredNodeAffinity(
        selector_from_labels(dict(labels)),
        compile_node_selector(selector) if selector is not None else None,
    )


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields


def _compile_term(term: NodeSelectorTerm, path: str) -> NodeTerm:
    errors: list[str] = []
    requirements = []
    for index, expression in enumerate(term.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        if expression.operator not in NODE_OPERATORS:
            errors.append(_unsupported(where, expression.operator, NODE_OPERATORS))
            continue
        errors += requirement_errors(expression.key, expression.operator, expression.values, where)
        requirements.append(Requirement(expression.key, expression.operator, expression.values))
    names: list[tuple[str, bool]] = []
    for index, expression in enumerate(term.match_fields):
        errors += _compile_field(expression, f"{path}.matchFields[{index}]", names)
    if errors:
        return NodeTerm(errors=tuple(errors))
    return NodeTerm(CompiledSelector.of(requirements), tuple(names))


def _compile_field(requirement: NodeSelectorRequirement, path: str, names: list[tuple[str, bool]]) -> tuple[str, ...]:
    if requirement.operator not in {IN, NOT_IN}:
        return (_unsupported(path, requirement.operator, (IN, NOT_IN)),)
    if len(requirement.values) != 1:
        shown = json.dumps(requirement.values, separators=(",", ":"))
        return (f"{path}.values: Invalid value: {shown}: must have one element",)
    negated = requirement.operator == NOT_IN
    if requirement.key == _NAME_FIELD:
        names.append((requirement.values[0], negated))
    elif bool(requirement.values[0]) != negated:
        # Any other field of a node reads as empty, so this condition fails for every node.
        names.append(("", False))
    return ()


def _unsupported(path: str, operator: str, supported: Sequence[str]) -> str:
    names = ", ".join(json.dumps(name) for name in supported)
    return f"{path}.operator: Unsupported value: {json.dumps(operator)}: supported values: {names}"
