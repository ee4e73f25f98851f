"""Comparisons of batch policies on one trace: what a replay asks the API server for, and whether it can be repeated."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.simulation.policy_comparison import compare, policy_named, teams_of
from pyscheduler_lab.traces import Job

_DAY = 86400.0


def crowded_jobs(count: int) -> list[Job]:
    """Return jobs of four teams that ask for more than six nodes of 8 GPUs have."""
    rng = random.Random(3)
    return [
        Job(
            name=f"job-{number}",
            arrival=number * 40.0,
            duration=rng.uniform(60, 900),
            workers=rng.choice([1, 1, 1, 2, 2, 4, 6]),
            gpus=rng.choice([1, 2, 4, 8]),
            cpu_milli=1000,
            memory_mib=1024,
            team=f"team-{rng.randrange(4)}",
        )
        for number in range(count)
    ]


def played(jobs: list[Job], policy: str, *, nodes: int = 6) -> dict[str, Any]:
    """Return the result of one policy but for the seconds that the replay took."""
    cluster = Cluster.uniform(nodes)
    (result,) = compare(jobs, cluster, teams_of(jobs, cluster), [policy_named(policy)], registry=discover)
    found = msgspec.to_builtins(result)
    del found["wall_s"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["kai", "drf"])
def test_replay_serves_every_kind_that_the_policy_reads(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing kind is asked for every ten seconds: half of the time of a replay of months."""
    statuses: Counter[int] = Counter()
    request = InProcessTransport.request

    async def counted(self: InProcessTransport, method: str, path: str, **options: Any) -> Any:
        response = await request(self, method, path, **options)
        statuses[response.status] += 1
        return response

    monkeypatch.setattr(InProcessTransport, "request", counted)
    jobs = [
        Job(name=name, arrival=at, duration=60.0, workers=2, gpus=8, cpu_milli=1000, memory_mib=1024, team="a")
        for name, at in (("first", 0.0), ("second", 10 * _DAY))
    ]
    assert played(jobs, policy)["finished"] == 2
    assert statuses[200] > 0
    assert statuses[404] == 0
    assert sum(statuses.values()) < 200


@pytest.mark.slow
def test_hash_seed_does_not_change_the_result() -> None:
    """Python orders sets of text by a seed of the process; no decision follows that order."""
    code = (
        "from lab.tests.test_policy_comparison import crowded_jobs, played\n"
        "print(sorted(played(crowded_jobs(40), 'kai').items()))"
    )
    first, second = (
        subprocess.run(
            (sys.executable, "-c", code),
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert "('evicted_jobs', 0)" not in first
    assert "('finished', 40)" in first
    assert first == second
