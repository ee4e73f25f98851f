"""`kubectl queue` with policies, actions and queue dialects of other distributions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml

from pyscheduler.cli.main import main as pyscheduler
from tests.batch.queue.test_queue import KAI, ROOT, Run, pod, steps

EXAMPLE = ROOT / "examples/12-batch-policy"
PROFILE = EXAMPLE / "profile.yaml"

Install: TypeAlias = Callable[..., None]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs `kubectl queue`."""
    return Run(capsys)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Give a function that installs a distribution, as pip would leave it: its hook module, and other modules."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    before = {*sys.modules}

    def make(name: str, hooks: str, **modules: str) -> None:
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pyscheduler]\n{name} = {hooks}\n")
        for module, text in modules.items():
            (site / f"{module}.py").write_text(text)

    yield make
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith((str(site), str(EXAMPLE))):
            del sys.modules[name]


def hooks(call: str) -> str:
    """Return a hook module with one call of the registry."""
    return (
        f"from pyscheduler import hookimpl\n\n\n@hookimpl\ndef pyscheduler_register(registry):\n    registry.{call}\n"
    )


def with_scheduler(folder: Path, name: str) -> str:
    """Write the objects of `kai.yaml` with another schedulerName in the pods; return the path."""
    path = folder / "objects.yaml"
    path.write_text(Path(KAI).read_text().replace("schedulerName: kai-scheduler", f"schedulerName: {name}"))
    return str(path)


# --- policies and actions -----------------------------------------------------------------------


@pytest.fixture
def deadline(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the example with the policy `deadline`."""
    monkeypatch.syspath_prepend(EXAMPLE)
    install("deadline_policy", "deadline_policy.hooks")


@pytest.mark.usefixtures("deadline")
@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        pytest.param(["get"], 0, "  vision   kai       Open    nvidia.com/gpu   4 ", id="get"),
        pytest.param(["describe", "vision"], 0, "default/yolo", id="describe"),
        pytest.param(["explain", "yolo"], 0, "Verdict:  waits: OverLimit\n", id="explain"),
        pytest.param(["whatif", "yolo"], 1, "Verdict:  waits: OverLimit\n", id="whatif"),
    ],
)
def test_profiles_with_a_policy_of_another_distribution_are_read(
    run: Run, tmp_path: Path, arguments: list[str], code: int, expected: str
) -> None:
    """Every subcommand knows the policies that are installed."""
    objects = with_scheduler(tmp_path, "batch")
    assert expected in run(*arguments, "--config", str(PROFILE), objects=objects, code=code)
    assert run.err == ""


@pytest.mark.usefixtures("deadline")
def test_explain_job_reads_a_profile_with_a_policy_of_another_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`pyscheduler explain job` knows the policies that are installed."""
    objects = with_scheduler(tmp_path, "batch")
    with pytest.raises(SystemExit) as ended:
        pyscheduler(["explain", "job", "default/yolo", "--objects", objects, "--config", str(PROFILE)])
    out, err = capsys.readouterr()
    assert ended.value.code == 0, err
    assert "Verdict:  waits: OverLimit\n" in out


@pytest.mark.usefixtures("deadline")
def test_a_reason_is_shown_in_the_step_that_its_action_names(run: Run, tmp_path: Path) -> None:
    """The action and its system are of another distribution, the groups are KAI's."""
    config = tmp_path / "profile.yaml"
    profile = yaml.safe_load(PROFILE.read_text())
    profile["profiles"][0]["pluginConfig"][0]["args"] = {"preset": "deadlines"}
    config.write_text(yaml.safe_dump(profile))
    found = steps(run("explain", "yolo", "--config", str(config), objects=with_scheduler(tmp_path, "batch")))
    assert found["nodes"][:2] == ["holds", "NoRoom"]
    assert found["nodes"][2].startswith("no node has room for default/yolo-")


@pytest.mark.usefixtures("deadline")
def test_a_policy_of_a_blocked_distribution_is_unknown(run: Run) -> None:
    """The error names the file, the policy and its place in the file."""
    assert run("get", "--config", str(PROFILE), "--block", "deadline_policy", code=1) == ""
    (line,) = [each for each in run.err.splitlines() if "no policy" in each]
    assert line.startswith(f'error: {PROFILE}: no policy is called "deadline"; ')
    assert line.endswith(" @ $.profiles[0].pluginConfig[Batch].args.tiers[0].plugins[0].name")


def test_a_mistake_in_a_file_of_a_batch_scheduler_has_its_path(run: Run, tmp_path: Path) -> None:
    """The path is that of the file, not that of the profile which is made of it."""
    config = tmp_path / "volcano-scheduler.conf"
    config.write_text("actions: enqueue, seat\ntiers: [{plugins: [{name: overcommit}]}]\n")
    assert run("get", "--config", str(config), code=1) == ""
    assert run.err.startswith(f'error: {config}: no action is called "seat"; ')
    assert run.err.endswith(" @ $.actions\n")


ACTION = '''
from pyscheduler_batch.contract import Action


class Tidy(Action):
    """Do nothing."""

    name = "tidy"

    async def run(self, session):
        """Do nothing."""
'''


def test_profiles_with_an_action_of_another_distribution_are_read(run: Run, install: Install, tmp_path: Path) -> None:
    """The action may be anywhere among those of the preset."""
    install("tidy", "tidy_hooks", tidy_hooks=hooks('add_action("tidy", "tidy_rows:Tidy")'), tidy_rows=ACTION)
    profile = yaml.safe_load(PROFILE.read_text())
    profile["profiles"][0]["pluginConfig"][0]["args"] = {"preset": "kai", "actions": "tidy, allocate"}
    config = tmp_path / "profile.yaml"
    config.write_text(yaml.safe_dump(profile))
    data = json.loads(
        run("explain", "yolo", "--config", str(config), "-o", "json", objects=with_scheduler(tmp_path, "batch"))
    )
    assert data["reason"] == "OverLimit"


# --- dialects of queues -------------------------------------------------------------------------


def snippet() -> str:
    """Return the module of docs/reference/batch.md with the dialect `fair`."""
    blocks = (ROOT / "docs/reference/batch.md").read_text().split("```python\n")[1:]
    return next(text for each in blocks if "class FairQueue(" in (text := each.partition("```")[0]))


@pytest.fixture
def fair(install: Install, tmp_path: Path) -> str:
    """Install the dialect `fair`; return the path of a cluster with a queue of it, and a job in that queue."""
    install(
        "fairpolicy", "fair_hooks", fair_hooks=hooks('add_queue_dialect("fair", "fair_rows:ROW")'), fair_rows=snippet()
    )
    gpus = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": gpus, "limits": gpus}}
    pod_meta = {"name": "p", "namespace": "default", "labels": {"kai.scheduler/queue": "a"}}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": 8, "nvidia.com/gpu": 4, "pods": 9}},
        },
        {"apiVersion": "fair.example/v1", "kind": "FairQueue", "metadata": {"name": "a"}, "spec": {"gpus": 2}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": pod_meta,
            "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
        },
    ]
    path = tmp_path / "fair.yaml"
    path.write_text(yaml.safe_dump_all(items))
    return str(path)


