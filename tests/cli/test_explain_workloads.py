"""`pyscheduler explain` of a workload: why its pods could not be created, or which of them waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pyscheduler.cli.workloads import kind_called
from pyscheduler.testing import node_manifest, pod_manifest
from tests.cli.conftest import Run

Object = dict[str, Any]

QUOTA = 'pods "web-5d4-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2'
BATCH = {"Job", "CronJob"}


def workload(kind: str, name: str, *, owner: str = "", message: str = "", uid: str = "", **fields: Any) -> Object:
    """Return a workload; `owner` is `Kind/name`, `message` that of its condition ReplicaFailure."""
    metadata: Object = {"name": name, "namespace": "default", "uid": uid or f"{kind}-{name}"}
    if owner:
        metadata["ownerReferences"] = references(owner)
    made: Object = {"apiVersion": "batch/v1" if kind in BATCH else "apps/v1", "kind": kind, "metadata": metadata}
    made |= fields
    if message:
        condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
        made["status"] = {"conditions": [condition]}
    return made


def references(owner: str) -> list[Object]:
    """Return the reference to an owner `Kind/name`."""
    kind, name = owner.split("/")
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}]


def event(about: str, message: str, *, last: str = "2026-01-01T00:00:00Z", uid: str = "", count: int = 1) -> Object:
    """Return an event about a workload `Kind/name` whose pod could not be created."""
    kind, name = about.split("/")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{last}", "namespace": "default"},
        "involvedObject": {"kind": kind, "name": name, "namespace": "default", "uid": uid or f"{kind}-{name}"},
        "reason": "FailedCreate",
        "message": message,
        "lastTimestamp": last,
        "count": count,
    }


def member(name: str, owner: str, *, created: str = "2026-01-02T00:00:00Z", **spec: Any) -> Object:
    """Return a pod of a workload."""
    pod = pod_manifest(name, **spec)
    pod["metadata"] |= {"ownerReferences": references(owner), "creationTimestamp": created}
    return pod


WEB = [workload("Deployment", "web"), workload("ReplicaSet", "web-5d4", owner="Deployment/web")]


def written(folder: Path, *objects: Object) -> Path:
    """Write a cluster with one node."""
    file = folder / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([node_manifest("n1"), *objects]))
    return file


@pytest.mark.parametrize(
    "name", ["deployment/web", "deploy/web", "rs/web-5d4", "web", "web-5d4", "default/web", "web-5d4-x"]
)
def test_workload_over_its_quota_shows_the_servers_text(tmp_path: Path, run: Run, name: str) -> None:
    """The event of the ReplicaSet says why, for the Deployment, the ReplicaSet, and the pod that was refused."""
    file = written(tmp_path, *WEB, event("ReplicaSet/web-5d4", QUOTA, count=7))
    code, out, err = run("explain", name, "--objects", file)
    text = " ".join(out.split())
    assert (code, err) == (0, "")
    assert "waits: FailedCreate" in text
    assert f"ReplicaSet default/web-5d4: {QUOTA} (7 times)" in text
    assert "no pod exists" in text


def test_condition_of_a_replica_set_is_enough(tmp_path: Path, run: Run) -> None:
    """Events live for an hour only; the condition stays, and is not repeated for the Deployment."""
    deployment = workload("Deployment", "web", message=QUOTA)
    file = written(tmp_path, deployment, workload("ReplicaSet", "web-5d4", owner="Deployment/web", message=QUOTA))
    code, out, _ = run("explain", "deployment/web", "--objects", file)
    assert code == 0
    assert " ".join(out.split()).count("exceeded quota: small") == 1


def test_other_workloads_with_a_similar_name_do_not_count(tmp_path: Path, run: Run) -> None:
    """A name that begins like another one is no relation; owner references are."""
    file = written(tmp_path, *WEB, workload("ReplicaSet", "web-api"), event("ReplicaSet/web-api", QUOTA))
    code, _, err = run("explain", "deployment/web", "--objects", file)
    assert (code, "Deployment default/web has no pod, and nothing says why" in err) == (1, True)
    for name in ("deployment/web-api", "we", "web-5d4-x-y", "job/web"):
        code, _, err = run("explain", name, "--objects", file)
        assert (code, "does not exist" in err) == (1, True), name


def test_event_about_an_earlier_object_of_the_same_name_does_not_count(tmp_path: Path, run: Run) -> None:
    """The uid tells the two apart."""
    file = written(tmp_path, workload("Job", "train"), event("Job/train", QUOTA, uid="before"))
    code, _, err = run("explain", "job/train", "--objects", file)
    assert (code, "Job default/train has no pod" in err) == (1, True)


def test_event_is_stale_once_a_pod_was_created(tmp_path: Path, run: Run) -> None:
    """Then the first pod that waits is explained; a later refusal counts again."""
    pods = [member("web-5d4-a", "ReplicaSet/web-5d4", node_name="n1"), member("web-5d4-b", "ReplicaSet/web-5d4")]
    before = event("ReplicaSet/web-5d4", QUOTA)
    code, out, err = run("explain", "deployment/web", "--objects", written(tmp_path, *WEB, before, *pods))
    assert code == 0
    assert "1 of 2 pods of Deployment default/web wait; this is default/web-5d4-b" in err
    assert out.startswith("pod default/web-5d4-b")
    after = event("ReplicaSet/web-5d4", QUOTA, last="2026-01-03T00:00:00Z")
    code, out, _ = run("explain", "deployment/web", "--objects", written(tmp_path, *WEB, before, after, *pods))
    assert code == 0
    text = " ".join(out.split())
    assert "waits: FailedCreate" in text
    assert "Deployment default/web has 2 pods: web-5d4-a, web-5d4-b" in text


def test_workload_whose_pods_have_a_node_is_placed(tmp_path: Path, run: Run) -> None:
    """That is an answer, and no mistake of the user."""
    pods = [member(f"web-5d4-{letter}", "ReplicaSet/web-5d4", node_name="n1") for letter in "ab"]
    file = written(tmp_path, *WEB, *pods)
    code, out, err = run("explain", "deployment/web", "--objects", file)
    assert (code, err) == (0, "")
    assert "Verdict: placed\n" in out
    assert "no pod waits; 2 have a node" in out


ENDED = {"conditions": [{"type": "Complete", "status": "True", "message": "Reached expected number"}]}


@pytest.mark.parametrize(
    ("objects", "verdict", "text"),
    [
        pytest.param([workload("Deployment", "w", spec={"replicas": 0})], "idle", "spec.replicas of", id="replicas"),
        pytest.param([workload("StatefulSet", "w", spec={"replicas": 0})], "idle", "w is 0", id="stateful set"),
        pytest.param([workload("Job", "w", spec={"parallelism": 0})], "idle", "spec.parallelism of", id="parallelism"),
        pytest.param([workload("Job", "w", spec={"suspend": True})], "waits: Suspended", "spec.suspend of", id="job"),
        pytest.param([workload("Job", "w", status=ENDED)], "idle", "ended: Complete Reached expected", id="ended"),
        pytest.param(
            [workload("DaemonSet", "w", status={"observedGeneration": 1})], "idle", "w selects no node", id="no node"
        ),
        pytest.param(
            [workload("CronJob", "w", spec={"schedule": "5 4 * * *"})],
            "idle",
            "no Job of it exists now; spec.schedule is 5 4 * * *",
            id="no job yet",
        ),
        pytest.param(
            [workload("CronJob", "w", spec={}), workload("Job", "w-1", owner="CronJob/w", spec={"suspend": True})],
            "waits: Suspended",
            "spec.suspend of Job default/w-1 is true",
            id="job of a cron job",
        ),
    ],
)
def test_workload_that_is_to_have_no_pods_says_why(
    tmp_path: Path, run: Run, objects: list[Object], verdict: str, text: str
) -> None:
    """Its spec or its status says so; that is an answer, and no mistake of the user."""
    code, out, err = run("explain", "w", "--objects", written(tmp_path, *objects))
    assert (code, err) == (0, "")
    assert f"Verdict: {verdict}\n" in out
    assert text in " ".join(out.split())


@pytest.mark.parametrize("name", ["other/deployment/web", "deployment/other/web", "deployments.apps/other/web"])
def test_namespace_may_stand_beside_a_kind(tmp_path: Path, run: Run, name: str) -> None:
    """A name that does not exist takes no answer from the others."""
    code, out, err = run("explain", name, "p", "--objects", written(tmp_path, pod_manifest("p")))
    assert (code, "error: Deployment other/web does not exist" in err) == (1, True)
    assert out.startswith("pod default/p,")


def test_namespace_may_have_the_name_of_a_kind(tmp_path: Path, run: Run) -> None:
    """A pod in it is found by its name."""
    code, out, _ = run("explain", "jobs/p", "--objects", written(tmp_path, pod_manifest("p", namespace="jobs")))
    assert (code, out.startswith("pod jobs/p,")) == (0, True)


def test_pods_that_were_refused_and_a_pod_that_waits_are_both_explained(tmp_path: Path, run: Run) -> None:
    """The quota allowed one pod, which finds no node: more quota alone would not help."""
    waiting = member("web-5d4-a", "ReplicaSet/web-5d4", created="2025-01-01T00:00:00Z", requests={"cpu": "99"})
    file = written(tmp_path, *WEB, event("ReplicaSet/web-5d4", QUOTA), waiting)
    code, out, err = run("explain", "deployment/web", "--objects", file)
    text = " ".join(out.split())
    assert (code, "Verdict: waits: FailedCreate" in text) == (0, True), err
    assert text.startswith("Deployment default/web; pod default/web-5d4-a, profile")
    assert "creation holds FailedCreate" in text
    assert "nodes holds Unschedulable 0/1 nodes are available: 1 Insufficient cpu" in text
    assert "of default/web-5d4-a: the pod is retried after an event" in text


def test_json_of_a_workload_has_verdict_and_steps(tmp_path: Path, run: Run) -> None:
    """A workload has no evaluation, so the fields of one are absent."""
    file = written(tmp_path, workload("StatefulSet", "db"), event("StatefulSet/db", QUOTA))
    code, out, _ = run("explain", "db", "--objects", file, "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert set(found) == {"workload", "verdict", "reason", "contradicts", "steps", "next"}
    assert (found["workload"], found["reason"]) == ("StatefulSet default/db", "FailedCreate")
    assert [step["name"] for step in found["steps"]] == ["creation", "pods"]


def test_workload_of_a_kind_that_is_not_read_is_found_by_its_event(tmp_path: Path, run: Run) -> None:
    """The event names kind and object."""
    file = written(tmp_path, event("PyTorchJob/train", QUOTA))
    code, out, _ = run("explain", "train", "--objects", file)
    assert (code, out.startswith("PyTorchJob default/train\n")) == (0, True)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Deployment", "Deployment"),
        ("deployments", "Deployment"),
        ("deployments.apps", "Deployment"),
        ("cronjobs.v1.batch", "CronJob"),
        ("deployments.batch", ""),
        ("rs", "ReplicaSet"),
        ("team-a", ""),
    ],
)
def test_words_for_kinds_are_those_of_kubectl(word: str, kind: str) -> None:
    """Kind, plural and short name; any other word is a namespace."""
    assert kind_called(word) == kind
