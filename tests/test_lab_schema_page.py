"""The page about traces has the columns of the schema, and the names of the traces and node lists."""

from __future__ import annotations

from pathlib import Path

from pyscheduler_lab.clusters import NODE_LISTS, Cluster
from pyscheduler_lab.clusters.failures import read_failures
from pyscheduler_lab.traces.catalog import TRACES
from pyscheduler_lab.traces.schema import COLUMNS

PAGE = (Path(__file__).parents[1] / "docs/reference/traces.md").read_text(encoding="utf-8")


def test_table_of_columns_is_the_schema() -> None:
    """Each row of the table is a column, in the same order."""
    rows = [
        f"| `{column.name}` | {column.form} | {column.default or ''}{' ' if column.default else ''}| {column.meaning} |"
        for column in COLUMNS
    ]
    assert "\n".join(rows) in PAGE


def test_carried_data_is_named() -> None:
    """Each trace with its terms, each node list."""
    assert [name for name in (*TRACES, *NODE_LISTS) if f"`{name}`" not in PAGE] == []


def test_example_of_failures_is_read() -> None:
    """The file that the page shows has every kind of change."""
    example = Path(__file__).parents[1] / "lab/tests/node-failures.yaml"
    assert example.read_text(encoding="utf-8") in PAGE
    found = read_failures(example, Cluster.read("24x8gpu"))
    assert [change.kind for change in found.changes] == ["drain", "lose", "add", "remove"]
    assert (len(found.rates), found.groups[0].name, found.groups[0].idle, found.seed) == (2, "burst", 600, 7)
