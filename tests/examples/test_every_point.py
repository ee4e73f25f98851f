"""examples/16-every-point: what `pyscheduler new plugin` writes for all extension points.

The tests of such a package are run in `test_new_plugin.py`.
"""

from __future__ import annotations

import tomllib

import pytest

from pyscheduler.cli.new.files import NewPlugin
from pyscheduler.cli.new.points import POINTS
from tests.examples.conftest import ROOT


def test_the_files_are_those_that_the_command_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files but the README are equal.

    If this fails, let `pyscheduler new plugin EveryPoint` with all points write a folder, and copy its files.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    monkeypatch.setattr("pyscheduler.cli.new.files.version", {"kube-pyscheduler": project["version"]}.__getitem__)
    for path, text in NewPlugin(name="EveryPoint", points=tuple(POINTS)).files().items():
        if path != "README.md":
            assert (ROOT / "examples/16-every-point" / path).read_text(encoding="utf-8") == text, path
