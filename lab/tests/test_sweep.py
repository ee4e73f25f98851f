"""Sweeps: cells and their bundles, what is run again, weights, the table, and mistakes in the file."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import lru_cache, partial
from pathlib import Path

import attrs
import pyarrow.parquet
import pytest
from click.testing import CliRunner

from lab.tests.conftest import Run, hooks, install, other_hash_seed
from lab.tests.recompute import estimates_of, numbers_of
from lab.tests.test_bundle import HEAD, crowded
from pyscheduler_lab.cli.lab_sweep import command
from pyscheduler_lab.results.bundle import read_bundle
from pyscheduler_lab.results.columns import COLUMNS
from pyscheduler_lab.results.verification import other_code
from pyscheduler_lab.sweep.cells import Outcome
from pyscheduler_lab.sweep.engines import open_engine
from pyscheduler_lab.sweep.plan import Cell, read_plan, workload_of
from pyscheduler_lab.traces import Trace

#: Packs, where the default profile spreads.
PACKING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
"""
#: A plugin that prefers one node.
PLUGIN = """\
from pyscheduler import ScorePlugin


class Mine(ScorePlugin):
    def score(self, state, pod, node):
        return 100 if node.name.endswith("0") else 0
"""
SWEEP = """\
traces: jobs.csv
merge_vcs: true
clusters: [3x8gpu, 4x8gpu]
profiles: [packing.yaml, fifo]
seeds: 2
weights: {NodeResourcesFit: [1, 9]}
"""
CELLS = 2 * (2 + 1) * 2


@pytest.fixture
def run(run: Run) -> Run:
    """Return a function that runs `pyscheduler lab`."""
    return partial(run, "lab")


def write_sweep(folder: Path) -> Path:
    """Write a small sweep; return its file."""
    (folder / "jobs.csv").write_text(crowded(6))
    (folder / "packing.yaml").write_text(PACKING)
    (folder / "sweep.yaml").write_text(SWEEP)
    return folder / "sweep.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a small sweep."""
    return write_sweep(tmp_path).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the small sweep in this process; return its folder `out`, with what it printed in `printed`."""
    file = write_sweep(tmp_path_factory.mktemp("whole"))
    out = file.with_name("out")
    result = CliRunner().invoke(command, [str(file), "--out", str(out), "--workers", "1"])
    assert (result.exit_code, result.stderr) == (0, "")
    file.with_name("printed").write_text(result.stdout)
    return out


def hashes(out: Path) -> dict[str, str]:
    """Return the SHA-256 of each Parquet file, by path."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*.parquet"))
    }


@pytest.mark.slow
def test_cells_have_bundles_and_the_table_has_their_means(whole: Path) -> None:
    """Each combination has a bundle; another program finds the numbers of the table in the bundles."""
    out = whole
    assert out.with_name("printed").read_text().startswith(f"{CELLS} cells\nmean of 2 seeds")
    bundles = {path.parent.relative_to(out).as_posix() for path in out.rglob("run.json")}
    assert len(bundles) == CELLS
    assert "jobs/3x8gpu/packing,NodeResourcesFit=9/seed-1" in bundles
    assert "jobs/4x8gpu/fifo/seed-0" in bundles
    rows = [*csv.DictReader((out / "table.csv").read_text().splitlines())]
    assert len(rows) == CELLS // 2 * len(COLUMNS)
    assert pyarrow.parquet.read_table(out / "table.parquet").num_rows == len(rows)
    for cluster in ("3x8gpu", "4x8gpu"):
        found = {
            variant: [numbers_of(out / f"jobs/{cluster}/{variant}/seed-{seed}") for seed in range(2)]
            for variant in ("packing,NodeResourcesFit=1", "packing,NodeResourcesFit=9", "fifo")
        }
        first = found["packing,NodeResourcesFit=1"]
        for variant, runs in found.items():
            expected = estimates_of(runs, None if runs is first else first)
            profile, _, weight = variant.partition(",NodeResourcesFit=")
            keys = {"cluster": cluster, "profile": profile, "weight_NodeResourcesFit": weight}
            mine = [row for row in rows if keys.items() <= row.items()]
            assert len(mine) == len(COLUMNS)
            for row in mine:
                for part, value in expected[row["column"]].items():
                    if value is None:
                        assert row[part] == ""
                    else:
                        assert math.isclose(float(row[part]), value, rel_tol=1e-9, abs_tol=2e-5), (row, part)


