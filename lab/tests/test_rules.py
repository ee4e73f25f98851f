"""Rules about results: ranges of columns for a run, its classes and its teams."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.results.measures import Measures
from pyscheduler_lab.results.rules import broken_rules, read_rules
from pyscheduler_lab.results.runs import Workload, play
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.simulation.policies import policy_named
from pyscheduler_lab.traces import Job


@pytest.fixture(scope="module")
def measures() -> Measures:
    """Return the measures of two teams: a job of a runs at once, a job of b waits for it."""
    first = Job(name="a1", arrival=0, duration=100, workers=1, gpus=8, cpu_milli=1000, memory_mib=1024, team="a")
    second = attrs.evolve(first, name="b1", arrival=10, team="b")
    workload = Workload(jobs=[first, second], cluster=Cluster.uniform(1), teams=())
    settings = RunSettings(trace="jobs", nodes="1", policy="default")
    return play(workload, policy_named("default"), settings).measures


def rules_file(tmp_path: Path, text: str) -> str:
    """Write a file of rules; return its path."""
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return str(path)


def problems(tmp_path: Path, text: str, measures: Measures) -> list[tuple[int, str]]:
    """Return line and text of each broken rule."""
    return [(rule.line, problem) for rule, problem in broken_rules(read_rules(rules_file(tmp_path, text)), measures)]


def test_kept_rules_say_nothing(tmp_path: Path, measures: Measures) -> None:
    """A value at the end of a range is within it."""
    text = "columns: {finished: {min: 2, max: 2}, gpu_utilisation: {min: 0.9}}\nteams: {a: {wait_mean_s: {max: 0}}}\n"
    assert problems(tmp_path, text, measures) == []


def test_broken_rules_name_line_value_and_bound(tmp_path: Path, measures: Measures) -> None:
    """Each broken rule is one entry, in the order of the file."""
    text = """\
columns:
  finished: {min: 3}
  evicted_jobs: {max: 0}
  share_error_mean: {max: 0.1}
teams:
  a:
    wait_mean_s: {max: 10}
  b:
    wait_mean_s: {max: 10}
  c:
    finished: {min: 1}
"""
    found = problems(tmp_path, text, measures)
    assert [line for line, _ in found] == [2, 4, 9, 11]
    assert found[0][1] == "finished is 2; the minimum is 3"
    assert found[1][1] == "share_error_mean has no value in this run"
    assert found[2][1].startswith("wait_mean_s of team b is 9")
    assert found[2][1].endswith("; the maximum is 10")
    assert found[3][1] == "finished of team c: the run has no job of this team"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file must be a mapping"),
        ("{}", "no rules; write for example columns:"),
        ("columns: 3", "line 1: columns must be a mapping"),
        ("rows:\n  a: 1", 'line 1: unknown section "rows"; known are columns, classes, teams'),
        ("columns:\n  speed: {min: 1}", "line 2: columns: a rule has no such column: speed; known are jobs, finished"),
        ("columns:\n  jobs: 3", "line 2: columns.jobs must be a mapping"),
        ("columns:\n  jobs: {}", "line 2: columns.jobs: write min: NUMBER, max: NUMBER, or both"),
        ("columns:\n  jobs: {least: 3}", 'line 2: columns.jobs: "least" is no min or max with a number'),
        ("columns:\n  jobs: {min: many}", 'line 2: columns.jobs: "min" is no min or max with a number'),
        ("columns:\n  jobs: {min: .nan}", 'line 2: columns.jobs: "min" is no min or max with a number'),
        (
            "classes:\n  large:\n    fragmentation: {max: 1}",
            "line 3: classes.large: a rule cannot have the column of a whole run: fragmentation",
        ),
        ("columns: [", "not YAML: "),
    ],
)
def test_mistakes_name_their_line(tmp_path: Path, text: str, message: str) -> None:
    """A file with a mistake is rejected as a whole."""
    with pytest.raises(ConfigError) as raised:
        read_rules(rules_file(tmp_path, text))
    assert message in raised.value.problems[0]
    assert len(raised.value.problems) == 1


def test_missing_file_is_a_mistake() -> None:
    """The message is that of the operating system."""
    with pytest.raises(ConfigError, match="no such file"):
        read_rules("missing.yaml")
