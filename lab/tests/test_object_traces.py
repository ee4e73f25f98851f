"""Traces from objects: dumps of clusters, and exports and recordings of kube-scheduler-simulator."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.traces import Trace

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a"},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "4"}},
}


def clock(seconds: int) -> str:
    """Return a time as the API writes it."""
    return f"2026-01-31T12:{seconds // 60:02}:{seconds % 60:02}Z"


def pod(name: str, *, created: int | None = 0, gpu: int = 0, namespace: str = "ml", **changes: Any) -> dict[str, Any]:
    """Return a pod as a server gives it; `changes` by part of it."""
    requests = {"cpu": "1500m", "memory": "1000Ki", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, **changes.get("metadata", {})}
    if created is not None:
        metadata["creationTimestamp"] = clock(created)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}], **changes.get("spec", {})},
        "status": changes.get("status", {}),
    }


def ended(start: int, end: int) -> dict[str, Any]:
    """Return the status of a pod that ran in this time."""
    state = {"terminated": {"finishedAt": clock(end), "exitCode": 0}}
    statuses = [{"name": "c", "image": "c", "imageID": "", "ready": False, "restartCount": 0, "state": state}]
    return {"phase": "Succeeded", "startTime": clock(start), "containerStatuses": statuses}


def dump() -> list[dict[str, Any]]:
    """Return the objects of a cluster."""
    group = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}
    return [
        NODE,
        pod("done", created=5, status=ended(20, 80)),
        pod("runs", created=10, status={"phase": "Running", "startTime": clock(11)}),
        pod("train-0", created=30, gpu=2, metadata=group, status=ended(40, 50)),
        pod("train-1", created=31, gpu=2, metadata=group, status=ended(40, 70)),
        pod("driver", created=29, metadata=group),
        pod("part", created=60, metadata={"annotations": {"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}}),
        pod(
            "picky",
            created=61,
            namespace="web",
            spec={
                "priority": 7,
                "priorityClassName": "high",
                "nodeSelector": {"zone": "a", "nvidia.com/gpu.product": "T4"},
            },
        ),
        pod(
            "agent",
            metadata={"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}]},
        ),
        pod("static", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        pod("lost", status={"phase": "Failed"}),
    ]


@pytest.mark.parametrize("form", ["yaml", "json", "export"])
def test_dump_is_read(form: str, tmp_path: Path) -> None:
    """Pods become jobs, groups become gangs, the namespace is the team; pods of nodes are left out and counted."""
    path = tmp_path / "dump"
    items = dump()
    whole: Any = {"apiVersion": "v1", "kind": "List", "items": items}
    if form == "export":
        pods = [{key: value for key, value in each.items() if key not in ("kind", "apiVersion")} for each in items]
        whole = {"pods": pods[1:], "nodes": pods[:1], "pvs": [], "schedulerConfig": None}
    path.write_text(yaml.safe_dump(whole) if form == "yaml" else json.dumps(whole))
    trace = Trace.read(path)
    jobs = {job.name: job for job in trace.jobs}
    assert sorted(jobs) == ["done", "ml-train", "part", "picky", "runs", "train"]
    assert (jobs["done"].arrival, jobs["done"].duration) == (5, 60)
    assert (jobs["done"].cpu_milli, jobs["done"].memory_mib) == (1500, 1)
    assert (jobs["runs"].arrival, jobs["runs"].duration, jobs["runs"].team) == (10, math.inf, "ml")
    gang = next(job for job in trace.jobs if job.workers == 2)
    assert (gang.arrival, gang.duration, gang.gpus, gang.min_workers) == (30, 30, 2, 2)
    assert (jobs["part"].gpus, jobs["part"].gpu_milli) == (2, 250)
    picky = jobs["picky"]
    assert (picky.priority, picky.job_class, picky.team) == (7, "high", "web")
    assert (picky.node_selector, picky.gpu_models) == ({"zone": "a"}, ("T4",))
    assert trace.notes == {
        "pods left out: of a DaemonSet": 1,
        "pods left out: static": 1,
        "pods left out: ended at an unknown time": 1,
        "groups with unequal pods, one job for each kind of pods": 1,
    }
    assert [node.name for node in Cluster.read(path).nodes] == ["a"]


def changes() -> list[dict[str, Any]]:
    """Return the changes of a recording: one pod that runs and is deleted, one that ends, one that waits."""
    bound = {"spec": {"nodeName": "a"}}
    return [
        {"time": clock(0), "event": "Add", "resource": NODE},
        {"time": clock(10), "event": "Add", "resource": pod("one", created=None)},
        {"time": clock(12), "event": "Update", "resource": pod("one", created=None, **bound)},
        {"time": clock(15), "event": "Add", "resource": pod("two", created=None, **bound)},
        {"time": clock(20), "event": "Add", "resource": pod("waits", created=None)},
        {
            "time": clock(25),
            "event": "Update",
            "resource": pod("two", created=None, **bound, status={"phase": "Succeeded"}),
        },
        {
            "time": clock(42),
            "event": "Delete",
            "resource": {"kind": "Pod", "metadata": {"name": "one", "namespace": "ml"}},
        },
        {
            "time": clock(50),
            "event": "Delete",
            "resource": {"kind": "Pod", "metadata": {"name": "two", "namespace": "ml"}},
        },
    ]


@pytest.mark.parametrize("form", ["lines", "list", "folder"])
def test_recording_is_read(form: str, tmp_path: Path) -> None:
    """In the forms of all versions of the recorder; times are those of the changes."""
    path, made = tmp_path / "record.jsonl", changes()
    if form == "folder":
        path = tmp_path / "records"
        path.mkdir()
        (path / "record-000.json").write_text(json.dumps(made[:4]))
        (path / "record-001.json").write_text(json.dumps(made[4:]))
    else:
        path.write_text(json.dumps(made) if form == "list" else "\n".join(map(json.dumps, made)) + "\n")
    trace = Trace.read(path)
    assert [(job.name, job.arrival, job.duration) for job in trace.jobs] == [
        ("one", 0, 30),
        ("two", 5, 10),
        ("waits", 10, math.inf),
    ]
    if form != "folder":
        assert [node.name for node in Cluster.read(path).nodes] == ["a"]


def test_pods_of_a_group_for_two_gpu_models_are_two_jobs(tmp_path: Path) -> None:
    """Each job has the model that its pods select."""
    group = {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}
    models = ("A100", "T4", "A100")
    pods = [
        pod(f"train-{number}", gpu=1, metadata=group, spec={"nodeSelector": {"nvidia.com/gpu.product": model}})
        for number, model in enumerate(models)
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": pods}))
    trace = Trace.read(path)
    assert sorted((job.gpu_models, job.workers) for job in trace.jobs) == [(("A100",), 2), (("T4",), 1)]


def test_pods_of_a_recording_whose_run_is_unknown_are_left_out(tmp_path: Path) -> None:
    """One was over when the recording began; the other was deleted while it waited."""
    over = pod("over", created=None, spec={"nodeName": "a"}, status={"phase": "Succeeded"})
    made = [
        {"time": clock(0), "event": "Add", "resource": over},
        {"time": clock(5), "event": "Update", "resource": over},
        {"time": clock(7), "event": "Add", "resource": pod("waits", created=None)},
        {"time": clock(8), "event": "Add", "resource": pod("short", created=None)},
        {"time": clock(9), "event": "Delete", "resource": over},
        {"time": clock(9), "event": "Delete", "resource": pod("short", created=None)},
    ]
    path = tmp_path / "record.jsonl"
    path.write_text("\n".join(map(json.dumps, made)) + "\n")
    trace = Trace.read(path)
    assert [job.name for job in trace.jobs] == ["waits"]
    assert trace.notes == {
        "pods left out: ended at an unknown time": 1,
        "pods left out: deleted before they had a node": 1,
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "kind: Pod\nmetadata: {name: p, creationTimestamp: x}\n",
            "pod default/p: creationTimestamp is 'x'; it must be",
        ),
        ("kind: Pod\nmetadata: {name: p}\nspec: 7\n", "pod p: "),
        ('{"event": "Add", "resource": {"metadata": {}}, "time": 7}\n', "time of a change is 7"),
        ('{"event": "Add", "resource": {}, "time": ""}\n', "change 1 of the recording has a resource without metadata"),
        ('{"event": "Add", "resource": {"metadata": {}}}\n{\n', "line 2: cannot be read"),
        ('[{"resource": 7}]', "change 1 of the recording has no event and resource"),
        ("kind: Node\nmetadata: {name: a}\n", "the trace has no jobs"),
        (
            yaml.safe_dump(pod("p", metadata={"annotations": {"gpu-fraction": "1.5"}})),
            "pod ml/p: the annotations of a part of a GPU cannot be read",
        ),
    ],
)
def test_mistakes_in_objects_are_reported(text: str, complaint: str, tmp_path: Path) -> None:
    """In one line that names the file."""
    path = tmp_path / "dump"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        Trace.read(path)
    assert str(raised.value.source).startswith(str(path))
    assert complaint in " ".join(raised.value.problems)


def test_names_of_jobs_are_valid_and_unique(tmp_path: Path) -> None:
    """Dots and long names are replaced; equal names of two namespaces stay apart."""
    pods = [pod("a.b"), pod("a.b", namespace="web"), pod("x" * 80), pod("x" * 80, namespace="web")]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": pods}))
    names = [job.name for job in Trace.read(path).jobs]
    assert {"a-b", "web-a-b"} < set(names)
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 52
