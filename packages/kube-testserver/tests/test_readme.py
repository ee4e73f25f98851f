"""The page shows what the examples print, and its tests pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1]
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```\n\n(?:```text\n(.*?)^```)?", PAGE, re.DOTALL | re.MULTILINE)


TESTS = [code for code, printed in EXAMPLES if not printed]


def run(*arguments: str | Path) -> str:
    """Run Python in the folder of the page; return what it prints."""
    command = (sys.executable, *arguments)
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("code", "printed"), [example for example in EXAMPLES if example[1]])
def test_an_example_prints_what_the_page_says(code: str, printed: str) -> None:
    """A Python block that is followed by a text runs as it stands, and prints the text."""
    if "kubernetes" in code:
        pytest.importorskip("kubernetes")
    assert run("-c", code) == printed


@pytest.mark.slow
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    """The other Python blocks are test modules that use the fixture, and they pass."""
    pytest.importorskip("kopf")
    pytest.importorskip("kubernetes")
    for number, code in enumerate(TESTS):
        (tmp_path / f"test_{number}.py").write_text(code, encoding="utf-8")
    # Without the settings of this repository: as in the project of somebody else.
    printed = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tmp_path, tmp_path)
    assert f"{len(TESTS)} passed" in printed


def test_the_page_has_examples() -> None:
    """The fixture, a `with` statement, an operator, and a cluster without a network."""
    assert (len(TESTS), len(EXAMPLES)) == (2, 4)
