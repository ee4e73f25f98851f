"""Replay one trace under several batch policies and compare the results.

A policy is a profile of `Batch`. All policies start a job as a whole and pack nodes. They differ in the order of the
jobs and in the pods that they evict.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import msgspec
import numpy as np

from pyscheduler.config.load import load, loads
from pyscheduler.framework.errors import ConfigError
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_lab.simulation.queue_plan import QueuePlan, Team, kai_queues, volcano_queues
from pyscheduler_lab.simulation.replay import Replay
from pyscheduler_lab.simulation.share_error import share_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.config.types import Configuration
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.simulation.replay import Progress
    from pyscheduler_lab.simulation.replay_cluster import Fidelity
    from pyscheduler_lab.simulation.replay_meter import JobRun
    from pyscheduler_lab.traces import Job

__all__ = [
    "POLICIES",
    "NeverStarted",
    "Policy",
    "PolicyResult",
    "compare",
    "jobs_of_teams",
    "policy_named",
    "results_as_json",
    "teams_of",
]

#: Jobs shorter than this count as this long in the slowdown, in seconds; otherwise the shortest jobs are all of it.
_SHORTEST_SECONDS: Final = 10.0
#: Number of parts of the time for which the share error is reported.
_PARTS: Final = 48
_ONE_QUEUE: Final = "jobs"
#: The team of all jobs of a trace without teams.
_ONE_TEAM: Final = "default"
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUEUE: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
#: Stands for the reason of a job whose pods say none.
_NO_REASON: Final = "NoReason"

_PROFILE: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: 100000, burst: 100000}}
profiles:
- schedulerName: pyscheduler-{name}
  plugins: {{multiPoint: {{enabled: [{{name: Batch}}], disabled: [{{name: DefaultPreemption}}]}}}}
  pluginConfig:
  - name: Batch
    args: {args}
"""
_VOLCANO: Final = """
      preset: volcano
      actions: "{actions}"
      tiers:
      - plugins: [{{name: gang}}, {{name: conformance}}]
      - plugins: [{queues}{{name: predicates}}, {{name: binpack}}]
"""


@attrs.frozen(kw_only=True)
class Policy:
    """A policy with its configuration. `preset` decides on the kinds of its objects."""

    name: str
    config: Configuration
    preset: str
    #: All jobs are in one queue, in order of arrival.
    is_fifo: bool = False
    #: The queues are a tree, and need its root.
    is_tree: bool = False


def _volcano(queues: str = "") -> str:
    actions = "allocate, reclaim" if queues else "allocate"
    return _VOLCANO.format(actions=actions, queues=f"{queues}, " if queues else "")


POLICIES: Final[Mapping[str, str]] = {
    "fifo": _volcano(),
    "drf": _volcano("{name: drf, enableHierarchy: true}"),
    "proportion": _volcano("{name: proportion}"),
    "capacity": _volcano("{name: capacity}"),
    "kai": "{preset: kai}",
}
"""The arguments of `Batch` by name of the policy.

`fifo`: jobs in order of arrival; a job that does not fit is skipped. `drf`, `proportion`, `capacity`: Volcano with this
policy and the action reclaim. `kai`: KAI's actions and policies.
"""


def policy_named(name: str) -> Policy:
    """Return a policy of `POLICIES`, or the first profile of a configuration file, which must enable `Batch`.

    Raises `ConfigError` for an unknown name and for a file that is not usable.
    """
    if name in POLICIES:
        config = loads(_PROFILE.format(name=name, args=POLICIES[name]), source=f"policy {name}")
        return Policy(name=name, config=config, preset="kai" if name == "kai" else "volcano", is_fifo=name == "fifo")
    if not name.endswith((".yaml", ".yml", ".json")):
        raise ConfigError(f'--compare: no policy "{name}"; known are {", ".join(POLICIES)}, or name a .yaml file')
    config = load(name)
    args = next((each.raw for each in config.profiles[0].plugin_config if each.name == "Batch"), None) or {}
    preset = args.get("preset")
    if preset not in {"kai", "volcano"}:
        raise ConfigError("--compare: the first profile must enable Batch with the preset kai or volcano", source=name)
    is_tree = batch_args(args, "$.pluginConfig[Batch].args", checks_names=False).has_queue_tree
    return Policy(name=name, config=config, preset=str(preset), is_tree=is_tree)


