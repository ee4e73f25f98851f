"""The table of metrics in docs/reference/metrics.md: names, types and labels come from the families of the code.

`python -m tests.metrics_page --write` writes the table anew; a test compares it with the families. The meanings are
written by hand, because they say more than a help text and link to other pages. A family without a row gets its help
text as meaning. Rows of metrics that plugins record stay as they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pyscheduler.telemetry.families import FAMILIES

__all__ = ["PAGE", "text"]

PAGE: Final = Path(__file__).parents[1] / "docs/reference/metrics.md"
_HEAD: Final = "| metric | type | labels | meaning |\n|---|---|---|---|\n"


def text() -> str:
    """Return the page with its table made anew."""
    before, head, rest = PAGE.read_text(encoding="utf-8").partition(_HEAD)
    rows, _, after = rest.partition("\n\n")
    return f"{before}{head}{''.join(_rows(rows.splitlines()))}\n{after}"


def _rows(old: Sequence[str]) -> Iterator[str]:
    shown: set[str] = set()
    for row in old:
        _, named, _, _, meaning = row.split("|", 4)
        names = re.findall(r"`(\w+)`", named)
        shown.update(names)
        is_family = any(name in FAMILIES for name in names)
        yield _row(names, meaning.removesuffix("|").strip()) if is_family else f"{row}\n"
    for name, family in FAMILIES.items():
        if name not in shown:
            yield _row([name], family.help)


def _row(names: Sequence[str], meaning: str) -> str:
    """Return the row of families that have one type and the same labels."""
    kinds = {(FAMILIES[name].kind, FAMILIES[name].labels) for name in names}
    assert len(kinds) == 1, f"{names} need rows of their own"
    ((kind, labels),) = kinds
    cells = (", ".join(f"`{name}`" for name in names), kind, ", ".join(f"`{label}`" for label in labels), meaning)
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(text(), encoding="utf-8")
