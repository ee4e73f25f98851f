"""examples/16-every-point: what `pyscheduler new plugin` writes for all extension points.

The tests of such a package are run in `test_new_plugin.py`.
"""

from __future__ import annotations

import re

from pyscheduler.cli.new.files import NewPlugin
from pyscheduler.cli.new.points import POINTS
from tests.examples.conftest import ROOT


def test_the_files_are_those_that_the_command_writes() -> None:
    """All files but the README are equal, apart from the version of kube-pyscheduler that the package requires.

    If this fails: pyscheduler new plugin EveryPoint --points ... --dir, then copy all files but README.md.
    """
    for path, text in NewPlugin(name="EveryPoint", points=tuple(POINTS)).files().items():
        if path != "README.md":
            of_any_version = re.sub(r'"kube-pyscheduler[^"]*"', '"kube-pyscheduler"', text)
            assert (ROOT / "examples/16-every-point" / path).read_text(encoding="utf-8") == of_any_version, path
