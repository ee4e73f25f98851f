"""The logger `decision` of running schedulers: one line of fields for each change of the reason why a pod waits."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.testing import node_manifest, pod_manifest
from tests.integration.conftest import Served
from tests.integration.manifest_cases import KAI_GROUPS, VOLCANO_GROUPS, Json, kai_queue, volcano_queue
from tests.integration.programs import nodes, program
from tests.integration.test_manifests import CRDS

pytestmark = pytest.mark.slow

_TAINT = {"key": "only", "value": "others", "effect": "NoSchedule"}
CONFIGS = Path(__file__).parents[2] / "configs"


def decisions(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Return the decoded lines of the logger; every line has to be an object of JSON."""
    return [entry for entry in map(json.loads, lines) if entry["logger"] == "decision"]


def kai_job(name: str, cpu: str) -> list[Json]:
    """Return a group of KAI with one pod."""
    version = KAI_GROUPS.removeprefix("/apis/").removesuffix("/podgroups")
    spec = {"minMember": 1, "queue": "team"}
    return [
        {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"}, "spec": spec},
        pod_manifest(
            name, scheduler_name="pyscheduler-kai", requests={"cpu": cpu}, annotations={"pod-group-name": name}
        ),
    ]


def volcano_job(name: str, cpu: str) -> list[Json]:
    """Return a group of Volcano with one pod."""
    version = VOLCANO_GROUPS.removeprefix("/apis/").removesuffix("/podgroups")
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name, "namespace": "default"}}
    annotations = {"scheduling.k8s.io/group-name": name}
    return [
        {**group, "spec": {"minMember": 1, "queue": "team"}},
        pod_manifest(name, scheduler_name="pyscheduler-volcano", requests={"cpu": cpu}, annotations=annotations),
    ]


@pytest.mark.parametrize(
    ("config", "queues", "job", "reason"),
    [
        pytest.param(
            "batch-kai.yaml", [kai_queue("all"), kai_queue("team", "all")], kai_job, "PodSchedulingErrors", id="kai"
        ),
        pytest.param("batch-volcano.yaml", [volcano_queue("team")], volcano_job, "QueueLimit", id="volcano"),
    ],
)
async def test_batch_profiles_log_why_each_pod_waits(
    served_cluster: Served, config: str, queues: list[Json], job: Any, reason: str
) -> None:
    """At -v=2, each change of a pod's story is one JSON object, with the fields that a collector of logs indexes."""
    cluster, api = served_cluster.cluster, served_cluster.api
    for file in CRDS:
        cluster.load(file.read_bytes())
    cluster.add(*queues, *nodes(1), *job("small", "1"), *job("large", "64"))
    run = ("run", "--config", str(CONFIGS / config), "--master", api.url, "--leader-elect=false", "--secure-port=0")
    async with program(*run, "-v=2", "--logging-format=json") as scheduler:
        await scheduler.said('"reason":"Scheduled"')
        await scheduler.said(f'"reason":"{reason}"')
    told = decisions(scheduler.err)
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods()}
    bound = next(entry for entry in told if entry["reason"] == "Scheduled")
    assert (bound["pod"], bound["uid"], bound["node"]) == ("default/small", uids["small"], "node-000")
    waits = next(entry for entry in told if entry["reason"] == reason)
    assert (waits["pod"], waits["uid"]) == ("default/large", uids["large"])
    assert waits["profile"] == job("large", "64")[1]["spec"]["schedulerName"]
    assert waits["message"].startswith(f"{reason}: ")
    assert {"msg", "v", "ts", "firstSeen", "queue"} <= waits.keys()
    assert (waits["msg"], waits["v"]) == ("Pod story changed", 2)


LEASE = """\
leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}
profiles: [{schedulerName: pyscheduler}]
"""


async def test_history_after_the_leader_was_killed(tmp_path: Path, served_cluster: Served) -> None:
    """The logs of a killed leader and of its successor give one story: reasons, events, and the node at the end.

    It has a row for the time between the two. The successor logs at its end how often the other pod was tried.
    """
    cluster, api = served_cluster.cluster, served_cluster.api
    cluster.add(*nodes(1), pod_manifest("large", requests={"cpu": "64"}), pod_manifest("other", requests={"cpu": "65"}))
    config = tmp_path / "config.yaml"
    config.write_text(f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{LEASE}")
    run = ("run", "--config", str(config), "--master", api.url, "--secure-port=0", "-v=2")
    waits = "reason=Unschedulable"
    async with program(*run) as leader:
        await leader.said(waits, times=2)
        async with program(*run, "--logging-format=json") as successor:
            await successor.said("New leader elected")
            cluster.add(node_manifest("tainted", allocatable={"cpu": "64"}, taints=[_TAINT]))
            await leader.said(f"{waits} ", times=3)
            await leader.kill()
            await successor.said('"reason":"Unschedulable"', times=2)
            cluster.add(node_manifest("free", allocatable={"cpu": "64", "memory": "8Gi"}))
            await api.until_bound(1)
            await successor.said('"reason":"Scheduled"')
            successor.send(signal.SIGTERM)
            assert await successor.ended() == 0
    killed, other = tmp_path / "killed.log", tmp_path / "other.log"
    # The last line is cut, as the kernel cuts a write of a process that is killed.
    killed.write_text("\n".join([*leader.err, leader.err[-1][:-10]]))
    other.write_text("\n".join(f"[pod/b/scheduler] {line}" for line in successor.err))
    arguments = ("explain", "--history", "large", "--from", str(other), "--from", str(killed))
    async with program(*arguments, "-o", "json") as shown:
        assert await shown.ended() == 0
    (story,) = json.loads("\n".join(shown.out))["stories"]
    assert (story["pod"], story["reason"], story["pending"]) == ("default/large", "Scheduled", False)
    first, *_, last = story["runs"]
    assert [run["message"] for run in story["runs"] if run["reason"] == "NoScheduler"] == [
        "the lease kube-system/pyscheduler had no leader"
    ]
    assert (first["reason"], first["plugins"], first["wokenBy"]) == (
        "Unschedulable",
        ["NodeResourcesFit"],
        {"NodeAdd": 1},
    )
    assert "1 Insufficient cpu" in first["message"]
    assert any("TaintToleration" in each["plugins"] for each in story["runs"])
    assert last["node"] == "free"
    async with program(*arguments) as shown:
        assert await shown.ended() == 0
    text = "\n".join(shown.out)
    assert "Verdict: Scheduled, after a wait of" in text
    assert "untolerated taint" in text
    (closed,) = [entry for entry in decisions(successor.err) if entry["msg"] == "Pod story closed"]
    assert (closed["pod"], closed["reason"]) == ("default/other", "Unschedulable")
    async with program("explain", "--history", "other", "--from", str(other)) as shown:
        assert await shown.ended() == 0
    assert f", found {closed['count']} time" in shown.out[1]
