"""Policies by name: their profiles, and what a replay asks the API server for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import load
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.experiment import compare
from pyscheduler_lab.results.comparison import summary_of
from pyscheduler_lab.results.runs import Workload, play
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.simulation.policies import POLICIES, policy_named, teams_of
from pyscheduler_lab.traces import Job, Trace

_DAY = 86400.0
CONFIGS = Path(__file__).parents[2] / "configs"


def played(jobs: list[Job], policy: str) -> dict[str, Any]:
    """Return the columns of one policy, on six nodes."""
    cluster = Cluster.uniform(6)
    workload = Workload(jobs=jobs, cluster=cluster, teams=teams_of(jobs, cluster))
    settings = RunSettings(trace="jobs", nodes="6", policy=policy)
    return summary_of(play(workload, policy_named(policy), settings)).cells


@pytest.mark.parametrize(
    ("policy", "file"),
    [("binpack", "bin-packing"), ("coscheduling", "coscheduling"), ("gang", "gang"), ("default", "default")],
)
def test_policy_has_the_profile_of_the_ready_configuration(policy: str, file: str) -> None:
    """A policy of a family schedules as the configuration that the documentation recommends for it."""
    (ours,), (theirs,) = policy_named(policy).config.profiles, load(CONFIGS / f"{file}.yaml").profiles
    assert (ours.plugins, ours.plugin_config) == (theirs.plugins, theirs.plugin_config)


def test_only_batch_policies_have_queues() -> None:
    """The policies without queues schedule pod by pod."""
    with_queues = {name for name in POLICIES if policy_named(name).has_queues}
    assert with_queues == {"fifo", "drf", "proportion", "capacity", "kai"}


def test_unknown_policy_is_a_mistake() -> None:
    """The message lists the policies."""
    with pytest.raises(ConfigError, match=r'no policy "lottery"; known are fifo, drf, .*gang, or name a configuration'):
        policy_named("lottery")


def _job(team: str, arrival: float, duration: float, workers: int, minimum: int) -> Job:
    """Return a job with one GPU for each worker."""
    return Job(
        name=f"{team}-{arrival}",
        team=team,
        arrival=arrival,
        duration=duration,
        workers=workers,
        min_workers=minimum,
        gpus=1,
        cpu_milli=1000,
        memory_mib=1024,
    )


@pytest.mark.parametrize("policy", ["proportion", "capacity"])
def test_queue_within_its_share_keeps_its_pods(policy: str) -> None:
    """`reclaim` evicts only pods of a queue above its share, although jobs of both have pods beyond their minimum."""
    jobs = [_job("within", 0, 3600, 6, 1), _job("above", 1, 3600, 10, 1), _job("needy", 60, 3600, 4, 4)]
    quotas = {"within": 6, "above": 6, "needy": 4}
    done = compare(Trace(jobs=jobs), Cluster.uniform(2), [policy], quotas=quotas)
    evicted = Counter(pod["job"] for pod in done.table("pods").to_pylist() if pod["outcome"] == "evicted")
    assert evicted == {"above-1": 4}


def test_drf_takes_nothing_from_a_queue_below_the_share_of_another() -> None:
    """A queue keeps the pods beyond the minimum of its job, if it holds less by weight than the queue that waits."""
    jobs = [_job("few", 0, 3600, 8, 1), _job("many", 1, 3600, 8, 8), _job("many", 60, 60, 1, 1)]
    done = compare(Trace(jobs=jobs), Cluster.uniform(2), ["drf"], quotas={"few": 8, "many": 4})
    assert {pod["outcome"] for pod in done.table("pods").to_pylist()} == {"finished"}


def test_gang_of_the_share_of_its_queue_starts_under_drf() -> None:
    """`reclaim` takes the whole share of a queue for the only gang in it."""
    jobs = [_job("large", 0, 3600, 16, 1), _job("small", 60, 60, 4, 4)]
    done = compare(Trace(jobs=jobs), Cluster.uniform(2), ["drf"], quotas={"large": 12, "small": 4})
    early = Counter(pod["outcome"] for pod in done.table("pods").to_pylist() if pod["left_s"] < 600)
    assert early == {"evicted": 4, "finished": 4}


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
