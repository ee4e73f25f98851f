"""The page shows what the examples print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n(?:```text\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_page_says(code: str, printed: str) -> None:
    """Each Python block runs as it stands, and prints the text block that follows."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {})
    assert output.getvalue() == printed


def test_the_page_has_examples() -> None:
    """One, without a network."""
    assert len(EXAMPLES) == 1
