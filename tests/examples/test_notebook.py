"""examples/20-notebook: the cells run, and compare three policies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pyarrow as pa

NOTEBOOK = Path(__file__).parents[2] / "examples/20-notebook/compare.ipynb"


def test_notebook_runs() -> None:
    """It has at most fifteen lines, and its last cell returns a row for each policy. A kernel has a running loop."""
    cells = [
        "".join(each["source"]) for each in json.loads(NOTEBOOK.read_text())["cells"] if each["cell_type"] == "code"
    ]
    assert sum(len(cell.splitlines()) for cell in cells) <= 15

    async def show() -> pa.Table:
        names: dict[str, object] = {}
        for cell in cells[:-1]:
            exec(cell, names)
        return eval(cells[-1], names)

    shown = asyncio.run(show())
    assert [row["policy"] for row in shown.to_pylist()] == ["fifo", "binpack", "kai"]
