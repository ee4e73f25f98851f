"""`pyscheduler simulate --compare`, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

#: Team a takes the whole cluster for two hours; a minute later team b needs a half, as its quota promises.
TRACE = """\
job_id,vc,arrival_s,duration_s,workers,gpu_per_worker,cpu_milli_per_worker,memory_mib_per_worker
a1,a,0,7200,1,8,8000,1024
a2,a,1,7200,1,8,8000,1024
b1,b,60,3600,1,8,8000,1024
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Write a trace of two teams."""
    path = tmp_path / "teams.csv"
    path.write_text(TRACE)
    return path


@pytest.mark.slow
def test_policies_with_quotas_reclaim_and_fifo_waits(trace: Path, run: Run) -> None:
    """Under FIFO the second team waits for two hours; with quotas a job of the first team loses its minute of work."""
    policies = ["fifo", "drf", "proportion", "capacity", "kai"]
    arguments = [
        "--trace",
        trace,
        "--merge-vcs",
        "--nodes",
        "2x8gpu",
        "--compare",
        ",".join(policies),
        "--quota",
        "a=8,b=8",
    ]
    code, out, err = run("simulate", *arguments, "-o", "json")
    assert (code, err) == (0, "")
    printed = json.loads(out)
    assert printed["quotas"] == {"a": 8, "b": 8}
    found = {each["policy"]: each for each in printed["policies"]}
    assert list(found) == policies
    assert all(each["finished"] == 3 for each in found.values())
    assert found["fifo"]["evicted_jobs"] == 0
    assert found["fifo"]["lost_gpu_hours"] == 0
    assert found["fifo"]["team_wait_mean_s"]["b"] == pytest.approx(7140, abs=15)
    for name in ("drf", "proportion", "capacity", "kai"):
        each = found[name]
        assert each["evicted_jobs"] == 1, name
        assert each["lost_gpu_hours"] == pytest.approx(8 * 59 / 3600, abs=0.02)
        assert each["team_wait_mean_s"]["b"] < 15
        assert each["share_error_mean"] < found["fifo"]["share_error_mean"]
        assert len(each["share_error_series"]) == 48
        assert each["gpu_utilisation"] > 0.8
        lost = each["lost_gpu_hours"] / (16 * each["makespan_s"] / 3600)
        assert each["gpu_goodput"] == pytest.approx(each["gpu_utilisation"] - lost, abs=1e-5)


@pytest.mark.slow
def test_table_has_a_line_per_policy(trace: Path, run: Run) -> None:
    """The quotas come first; the default quotas follow the work of the teams."""
    code, out, err = run("simulate", "--trace", trace, "--merge-vcs", "--nodes", "2x8gpu", "--compare", "fifo,kai")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "quotas in GPUs: a 13, b 3"
    assert lines[2].split() == ["fifo", "kai"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[3:] if line}
    assert rows["finished"] == ["3", "3"]
    assert rows["evicted_jobs"] == ["0", "0"]
    assert "energy_kwh" not in rows
    assert lines[-3].split() == ["mean", "wait", "fifo", "kai"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compare", "fifo,lottery"], 'no policy "lottery"; known are fifo, drf, proportion'),
        (["--compare", "fifo,fifo"], "--compare: name each policy once, as in fifo,drf,kai"),
        (["--compare", "fifo", "--quota", "a=8"], "quota: name each team of the trace once: a, b"),
        (
            ["--compare", "fifo", "--quota", "a=3,foo=3"],
            "quota: the trace has no team foo; name each team of the trace once: a, b",
        ),
        (["--compare", "fifo", "--quota", "a=8,b=many"], '--quota: "b=many" must be like TEAM=GPUS'),
        (["--compare", "fifo", "--quota", f"a=8,b={'9' * 5000}"], '--quota: "b=999'),
        (["--compare", "fifo", "--config", "x.yaml"], "--config has no effect with --compare"),
        (["--quota", "a=8,b=8"], "--quota has no effect without --compare"),
        (["--seeds", "3"], "--seeds has no effect without --compare"),
        (
            ["--compare", "a/x.yaml,b/x.yaml"],
            "--compare: name each policy once, as in fifo,drf,kai; files need different",
        ),
        (["--compare", "missing.yaml"], "missing.yaml"),
    ],
)
def test_mistake_gives_one_line(arguments: list[str], message: str, trace: Path, run: Run) -> None:
    """Exit code 2 and a line that names the option."""
    code, out, err = run("simulate", "--trace", trace, "--merge-vcs", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("team", [pytest.param("", id="empty"), pytest.param("Team ü/1", id="no name of an object")])
def test_team_that_cannot_name_a_queue(team: str, trace: Path, run: Run) -> None:
    """The line names the file and the job; the exit code is 2."""
    trace.write_text(TRACE.replace("b1,b,", f"b1,{team},"), encoding="utf-8")
    code, out, err = run("simulate", "--trace", trace, "--merge-vcs", "--compare", "fifo")
    assert (code, out) == (2, "")
    assert err == (
        f"error: {trace}: vc of job b1 is {team!r}; in a comparison, it must be the name of a queue, such as vc1\n"
    )


def test_configuration_file_is_a_policy(trace: Path, tmp_path: Path, run: Run) -> None:
    """The first profile of the file counts; if it enables Batch, its preset says which objects are created."""
    path = tmp_path / "mine.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    path.write_text(
        head + "profiles:\n- schedulerName: mine\n"
        "  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}\n"
        "  pluginConfig: [{name: Batch, args: {preset: kai, actions: allocate}}]\n"
    )
    arguments = ["--trace", trace, "--merge-vcs", "--nodes", "2x8gpu", "--compare", path, "-o", "json"]
    code, out, err = run("simulate", *arguments)
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["policies"]
    assert (found["finished"], found["evicted_jobs"]) == (3, 0)
    path.write_text(head)
    code, out, _ = run("simulate", *arguments)
    (found,) = json.loads(out)["policies"]
    assert (code, found["finished"], found["share_error_mean"]) == (0, 3, None)
    path.write_text(
        head + "profiles:\n- schedulerName: mine\n"
        "  plugins: {multiPoint: {enabled: [{name: Batch}]}}\n"
        "  pluginConfig: [{name: Batch, args: {preset: kube-batch}}]\n"
    )
    code, _, err = run("simulate", *arguments)
    assert (code, err) == (2, f"error: {path}: a replay of the plugin Batch needs the preset kai or volcano\n")


HIERARCHY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}]
- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}]
"""


