"""`pyscheduler simulate --trace`, as typed."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from pyscheduler_lab.results.columns import COLUMNS
from pyscheduler_lab.traces import Trace
from pyscheduler_lab.traces.catalog import TRACES
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]
FIELDS = [
    *(column.name for column in COLUMNS),
    "deadlocks_resolved",
    "attempts",
    "unfinished",
    "plugin_errors",
    "wall_s",
]
TRACE = """\
job_id,arrival_s,duration_s,workers,gpu_per_worker,cpu_milli_per_worker,memory_mib_per_worker
a,0,7200,1,8,8000,1024
b,60,3600,2,8,8000,1024
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace of two jobs."""
    path = tmp_path / "two.csv"
    path.write_text(TRACE)
    return path


def test_decisions_give_the_same_summary(trace: Path, run: Run) -> None:
    """Without an API server, only the time that it takes is another."""
    found = []
    for fidelity in ("full", "decisions"):
        code, out, err = run("simulate", "--trace", trace, "--nodes", "1x8gpu", "-o", "json", "--fidelity", fidelity)
        assert code == 3
        found.append(({**json.loads(out), "wall_s": 0}, err))
    assert found[0] == found[1]


def test_summary_table(trace: Path, run: Run) -> None:
    """The table has all results, attempts and the time by phase; standard error is empty."""
    config = ROOT / "configs/coscheduling.yaml"
    code, out, err = run("simulate", "--trace", trace, "--nodes", "2x8gpu", "--config", config)
    assert (code, err) == (0, "")
    rows = dict(re.split(r" {2,}", line, maxsplit=1) for line in out.splitlines())
    assert rows["jobs"] == "2 of 2 finished in 3.0 h"
    assert rows["job completion time"] == "mean 2.5 h, p50 2.5 h, p90 2.9 h, p99 3.0 h"
    assert rows["waiting time"] == "mean 0.99 h, p50 0.99 h, p90 1.78 h, p99 1.96 h"
    assert rows["slowdown"].startswith("mean 1.99, p50 1.99, ")
    assert rows["free while jobs waited"] == "33.1%; 0.0% unusable for a typical worker"
    assert rows["fragmentation"] == "0.0%"
    assert rows["GPU utilisation"] == "66.7%"
    assert rows["gangs scheduled"] == "1 of 1"
    assert rows["held by incomplete gangs"] == "0.00 GPU-hours"
    assert rows["deadlocks resolved"] == "0"
    assert re.fullmatch(r"\d+ \(3 scheduled, \d+ unschedulable\)", rows["attempts"])
    for phase in ("start", "arrivals", "drain"):
        assert re.fullmatch(r"\S+ \S+ in \d+\.\d s \(\d+\.\d s of CPU\), \d+ attempts", rows[f"phase {phase}"])
    assert re.fullmatch(r"\d+\.\d s", rows["time"])
    assert "warning" not in rows


def test_json_output(trace: Path, run: Run) -> None:
    """One object with these fields and no others."""
    code, out, err = run("simulate", "--trace", trace, "--nodes", "2x8gpu", "--seed", 3, "-o", "json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert list(printed) == FIELDS
    assert (printed["jobs"], printed["finished"], printed["deadlocks_resolved"]) == (2, 2, 0)
    # The default profile knows no groups: one worker holds the second node for two hours, less a minute.
    assert printed["partial_gpu_seconds"] == pytest.approx(8 * 7140, rel=0.01)


def test_philly_is_found_from_any_working_directory(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By its name, whatever the working directory; a wrong virtual cluster is an error."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run("simulate", "--trace", "philly", "--vc", "vc9")
    assert code == 2
    assert re.fullmatch(r'error: \S+philly_jobs\.csv\.gz: vc: no virtual cluster "vc9" in the trace; it has .+\n', err)


@pytest.mark.slow
def test_philly_agrees_with_its_readme() -> None:
    """Jobs, GPUs and hours of each virtual cluster."""
    page = TRACES["philly"].notice
    assert "Terms" in page
    assert TRACES["philly"].file in page
    for vc in ("vc1", "vc2", "vc3", "vc4"):
        jobs = Trace.read("philly", vc=vc).jobs
        hours = sum(job.gpu_count * job.duration for job in jobs) / 3600
        several = sum(job.gpu_count > 1 for job in jobs)
        days = max(job.arrival for job in jobs) / 86400
        assert f"| {vc} | {len(jobs)} | {several} | {days:.1f} | {hours:,.0f} |" in page
        assert Trace.read("philly", vc=vc, shape="worker").jobs[0].gpus == 1


def test_progress_is_shown_only_on_a_terminal(trace: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line on standard error, written over and gone at the end; standard output is as without."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run("simulate", "--trace", trace, "--nodes", "2x8gpu", "-o", "json")
    assert code == 0
    assert list(json.loads(out)) == FIELDS
    assert re.search(r"\rday +0\.0   jobs \d/2   waiting \d   finished \d   GPUs in use \d+   attempts \d+", err)
    assert err.endswith("\r\x1b[K")
    assert "\n" not in err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(["--trace", "phily"], 'there is no file "phily", and no trace of that name', id="trace"),
        pytest.param(["--trace", "philly"], "choose one with vc (option --vc): vc1, vc2, vc3, vc4", id="no vc"),
        pytest.param(["--trace", "TRACE", "--vc", "vc1"], 'no virtual cluster "vc1"', id="vc"),
        pytest.param(
            ["--trace", "TRACE", "--nodes", "many"], 'nodes: "many" is neither a file nor a shape', id="nodes"
        ),
        pytest.param(["--trace", "TRACE", "--shape", "nodepack"], "no columns for nodepack", id="shape"),
        pytest.param(["--trace", "TRACE", "--config", "no.yaml"], "no.yaml: no such file or directory", id="config"),
        pytest.param(["--trace", "TRACE", "--config", "TRACE"], "two.csv", id="no configuration"),
        pytest.param(["--trace", "TRACE", "file.yaml"], "give either scenario files or --trace", id="both"),
        pytest.param([], "give scenario files, --trace, --batch-cases or --queue-cases", id="neither"),
        pytest.param(["--trace", "TRACE", "--select", "a"], "--select has no effect on a trace", id="select"),
        pytest.param(["--trace", "TRACE", "--print-config", "a"], "--print-config has no effect", id="print"),
        pytest.param(["file.yaml", "--nodes", "3"], "--nodes has no effect without --trace", id="nodes alone"),
        pytest.param(["file.yaml", "--config", "a"], "--config has no effect without --trace", id="config alone"),
        pytest.param(["file.yaml", "--vc", "a"], "--vc has no effect without --trace", id="vc alone"),
        pytest.param(["--trace", "TRACE", "--feature-gates", "Nothing=true"], "Nothing", id="gates"),
    ],
)
def test_mistakes_are_one_line_and_code_2(trace: Path, run: Run, arguments: list[str], complaint: str) -> None:
    """Nothing is printed on standard output, and nothing is run."""
    code, out, err = run("simulate", *(str(trace) if each == "TRACE" else each for each in arguments))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert complaint in err


def test_a_job_that_never_ran_is_named(tmp_path: Path, run: Run) -> None:
    """On standard error, with the reason; the exit code is 3. It does not count in the utilisation."""
    path = tmp_path / "three.csv"
    path.write_text(TRACE + "huge,90,10,1,16,8000,1024\n")
    arguments = ("--trace", path, "--nodes", "2x8gpu", "--config", ROOT / "configs/coscheduling.yaml")
    text = "error: job huge never ran: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    code, out, err = run("simulate", *arguments, "-o", "json")
    printed = json.loads(out)
    assert (code, list(printed)) == (3, FIELDS)
    (why,) = printed["unfinished"]
    assert (printed["finished"], why["outcome"], why["reason"], why["jobs"]) == (2, "never_ran", "Unschedulable", 1)
    assert printed["gpu_utilisation"] == pytest.approx(2 / 3, abs=0.001)
    assert err.startswith(text)
    assert len(err.splitlines()) == 1
    code, out, err = run("simulate", *arguments)
    assert (code, err.startswith(text)) == (3, True)
    assert re.search(r"^GPU utilisation +66\.7%$", out, re.MULTILINE)
    assert re.search(r"^waiting time +mean >.*, p50 >.*, p90 >.*, p99 >.*$", out, re.MULTILINE)
    assert re.search(r"^job completion time +mean \d", out, re.MULTILINE)
    assert "\n>: a lower bound, because jobs that did not finish count until the last event\n" in out


def test_openb_replays_by_its_name_on_its_nodes(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """From any working directory; parts of GPUs are placed device by device."""
    monkeypatch.chdir(tmp_path)
    arguments = ("--trace", "openb", "--jobs", 20, "--nodes", "openb", "--watts", "T4=100+70,*=300+250")
    code, out, err = run("simulate", *arguments, "-o", "json")
    printed = json.loads(out)
    assert (code, err, printed["jobs"], printed["finished"], printed["attempts"]) == (0, "", 20, 20, 20)


def test_failures_of_nodes_are_replayed(trace: Path, run: Run, tmp_path: Path) -> None:
    """A drained node interrupts its job; a mistake in the file is one line and code 2."""
    failures = tmp_path / "failures.yaml"
    failures.write_text("events:\n- {at: 100, drain: 'node-*', for: 1h}\n")
    code, out, err = run("simulate", "--trace", trace, "--nodes", "2x8gpu", "--failures", failures, "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["jct_mean_s"] > 2.5 * 3600 + 1000
    code, out, err = run(
        "simulate", "--trace", trace, "--nodes", "2x8gpu", "--failures", failures, "--out", tmp_path / "bundle"
    )
    assert (code, err) == (0, "")
    failures.unlink()
    code, out, err = run("lab", "verify", tmp_path / "bundle")
    assert (code, err) == (0, "")
    failures.write_text("events: [{at: 1, drain: gone}]")
    code, out, err = run("simulate", "--trace", trace, "--failures", failures)
    assert (code, out, err) == (2, "", f'error: {failures}: drain: no node matches "gone"\n')