class NeverStarted(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs that never ran for one reason; the message is that of the first job."""

    reason: str
    jobs: int
    message: str


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one policy. Times in seconds; parts are between 0 and 1.

    A job waits whenever it has arrived and does not run. Its slowdown is the time from arrival to end over its
    duration; None if no job finished. Lost work is the GPU time of runs that an eviction ended.
    """

    policy: str
    jobs: int
    finished: int
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    slowdown_mean: float | None
    slowdown_p95: float | None
    #: GPU time of all runs, as a part of the GPU time until the last end.
    gpu_utilisation: float
    share_error_mean: float
    share_error_p95: float
    #: Means of equal parts of the time.
    share_error_series: list[float]
    evicted_jobs: int
    lost_gpu_hours: float
    makespan_s: float
    #: Mean wait of each team's jobs.
    team_wait_mean_s: dict[str, float]
    #: Why jobs never ran, the most frequent reason first.
    never_started: list[NeverStarted]
    wall_s: float


def jobs_of_teams(jobs: Sequence[Job], *, source: str = "") -> list[Job]:
    """Return the jobs with a team each: the one team `default` if no job has one.

    Raises `ConfigError` for a team that cannot name a queue.
    """
    if not any(job.team for job in jobs):
        return [attrs.evolve(job, team=_ONE_TEAM) for job in jobs]
    odd = next((job for job in jobs if not _QUEUE.fullmatch(job.team)), None)
    if odd is not None:
        text = f"vc of job {odd.name} is {odd.team!r}; with --compare, it must be the name of a queue, such as vc1"
        raise ConfigError(text, source=source or None)
    return [*jobs]


def teams_of(jobs: Sequence[Job], cluster: Cluster, quotas: Mapping[str, int] | None = None) -> list[Team]:
    """Return the teams of a trace with their quotas of GPUs.

    Without quotas, the GPUs of the cluster are divided in proportion to the GPU time of the teams' jobs; each team gets
    at least one. Raises `ConfigError` if the quotas name other teams than the trace.
    """
    work: dict[str, float] = {}
    for job in jobs:
        work[job.team] = work.get(job.team, 0.0) + job.duration * job.gpu_count
    if quotas is not None:
        if quotas.keys() != work.keys():
            raise ConfigError(f"--quota: name each team of the trace once: {', '.join(sorted(work))}")
        return [Team(name=name, quota=quotas[name]) for name in sorted(work)]
    total = sum(work.values()) or 1.0
    gpus = cluster.gpus
    return [Team(name=name, quota=max(round(gpus * work[name] / total), 1)) for name in sorted(work)]


def compare(
    jobs: Sequence[Job],
    cluster: Cluster,
    teams: Sequence[Team],
    policies: Sequence[Policy],
    *,
    registry: Callable[[], Registry],
    seed: int = 0,
    fidelity: Fidelity = "full",
    progress: Callable[[str, Progress], object] = lambda _name, _progress: None,
) -> list[PolicyResult]:
    """Replay the jobs under each policy; `registry` makes the plugins of one replay."""
    results = []
    for policy in policies:
        plan = _plan(policy, teams, jobs)
        played = Replay(jobs, cluster, policy.config, registry=registry(), seed=seed, queues=plan, fidelity=fidelity)
        report = asyncio.run(played.run(partial(progress, policy.name)))
        runs = list(played.meter.runs.values())
        messages = played.waiting_messages()
        result = _result(policy.name, runs, teams, cluster, makespan=report.makespan_s, wall=report.wall_s)
        results.append(msgspec.structs.replace(result, never_started=_never_started(runs, messages)))
    return results


def _plan(policy: Policy, teams: Sequence[Team], jobs: Sequence[Job]) -> QueuePlan:
    if policy.preset == "kai":
        return QueuePlan(dialect="kai", manifests=kai_queues(teams), queue_of=lambda job: job.team)
    if policy.is_fifo:
        one = Team(name=_ONE_QUEUE, quota=sum(team.quota for team in teams))
        return QueuePlan(dialect="volcano", manifests=volcano_queues([one], jobs), queue_of=lambda _: _ONE_QUEUE)
    queues = volcano_queues(teams, jobs, is_tree=policy.is_tree)
    return QueuePlan(dialect="volcano", manifests=queues, queue_of=lambda job: job.team)


def _never_started(runs: Sequence[JobRun], messages: Mapping[str, str]) -> list[NeverStarted]:
    """Return why jobs never ran; `messages` has by name of a job what its pods say."""
    by_reason: dict[str, list[str]] = {}
    for run in runs:
        if run.started is None and not run.spans:
            reason, _, message = messages.get(run.job.name, "").partition(": ")
            by_reason.setdefault(reason or _NO_REASON, []).append(message)
    found = [NeverStarted(reason=key, jobs=len(each), message=each[0]) for key, each in by_reason.items()]
    return sorted(found, key=lambda each: -each.jobs)


def _result(
    name: str, runs: Sequence[JobRun], teams: Sequence[Team], cluster: Cluster, *, makespan: float, wall: float
) -> PolicyResult:
    capacity = float(cluster.gpus)
    waits = np.array([_wait(run, makespan) for run in runs])
    slowdowns = np.array([_slowdown(run) for run in runs if run.ended is not None])
    error = share_error(runs, teams, max(capacity, 1.0), makespan)
    last_end = max((run.ended for run in runs if run.ended is not None), default=makespan)
    used = sum((stopped - began) * run.job.gpu_count for run in runs for began, stopped in run.spans)
    # The last span of a job that ended is whole.
    lost = [(run.job.gpu_count, run.spans[:-1] if run.ended is not None else run.spans) for run in runs]
    lost_seconds = sum((stopped - began) * gpus for gpus, spans in lost for began, stopped in spans)
    by_team = {
        team.name: [wait for run, wait in zip(runs, waits, strict=True) if run.job.team == team.name] for team in teams
    }
    return PolicyResult(
        policy=name,
        jobs=len(runs),
        finished=len(slowdowns),
        wait_mean_s=_rounded(waits.mean() if len(waits) else 0.0),
        wait_p50_s=_percentile(waits, 50),
        wait_p95_s=_percentile(waits, 95),
        slowdown_mean=_rounded(slowdowns.mean()) if len(slowdowns) else None,
        slowdown_p95=_percentile(slowdowns, 95) if len(slowdowns) else None,
        gpu_utilisation=_rounded(used / (capacity * last_end) if capacity and last_end else 0.0, 6),
        share_error_mean=_rounded(error.mean(), 6),
        share_error_p95=_rounded(error.percentile(95), 6),
        share_error_series=[_rounded(value, 6) for value in error.series(_PARTS)],
        evicted_jobs=sum(len(spans) for _, spans in lost),
        lost_gpu_hours=_rounded(lost_seconds / 3600),
        makespan_s=makespan,
        team_wait_mean_s={team: _rounded(np.mean(found) if found else 0.0) for team, found in by_team.items()},
        never_started=[],
        wall_s=wall,
    )


def _wait(run: JobRun, end: float) -> float:
    """Return for how long the job did not run between its arrival and its end."""
    arrived = run.arrived or 0.0
    until = run.ended if run.ended is not None else run.started if run.started is not None else end
    return until - arrived - sum(stopped - began for began, stopped in run.spans)


def _slowdown(run: JobRun) -> float:
    assert run.ended is not None, "the job has ended"
    return max((run.ended - (run.arrived or 0.0)) / max(run.job.duration, _SHORTEST_SECONDS), 1.0)


def _percentile(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], percent: float) -> float:
    return _rounded(np.percentile(values, percent)) if len(values) else 0.0


def _rounded(value: float | np.floating, digits: int = 3) -> float:
    return round(float(value), digits)


def results_as_json(results: Sequence[PolicyResult], teams: Sequence[Team]) -> bytes:
    """Return the comparison as one JSON object: quotas by team, and the results in order."""
    told = {"quotas": {team.name: team.quota for team in teams}, "policies": results}
    return msgspec.json.format(msgspec.json.encode(told), indent=1)
