"""Plugins that fail: every output of a replay names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lab.tests.conftest import Run
from lab.tests.test_bundle import HEAD
from pyscheduler import QueueSortPlugin
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


@pytest.fixture(autouse=True)
def _plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the plugins of this file."""

    def with_these(**options: Any) -> Registry:
        registry = discover(**options)
        registry.add("Unsorted", Unsorted)
        return registry

    for module in ("results.runs", "simulation.policies"):
        monkeypatch.setattr(f"pyscheduler_lab.{module}.discover", with_these)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a trace of two jobs and a profile."""
    (tmp_path / "jobs.csv").write_text(HEAD + "a1,a,0,600,1,8,8000,1024\na2,a,1,600,1,8,8000,1024\n")
    disabled = "    queueSort: {disabled: [{name: PrioritySort}]}\n"
    (tmp_path / "unsorted.yaml").write_text(PROFILE % "Unsorted" + disabled)
    return tmp_path


def replay(run: Run, folder: Path, config: str, *arguments: object, nodes: str = "2x8gpu") -> tuple[int, str, str]:
    """Replay the trace with a profile."""
    words = ("--trace", folder / "jobs.csv", "--nodes", nodes, "--config", folder / config)
    return run("simulate", *words, *arguments)


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
