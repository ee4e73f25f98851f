"""Ctrl-C during a sweep of the lab, which has processes of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from lab.tests.test_bundle import crowded
from lab.tests.test_sweep import PACKING, SWEEP
from tests import processes


@pytest.mark.slow
@pytest.mark.parametrize("what", ["imports", "cells"])
def test_interrupted_sweep_prints_one_line(tmp_path: Path, what: str) -> None:
    """Ctrl-C reaches all processes of the terminal. None prints a traceback, none is left, and bundles are kept."""
    (tmp_path / "jobs.csv").write_text(crowded(20))
    (tmp_path / "packing.yaml").write_text(PACKING)
    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("seeds: 2", "seeds: 100"))
    out = tmp_path / "out"
    command = (sys.executable, "-m", "pyscheduler", "lab", "sweep", str(tmp_path / "sweep.yaml"), "--out", str(out))
    sweep = processes.popen(*command, "--workers", "2")
    try:
        # The processes begin to import modules when the folder is there.
        wanted = ".sweep.yaml" if what == "imports" else "jobs/*/*/seed-*/run.json"
        deadline = time.monotonic() + processes.PATIENCE_SECONDS
        while not [*out.glob(wanted)]:
            assert sweep.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(sweep.pid, signal.SIGINT)
        # The pipes close when all processes have ended.
        text, err = sweep.communicate(timeout=processes.PATIENCE_SECONDS)
        assert (sweep.returncode, text, err.strip()) == (130, "", "interrupted")
        assert len([*out.glob("jobs/*/*/seed-*/run.json")]) >= (what == "cells")
    finally:
        processes.kill(sweep)
