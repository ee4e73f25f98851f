"""examples/16-every-point: what `pyscheduler new plugin` writes for all extension points.

The tests of such a package are run in `test_new_plugin.py`.
"""

from __future__ import annotations

import re

from pyscheduler.cli.new.files import NewPlugin
from pyscheduler.cli.new.points import POINTS
from tests.examples.conftest import ROOT


def test_the_files_are_those_that_the_command_writes() -> None:
    """All files but the README are equal; the example requires no version of kube-pyscheduler.

    If this fails, let `pyscheduler new plugin EveryPoint` with all points write a folder, and copy its files.
    """
    for path, text in NewPlugin(name="EveryPoint", points=tuple(POINTS)).files().items():
        if path != "README.md":
            of_any_version = re.sub(r'(# .*\n)?(.*)"kube-pyscheduler[^"]*"', r'\2"kube-pyscheduler"', text)
            assert (ROOT / "examples/16-every-point" / path).read_text(encoding="utf-8") == of_any_version, path
