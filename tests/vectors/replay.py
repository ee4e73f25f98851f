"""Run the cases of a family through the scheduler's own runtime, and compare with what kube-scheduler answered."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import attrs

from pyscheduler.cli.case_file import answer_lines

__all__ = ["FAMILIES", "Outcome", "replay", "row_of"]

FOLDER = Path(__file__).parent
FAMILIES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.gz"))


@attrs.frozen
class Outcome:
    """What a family came to; `differing` names the fields by case that were not answered alike."""

    family: str
    cases: int
    differing: dict[str, list[str]]

    @property
    def equal(self) -> int:
        """Return how many cases were answered alike in every field."""
        return self.cases - len(self.differing)


def replay(family: str, *, every: int = 1) -> Outcome:
    """Answer the cases of a family, or one in `every`, and compare.

    An answer that could not be given differs in the field `error`.
    """
    lines = gzip.decompress((FOLDER / f"{family}.jsonl.gz").read_bytes()).splitlines()[::every]
    differing: dict[str, list[str]] = {}
    for line, answer in zip(lines, answer_lines(lines), strict=True):
        case = json.loads(line)
        assert case["id"] == answer.id
        if answer.error:
            differing[answer.id] = ["error"]
            continue
        expected, actual = _plain(case["expected"]), _plain(answer.actual)
        fields = [name for name in sorted({*expected, *actual}) if expected.get(name) != actual.get(name)]
        if fields:
            differing[answer.id] = fields
    return Outcome(family, len(lines), differing)


def row_of(outcome: Outcome) -> str:
    """Return a family's row of the parity page."""
    return f"| `{outcome.family}` | {outcome.cases:,} | {outcome.equal:,} |"


def _plain(value: Any) -> Any:
    """Leave out what is null or empty: it means the same as absent."""
    if isinstance(value, dict):
        return {key: plain for key, inner in value.items() if (plain := _plain(inner)) not in (None, "", [], {})}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
