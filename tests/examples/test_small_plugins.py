"""examples/04-small-plugins: every plugin of the how-to page passes its own tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.examples.conftest import ROOT

EXAMPLE = ROOT / "examples/04-small-plugins"


@pytest.mark.slow
def test_their_own_tests_pass() -> None:
    """Each module has tests, which pass with warnings as errors and without settings of this repository."""
    modules = {path.stem for path in (EXAMPLE / "small_plugins").glob("[!_]*.py")}
    assert {path.stem.removeprefix("test_") for path in (EXAMPLE / "tests").glob("test_*.py")} == modules
    options = ["-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "tests"],
        cwd=EXAMPLE,
        env=os.environ | {"PYTHONPATH": "."},
        text=True,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