@pytest.mark.slow
def test_weights_change_decisions(folder: Path, run: Run) -> None:
    """A pod that needs CPU goes to the node with a pod that needs memory, if balance has a larger weight than room."""
    (folder / "jobs.csv").write_text(HEAD + "one,a,0,100,1,0,1000,600000\ntwo,a,1,100,1,0,60000,1024\n")
    (folder / "sweep.yaml").write_text(
        "traces: jobs.csv\nclusters: 4x8gpu\nprofiles: default\nties: first\n"
        "weights: {NodeResourcesFit: [1, 100], NodeResourcesBalancedAllocation: [1, 100]}\n"
    )
    assert run("sweep", folder / "sweep.yaml", "--out", folder / "out", "--workers", 1)[0] == 0

    def nodes(fit: int, balanced: int) -> int:
        name = f"default,NodeResourcesFit={fit},NodeResourcesBalancedAllocation={balanced}"
        pods = pyarrow.parquet.read_table(folder / "out/jobs/4x8gpu" / name / "seed-0/pods.parquet")
        return len({*pods["node"].to_pylist()})

    assert (nodes(100, 1), nodes(1, 100)) == (2, 1)
    bundle = next((folder / "out/jobs/4x8gpu").glob("*Fit=100,*=1/seed-0"))
    assert json.loads((bundle / "run.json").read_text())["settings"]["weights"]["NodeResourcesFit"] == 100
    assert run("verify", bundle)[0] == 0


@pytest.mark.slow
def test_only_missing_and_changed_cells_run_again(folder: Path, run: Run) -> None:
    """A cell runs again if its bundle is missing, damaged, or of other settings or files; others keep theirs."""
    (folder / "sweep.yaml").write_text(
        "traces: jobs.csv\nmerge_vcs: true\nclusters: 3x8gpu\nprofiles: [default, packing.yaml]\nseeds: 2\n"
    )
    out = folder / "out"

    def old() -> int:
        code, text, err = run("sweep", folder / "sweep.yaml", "--out", out, "--workers", 1)
        assert (code, err) == (0, "")
        return int((text.partition("\n")[0] + ", 0").split(", ")[1].split()[0])

    assert old() == 0
    before = hashes(out)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("run.json")}
    assert old() == 4
    assert {path: path.stat().st_mtime_ns for path in out.rglob("run.json")} == times
    shutil.rmtree(out / "jobs/3x8gpu/default/seed-0")
    (out / ".partial").mkdir(exist_ok=True)
    (out / ".partial/killed").mkdir()
    assert old() == 3
    assert not (out / ".partial/killed").exists()
    (out / "jobs/3x8gpu/default/seed-1/pods.csv").write_text("")
    assert old() == 3
    assert hashes(out) == before
    (folder / "packing.yaml").write_text(PACKING.replace("MostAllocated", "LeastAllocated"))
    assert old() == 2
    moved = folder.rename(folder.with_name(f"{folder.name}-moved"))
    assert run("sweep", moved / "sweep.yaml", "--out", moved / "out")[1].startswith("4 cells, 4 of them")
    with (moved / "sweep.yaml").open("a") as file:
        file.write("ties: first\n")
    assert run("sweep", moved / "sweep.yaml", "--out", moved / "out", "--workers", 1)[1].startswith("4 cells\n")


@pytest.mark.slow
def test_changed_code_of_a_plugin_runs_its_cells_again(folder: Path) -> None:
    """The version of a plugin that is installed with `pip install -e` stays the same; the hash of its files changes."""
    project = folder / "project"
    env = install(project, "mine", hooks("Mine", "mine_plugin:Mine"), mine_plugin=PLUGIN)
    origin = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (project / "mine-1.0.dist-info/direct_url.json").write_text(json.dumps(origin))
    (folder / "mine.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Mine, weight: 99}]}}}]\n"
    )
    (folder / "sweep.yaml").write_text("traces: jobs.csv\nmerge_vcs: true\nclusters: 3x8gpu\nprofiles: mine.yaml\n")

    def lab(*arguments: str) -> tuple[str, str]:
        done = subprocess.run(
            (sys.executable, "-m", "pyscheduler", "lab", *arguments),
            env={**os.environ, **env},
            cwd=folder,
            check=False,
            capture_output=True,
            text=True,
        )
        return done.stdout.partition("\n")[0], done.stderr

    sweep = ("sweep", "sweep.yaml", "--out", "out", "--workers", "1")
    assert lab(*sweep) == ("1 cells", "")
    assert lab(*sweep) == ("1 cells, 1 of them with a bundle from before", "")
    bundle = str(next(folder.glob("out/**/run.json")).parent)
    (project / "mine_plugin.py").write_text(f"{PLUGIN}# no other decisions\n")
    text, err = lab("verify", bundle)
    assert text.endswith(" jobs, equal")
    assert err == "note: mine has other Python files than in the run\n"
    (project / "mine_plugin.py").write_text(PLUGIN.replace('"0"', '"1"'))
    text, err = lab("verify", bundle)
    assert "row 1" in text
    assert err == "note: mine has other Python files than in the run\n"
    assert lab(*sweep) == ("1 cells", "")


