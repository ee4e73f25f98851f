"""`pyscheduler explain POD` has the steps of the pod's job, as `kubectl queue explain` shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.cli.main import main
from tests.batch.queue.test_explain_plans import VERSIONS, Objects
from tests.batch.queue.test_queue import Run as Queue

ROOT = Path(__file__).parents[3]
#: The reason of a job of two pods that needs one GPU more than there is.
REASONS = {"kai": "PodSchedulingErrors", "volcano": "QueueLimit", "kube-batch": "NotEnoughResources"}


def cluster(folder: Path, dialect: str, *, scheduler: str = "", condition: dict[str, Any] | None = None) -> Path:
    """Write a node of two GPUs, of which a job holds one, and a job of two pods that waits."""
    objects = Objects(dialect, 2)
    objects.queue("team", 2)
    objects.job("run", "team", 1, runs=True, at=1)
    objects.job("want", "team", 2, least=2, runs=False, at=2)
    for item in objects.items:
        if item["kind"] == "Pod":
            item["spec"]["schedulerName"] = scheduler or item["spec"]["schedulerName"]
            if condition is not None and item["metadata"]["name"] == "want-0":
                item["status"]["conditions"] = [condition]
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all(objects.items))
    return file


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any], str]:
    """Return the exit code, the answer about `want-0` as JSON, and the notes."""
    code = 0
    try:
        main(["explain", "want-0", "-o", "json", *map(str, arguments)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    out, err = capsys.readouterr()
    return code, json.loads(out), err


@pytest.mark.parametrize("dialect", VERSIONS)
@pytest.mark.parametrize("is_configured", [True, False])
def test_pod_has_the_steps_of_its_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], dialect: str, is_configured: bool
) -> None:
    """Verdict, reason and steps are those of the job; without a configuration, the preset is assumed and named."""
    config = ROOT / f"configs/batch-{dialect}.yaml"
    name = yaml.safe_load(config.read_text())["profiles"][0]["schedulerName"] if is_configured else ""
    file = cluster(tmp_path, dialect, scheduler=name)
    options = ("--config", config) if is_configured else ()
    code, found, err = explained(capsys, "--objects", file, *options)
    assert (code, err) == (0, "")
    assert (found["verdict"], found["reason"]) == ("waits", REASONS[dialect])
    job = json.loads(Queue(capsys)("explain", "want", "-o", "json", *map(str, options), objects=str(file)))
    shown = {step["name"]: step for step in found["steps"]}
    for step in job["steps"]:
        if step["name"] == "next":
            assert found["next"] == step["text"]
        else:
            assert shown[step["name"]] == step
    assert (f"the preset {dialect} is assumed" in shown["scheduler"]["text"]) is not is_configured


def test_pod_of_a_job_that_starts_contradicts_its_condition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A condition that says that the pod waits has exit code 3 if the job starts in the next pass."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "OverLimit: full"}
    file = cluster(tmp_path, "kai", condition=condition)
    code, found, _ = explained(capsys, "--objects", file)
    assert (code, found["contradicts"]) == (0, False)
    assert found["steps"][-1]["text"] == "PodScheduled is False: Unschedulable: OverLimit: full"
    manifests = [each for each in yaml.safe_load_all(file.read_text()) if each["metadata"]["name"] != "run-0"]
    file.write_text(yaml.safe_dump_all(manifests))
    code, found, _ = explained(capsys, "--objects", file)
    assert (code, found["contradicts"], found["verdict"]) == (3, True, "waits")
    nodes = next(step for step in found["steps"] if step["name"] == "nodes")
    assert nodes["text"].startswith("2 pods get nodes in the next pass: n1 (2)")


def test_steps_come_from_the_args_of_the_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile without the action that evicts shows no plan of evictions, whichever preset it has."""
    config = tmp_path / "config.yaml"
    body = yaml.safe_load((ROOT / "configs/batch-kai.yaml").read_text())
    body["profiles"][0]["pluginConfig"][0]["args"] = {"preset": "kai", "actions": "allocate"}
    config.write_text(yaml.safe_dump(body))
    file = cluster(tmp_path, "kai", scheduler="pyscheduler-kai")
    code, found, err = explained(capsys, "--objects", file, "--config", config)
    assert (code, err) == (0, "")
    evictions = next(step for step in found["steps"] if step["name"] == "evictions")
    assert evictions["text"] == "the actions of the profile evict nothing"


def test_pod_of_another_scheduler_needs_no_lists_of_queues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a pod that names a group, or the schedulerName of a preset, may be of a batch job."""

    async def fail(*_: object, **__: object) -> None:
        raise AssertionError("the queues are listed")

    monkeypatch.setattr("pyscheduler_batch.cli.queue.answers.read_cluster", fail)
    file = cluster(tmp_path, "kai", scheduler="default-scheduler")
    _, _, err = explained(capsys, "--objects", file)
    assert "because of batch: the queues are listed" in err
    file.write_text(file.read_text().replace("pod-group-name: want", "other: want"))
    _, found, err = explained(capsys, "--objects", file)
    assert "the queues are listed" not in err
    assert found["reason"] == "NoProfile"


def test_next_names_a_limit_that_is_too_low_for_the_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The end of another pod would not help; below the limit, it would."""
    objects = Objects("volcano", 4)
    objects.queue("team", capability={"nvidia.com/gpu": "1"})
    objects.job("want", "team", 2, least=2, runs=False, at=1)
    file = Path(objects.write(tmp_path))
    _, found, _ = explained(capsys, "--objects", file)
    assert found["reason"] == "QueueLimit"
    text = "raise the limit of queue team from 1 to 2 nvidia.com/gpu; or lower the requests: no end of a pod is enough"
    assert found["next"] == text
    _, found, _ = explained(capsys, "--objects", cluster(tmp_path, "volcano"))
    assert "limit of queue" not in found["next"]


def test_next_names_a_quota_that_is_too_low_for_a_job_that_may_not_be_evicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is used, so that the end of a pod would not help."""
    objects = Objects("kai", 4)
    objects.high_class(200)
    objects.queue("team", 1)
    objects.job("want", "team", 2, least=2, runs=False, at=1, priority=200)
    _, found, _ = explained(capsys, "--objects", objects.write(tmp_path))
    assert found["reason"] == "NonPreemptibleOverQuota"
    text = "raise the quota of queue team from 1 to 2 nvidia.com/gpu; or lower the requests: no end of a pod is enough"
    assert found["next"] == text


def test_gang_says_how_many_of_its_pods_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One GPU is free; the pod that is named as without room finds it if it is alone."""
    _, found, _ = explained(capsys, "--objects", cluster(tmp_path, "kai"))
    names = [step["name"] for step in found["steps"]]
    assert names.index("members") == names.index("nodes") + 1
    text = found["steps"][names.index("members")]["text"]
    assert text.startswith("1 of 2 members that the job needs fit at the same time; default/want-1: 0/1 nodes are ")


@pytest.mark.parametrize("dialect", VERSIONS)
def test_next_names_the_missing_group(tmp_path: Path, capsys: pytest.CaptureFixture[str], dialect: str) -> None:
    """The pods name a PodGroup that must be created."""
    file = cluster(tmp_path, dialect)
    manifests = [
        each
        for each in yaml.safe_load_all(file.read_text())
        if each["kind"] != "PodGroup" or each["metadata"]["name"] != "want"
    ]
    file.write_text(yaml.safe_dump_all(manifests))
    _, found, _ = explained(capsys, "--objects", file)
    assert (found["reason"], found["next"]) == ("PodGroupDoesNotExist", "create the PodGroup default/want")
