"""examples/21-sweep: the commands of its page, and the file that the documentation shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/21-sweep"


@pytest.mark.slow
def test_page_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The weights change how long jobs wait, and the search finds weights that use the GPUs more, perhaps by chance."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = re.findall(r"^pyscheduler (.+)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    outputs = [run(*shlex.split(each), "--columns", "wait_mean_s", "--workers", "1") for each in commands]
    assert [code for code, _, _ in outputs] == [0] * len(commands)
    sweep = outputs[0][1].splitlines()
    assert sweep[0] == "15 cells"
    waits = {line.split()[0]: line.split()[1] for line in sweep if line.startswith("packing,")}
    assert len(waits) == 4
    assert len({*waits.values()}) > 1
    verdict = outputs[1][1].splitlines()[-1]
    assert re.match(r"gpu_goodput: \+.+ points against the untuned profile, 95 % interval -.+ points to \+.+", verdict)
    assert verdict.endswith(": the difference may be chance; keep the weights of the profile")
