"""Check the arguments of policies (the plugins of KAI, Volcano and kube-batch).

A value that cannot be used causes a warning.
"""

from __future__ import annotations

import math
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kube_objects.durations import parse_duration
from pyscheduler_batch.model.values import go_boolean

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["checked"]

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,9}")


def checked(name: str, text: str, kinds: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the value of an argument as text, and "", or None and why the value cannot be used.

    A value that stands for the nearest usable one is returned as that, with what is wrong.

    `kinds` has by pattern of a name what the value is: `integer`, `number` (finite), `boolean`, `duration` (of Go, 0 or
    more), `seconds` (a duration that is returned as a number of seconds), or words with `|` between them. Bounds may
    follow `integer` and `number`, as in `integer 0..` or `number 1..5`; with `nearest` after them, the bound stands for
    a value beyond it.
    """
    said = next((kind for pattern, kind in kinds.items() if fnmatchcase(name, pattern)), "")
    kind, _, bounds = said.partition(" ")
    if bounds and math.isfinite(_number(text)):
        bound, wrong = _beyond(_number(text), bounds.split()[0])
        if wrong:
            return (bound if bounds.endswith(" nearest") else None), wrong
    match kind:
        case "":
            return text, ""
        case "integer":
            return (text, "") if _INTEGER.fullmatch(text) else (None, "is not an integer")
        case "number":
            return (text, "") if math.isfinite(_number(text)) else (None, "is not a number")
        case "boolean":
            return (text, "") if go_boolean(text) is not None else (None, "is neither true nor false")
        case "duration" | "seconds":
            seconds = _seconds(text)
            if not seconds >= 0:
                return None, "is not a duration of 0 or more such as 90s"
            return (str(seconds) if kind == "seconds" else text), ""
        case _:
            return (text, "") if text in kind.split("|") else (None, f"is none of {', '.join(kind.split('|'))}")


def _beyond(number: float, bounds: str) -> tuple[str, str]:
    """Return the bound that a number exceeds, and how; two empty texts if it exceeds none."""
    least, _, most = bounds.partition("..")
    if least and number < float(least):
        return least, f"is below {least}"
    if most and number > float(most):
        return most, f"is above {most}"
    return "", ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        return math.nan
