"""The tables of docs/reference/lab-columns.md, which come from the columns of `pyscheduler_lab.results`.

`python -m tests.lab_columns_page --write` writes the tables anew; a test compares them with the code. The text around
the tables is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyscheduler_lab.results.columns import COLUMNS
from pyscheduler_lab.results.tables import TABLES, Field

__all__ = ["PAGE", "text"]

PAGE: Final = Path(__file__).parents[1] / "docs/reference/lab-columns.md"
_RESULTS: Final = ("column", "unit", "of classes", "meaning")
_TABLE: Final = ("column", "type", "meaning")


def text() -> str:
    """Return the page with its tables made anew."""
    page = PAGE.read_text(encoding="utf-8")
    rows = [(f"`{column.name}`", column.unit, "yes" if column.of_jobs else "", column.meaning) for column in COLUMNS]
    page = _replaced(page, "Columns of results", _RESULTS, rows)
    for name, fields in TABLES.items():
        cells = [(f"`{each.name}`", _type(each), each.meaning) for each in fields]
        page = _replaced(page, f"Table {name}", _TABLE, cells)
    return page


def _type(field: Field) -> str:
    return field.kind + (" or null" if field.may_be_null else "") + (", optional" if field.is_optional else "")


def _replaced(page: str, heading: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return the page with these rows in the first table after a heading."""
    table = "".join(_lines(head, rows))
    found = re.compile(rf"(^#+ {heading}\n(?:(?!#|\|).*\n)*)(?:\|.*\n)+", re.MULTILINE)
    page, number = found.subn(lambda match: match[1] + table, page)
    assert number == 1, f"the page has a table after {heading}"
    return page


def _lines(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n"
    yield "|---" * len(head) + "|\n"
    for row in rows:
        yield "".join(f"| {cell} " if cell else "| " for cell in row) + "|\n"


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(text(), encoding="utf-8")
