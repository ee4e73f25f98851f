"""examples/04-small-plugins: every plugin of the how-to page passes its own tests."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.examples.conftest import ROOT

EXAMPLE = ROOT / "examples/04-small-plugins"


@pytest.mark.slow
def test_their_own_tests_pass() -> None:
    """Each module has tests, which pass with warnings as errors and without settings of this repository."""
    modules = {path.stem for path in (EXAMPLE / "small_plugins").glob("[!_]*.py")}
    assert {path.stem.removeprefix("test_") for path in (EXAMPLE / "tests").glob("test_*.py")} == modules
    options = ["-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-p", "no:asyncio", "-W", "error"]
    env = os.environ | {"PYTHONPATH": "."}
    result = processes.run(sys.executable, "-m", "pytest", *options, "tests", cwd=EXAMPLE, env=env)
    assert result.returncode == 0, result.stdout + result.stderr


#: What a stranger may import of pyscheduler; the other rooms are none of his business.
PUBLIC = ("pyscheduler", "pyscheduler.api", "pyscheduler.framework", "pyscheduler.podgroup", "pyscheduler.testing")
MODULES = sorted((ROOT / "examples").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_import_the_public_contract_only(path: Path) -> None:
    """Nothing that people will copy reaches into the rooms behind the contract."""
    imported = {
        node.module or ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    }
    ours = {module for module in imported if module.partition(".")[0] == "pyscheduler"}
    open_rooms = ("pyscheduler.framework.",)
    assert not {module for module in ours if module not in PUBLIC and not module.startswith(open_rooms)}
