"""Replays with an API server and with typed objects only: the same decisions at the same virtual times."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import pytest
from hypothesis import settings

from lab.tests.test_replay import config_named
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.simulation.policies import jobs_of_teams, policy_named, queue_plan, teams_of
from pyscheduler_lab.simulation.replay import Replay
from pyscheduler_lab.simulation.replay_cluster import FIDELITIES
from pyscheduler_lab.traces import Job, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler_lab.simulation.replay_cluster import Fidelity


def outcome(played: Replay) -> dict[str, Any]:
    """Run a replay; return everything that is reported of it but the time it took."""
    report = msgspec.to_builtins(asyncio.run(played.run()))
    del report["wall_s"]
    for phase in report["phases"]:
        del phase["wall_s"], phase["cpu_s"]
    runs = [attrs.asdict(run, recurse=False) for run in played.meter.runs.values()]
    moments = [attrs.astuple(moment) for moment in played.meter.moments]
    return {
        "bindings": played.meter.bindings,
        "runs": runs,
        "moments": moments,
        "waiting": played.waiting_messages(),
        "report": report,
    }


def assert_twins(make: Callable[[Fidelity], Replay], *, has_equal_attempts: bool = True) -> dict[str, Any]:
    """Compare the two fidelities; return what both report."""
    full, decisions = (outcome(make(fidelity)) for fidelity in FIDELITIES)
    if not has_equal_attempts:
        for each in (full["report"], decisions["report"]):
            del each["attempts"], each["attempts_by_result"]["unschedulable"]
            for phase in each["phases"]:
                del phase["attempts"]
    for name, found in full.items():
        assert decisions[name] == found, name
    assert full["bindings"]
    return full


def crowd(count: int, *, seed: int = 3, **more: Callable[[random.Random], Any]) -> list[Job]:
    """Return jobs of four teams that request more than six nodes of 8 GPUs have; `more` draws further fields."""
    rng = random.Random(seed)
    jobs = []
    for number in range(count):
        fields: dict[str, Any] = {
            "workers": rng.choice([1, 1, 1, 2, 2, 4, 6]),
            "gpus": rng.choice([1, 2, 4, 8]),
            "team": f"team-{rng.randrange(4)}",
        }
        fields |= {name: draw(rng) for name, draw in more.items()}
        times = {"arrival": number * 40.0, "duration": rng.uniform(60, 900)}
        jobs.append(Job(name=f"job-{number}", cpu_milli=1000, memory_mib=1024, **times, **fields))
    return jobs


#: What `make test` replays of philly.
_FEW = {("", "vc1"), ("coscheduling", "vc3"), ("gang", "vc4")}


def replays(jobs: Sequence[Job], config: str, *, nodes: str = "6x8gpu") -> Callable[[Fidelity], Replay]:
    """Return what makes the replay of a fidelity, under a configuration of the repository."""
    return lambda fidelity: Replay(
        jobs, Cluster.read(nodes), config_named(config), registry=discover(), fidelity=fidelity
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "vc"),
    [
        pytest.param(config, vc, marks=[] if (config, vc) in _FEW else pytest.mark.long)
        for config in ("", "coscheduling", "gang")
        for vc in ("vc1", "vc2", "vc3", "vc4")
    ],
)
def test_philly_is_replayed_alike(vc: str, config: str) -> None:
    """The first jobs of each virtual cluster, on few GPUs, so that some wait."""
    nodes = {"vc1": "3x8gpu", "vc2": "2x8gpu", "vc3": "2x8gpu", "vc4": "2x8gpu"}[vc]
    assert_twins(replays(Trace.read("philly", vc=vc).first(25).jobs, config, nodes=nodes))


@pytest.mark.slow
@pytest.mark.parametrize("config", ["", "bin-packing"])
def test_plain_pods_are_replayed_alike(config: str) -> None:
    """Jobs of one worker, more than there is room for."""
    assert_twins(replays(crowd(3 * settings.default.max_examples, workers=lambda _: 1), config, nodes="3x8gpu"))


@pytest.mark.slow
@pytest.mark.parametrize("config", ["", "gangsort"])
def test_preemption_is_replayed_alike(config: str) -> None:
    """Pods of higher priority evict others, whose jobs start again.

    Whether a pod shares the failure of another one or is tried depends on the turn in which an event arrives.
    """
    count = 3 * settings.default.max_examples
    jobs = crowd(count, priority=lambda rng: rng.choice([0, 0, 100, 1000]), workers=lambda _: 1)
    found = assert_twins(replays(jobs, config, nodes="3x8gpu"), has_equal_attempts=False)
    assert any(len(run["spans"]) > 1 for run in found["runs"]), "no job was evicted"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 4])
def test_preemption_of_gangs_is_replayed_alike(seed: int) -> None:
    """Gangs and single pods of several priorities, which evict each other on nodes of two models.

    So many events come at one instant that the watch lets the event loop turn among them.
    """
    jobs = crowd(
        25,
        seed=seed,
        workers=lambda rng: rng.choice([1, 1, 2, 4]),
        gpus=lambda rng: rng.choice([1, 2, 4]),
        gpu_models=lambda rng: rng.choice([(), (), ("A100",), ("A100", "T4")]),
        priority=lambda rng: rng.choice([0, 0, 100, 1000]),
    )
    jobs = [attrs.evolve(job, min_workers=max(1, job.workers - 1)) for job in jobs]
    found = assert_twins(replays(jobs, "", nodes="2x8gpu:A100,2x4gpu:T4"), has_equal_attempts=False)
    evicted = [run["job"].name for run in found["runs"] if len(run["spans"]) > 1]
    assert len(evicted) >= 5, f"only {evicted} were evicted"


@pytest.mark.slow
def test_shared_gpus_are_replayed_alike() -> None:
    """Workers with parts of GPUs get devices, which the plugin writes to their annotations."""
    jobs = crowd(30, gpus=lambda _: 1, gpu_milli=lambda rng: rng.choice([200, 500, 1000]), workers=lambda _: 1)
    assert_twins(replays(jobs, "", nodes="1x4gpu"))


@pytest.mark.slow
def test_preemption_of_shared_gpus_is_replayed_alike() -> None:
    """Workers that share GPUs are evicted for jobs of higher priority, and no plugin fails."""
    jobs = crowd(
        30,
        gpus=lambda rng: rng.choice([1, 1, 1, 2]),
        priority=lambda rng: rng.choice([0, 0, 100]),
        workers=lambda _: 1,
    )
    jobs = [
        attrs.evolve(job, gpu_milli=500) if job.gpus == 1 and number % 2 else job for number, job in enumerate(jobs)
    ]
    found = assert_twins(replays(jobs, "", nodes="1x4gpu"), has_equal_attempts=False)
    sharing = {job.name for job in jobs if job.shares_gpus}
    assert any(len(run["spans"]) > 1 and run["job"].name in sharing for run in found["runs"]), "no share was evicted"
    assert found["report"]["finished"] == len(jobs)
    assert "plugin_error" not in found["report"]["warnings"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fifo", "drf", pytest.param("proportion", marks=pytest.mark.long), "capacity", "kai"])
def test_queues_are_replayed_alike(name: str) -> None:
    """With reclaim: under three of the policies, pods are evicted and jobs restarted."""
    jobs, cluster = crowd(2 * settings.default.max_examples), Cluster.uniform(6)
    policy = policy_named(name)
    plan = queue_plan(policy, teams_of(jobs, cluster), jobs)

    def make(fidelity: Fidelity) -> Replay:
        return Replay(jobs, cluster, policy.config, registry=discover(), queues=plan, fidelity=fidelity)

    found = assert_twins(make)
    if name in {"drf", "capacity", "kai"}:
        assert any(len(run["spans"]) > 1 for run in found["runs"]), "no job was evicted"


@pytest.mark.slow
def test_kai_places_jobs_by_priority() -> None:
    """The jobs of a queue run one after the other. One of a higher priority takes the nodes of one of a lower."""
    jobs = [
        Job(name=name, arrival=float(number), duration=1000.0, workers=1, gpus=8, cpu_milli=1000, priority=priority)
        for number, (name, priority) in enumerate([("first", 0), ("low", 0), ("high", 100), ("middle", 50)])
    ]
    policy, cluster = policy_named("kai"), Cluster.read("1x8gpu")
    jobs = jobs_of_teams(jobs)
    plan = queue_plan(policy, teams_of(jobs, cluster), jobs)

    def make(fidelity: Fidelity) -> Replay:
        return Replay(jobs, cluster, policy.config, registry=discover(), queues=plan, fidelity=fidelity)

    bound = [each.pod for each in assert_twins(make)["bindings"]]
    assert bound == ["first-0", "high-0", "middle-0", "first-0", "low-0"]
