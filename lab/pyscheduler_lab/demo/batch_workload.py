"""The workload of the batch demo: bursts of jobs from a published trace, created by four teams in two departments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.controllers.lifecycle import RUN_DURATION
from pyscheduler.podgroup import DialectTable
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.simulation.group_objects import definitions
from pyscheduler_lab.simulation.queue_plan import Team, batch_definitions, kai_queues
from pyscheduler_lab.simulation.replay_objects import group_of, pod_of
from pyscheduler_lab.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler_lab.traces import Job
    from pyscheduler_lab.traces.found import Shape

__all__ = ["BATCH_PROFILE", "SCHEDULER", "TEAMS", "Arrival", "arrivals", "cluster_manifests", "group_manifest", "pods"]

SCHEDULER: Final = "pyscheduler-demo-batch"
BATCH_PROFILE: Final = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: 5000, burst: 10000}}
profiles:
- schedulerName: {SCHEDULER}
  plugins: {{multiPoint: {{enabled: [{{name: Batch}}], disabled: [{{name: DefaultPreemption}}]}}}}
  pluginConfig: [{{name: Batch, args: {{preset: kai}}}}]
"""
"""The profile: KAI's actions and policies."""

NODES: Final = 16
_KAI: Final = DialectTable().named("kai")
_NAMESPACE: Final = "default"

TEAMS: Final = (
    Team(name="research", quota=80),
    Team(name="vision", quota=40, parent="research"),
    Team(name="language", quota=40, parent="research"),
    Team(name="products", quota=48),
    Team(name="search", quota=24, parent="products"),
    Team(name="ads", quota=24, parent="products"),
)
"""Departments and teams. The quotas of the teams add up to the 128 GPUs of the nodes."""

#: By team: its virtual cluster in the trace, and when its burst begins, in seconds.
_BURSTS: Final = {"vision": ("vc1", 0.0), "search": ("vc3", 5.0), "language": ("vc2", 10.0), "ads": ("vc4", 15.0)}
#: The jobs of a burst arrive within so many seconds.
_BURST_SECONDS: Final = 5.0
#: Jobs of more GPUs would not fit into the quota of a team.
_LARGEST: Final = 16
#: The first jobs of the trace are left out: they came to an empty cluster, one by one.
_FIRST_JOB: Final = 100


@attrs.frozen(kw_only=True)
class Arrival:
    """One job of a team. `at` and `run_seconds` are compressed times, in seconds."""

    at: float
    run_seconds: float
    team: str
    job: Job


def arrivals(per_team: int, shape: Shape = "nodepack") -> list[Arrival]:
    """Return so many jobs of each team, in order of arrival; `shape` divides the GPUs of a job into pods.

    Sizes are those of the trace; jobs of more than 16 GPUs are left out. The gaps between the jobs of a
    team keep their proportions. A run takes 3 s, and 2 s more for each factor of ten in minutes.
    """
    found: list[Arrival] = []
    for team, (cluster, begin) in _BURSTS.items():
        trace = Trace.read("philly", vc=cluster, shape=shape)
        jobs = [job for job in trace.jobs[_FIRST_JOB:] if job.gpu_count <= _LARGEST][:per_team]
        first = jobs[0].arrival
        span = max(jobs[-1].arrival - first, 1.0)
        found += [
            Arrival(
                at=begin + _BURST_SECONDS * (job.arrival - first) / span,
                run_seconds=round(3.0 + 2.0 * math.log10(1.0 + job.duration / 60.0), 1),
                team=team,
                job=job,
            )
            for job in jobs
        ]
    return sorted(found, key=lambda each: (each.at, each.job.name))


def cluster_manifests() -> list[dict[str, Any]]:
    """Return the definitions of groups and queues, the queues, and the nodes."""
    return [
        *definitions(DialectTable()),
        *batch_definitions(),
        *kai_queues(TEAMS),
        *Cluster.uniform(NODES).manifests(),
    ]


def group_manifest(arrival: Arrival) -> dict[str, Any]:
    """Return the PodGroup of a job, whose minimum is all of its workers."""
    return group_of(arrival.job, _KAI, namespace=_NAMESPACE, queue=arrival.team)


def pods(arrival: Arrival) -> Sequence[dict[str, Any]]:
    """Return the pods of a job."""
    made = [
        pod_of(arrival.job, number, _KAI, scheduler_name=SCHEDULER, namespace=_NAMESPACE, has_group=True)
        for number in range(arrival.job.workers)
    ]
    for pod in made:
        pod["metadata"].setdefault("annotations", {})[RUN_DURATION] = f"{arrival.run_seconds}s"
        pod["spec"]["restartPolicy"] = "Never"
    return made
