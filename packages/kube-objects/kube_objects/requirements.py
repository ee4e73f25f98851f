"""`Requirement`, a condition on one label, and `CompiledSelector`, a set of requirements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Final, NamedTuple

from kube_objects.caching import bounded_cache
from kube_objects.names import label_key_errors, label_value_errors

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"

_CACHE: Final = 1 << 14
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
_MIN_INT64: Final = -(2**63)
_MAX_INT64: Final = 2**63 - 1


class Requirement(NamedTuple):
    """One condition on one label; `operator` is spelled as on the wire."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in {GT, LT}:
            return f"{self.key}{'>' if self.operator == GT else '<'}{','.join(self.values)}"
        if len(self.values) == 1:
            return f"{self.key}{'=' if self.operator == IN else '!='}{self.values[0]}"
        return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"


def parse_int64(text: str) -> int | None:
    """Return a decimal integer of 64 bits, or ``None``."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if _MIN_INT64 <= number <= _MAX_INT64 else None


def _is_equality(requirement: Requirement) -> bool:
    return requirement.operator == IN and len(requirement.values) == 1


def _operand(requirement: Requirement) -> frozenset[str] | int | None:
    if requirement.operator in {GT, LT}:
        return parse_int64(requirement.values[0]) if len(requirement.values) == 1 else None
    return frozenset(requirement.values)


def _meets(have: str | None, operator: str, operand: frozenset[str] | int | None) -> bool:
    if isinstance(operand, frozenset):
        if operator == IN:
            return have in operand
        if operator == NOT_IN:
            return have not in operand
        return (have is not None) == (operator == EXISTS)
    number = parse_int64(have) if have is not None else None
    if number is None or operand is None:
        return False
    return number > operand if operator == GT else number < operand


class CompiledSelector:
    """Requirements on labels, all of which must hold; immutable, hashable, cheap to ask.

    Make one with `compile_label_selector`, `selector_from_labels` or `CompiledSelector.of`.
    """

    __slots__ = ("_equal", "_hash", "_other", "requirements")

    requirements: tuple[Requirement, ...]
    """The conditions, sorted by key."""

    def __init__(self, requirements: tuple[Requirement, ...]) -> None:
        self.requirements = requirements
        self._hash = hash(requirements)
        # Most requirements are `key = value`: those are tried first, in the cheapest way.
        self._equal = tuple((r.key, r.values[0]) for r in requirements if _is_equality(r))
        self._other = tuple((r.key, r.operator, _operand(r)) for r in requirements if not _is_equality(r))

    @staticmethod
    def of(requirements: Iterable[Requirement]) -> CompiledSelector:
        """Return the selector of `requirements`, which are taken as valid; equal ones are one object."""
        return _interned(tuple(sorted(requirements, key=attrgetter("key"))))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is required, so that everything matches."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether `labels` meet all requirements."""
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for key, operator, operand in self._other:  # noqa: SIM110 - a generator costs more than the test itself
            if not _meets(labels.get(key), operator, operand):
                return False
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompiledSelector):
            return NotImplemented
        return self is other or self.requirements == other.requirements

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"CompiledSelector({str(self)!r})"


@bounded_cache(_CACHE)
def _interned(requirements: tuple[Requirement, ...]) -> CompiledSelector:
    return CompiledSelector(requirements) if requirements else EVERYTHING


EVERYTHING: Final = CompiledSelector(())
"""Selects everything."""
NOTHING: Final = CompiledSelector((Requirement("", IN, ()),))
"""Selects nothing: the meaning of a selector that is not there."""


def requirement_errors(key: str, operator: str, values: tuple[str, ...], path: str = "") -> list[str]:
    """Return what is wrong with a requirement found at `path`, in the API server's words."""
    prefix = f"{path}." if path else ""
    errors = [_invalid(f"{prefix}key", json.dumps(key), "; ".join(wrong)) for wrong in [label_key_errors(key)] if wrong]
    shown = json.dumps(values, separators=(",", ":"))
    if operator in {IN, NOT_IN}:
        if not values:
            errors.append(_invalid(f"{prefix}values", shown, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in {EXISTS, DOES_NOT_EXIST}:
        if values:
            errors.append(_invalid(f"{prefix}values", shown, "values set must be empty for exists and does not exist"))
    else:
        if len(values) != 1:
            errors.append(_invalid(f"{prefix}values", shown, "for 'Gt', 'Lt' operators, exactly one value is required"))
        errors += [
            _invalid(
                f"{prefix}values[{index}]",
                json.dumps(value),
                "for 'Gt', 'Lt' operators, the value must be an integer",
            )
            for index, value in enumerate(values)
            if parse_int64(value) is None
        ]
    for index, value in enumerate(values):
        if wrong := label_value_errors(value):
            errors.append(_invalid(f"{prefix}values[{index}][{key}]", json.dumps(value), "; ".join(wrong)))
    return errors


def join_errors(errors: Iterable[str]) -> str:
    """Return several error texts as one, without repetitions, the way Kubernetes prints them."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _invalid(path: str, value: str, detail: str) -> str:
    return f"{path}: Invalid value: {value}: {detail}"