@pytest.mark.parametrize("dialect", [(), ("--dialect", "fair"), ("--dialect", "kai")], ids=["all", "fair", "kai"])
def test_queues_of_another_distribution_are_shown_with_their_jobs(
    run: Run, fair: str, dialect: tuple[str, ...]
) -> None:
    """They have a quota, a fair share and jobs, and the column names both their dialect and the preset."""
    header, row = run("get", *dialect, objects=fair).splitlines()
    found = dict(zip(header.split(), re.split(r"\s{2,}", row), strict=False))
    assert found["DIALECT"] == "fair (kai)"
    assert [found[name] for name in ("QUEUE", "QUOTA", "FAIR-SHARE", "PENDING", "WAITING")] == ["a", "2", "1", "1", "1"]
    assert run.err == ""


def test_a_job_in_a_queue_of_another_distribution_starts(run: Run, fair: str) -> None:
    """`explain` and `whatif` say what the scheduler does with the pod."""
    assert "Verdict:  starts in the next pass\n" in run("explain", "p", objects=fair)
    assert "  bind  default/p  n\n" in run("whatif", "p", objects=fair)


def test_a_malformed_pod_is_a_problem_of_its_dialect(run: Run, fair: str) -> None:
    """With `--dialect`, the problems are those of the queues and jobs that are shown."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "x"}}}
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "bad", "namespace": "default"},
        "spec": {"minMember": 1, "queue": "a"},
    }
    known = yaml.safe_load_all(Path(fair).read_text())
    Path(fair).write_text(yaml.safe_dump_all([*known, group, pod("bad", containers=[container])]))
    assert "Verdict:  waits: MalformedPod\n" in run("explain", "bad", "--dialect", "fair", objects=fair)


def test_a_queue_of_another_distribution_is_described(run: Run, fair: str) -> None:
    """Its dialect, its system and the preset that reads it are named; JSON has the first and the last."""
    assert "Dialect:              fair (Fair), read by the preset kai\n" in run("describe", "a", objects=fair)
    data = json.loads(run("get", "a", "-o", "json", objects=fair))
    assert (data["dialect"], data["preset"]) == ("fair", "kai")


def test_queues_of_another_distribution_are_shown_without_jobs(run: Run, fair: str, tmp_path: Path) -> None:
    """A cluster without jobs shows each queue once."""
    queue = tmp_path / "queue.yaml"
    queue.write_text("{apiVersion: fair.example/v1, kind: FairQueue, metadata: {name: b}}")
    assert [line.split()[0] for line in run("get", "--no-headers", objects=str(queue)).splitlines()] == ["b"]


def test_simulate_takes_queues_of_another_distribution(run: Run, fair: str, tmp_path: Path) -> None:
    """The shares before and after follow the edited object."""
    queue = tmp_path / "queue.yaml"
    queue.write_text("{apiVersion: fair.example/v1, kind: FairQueue, metadata: {name: b}, spec: {gpus: 1}}")
    data = json.loads(run("simulate", "-f", str(queue), "-o", "json", objects=fair))
    assert {(each["queue"], each["dialect"], each["preset"]) for each in data["items"]} == {
        (name, "fair", "kai") for name in "ab"
    }


def test_an_unknown_dialect_is_refused_with_those_that_are_installed(run: Run, fair: str) -> None:
    """One line names the dialects."""
    assert run("get", "--dialect", "fare", objects=fair, code=1) == ""
    assert run.err.startswith(
        'error: --dialect: no dialect of queues is called "fare"; choose one of kai, volcano, kube-batch, fair\n'
    )


def test_a_dialect_that_cannot_read_a_queue_is_one_line(run: Run, install: Install, tmp_path: Path) -> None:
    """The error names the dialect and the queue."""
    broken = snippet().replace("    free = {", "    raise KeyError(queue.name)\n    free = {")
    install(
        "fairpolicy", "fair_hooks", fair_hooks=hooks('add_queue_dialect("fair", "fair_rows:ROW")'), fair_rows=broken
    )
    queue = tmp_path / "queue.yaml"
    queue.write_text("{apiVersion: fair.example/v1, kind: FairQueue, metadata: {name: b}}")
    assert run("get", objects=str(queue), code=1) == ""
    assert run.err == "error: queue dialect \"fair\": read raised KeyError: 'b' for queue b\n"
