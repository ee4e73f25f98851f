"""Bundles: what a run writes, whether another program finds the same numbers, and whether the run can be repeated."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from lab.tests.conftest import Run, install, other_hash_seed
from pyscheduler_lab.results.bundle import read_bundle, write_bundle
from pyscheduler_lab.results.provenance import local_code, versions
from pyscheduler_lab.results.runs import run as play_settings
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.results.verification import differences, other_code

RECOMPUTE = Path(__file__).with_name("recompute.py")
TABLES = ("jobs", "pods", "timeline", "nodes")
HEAD = "job_id,vc,arrival_s,duration_s,workers,gpu_per_worker,cpu_milli_per_worker,memory_mib_per_worker\n"
#: Team a takes the whole cluster for two hours; a minute later team b needs a half, as its quota promises.
RIVALS = HEAD + "a1,a,0,7200,1,8,8000,1024\na2,a,1,7200,1,8,8000,1024\nb1,b,60,3600,1,8,8000,1024\n"


def crowded(jobs: int) -> str:
    """Return a trace of three teams that request more than four nodes have; many jobs arrive at the same time."""
    rng = random.Random(5)
    rows = (
        f"job-{number},team-{rng.randrange(3)},{number // 4 * 90},{rng.randrange(5, 1200)},{rng.choice((1, 1, 2, 3))},"
        f"{rng.choice((0, 1, 1, 2, 4, 8))},{rng.choice((1000, 8000, 30000))},{rng.choice((1024, 65536))}\n"
        for number in range(jobs)
    )
    return HEAD + "".join(rows)


@pytest.fixture
def compared(run: Run, trace: Path) -> Callable[..., int]:
    """Return a function that compares policies on two nodes, writes the bundles, and returns the exit code."""

    def compared(policies: str, out: Path, *arguments: str) -> int:
        words = ("--trace", trace, "--nodes", "2x8gpu", "--merge-vcs", "--compare", policies, "--out", out)
        return run("simulate", *words, *arguments)[0]

    return compared


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write the trace of two rival teams."""
    path = tmp_path / "rivals.csv"
    path.write_text(RIVALS)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the bundle of a run with a configuration file; return the folder that has the bundle `out`."""
    folder = tmp_path_factory.mktemp("written")
    (folder / "rivals.csv").write_text(RIVALS)
    (folder / "mine.yaml").write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    settings = RunSettings(
        trace=str(folder / "rivals.csv"), vc="a", nodes="2x8gpu", policy=str(folder / "mine.yaml"), seed=5
    )
    write_bundle(folder / "out", play_settings(settings), ["pyscheduler", "simulate"])
    return folder


@pytest.fixture
def out(written: Path, tmp_path: Path) -> Path:
    """Return a copy of the bundle, which a test may damage."""
    found: Path = shutil.copytree(written / "out", tmp_path / "out")
    return found


def recomputed(folder: Path) -> dict[str, Any]:
    """Return the numbers that the other program computes from the bundles in a folder."""
    done = subprocess.run((sys.executable, RECOMPUTE, folder), check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def assert_close(found: Any, expected: Any, where: str) -> None:
    """Compare two JSON values; numbers may differ by the rounding of the first one, times Student's t."""
    if isinstance(expected, dict):
        for key in expected:
            assert_close(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_close(one, other, f"{where}[{place}]")
    elif isinstance(expected, int | float) and found is not None:
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=2e-5), (where, found, expected)
    else:
        assert found == expected, where


