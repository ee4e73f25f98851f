"""Compile label selectors, so that they can be matched fast. The result is a `CompiledSelector`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from kube_objects.caching import bounded_cache
from kube_objects.errors import SelectorError
from kube_objects.meta import LabelSelector, LabelSelectorRequirement
from kube_objects.requirements import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    NOTHING,
    CompiledSelector,
    Requirement,
    join_errors,
    requirement_errors,
)

LABEL_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
"""Operators of a label selector on the wire; node selectors and texts also know ``Gt`` and ``Lt``."""

_CACHE: Final = 1 << 14


def compile_label_selector(selector: LabelSelector | None) -> CompiledSelector:
    """Return the compiled form of a wire selector; ``None`` selects nothing, an empty one everything.

    Raise `SelectorError` for an operator, key or value that Kubernetes would refuse.
    """
    if selector is None:
        return NOTHING
    if not selector.match_labels:
        return _compile_expressions(selector.match_expressions)
    return _compile(tuple(selector.match_labels.items()), selector.match_expressions)


def selector_from_labels(labels: Mapping[str, str]) -> CompiledSelector:
    """Return the selector of whatever carries all of `labels`; they are not validated, none select everything."""
    return CompiledSelector.of(Requirement(key, IN, (value,)) for key, value in labels.items())


@bounded_cache(_CACHE)
def _compile_expressions(expressions: tuple[LabelSelectorRequirement, ...]) -> CompiledSelector:
    return _compile((), expressions)


@bounded_cache(_CACHE)
def _compile(
    labels: tuple[tuple[str, str], ...], expressions: tuple[LabelSelectorRequirement, ...]
) -> CompiledSelector:
    requirements = [Requirement(key, IN, (value,)) for key, value in labels]
    for expression in expressions:
        if expression.operator not in LABEL_OPERATORS:
            raise SelectorError(f"{json.dumps(expression.operator)} is not a valid label selector operator")
        requirements.append(Requirement(expression.key, expression.operator, expression.values))
    for requirement in requirements:
        if errors := requirement_errors(*requirement):
            raise SelectorError(join_errors(errors))
    return CompiledSelector.of(requirements)