@pytest.mark.slow
def test_changed_file_of_a_plugin_runs_its_cells_again(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arg of the plugin names the file. Its path is relative to the folder of the command."""
    monkeypatch.chdir(folder)
    tasks = folder / "tasks.csv"
    tasks.write_text("cpu_milli,num_gpu,gpu_milli\n1000,1,1000\n")
    (folder / "fgd.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: FGD}]}},"
        " pluginConfig: [{name: FGD, args: {typicalTasksFile: tasks.csv}}]}]\n"
    )
    (folder / "sweep.yaml").write_text("traces: jobs.csv\nmerge_vcs: true\nclusters: 3x8gpu\nprofiles: fgd.yaml\n")
    firsts = []
    for content in (None, None, "cpu_milli,num_gpu,gpu_milli\n1000,8,1000\n"):
        if content is not None:
            tasks.write_text(content)
            (bundle,) = (each.parent for each in folder.glob("out/**/run.json"))
            (changed,) = other_code(read_bundle(bundle))
            assert changed.startswith("tasks.csv, which the configuration names, is missing or has another content")
        firsts.append(run("sweep", "sweep.yaml", "--out", "out", "--workers", 1)[1].partition("\n")[0])
    assert firsts == ["1 cells", "1 cells, 1 of them with a bundle from before", "1 cells"]


@pytest.mark.slow
def test_results_do_not_depend_on_processes(folder: Path, whole: Path) -> None:
    """One process and two, each with another order of Python's sets, write the same bytes."""
    subprocess.run(
        (sys.executable, "-m", "pyscheduler", "lab", "sweep", "sweep.yaml", "--out", "two", "--workers", "2"),
        env=other_hash_seed(),
        cwd=folder,
        check=True,
        capture_output=True,
    )
    assert len(hashes(whole)) == 4 * CELLS + 1
    assert hashes(whole) == hashes(folder / "two")
    assert (whole / "table.csv").read_text() == (folder / "two/table.csv").read_text()


def test_trace_is_read_once_for_all_clusters(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its notes are there once, too."""
    reads: list[str] = []

    def read(name: str, **_options: object) -> Trace:
        reads.append(name)
        return attrs.evolve(Trace.read(name, merge_vcs=True), notes={"a job without workers": 3})

    monkeypatch.setattr("pyscheduler_lab.sweep.plan._read_trace", lru_cache(read))
    plan = read_plan(str(folder / "sweep.yaml"))
    assert len(plan.places) == 2
    assert len(reads) == 1
    assert plan.notes == ["jobs: a job without workers: 3"]


@pytest.mark.slow
def test_killed_sweep_goes_on(folder: Path, run: Run, whole: Path) -> None:
    """After a SIGKILL, its processes end; the next run keeps the bundles that were complete."""
    out = folder / "out"
    (folder / "sweep.yaml").write_text(SWEEP.replace("seeds: 2", "seeds: 20"))
    command = (sys.executable, "-m", "pyscheduler", "lab", "sweep", folder / "sweep.yaml", "--out", out)
    with subprocess.Popen((*command, "--workers", "2"), start_new_session=True, stderr=subprocess.PIPE) as process:
        while not [*out.rglob("run.json")]:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # The processes of the cells have the other end of the pipe.
        assert process.stderr is not None
        process.stderr.read()
    left = len([*out.rglob("seed-*/run.json")])
    assert 0 < left < 20 * CELLS // 2
    (folder / "sweep.yaml").write_text(SWEEP)
    code, text, _ = run("sweep", folder / "sweep.yaml", "--out", out, "--workers", 1)
    assert code == 0
    assert " of them with a bundle from before" in text
    wanted = hashes(whole)
    assert {name: each for name, each in hashes(out).items() if name in wanted} == wanted


def test_changed_file_is_read_again_in_the_same_process(folder: Path) -> None:
    """Each plan reads its traces and clusters, also if an earlier one of this process has read the same paths."""
    file = str(folder / "sweep.yaml")
    counts = []
    for jobs in (4, 7):
        (folder / "jobs.csv").write_text(crowded(jobs))
        plan = read_plan(file)
        counts.append(len(workload_of(plan.places[0].settings).jobs))
    assert counts == [len(crowded(jobs).splitlines()) - 1 for jobs in (4, 7)]
    assert counts[0] < counts[1]


def ended(cell: Cell) -> Outcome:
    """Return an outcome; the process of seed 1 is killed."""
    if cell.settings.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(cell=cell)


@pytest.mark.slow
def test_cell_whose_process_is_killed_does_not_stop_the_others(folder: Path) -> None:
    """Its outcome is an error; all other cells have their results, and the engine can be used again."""
    (folder / "sweep.yaml").write_text(
        "traces: {trace: jobs.csv, merge_vcs: true}\nclusters: 3x8gpu\nprofiles: fifo\nseeds: 3\n"
    )
    cells = read_plan(str(folder / "sweep.yaml")).cells()
    with open_engine(workers=2) as engine:
        errors = {each.cell.settings.seed: each.error for each in engine(ended, cells)}
        assert {seed: bool(error) for seed, error in errors.items()} == {0: False, 1: True, 2: False}
        assert errors[1].startswith("its process ended without a result")
        assert [each.error for each in engine(ended, cells[:1])] == [""]


@pytest.mark.slow
def test_failed_cell_does_not_stop_the_others(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is one line with the name of the cell, the table has the other seeds, and the exit code is 3."""
    from pyscheduler_lab.sweep import cells

    play = cells.play

    def failing(workload: object, policy: object, settings: object) -> object:
        if settings.policy == "default" and settings.seed == 1:  # type: ignore[attr-defined]  # of settings
            raise ValueError("no luck")
        return play(workload, policy, settings)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(cells, "play", failing)
    (folder / "sweep.yaml").write_text(
        "traces: jobs.csv\nmerge_vcs: true\nclusters: 3x8gpu\nprofiles: [default, fifo]\nseeds: 3\n"
    )
    out = folder / "out"
    code, text, err = run("sweep", folder / "sweep.yaml", "--out", out, "--workers", 1)
    assert code == 3
    first, last = err.splitlines()
    assert first.startswith("error: jobs/3x8gpu/default/seed-1: ValueError: no luck (")
    assert last == "error: 1 of 6 cells failed; the same command runs them again"
    assert "fifo" in text
    rows = [*csv.DictReader((out / "table.csv").read_text().splitlines())]
    assert {(row["profile"], row["seeds"]) for row in rows} == {("default", "2"), ("fifo", "3")}
    monkeypatch.undo()
    code, text, _ = run("sweep", folder / "sweep.yaml", "--out", out, "--workers", 1)
    assert (code, text.partition("\n")[0]) == (0, "6 cells, 5 of them with a bundle from before")


@pytest.mark.slow
def test_unfinished_jobs_are_exit_code_3(folder: Path, run: Run) -> None:
    """A line names the cell; the table has the number of these jobs, and their waits as lower bounds."""
    (folder / "jobs.csv").write_text(HEAD + "huge,a,0,100,1,16,1000,1024\n")
    (folder / "sweep.yaml").write_text("traces: jobs.csv\nclusters: 2x8gpu\nprofiles: default\n")
    arguments = ("--out", folder / "out", "--workers", 1, "--columns", "jobs,wait_mean_s")
    code, out, err = run("sweep", folder / "sweep.yaml", *arguments)
    text = "jobs/2x8gpu/default/seed-0: 1 jobs did not finish; jobs.csv of the bundle has the reasons"
    assert (code, err) == (3, f"error: {text}\n")
    assert ["default", "1", ">0.0", "s"] in [line.split() for line in out.splitlines()]
    assert "\n>: a lower bound, because jobs that did not finish count until the last event\n" in out
    row, *_ = csv.DictReader((folder / "out/table.csv").read_text().splitlines())
    assert row["unfinished"] == "1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(("traces: jobs.csv\n", ""), "traces is missing; write for example traces: [philly]", id="missing"),
        pytest.param(("seeds:", "seed:"), 'unknown key "seed"; known are traces, clusters, ', id="unknown"),
        pytest.param(("seeds: 2", "seeds: 0"), "seeds: 0 is not from 1 to 1000; write a number of seeds", id="none"),
        pytest.param(("seeds: 2", "seeds: many"), "seeds: Expected `int | array`, got `str`", id="type"),
        pytest.param(("seeds: 2", "seeds: [1, 1]"), 'seeds: two entries have the name "1"', id="seed twice"),
        pytest.param(("jobs.csv", "none.csv"), 'traces[0]: trace: there is no file "none.csv"', id="trace"),
        pytest.param(("jobs.csv", "[{vc: a}]"), "traces[0]: must be a trace, or have the keys trace, vc", id="entry"),
        pytest.param(("jobs.csv", "[{trace: a, jobs: x}]"), "traces[0].jobs: Expected `int | null`", id="entry type"),
        pytest.param(("seeds: 2", "fidelity: 2"), "fidelity: Expected `str`, got `int`", id="type beside traces"),
        pytest.param(("merge_vcs: true\n", ""), "traces[0]: the trace has several virtual clusters", id="vcs"),
        pytest.param(("4x8gpu", "four"), 'clusters[1]: nodes: "four" is neither a file nor a shape', id="cluster"),
        pytest.param(("4x8gpu", "3x8gpu"), 'clusters: two entries have the name "3x8gpu"', id="cluster twice"),
        pytest.param(("fifo", "lottery"), 'profiles[1]: no policy "lottery"', id="profile"),
        pytest.param(("[1, 9]", "[0]"), "weights.NodeResourcesFit[0]: Expected `int` >= 1", id="weight"),
        pytest.param(("[1, 9]", "[]"), "weights.NodeResourcesFit: the list is empty", id="no weight"),
        pytest.param(
            ("NodeResourcesFit", "NodeResourceFit"),
            "weights.NodeResourceFit: no profile scores with this plugin; there are ",
            id="plugin",
        ),
        pytest.param((SWEEP, "[]"), "must have keys; write for example traces: [philly]", id="no mapping"),
        pytest.param((SWEEP, "a: ["), "line 2, column 1: did not find expected node content", id="no YAML"),
        pytest.param(("merge_vcs", "ties: last\nties"), '"ties" already set', id="key twice"),
        pytest.param(("merge_vcs", "fidelity: half\nmerge_vcs"), "fidelity: Invalid enum value 'half'", id="setting"),
    ],
)
def test_mistake_in_the_file_is_one_line(change: tuple[str, str], message: str, folder: Path, run: Run) -> None:
    """The line has the file, the key and what is right; the exit code is 2, and nothing was run."""
    (folder / "sweep.yaml").write_text(SWEEP.replace(*change))
    code, text, err = run("sweep", folder / "sweep.yaml", "--out", folder / "out")
    assert (code, text) == (2, "")
    assert err.startswith(f"error: {folder / 'sweep.yaml'}: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--on", "dask"), '--on: "dask" must be ray', id="engine"),
        pytest.param(("--on", "ray://x:1", "--workers", "2"), "--workers has no effect with --on ray://", id="workers"),
        pytest.param(("--columns", "speed"), '--columns: no column "speed"; known are all, jobs, ', id="column"),
    ],
)
def test_mistake_in_options_is_one_line(arguments: tuple[str, ...], message: str, folder: Path, run: Run) -> None:
    """The exit code is 2."""
    code, _, err = run("sweep", folder / "sweep.yaml", "--out", folder / "out", *arguments)
    assert code == 2
    assert err.startswith(f"error: {message}")
    assert len(err.splitlines()) == 1


def test_missing_ray_is_one_line(folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line has the command that installs Ray."""
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = run("sweep", folder / "sweep.yaml", "--out", folder / "out", "--on", "ray")
    remedy = "run pip install 'kube-pyscheduler-lab[sweep]'"
    assert (code, err) == (2, f"error: --on ray needs Ray, which is not installed; {remedy}\n")


def test_folder_of_something_else_is_left_alone(folder: Path, run: Run) -> None:
    """Only the folder of a sweep may have files."""
    code, _, err = run("sweep", folder / "sweep.yaml", "--out", folder)
    text = f"--out: {folder}: the folder is not empty, and does not belong to a sweep; name another one"
    assert (code, err) == (2, f"error: {text}\n")
