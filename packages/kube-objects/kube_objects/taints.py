"""Taints keep pods away from a node; a pod's tolerations let it ignore taints."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import Final

from kube_objects.meta import Wire
from kube_objects.requirements import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
"""Effect: new pods stay away."""
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
"""Effect: new pods rather go elsewhere."""
NO_EXECUTE: Final = "NoExecute"
"""Effect: new pods stay away, running ones leave."""

HARD_EFFECTS: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that forbid a node to a pod without a toleration."""

#: A canonical decimal integer; anything else, and what has more than 64 bits, compares with nothing.
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Taint(Wire):
    """A mark on a node that keeps pods away; hashable, so that equal taints can be counted once."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Wire):
    """A pod's leave to ignore some taints; operator ``Equal`` when empty."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Return whether `toleration` tolerates `taint`; one with an unknown operator tolerates nothing.

    `comparison_operators` is the feature gate ``TaintTolerationComparisonOperators``.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator == "Exists":
        return True
    if operator in {"", "Equal"}:
        return toleration.value == taint.value
    if comparison_operators and operator in {"Gt", "Lt"}:
        return _compares(operator, taint.value, toleration.value)
    return False


def find_untolerated(
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    effects: Container[str] = HARD_EFFECTS,
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """Return the first taint with one of `effects` that no toleration answers, or ``None``."""
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(toleration, taint, comparison_operators=comparison_operators) for toleration in tolerations
        ):
            return taint
    return None


def _compares(operator: str, taint_value: str, toleration_value: str) -> bool:
    if _INTEGER.fullmatch(taint_value) is None or _INTEGER.fullmatch(toleration_value) is None:
        return False
    have, bound = parse_int64(taint_value), parse_int64(toleration_value)
    if have is None or bound is None:
        return False
    return have > bound if operator == "Gt" else have < bound