def test_check_of_several_bundles_names_one_of_them(out: Path, tmp_path: Path, run: Run) -> None:
    """As in the folder of a comparison; with one bundle below the folder, `check` takes it."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("columns: {finished: {min: 1}}")
    several = tmp_path / "several"
    shutil.copytree(out, several / "fifo/seed-0")
    assert run("lab", "check", several, "--against", rules) == (0, f"{several}: 1 rules kept\n", "")
    shutil.copytree(out, several / "fifo/seed-1")
    code, text, err = run("lab", "check", several, "--against", rules)
    assert (code, text) == (2, "")
    assert err == f"error: {several}: the folder has 2 bundles; name one of them, such as {several}/fifo/seed-0\n"


@pytest.mark.slow
def test_another_program_computes_every_number(tmp_path: Path, run: Run) -> None:
    """DuckDB finds the same columns, waits of teams, reasons, share errors and intervals in the bundles."""
    path = tmp_path / "crowded.csv"
    path.write_text(crowded(16) + "huge,team-0,50,10,1,16,8000,1024\n")
    out = tmp_path / "out"
    arguments = ("--trace", path, "--nodes", "3x8gpu", "--merge-vcs", "--compare", "kai,fifo,default", "--seeds", 2)
    code, text, _ = run("simulate", *arguments, "--out", out, "-o", "json")
    assert code == 3
    printed = json.loads(text)
    assert (out / "comparison.json").read_text() == text
    found = recomputed(out)
    evictions, errors = 0, 0
    for policy in printed["policies"]:
        for seed, cells in zip(policy["seeds"], policy["runs"], strict=True):
            again = found["runs"][f"{policy['policy']}/seed-{seed}"]
            for name in ("deadlocks_resolved", "attempts", "plugin_errors", "wall_s"):
                del cells[name]
            assert_close(cells, {name: again[name] for name in cells}, f"{policy['policy']}/{seed}")
            evictions += cells["evicted_jobs"]
            errors += cells["share_error_mean"] is not None
        estimates = found["estimates"][policy["policy"]]
        assert_close({name: policy[name] for name in estimates}, estimates, policy["policy"])
    assert evictions
    assert errors == 4
    assert printed["policies"][2]["wait_mean_s"]["difference"] is not None


def test_single_run_is_recomputed_too(trace: Path, tmp_path: Path, run: Run) -> None:
    """Without `--compare`, the other program finds the printed numbers, too."""
    code, text, err = run(
        "simulate", "--trace", trace, "--vc", "a", "--nodes", "2x8gpu", "--out", tmp_path / "new", "-o", "json"
    )
    assert (code, err) == (0, "")
    printed = json.loads(text)
    (again,) = recomputed(tmp_path / "new")["runs"].values()
    columns = [name for name in printed if name not in {"deadlocks_resolved", "attempts", "plugin_errors", "wall_s"}]
    assert_close({name: printed[name] for name in columns}, {name: again[name] for name in columns}, "run")


@pytest.mark.slow
def test_equal_runs_have_equal_bytes(trace: Path, tmp_path: Path, run: Run) -> None:
    """With the same seed, all tables have the same bytes, whatever the order of Python's sets."""
    trace.write_text(crowded(16))
    arguments = ("simulate", "--trace", trace, "--nodes", "3x8gpu", "--merge-vcs", "--compare", "kai,coscheduling")
    assert run(*arguments, "--out", tmp_path / "here")[0] == 0
    subprocess.run(
        (sys.executable, "-m", "pyscheduler", *arguments, "--out", tmp_path / "there"),
        env=other_hash_seed(),
        check=True,
        capture_output=True,
    )
    files = [f"{policy}/seed-0/{name}.parquet" for policy in ("kai", "coscheduling") for name in TABLES]
    here, there = (
        [hashlib.sha256((tmp_path / out / file).read_bytes()).hexdigest() for file in files]
        for out in ("here", "there")
    )
    assert here == there
    jobs = pyarrow.parquet.read_table(tmp_path / "here/kai/seed-0/jobs.parquet").to_pylist()
    assert any(job["evictions"] for job in jobs)


