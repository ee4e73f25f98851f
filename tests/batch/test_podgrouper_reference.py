"""The reference page lists what the code has: kinds and arguments."""

from __future__ import annotations

import re
from pathlib import Path

import attrs

from pyscheduler_podgrouper.args import PodGrouperArgs
from pyscheduler_podgrouper.table import GROUPERS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "podgrouper.md"
TEXT = PAGE.read_text(encoding="utf-8")


def cells(heading: str) -> list[list[str]]:
    """Return the rows of the first table under a heading, without its head."""
    text = re.split(r"^#+ ", TEXT.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return rows[2:]


def names(cell: str) -> list[str]:
    """Return the names in code style."""
    return re.findall(r"`([^`]+)`", cell)


def test_the_table_of_kinds_is_that_of_the_code() -> None:
    """Each kind is there with its group and versions, and says whether it is passed over."""
    documented = {
        ("" if row[0].strip() == "core" else names(row[0])[0], kind): (tuple(names(row[2])), "passed over" in row[3])
        for row in cells("Kinds")
        for kind in names(row[1])
    }
    assert documented == {(row.group, row.kind): (tuple(row.versions), row.skips) for row in GROUPERS}


def test_the_table_of_arguments_is_that_of_the_code() -> None:
    """Each argument is there with its default."""
    documented = {name for row in cells("Arguments") for name in names(row[0])}

    def key(name: str) -> str:
        first, *others = name.split("_")
        return first + "".join(other.capitalize() for other in others)

    assert documented == {key(field.name) for field in attrs.fields(PodGrouperArgs)}
