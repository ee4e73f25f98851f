"""examples/16-every-point: the template of `pyscheduler new plugin`, and its result for all extension points.

The tests of such a package are run in `test_new_plugin.py`.
"""

from __future__ import annotations

import tomllib

import pytest

from pyscheduler.cli.new.files import POINTS, NewPlugin
from pyscheduler.framework.hooks import PLUGIN_API
from tests.examples.conftest import ROOT


def test_the_files_are_those_that_the_command_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files but the README are equal: nothing of the example is left out that a point needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    monkeypatch.setattr("pyscheduler.cli.new.files.version", {"kube-pyscheduler": project["version"]}.__getitem__)
    for path, text in NewPlugin(name="EveryPoint", points=tuple(POINTS)).files().items():
        if path != "README.md":
            assert (ROOT / "examples/16-every-point" / path).read_text(encoding="utf-8") == text, path


def test_hook_requires_the_present_plugin_api() -> None:
    """A new plugin requires the plugin API of the version that wrote it."""
    hooks = (ROOT / "examples/16-every-point/every_point/hooks.py").read_text(encoding="utf-8")
    assert f'registry.require_api("{PLUGIN_API}")' in hooks