def test_bundle_says_where_it_comes_from(written: Path) -> None:
    """`run.json` names settings, versions and hashes; the files that the command named are copied."""
    out, trace, config = written / "out", written / "rivals.csv", written / "mine.yaml"
    recorded = json.loads((out / "run.json").read_text())
    assert recorded["settings"]["seed"] == 5
    assert recorded["command"] == ["pyscheduler", "simulate"]
    assert recorded["inputs"]["trace"]["sha256"] == hashlib.sha256(trace.read_bytes()).hexdigest()
    assert (out / recorded["inputs"]["trace"]["copy"]).read_text() == RIVALS
    assert (out / recorded["inputs"]["policy"]["copy"]).read_text() == config.read_text()
    assert recorded["inputs"]["nodes"] == {
        "name": "2x8gpu",
        "sha256": hashlib.sha256(b"2x8gpu").hexdigest(),
        "copy": None,
    }
    assert {"kube-pyscheduler", "kube-pyscheduler-lab", "numpy", "pyarrow"} <= recorded["versions"].keys()
    for name in TABLES:
        assert (
            recorded["tables"][name]["parquet_sha256"]
            == hashlib.sha256((out / f"{name}.parquet").read_bytes()).hexdigest()
        )
        with (out / f"{name}.csv").open(newline="") as file:
            rows = [*csv.DictReader(file)]
        table = pyarrow.parquet.read_table(out / f"{name}.parquet")
        assert recorded["tables"][name]["rows"] == len(rows) == table.num_rows
        assert list(rows[0]) == table.column_names


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Put a distribution with a plugin on the path of modules; return its folder."""
    install(tmp_path / "project", "mine", "", helper="x = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "project")
    versions.cache_clear()
    yield tmp_path / "project"
    versions.cache_clear()
    local_code.cache_clear()


def code_of(project: Path) -> str | None:
    """Return the hash of the code of the distribution; None if its version is enough."""
    local_code.cache_clear()
    return local_code().get("mine")


def test_code_of_a_folder_is_part_of_the_origin(project: Path) -> None:
    """Of `pip install -e`, all Python files count, without environments; of other installations, the installed ones."""
    assert versions()["mine"] == "1.0"
    assert code_of(project) is None
    origin = project / "mine-1.0.dist-info/direct_url.json"
    origin.write_text(json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}}))
    first = code_of(project)
    assert first is not None
    for path in (".venv/lib/a.py", "env/pyvenv.cfg", "env/lib/a.py", "results.csv"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).touch()
    assert code_of(project) == first
    (project / "inner").mkdir()
    (project / "inner/module.py").touch()
    second = code_of(project)
    (project / "helper.py").write_text("x = 2\n")
    assert len({first, second, code_of(project)}) == 3
    origin.write_text(json.dumps({"url": project.as_uri(), "dir_info": {}}))
    installed = [code_of(project)]
    for digest in ("a", "b"):
        record = f"helper.py,sha256={digest},6\nmine.py,sha256=c,0\nmine-1.0.dist-info/RECORD,,\n"
        (project / "mine-1.0.dist-info/RECORD").write_text(record)
        installed.append(code_of(project))
    assert None not in installed
    assert len({*installed}) == 3


def test_code_of_the_checkout_is_known_by_its_commit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracked projects of the checkout have no hash; without a checkout, they have one unless they are of an index."""
    assert not {name for name in local_code() if "pyscheduler" in name}
    monkeypatch.setattr("pyscheduler_lab.results.provenance.checkout", lambda: None)
    assert code_of(project) is None
    origin = distribution("kube-pyscheduler-lab").read_text("direct_url.json")
    assert ("kube-pyscheduler-lab" in local_code()) == (origin is not None)


def test_bundle_without_hashes_of_code_is_not_known_to_be_equal(out: Path, project: Path) -> None:
    """Such as a bundle of an earlier version, if the plugin is now one of a folder."""
    bundle = read_bundle(out)
    assert not [*other_code(bundle)]
    origin = project / "mine-1.0.dist-info/direct_url.json"
    origin.write_text(json.dumps({"url": project.as_uri(), "dir_info": {"editable": True}}))
    local_code.cache_clear()
    assert [*other_code(bundle)] == ["mine does not come from an index; run.json has no hash of its Python files"]


