"""The record of the batch demo, its workload, and its exit code."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from pyscheduler.config.load import loads
from pyscheduler_lab.audit import Change, Verdict
from pyscheduler_lab.demo import batch_demo
from pyscheduler_lab.demo.batch_record import BatchRecord
from pyscheduler_lab.demo.batch_workload import BATCH_PROFILE, SCHEDULER, TEAMS, Arrival, arrivals, group_manifest, pods
from pyscheduler_lab.traces import Job

ARRIVAL = Arrival(
    at=0.0,
    run_seconds=5.0,
    team="vision",
    job=Job(name="j", arrival=0, duration=60, workers=2, gpus=8, cpu_milli=8000, memory_mib=1024),
)


class Cluster:
    """Writes pods of one job into a record, at times that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.again: list[tuple[str, str]] = []
        self.record = BatchRecord(
            ["vision", "ads"], now=lambda: self.now, recreate=lambda *names: self.again.append(names)
        )
        self.record.submit(ARRIVAL)

    def write(self, number: int, kind: str = "MODIFIED", *, uid: str = "", node: str = "", **fields: Any) -> None:
        """Write a version of a pod."""
        pod = pods(ARRIVAL)[number]
        metadata = {**pod["metadata"], "uid": uid or f"u{number}", **fields.pop("metadata", {})}
        pod = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": fields}
        self.record.take(Change(at=self.now, revision=1, type=kind, obj=pod))


def test_wait_ends_when_all_pods_are_bound() -> None:
    """GPUs count when a pod is bound; the job runs when the last one is."""
    cluster = Cluster()
    team = cluster.record.teams["vision"]
    cluster.write(0, "ADDED")
    cluster.write(1, "ADDED")
    assert (team.pending, team.allocated) == (16, 0)
    cluster.now = 3.0
    cluster.write(0, node="n1")
    assert (team.pending, team.allocated) == (8, 8)
    cluster.now = 4.0
    cluster.write(1, node="n2")
    assert (team.pending, team.allocated, team.peak) == (0, 16, 16)
    assert cluster.record.waits("vision") == [4.0]
    assert cluster.record.waits("ads") == []
    cluster.now = 9.0
    cluster.write(0, node="n1", phase="Succeeded")
    assert not cluster.record.is_finished
    cluster.write(1, node="n2", phase="Succeeded")
    assert cluster.record.is_finished
    assert team.gpu_seconds == 8 * 1 + 16 * 5
    assert (team.evictions, cluster.again) == (0, [])


def test_evicted_job_waits_again_and_its_pods_are_recreated() -> None:
    """One eviction counts once per job; its work is lost, and each pod comes back after its deletion."""
    cluster = Cluster()
    team = cluster.record.teams["vision"]
    for number in (0, 1):
        cluster.write(number, "ADDED")
        cluster.write(number, node="n1")
    cluster.now = 2.0
    for number in (0, 1):
        cluster.write(number, node="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert (team.evictions, team.lost_gpu_seconds, team.allocated, cluster.again) == (1, 32.0, 0, [])
    for number in (0, 1):
        cluster.write(number, "DELETED", node="n1")
    assert cluster.again == [("j", "j-0"), ("j", "j-1")]
    for number in (0, 1):
        cluster.write(number, "ADDED", uid=f"again{number}")
    cluster.now = 7.0
    for number in (0, 1):
        cluster.write(number, uid=f"again{number}", node="n2")
    assert cluster.record.waits("vision") == [5.0]
    assert team.peak == 16


@pytest.mark.slow
def test_jobs_come_in_bursts_with_real_sizes() -> None:
    """Each team has its jobs within its burst; together they want several times the cluster."""
    found = arrivals(30)
    assert [each.at for each in found] == sorted(each.at for each in found)
    teams = {team.name for team in TEAMS if team.parent}
    for team in teams:
        own = [each for each in found if each.team == team]
        assert len(own) == 30
        assert own[-1].at - own[0].at <= 5.0
        assert all(3.0 <= each.run_seconds <= 13.0 for each in own)
    assert sum(each.job.gpu_count for each in found) > 3 * 128
    assert {each.job.gpu_count for each in found} >= {1, 4, 8}
    assert max(each.job.gpu_count for each in found) <= 16
    group = group_manifest(found[0])
    assert (group["spec"]["queue"], group["spec"]["minMember"]) == (found[0].team, found[0].job.workers)


def test_quotas_add_up_to_the_gpus() -> None:
    """So do the teams of each department."""
    assert sum(team.quota for team in TEAMS if team.parent) == 128
    for department in (team for team in TEAMS if not team.parent):
        assert sum(team.quota for team in TEAMS if team.parent == department.name) == department.quota


@pytest.mark.slow
def test_broken_rule_makes_the_command_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each violation is a line; the exit code is 1."""

    async def play(*_: object, **__: object) -> batch_demo.Outcome:
        record = BatchRecord([], now=lambda: 0.0, recreate=lambda *_: None)
        return batch_demo.Outcome(record=record, verdict=Verdict(), problems=["rule 1 at 3.000 s: a gang was partial"])

    monkeypatch.setattr(batch_demo, "play", play)
    result = CliRunner().invoke(batch_demo.command, [])
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "error: rule 1 at 3.000 s: a gang was partial",
        "error: the check found 1 problems",
    ]


def test_its_profile_loads() -> None:
    """The profile of the module is a configuration."""
    (profile,) = loads(BATCH_PROFILE).profiles
    assert profile.scheduler_name == SCHEDULER
