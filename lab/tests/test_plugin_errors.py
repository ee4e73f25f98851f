"""Plugins that fail: a replay ends although they fail in each attempt, and every output names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from lab.tests.conftest import Run
from lab.tests.test_bundle import HEAD
from pyscheduler import QueueSortPlugin, ScorePlugin
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.runtime.assembly.registry import Registry

PROFILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: %s}]}
"""
#: The errors of a replay of two jobs in order of arrival.
UNSORTED = "plugin \"Unsorted\" failed at QueueSort, 2 x, first with KeyError: 'no key', test_plugin_errors.py:"


class Unsorted(QueueSortPlugin):
    """Orders nothing, so that the pods are scheduled in the order of their creation."""

    name: ClassVar[str] = "Unsorted"

    def sort_key(self, info: Any) -> Any:
        raise KeyError("no key")


class Unscored(ScorePlugin):
    """Fails for the pods of jobs whose names begin with its prefix, as often as its limit says."""

    name: ClassVar[str] = "Unscored"
    prefix = ""
    limit = 10**9
    calls = 0

    def score_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        if pod.name.startswith(self.prefix) and Unscored.calls < self.limit:
            Unscored.calls += 1
            raise ValueError("no score")
        return np.zeros(len(nodes), dtype=np.int64)


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the plugins of this file."""

    def with_these(**options: Any) -> Registry:
        registry = discover(**options)
        registry.add("Unsorted", Unsorted)
        registry.add("Unscored", Unscored)
        return registry

    for module in ("results.runs", "simulation.policies"):
        monkeypatch.setattr(f"pyscheduler_lab.{module}.discover", with_these)
    monkeypatch.setattr(Unscored, "calls", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a trace of two jobs and two profiles."""
    (tmp_path / "jobs.csv").write_text(HEAD + "a1,a,0,600,1,8,8000,1024\na2,a,1,600,1,8,8000,1024\n")
    disabled = "    queueSort: {disabled: [{name: PrioritySort}]}\n"
    (tmp_path / "unsorted.yaml").write_text(PROFILE % "Unsorted" + disabled)
    (tmp_path / "unscored.yaml").write_text(PROFILE % "Unscored")
    return tmp_path


def replay(run: Run, folder: Path, config: str, *arguments: object, nodes: str = "2x8gpu") -> tuple[int, str, str]:
    """Replay the trace with a profile."""
    words = ("--trace", folder / "jobs.csv", "--nodes", nodes, "--config", folder / config)
    return run("simulate", *words, *arguments)


@pytest.mark.parametrize("fidelity", ["full", "decisions"])
def test_replay_ends_if_a_plugin_fails_in_each_attempt(fidelity: str, folder: Path, run: Run) -> None:
    """It ends an hour after the last arrival, and not after twelve; the jobs have the reason."""
    code, out, err = replay(run, folder, "unscored.yaml", "--fidelity", fidelity, "-o", "json")
    found = json.loads(out)
    (errors,) = found["plugin_errors"]
    assert (code, errors["plugin"], errors["point"]) == (3, "Unscored", "Score")
    assert 2 * 60 <= errors["times"] == found["attempts"] <= 2 * 3600 / 5
    first, second, third = [line for line in err.splitlines() if line.startswith("error: ")]
    reason = 'running Score plugins: plugin "Unscored" failed with: ValueError: no score'
    assert (first, second) == (f"error: job a1 never ran: {reason}", f"error: job a2 never ran: {reason}")
    assert third.startswith('error: plugin "Unscored" failed at Score, ')


@pytest.mark.parametrize("limit", [10, 100])
def test_replay_goes_on_if_the_errors_end(limit: int, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that recovers within a while places its pods; the run is still marked."""
    monkeypatch.setattr(Unscored, "limit", limit)
    code, out, _ = replay(run, folder, "unscored.yaml", "-o", "json")
    found = json.loads(out)
    assert (code, found["finished"], found["unfinished"]) == (3, 2, [])
    assert [each["times"] for each in found["plugin_errors"]] == [limit]


@pytest.mark.slow
def test_replay_goes_on_while_another_pod_is_unschedulable(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only errors end a replay early: a pod that was rejected may fit later, so its retries come first."""
    monkeypatch.setattr(Unscored, "prefix", "a2")
    with (folder / "jobs.csv").open("a") as file:
        file.write("wide,a,2,600,1,16,8000,1024\n")
    words = ("--pod-max-in-unschedulable-pods-duration", "30m", "--fidelity", "decisions", "-o", "json")
    code, out, _ = replay(run, folder, "unscored.yaml", *words, nodes="3x8gpu")
    assert code == 3
    (errors,) = json.loads(out)["plugin_errors"]
    assert errors["times"] > 3 * 3600 / 10


def test_table_and_bundle_name_the_plugin(folder: Path, run: Run) -> None:
    """All jobs finish, in another order than the profile's: the table, `run.json` and the exit code say so."""
    out = folder / "out"
    code, text, err = replay(run, folder, "unsorted.yaml", "--out", out)
    assert code == 3
    assert ["plugin", "errors", "2", "x", "Unsorted", "at", "QueueSort"] in [line.split() for line in text.splitlines()]
    assert f"error: {UNSORTED}" in err
    (errors,) = json.loads((out / "run.json").read_text())["counts"]["plugin_errors"]
    assert (errors["plugin"], errors["point"], errors["times"]) == ("Unsorted", "QueueSort", 2)
    assert errors["message"].startswith("KeyError: 'no key', test_plugin_errors.py:")
    page = folder / "page.html"
    assert run("lab", "report", out, "-o", page)[0] == 0
    assert "<td>Unsorted</td><td>QueueSort</td><td>2</td><td>KeyError: &#x27;no key&#x27;" in page.read_text()
    (folder / "rules.yaml").write_text("columns: {finished: {min: 2}}\n")
    code, text, _ = run("lab", "check", out, "--against", folder / "rules.yaml")
    assert (code, text.startswith(f"{out}: {UNSORTED}")) == (4, True)


def test_comparison_names_policy_and_seed(folder: Path, run: Run) -> None:
    """A line for each run in which a plugin failed, below the table."""
    words = ("--trace", folder / "jobs.csv", "--nodes", "2x8gpu", "--compare", f"default,{folder / 'unsorted.yaml'}")
    code, out, _ = run("simulate", *words, "--seeds", 2)
    assert code == 3
    lines = [line for line in out.splitlines() if " failed at " in line]
    assert [line.partition(": plugin ")[0] for line in lines] == [
        f"{folder / 'unsorted.yaml'}, seed {seed}" for seed in (0, 1)
    ]


def test_sweep_names_the_cell_also_with_a_bundle_from_before(folder: Path, run: Run) -> None:
    """The second call runs nothing, and prints the same line."""
    (folder / "sweep.yaml").write_text("traces: jobs.csv\nclusters: 2x8gpu\nprofiles: [default, unsorted.yaml]\n")
    for _ in range(2):
        code, out, err = run("lab", "sweep", folder / "sweep.yaml", "--out", folder / "out", "--workers", 1)
        assert code == 3
        assert f"error: jobs/2x8gpu/unsorted/seed-0: {UNSORTED}" in err
        assert "default/seed-0: plugin" not in err
    assert "2 of them with a bundle from before" in out