def test_evicted_pods_have_rows_of_their_own(tmp_path: Path, compared: Callable[..., int]) -> None:
    """An evicted pod is a row, and the pod that replaces it is another one, of the next run of the job."""
    out = tmp_path / "out"
    assert compared("kai", out, "--quota", "a=8,b=8") == 0
    pods = pyarrow.parquet.read_table(out / "kai/seed-0/pods.parquet").to_pylist()
    evicted = [pod for pod in pods if pod["outcome"] == "evicted"]
    (again,) = [pod for pod in pods if pod["run"] == 2]
    assert [pod["pod"] for pod in evicted] == [again["pod"]]
    assert evicted[0]["left_s"] <= again["created_s"] < again["bound_s"] == again["run_started_s"]
    assert sorted(pod["binding"] for pod in pods) == [0, 1, 2, 3]
    jobs = {job["job"]: job for job in pyarrow.parquet.read_table(out / "kai/seed-0/jobs.parquet").to_pylist()}
    assert jobs[again["job"]]["evictions"] == 1
    assert {job["quota_gpus"] for job in jobs.values()} == {8}


def test_jobs_table_has_priority_models_and_selector(tmp_path: Path) -> None:
    """A trace without them has no such columns; a bundle of an earlier version, which lacks them, is read and equal."""
    trace = tmp_path / "t.csv"
    head = "name,arrival,duration,gpu"
    nodes = "1x8gpu:A100"
    trace.write_text(f"{head},priority,gpu_model,node_selector\na,0,9,1,5,A100|T4,kubernetes.io/os=linux\nb,1,9,1,,,\n")
    done = play_settings(RunSettings(trace=str(trace), nodes=nodes, policy="default"))
    names = ("priority", "gpu_model", "node_selector")
    assert [[row[name] for name in names] for row in done.tables.jobs.to_pylist()] == [
        [5, "A100|T4", "kubernetes.io/os=linux"],
        [0, "", ""],
    ]
    write_bundle(tmp_path / "out", done, [])
    pyarrow.parquet.write_table(done.tables.jobs.drop_columns([*names]), tmp_path / "out/jobs.parquet")
    assert [*differences(read_bundle(tmp_path / "out"))] == []
    trace.write_text(f"{head}\na,0,9,1\n")
    without = play_settings(RunSettings(trace=str(trace), nodes=nodes, policy="default")).tables.jobs
    assert not {*names} & {*without.column_names}


def test_job_that_never_ran_has_its_reason(trace: Path, tmp_path: Path, compared: Callable[..., int]) -> None:
    """Its row says why, with the code of a batch policy or the message of the pod; the exit code is 3."""
    trace.write_text(RIVALS + "huge,a,5,10,1,16,8000,1024\n")
    expected = {"default": ("Unschedulable", "Insufficient nvidia.com/gpu"), "fifo": ("NotEnoughResources", "no node")}
    out = tmp_path / "out"
    assert compared("default,fifo", out) == 3
    for policy, (reason, part) in expected.items():
        rows = pyarrow.parquet.read_table(out / policy / "seed-0/jobs.parquet").to_pylist()
        (row,) = [row for row in rows if row["outcome"] == "never_ran"]
        assert (row["job"], row["reason"], row["started_s"]) == ("huge", reason, None)
        assert part in row["message"]


def test_verify_runs_a_bundle_again(trace: Path, tmp_path: Path, run: Run, compared: Callable[..., int]) -> None:
    """A bundle is enough to repeat the run, also where the files that the command named are gone."""
    out = tmp_path / "out"
    assert compared("fifo,binpack", out) == 0
    trace.unlink()
    moved = out.rename(tmp_path / "moved")
    code, text, err = run("lab", "verify", moved)
    assert (code, err) == (0, "")
    assert text == f"{moved}/binpack/seed-0: 3 jobs, equal\n{moved}/fifo/seed-0: 3 jobs, equal\n"