def test_hierarchical_capacity_gets_its_root_queue(trace: Path, tmp_path: Path, run: Run) -> None:
    """A file of Volcano whose queues are a tree finishes all jobs, as with Volcano's scheduler, which makes root."""
    path = tmp_path / "volcano.yaml"
    path.write_text(HIERARCHY)
    arguments = ["--trace", trace, "--merge-vcs", "--nodes", "2x8gpu", "--compare", path, "-o", "json"]
    code, out, err = run("simulate", *arguments)
    assert (code, err) == (0, "")
    (found,) = json.loads(out)["policies"]
    assert (found["finished"], found["unfinished"]) == (3, [])


def test_jobs_that_never_start_have_a_reason(trace: Path, run: Run) -> None:
    """A cluster with too few GPUs finishes nothing: one line says why, the slowdown is null, and the exit code is 3."""
    arguments = ["--trace", trace, "--merge-vcs", "--nodes", "2x4gpu", "--compare", "fifo"]
    code, out, err = run("simulate", *arguments, "-o", "json")
    assert (code, err) == (3, "")
    (found,) = json.loads(out)["policies"]
    assert (found["finished"], found["slowdown_mean"], found["slowdown_p99"]) == (0, None, None)
    (why,) = found["unfinished"]
    assert (why["reason"], why["jobs"]) == ("NotEnoughResources", 3)
    assert why["message"].startswith("no node has room")
    code, out, err = run("simulate", *arguments)
    assert (code, err) == (3, "")
    assert out.splitlines()[-1] == f"fifo: 3 of 3 jobs never ran: {why['reason']}: {why['message']}"
    rows = [line.split() for line in out.splitlines()]
    assert {row[1][0] for row in rows if row and row[0].startswith("wait_")} == {">"}
    assert [row[1][0] for row in rows if row and row[0] in {"a", "b"}] == [">", ">"]
    assert ["jobs", "3"] in rows
    assert ">: a lower bound, because jobs that did not finish count until the last event" in out
    assert "completion time (jct), slowdown and fairness leave out jobs that did not finish" in out


def test_seeds_show_intervals_and_mark_chance(trace: Path, run: Run) -> None:
    """Each value has half of its interval and a mark, and a policy without queues has no share error."""
    arguments = ["--trace", trace, "--merge-vcs", "--nodes", "2x8gpu", "--compare", "fifo,binpack", "--seeds", 3]
    code, out, err = run("simulate", *arguments)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[1] == "mean of 3 seeds ± half of the 95 % interval of the mean"
    (finished,) = [line for line in lines if line.startswith("finished")]
    assert finished.split() == ["finished", "3", "±0", "3", "±0", "="]
    assert "=: the same as fifo in every seed" in lines
    assert "≈: the difference to fifo may be chance (0 is in its 95 % interval), or is too small to show" in lines
    assert "seeds only shuffle jobs that arrive together, and random choices: no interval is about" in out
    assert any(line.startswith("the same run in all 3 seeds: fifo") for line in lines)
    assert "lower bound" not in out
    assert not any(cell.startswith(">") for line in lines for cell in line.split())
    (shares,) = [line for line in lines if line.startswith("share_error_mean")]
    assert shares.split()[-1] == "-"
