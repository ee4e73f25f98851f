"""The reference page on pod groups says what the table of dialects says."""

from __future__ import annotations

from pathlib import Path

from pyscheduler import podgroup
from pyscheduler.podgroup import DIALECTS, Dialect

PAGE = (Path(__file__).parents[2] / "docs/reference/podgroup.md").read_text(encoding="utf-8")


def row_of(dialect: Dialect) -> str:
    """Write a dialect as a row of the page."""
    keys = "<br>".join(f"{key.place} `{key.name}`" for key in dialect.keys)
    objects = "<br>".join(f"`{kind.api_version}` {kind.kind}" for kind in dialect.kinds) or "none"
    return f"| `{dialect.name}` | {dialect.system} | {keys} | {objects} | `{dialect.claimed_by}` |"


def test_every_dialect_has_its_row() -> None:
    """The page has the rows of the program, in their order."""
    shown = [line for line in PAGE.splitlines() if line.startswith("| `") and line.split("`")[1] in NAMES]
    assert shown == [row_of(dialect) for dialect in DIALECTS]


NAMES = {dialect.name for dialect in DIALECTS}


def test_every_public_name_is_on_the_page() -> None:
    """The page names everything that the package exports."""
    assert [name for name in podgroup.__all__ if f"`{name}" not in PAGE] == []
