"""docs/how-to/debug-a-plugin.md: its sessions print what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.examples.conftest import ROOT, install, run

PAGE = (ROOT / "docs/how-to/debug-a-plugin.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.slow


def session(program: str) -> tuple[list[str], str]:
    """Return the arguments of the command in the only session of a program, and what the page shows after it."""
    ((command, shown),) = [(command, shown) for command, shown in SESSIONS if command.startswith(f"{program} ")]
    return shlex.split(command)[1:], shown


async def test_a_breakpoint_stops_in_the_plugin(tmp_path: Path) -> None:
    """With the line that the page adds, the test stops there, and the commands print the arrays of the page."""
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples/04-small-plugins", folder)
    module = folder / "small_plugins/headroom.py"
    code = module.read_text(encoding="utf-8")
    line = "        return NodeStatuses.failing(wanted > usable, NO_HEADROOM)\n"
    assert code.count(line) == 1
    module.write_text(code.replace(line, f"        breakpoint()\n{line}"), encoding="utf-8")
    arguments, shown = session("python")
    commands = re.findall(r"^\(Pdb\) (.*)$", shown, re.MULTILINE)
    options = ["-c", os.devnull, "--rootdir=.", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:asyncio"]
    done = await processes.run_async(
        *(sys.executable, *arguments, *options),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": ".", "PYTHONBREAKPOINT": "pdb.set_trace"},
        stdin="".join(f"{command}\n" for command in commands),
    )
    answers = re.split(r"^\(Pdb\) .*\n", shown, flags=re.MULTILINE)[1:]
    assert [answer for answer in answers if answer.strip("\n") not in done.stdout] == []
    assert "1 passed" in done.stdout


def test_explain_shows_the_score_of_the_plugin(tmp_path: Path) -> None:
    """The command prints the table of the page, with a column for the plugin that is installed."""
    environment = install(ROOT / "examples/01-third-party-plugin", tmp_path)
    arguments, shown = session("pyscheduler")
    done = run("-m", "pyscheduler", *arguments, env=environment, cwd=ROOT / "examples/01-third-party-plugin")
    assert done.returncode == 0, done.stderr
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown.splitlines()