def test_verify_names_what_differs(out: Path, run: Run) -> None:
    """A changed file and a changed table are one line each, with the first row that differs; the exit code is 1."""
    (out / "inputs/trace-rivals.csv").write_text(RIVALS.replace("a2,a,1,7200", "a2,a,1,7201"))
    code, text, _ = run("lab", "verify", out)
    assert code == 1
    first, second, *others = [line.removeprefix(f"{out}: ") for line in text.splitlines()]
    assert (
        first == "inputs/trace-rivals.csv: the file was changed after the run: its SHA-256 is not the one in run.json"
    )
    assert second == "jobs: row 2 (job a2): duration_s is 7201.0, recorded 7200.0; 1 of 2 rows differ"
    assert [line.partition(":")[0] for line in others] == ["pods", "timeline"]


def test_input_with_another_content_is_noticed(out: Path, run: Run) -> None:
    """A policy or trace that comes with the lab is not copied; its hash shows that this version has another one."""
    recorded = json.loads((out / "run.json").read_text())
    recorded["inputs"]["policy"] = {"name": "default", "sha256": "0" * 64, "copy": None}
    recorded["settings"]["policy"] = "default"
    (out / "run.json").write_text(json.dumps(recorded))
    code, text, _ = run("lab", "verify", out)
    assert (code, text) == (
        1,
        f"{out}: policy default: this version has another content under the name than the run had\n",
    )


def rewritten(path: Path, column: str, value: str) -> None:
    """Write a text into all rows of a column."""
    table = pyarrow.parquet.read_table(path)
    values = pa.array([value] * table.num_rows)
    pyarrow.parquet.write_table(table.set_column(table.column_names.index(column), column, values), path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda out: (out / "run.json").unlink(), "run.json: not a bundle of a run: no such file", id="gone"
        ),
        pytest.param(lambda out: (out / "run.json").write_text("{}"), "run.json: not a bundle of a run: ", id="empty"),
        pytest.param(
            lambda out: (out / "run.json").write_text(
                (out / "run.json").read_text().replace('"schema": 1', '"schema": 9')
            ),
            "the bundle has schema 9; this version reads schema 1",
            id="schema",
        ),
        pytest.param(lambda out: (out / "jobs.parquet").write_text("x"), "jobs.parquet: cannot be read: ", id="table"),
        pytest.param(
            lambda out: shutil.copy(out / "nodes.parquet", out / "jobs.parquet"),
            "jobs.parquet: the table jobs lacks the columns job, team, class",
            id="columns",
        ),
        pytest.param(
            lambda out: rewritten(out / "jobs.parquet", "arrival_s", "0"),
            "jobs.parquet: the column arrival_s of the table jobs must be float64 without nulls",
            id="type",
        ),
        pytest.param(
            lambda out: rewritten(out / "pods.parquet", "job", "nobody"),
            "the table pods names the job 'nobody', which the table jobs lacks",
            id="unknown job",
        ),
    ],
)
def test_broken_bundle_is_one_line(damage: Callable[[Path], object], message: str, out: Path, run: Run) -> None:
    """The line names the file, and the exit code is 2."""
    damage(out)
    code, text, err = run("lab", "verify", out)
    assert (code, text) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_folder_that_is_not_empty_is_not_overwritten(trace: Path, tmp_path: Path, run: Run) -> None:
    """Results of an earlier run are never mixed with those of another one."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    code, _, err = run("simulate", "--trace", trace, "--vc", "a", "--nodes", "2x8gpu", "--out", tmp_path / "out")
    assert (code, err) == (2, f"error: --out: {tmp_path / 'out'}: the folder is not empty; name a new one\n")
