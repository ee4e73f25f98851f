"""examples/18-results-in-ci: the commands of its page and of its workflow, and a rule that a run breaks."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from tests import lab_columns_page
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/18-results-in-ci"


def test_page_commands_keep_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The commands of the page succeed, and a run with fewer nodes breaks a rule with the printed line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = re.findall(r"^pyscheduler (.+)$", (EXAMPLE / "README.md").read_text(), re.MULTILINE)
    assert [run(*shlex.split(each))[0] for each in commands] == [0, 0]
    shutil.rmtree("results")
    simulate, check = ([word.replace("3x8gpu", "1x8gpu") for word in shlex.split(each)] for each in commands)
    assert run(*simulate)[0] == 3
    code, out, _ = run(*check)
    assert code == 4
    assert "examples/18-results-in-ci/rules.yaml:3: finished is 5; the minimum is 6" in out.splitlines()


def test_workflow_runs_in_a_repository_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """The `pyscheduler` steps of the workflow succeed in a folder that has only the files of the example."""
    shutil.copytree(EXAMPLE, tmp_path / "repository")
    monkeypatch.chdir(tmp_path / "repository")
    workflow = yaml.safe_load((EXAMPLE / "workflow.yaml").read_text())
    steps = [each["run"] for each in workflow["jobs"]["simulate"]["steps"] if "run" in each]
    assert steps[0] == 'pip install "kube-pyscheduler[lab]"'
    for step in steps[1:]:
        program, *words = shlex.split(step)
        assert program == "pyscheduler"
        assert run(*words)[0] == 0, step


def test_page_shows_the_rules_of_the_example() -> None:
    """The reference shows a part of the file of rules."""
    (shown,) = re.findall(r"```yaml\n(.*?)```", lab_columns_page.PAGE.read_text(), re.DOTALL)
    assert shown in (EXAMPLE / "rules.yaml").read_text()
