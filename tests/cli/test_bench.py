"""`pyscheduler bench`, as typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyscheduler.cli.bench import Costs, _table
from tests.cli.conftest import Run

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
- schedulerName: two
"""


@pytest.fixture(name="config")
def _config(tmp_path: Path) -> Path:
    """Write a configuration with two profiles."""
    file = tmp_path / "profiles.yaml"
    file.write_text(CONFIG)
    return file


@pytest.mark.slow
def test_rate_and_costs_are_shown(config: Path, run: Run) -> None:
    """All pods are bound; each line of the table has plugin, point and microseconds, the most expensive first."""
    code, out, err = run("bench", "--config", config, "--profile", "two", "--nodes", 5, "--pods", 120)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "profile two: 5 nodes, 120 pods, 120 bound"
    assert lines[1].endswith("pods/s of CPU time, equivalence cache on")
    assert lines[2].split() == ["plugin", "point", "us/pod"]
    costs = [float(line.split()[2]) for line in lines[3:]]
    assert costs == sorted(costs, reverse=True)
    assert {"PreFilter", "Reserve"} <= {line.split()[1] for line in lines[3:]}


def test_cost_of_a_filter_for_one_node_is_the_sum_over_nodes() -> None:
    """Microseconds are per pod, however often the plugin was called for it; what may wait is left out."""
    costs, family = Costs(), "scheduler_plugin_execution_duration_seconds"
    for _ in range(2):
        costs.observe(family, 1e-6, "Slow", "PreFilter", "Success")
        for _ in range(10):
            costs.observe(family, 5e-6, "Slow", "Filter", "Success")
        costs.observe(family, 5.0, "Slow", "PreBind", "Success")
    costs.count("scheduler_queue_incoming_pods_total", "active", "x")  # what else is recorded is ignored
    assert [line.split() for line in _table(costs)] == [
        ["plugin", "point", "us/pod"],
        ["Slow", "Filter", "50.0"],
        ["Slow", "PreFilter", "1.0"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--profile", "three"], "has no profile 'three'; choose from one, two", id="profile"),
        pytest.param(["--feature-gates", "Nonsense=true"], "Nonsense", id="gate"),
    ],
)
def test_mistake_is_one_line(config: Path, run: Run, arguments: list[str], message: str) -> None:
    """A mistake on the command line is one line, without a traceback."""
    code, out, err = run("bench", "--config", config, "--nodes", 1, *arguments)
    lines = out.splitlines()
    assert (code, lines) == (1, [])
    assert message in err
    assert len(err.splitlines()) == 1


def test_unknown_plugin_is_reported_with_the_file(tmp_path: Path, run: Run) -> None:
    """The error names the file and the path in it."""
    file = tmp_path / "bad.yaml"
    file.write_text(CONFIG + "  plugins: {multiPoint: {enabled: [{name: Missing}]}}\n")
    code, _, err = run("bench", "--config", file)
    assert code == 1
    assert err.startswith(f'error: {file}: plugin "Missing" does not exist')
