"""The search of weights: what Optuna proposes, what counts as best, and how the best weights are compared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from lab.tests.conftest import Run
from lab.tests.test_bundle import HEAD
from lab.tests.test_sweep import folder, run
from pyscheduler_lab.sweep.cells import Outcome
from pyscheduler_lab.sweep.plan import Cell
from pyscheduler_lab.sweep.tuning import Search, read_search, trials_of

__all__ = ["folder", "run"]

TUNE = """\
traces: jobs.csv
merge_vcs: true
clusters: 3x8gpu
profiles: default
seeds: 2
weights: {NodeResourcesFit: {min: 1, max: 20}, NodeResourcesBalancedAllocation: {min: 1, max: 20}}
minimize: wait_mean_s
trials: 30
"""


@pytest.fixture
def search(folder: Path) -> Search:
    """Return a search."""
    (folder / "tune.yaml").write_text(TUNE)
    return read_search(str(folder / "tune.yaml"))


def waits(cells: Sequence[Cell], number: int) -> list[Outcome]:
    """Return waits that are shortest for the weights 15 and 5; the cells of trial 2 fail."""
    if number == 2:
        return [Outcome(cell=cell, error="no luck") for cell in cells]
    return [
        Outcome(cell=cell, cells={"wait_mean_s": float((fit - 15) ** 2 + (balance - 5) ** 2)})
        for cell in cells
        for fit, balance in [cell.settings.weights.values()]
    ]


def test_search_finds_better_weights_and_repeats_itself(search: Search) -> None:
    """It begins with the weights of the profile; with the same seed, it proposes the same weights."""
    trials = [*trials_of(search, waits)]
    assert [trial.number for trial in trials] == [*range(30)]
    assert trials[0].weights == {"NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1}
    assert [trial.value is None for trial in trials] == [number == 2 for number in range(30)]
    assert min(trial.value for trial in trials if trial.value is not None) < (trials[0].value or 0) / 4
    assert [trial.weights for trial in trials_of(search, waits)] == [trial.weights for trial in trials]
    other = attrs.evolve(search, goal=type(search.goal)(minimize="wait_mean_s", trials=30, search_seed=1))
    assert [trial.weights for trial in trials_of(other, waits)] != [trial.weights for trial in trials]


def test_maximize_prefers_larger_values(search: Search) -> None:
    """Minimize prefers smaller ones."""
    other = attrs.evolve(search, goal=type(search.goal)(maximize="wait_mean_s"))
    assert other.is_better(2.0, 1.0)
    assert search.is_better(1.0, 2.0)


def test_comparison_has_seeds_of_its_own(search: Search) -> None:
    """The seeds of the search made its best weights look good."""
    assert [*search.plan.seeds] == [0, 1]
    assert [*search.other_seeds] == [2, 3]


@pytest.mark.slow
def test_best_weights_are_printed_and_a_second_run_repeats_the_search(folder: Path, run: Run) -> None:
    """Balance lets three pods share two nodes, so that the last one need not wait; both runs print the same."""
    (folder / "jobs.csv").write_text(
        HEAD + "a,t,0,1000,1,0,1000,600000\nb,t,1,1000,1,0,60000,1024\nc,t,2,1000,1,0,90000,600000\n"
    )
    (folder / "tune.yaml").write_text(
        TUNE.replace("3x8gpu", "2x8gpu").replace("trials: 30", "trials: 3\nties: first\nsearch_seed: 3")
    )
    results = [run("tune", folder / "tune.yaml", "--out", folder / "out", "--workers", 1) for _ in range(2)]
    assert results[0] == results[1]
    code, text, err = results[0]
    assert (code, err) == (0, "")
    assert text.startswith("best of 3 trials: number ")
    assert "plugins:\n  score:\n    enabled:\n    - {name: NodeResourcesFit, weight: " in text
    assert "compared with the untuned profile on 2 seeds that the search did not use, from 2 on:\n" in text
    assert text.splitlines()[-1].startswith("wait_mean_s: -5.5 min against the untuned profile, 95 % interval -5.5 min")
    assert text.endswith(": the tuned weights are better\n")
    assert (folder / "out/table.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(("minimize: wait_mean_s", ""), "name one of minimize and maximize, with a column", id="no goal"),
        pytest.param(("minimize:", "maximize: jobs\nminimize:"), "name one of minimize and maximize", id="two goals"),
        pytest.param(("wait_mean_s", "wait"), 'minimize: no column "wait"; known are jobs, ', id="column"),
        pytest.param(("clusters: 3x8gpu", "clusters: [3x8gpu, 4x8gpu]"), "a search has one of each", id="clusters"),
        pytest.param(("weights:", "ties: first #"), "weights is missing; write for example weights: {", id="weights"),
        pytest.param(
            ("max: 20}}", "max: 1}}"), "weights.NodeResourcesBalancedAllocation: min must be less", id="range"
        ),
        pytest.param(("{min: 1, max: 20},", "[1, 2],"), "weights.NodeResourcesFit: Expected `object`", id="list"),
        pytest.param(("trials: 30", "trials: 0"), "trials: Expected `int` >= 1", id="trials"),
        pytest.param(("trials: 30", "search: 0"), 'unknown key "search"; known are traces', id="unknown"),
    ],
)
def test_mistake_in_the_file_is_one_line(change: tuple[str, str], message: str, folder: Path, run: Run) -> None:
    """The line has the file and the key; the exit code is 2."""
    (folder / "tune.yaml").write_text(TUNE.replace(*change))
    code, text, err = run("tune", folder / "tune.yaml", "--out", folder / "out")
    assert (code, text) == (2, "")
    assert err.startswith(f"error: {folder / 'tune.yaml'}: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_missing_optuna_is_one_line(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the command that installs Optuna."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = run("tune", folder / "sweep.yaml", "--out", folder / "out")
    remedy = "run pip install 'kube-pyscheduler-lab[sweep]'"
    assert (code, err) == (2, f"error: lab tune needs Optuna, which is not installed; {remedy}\n")
