"""examples/17-why-pending: `explain`, the leader's story and the history in the logs name the cause of each pod."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.examples.conftest import ROOT

EXAMPLE = ROOT / "examples/17-why-pending"


@pytest.mark.packages
def test_the_session_finds_each_cause_in_three_ways() -> None:
    """The script ends with 0, which it does only if no answer lacks a word, and it asks in all three ways."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = processes.run(EXAMPLE / "session.sh", env=os.environ | {"PATH": path}, seconds=900)
    assert result.returncode == 0, result.stdout + result.stderr
    verdicts, stories, histories = (
        result.stdout.count(text) for text in ("Verdict: ", '"isLeader": true', "--history")
    )
    # `explain --history` prints a verdict, too.
    assert (verdicts, stories, histories) == (15 + 13, 13, 13)
