"""`pyscheduler simulate`, as typed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.config.load import loads
from tests import processes
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
TWO = """
schema: 1
profiles: {plain: {queueSort: priority}}
scenarios:
- id: good-one
  title: all fit
  profile: plain
  nodes: [{name: n, count: 3, cpu: 4}]
  steps: [{create_pods: {prefix: p, count: 5}}, {advance: 1.5}, {expect: {bound: {p: 5}}}]
- id: bad-one
  title: not all fit
  optional: true
  profile: plain
  nodes: [{name: n, cpu: 4}]
  steps: [{create_pods: {prefix: p, count: 5}}, {expect: {bound: {p: 5}, within: 3}}]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write a file with a scenario that passes and one that fails."""
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return path


def test_table_output(file: Path, run: Run) -> None:
    """A line per scenario, a line per failure, and a sum."""
    code, out, err = run("simulate", file)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert re.fullmatch(r"passed  good-one +1\.5 s  all fit", lines[0])
    assert re.fullmatch(r"FAILED  bad-one +3 s  not all fit \(optional\)", lines[1])
    assert lines[2] == "        step 1 (expect), 3 s: set p: 4 pods are bound, not 5, after 3 s"
    assert re.fullmatch(r"1 of 2 scenarios passed in \d+\.\d s", lines[3])


def test_json_output(file: Path, run: Run) -> None:
    """One array, in which every pod's state after every step can be looked up."""
    code, out, err = run("simulate", file, "-o", "json", "--select", "good-*")
    assert (code, err) == (0, "")
    (result,) = json.loads(out)
    assert (result["id"], result["passed"], result["failures"]) == ("good-one", True, [])
    assert [(step["step"], step["time"]) for step in result["steps"]] == [(0, 0.0), (1, 1.5), (2, 1.5)]
    pod = result["steps"][0]["pods"]["default/p-0"]
    assert re.fullmatch(r"n-\d", pod.pop("node"))
    assert pod == {"state": "bound", "set": "p", "message": "", "messages": [], "annotations": {}}


@pytest.mark.parametrize(
    ("patterns", "ids"),
    [
        pytest.param(["bad-one"], ["bad-one"], id="an id"),
        pytest.param(["bad-one,good-one"], ["good-one", "bad-one"], id="commas"),
        pytest.param(["bad*", "g*"], ["good-one", "bad-one"], id="repeated"),
    ],
)
def test_scenarios_are_selected(file: Path, run: Run, patterns: list[str], ids: list[str]) -> None:
    """By id or pattern, and run in the order of the file."""
    options = [part for pattern in patterns for part in ("--select", pattern)]
    _, out, _ = run("simulate", file, "-o", "json", *options)
    assert [result["id"] for result in json.loads(out)] == ids


def test_the_configuration_is_printed(file: Path, run: Run) -> None:
    """What is printed can be used as `--config`."""
    code, out, _ = run("simulate", file, "--print-config", "good-one")
    assert code == 0
    assert loads(out).profiles[0].scheduler_name == "pyscheduler"
    assert yaml.safe_load(out)["kind"] == "KubeSchedulerConfiguration"


@pytest.mark.parametrize(
    ("text", "arguments", "complaint"),
    [
        pytest.param("schema: 3", [], "two.yaml: ", id="schema"),
        pytest.param(TWO.replace("advance: 1.5", "advanse: 1"), [], 'there is no kind of step "advanse"', id="step"),
        pytest.param(TWO, ["--select", "worse-*"], 'no scenario matches "worse-*"', id="select"),
        pytest.param(TWO, ["--print-config", "worse"], '--print-config: no scenario "worse"', id="print-config"),
        pytest.param(TWO, ["elsewhere.yaml"], "elsewhere.yaml: no such file or directory", id="no file"),
    ],
)
def test_mistakes_are_one_line_and_code_2(
    file: Path, run: Run, text: str, arguments: list[Any], complaint: str
) -> None:
    """Nothing is printed on standard output, and nothing is run."""
    file.write_text(text)
    code, out, err = run("simulate", file, *arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert complaint in err


def test_an_id_may_be_in_one_file_only(file: Path, run: Run) -> None:
    """Two files are one list of scenarios."""
    code, _, err = run("simulate", file, file)
    assert code == 2
    assert "the id is already used in another file" in err


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_every_process(file: Path, run: Run) -> None:
    """No order of a set, no clock and no number of a process has a part in it; another seed chooses otherwise."""
    own = os.environ.get("PYTHONHASHSEED", "random")
    command = ("simulate", str(file), "-o", "json", "--seed")
    code, first, _ = run(*command, "1")
    done = processes.run(
        *(sys.executable, "-m", "pyscheduler", *command, "1"),
        env={**os.environ, "PYTHONHASHSEED": "1" if own != "1" else "2"},
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout) == (code, first)
    assert code == 1
    assert any(run(*command, str(seed))[1] != first for seed in (2, 3, 4))


def test_the_example_runs(run: Run) -> None:
    """What the page of the example says to type does what it says."""
    page = (ROOT / "examples/05-scenarios/README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^pyscheduler simulate (.+)$", page, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        first, *rest = line.split()
        code, out, err = run("simulate", ROOT / first, *rest)
        assert (code, err) == (0, "")
        assert "nine-of-ten" in out or "KubeSchedulerConfiguration" in out
