"""The four tables with the results of a simulation: `jobs`, `pods`, `timeline` and `nodes`.

They are Arrow tables. Times are seconds of virtual time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from pyscheduler_lab.traces.job import gpus_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.simulation.queue_plan import Team
    from pyscheduler_lab.simulation.replay import Replay
    from pyscheduler_lab.simulation.replay_meter import JobRun, PodRun

__all__ = ["EXTRA", "NO_REASON", "TABLES", "UNFINISHED", "UNSCHEDULABLE", "Field", "Tables", "tables_of"]

EXTRA: Final = "trace_"
"""Prefix of the columns of `jobs` that a trace has beside those that the replay knows."""

#: The code at the begin of a message of a batch profile, as in `NotEnoughResources: no node has room`.
_CODE: Final = re.compile(r"(?P<code>[A-Z]\w+): (?P<text>.*)", re.DOTALL)
UNSCHEDULABLE: Final = "Unschedulable"
"""Reason of a job whose pods have a message without a code, as pods' conditions have it."""
NO_REASON: Final = "NoReason"
"""Reason of a job whose pods have no message."""
UNFINISHED: Final = frozenset({"waiting", "never_ran"})
"""Outcomes of jobs that should have ended. (A `running` job has no end: a replay waits until the others have.)"""


@attrs.frozen
class Field:
    """A column of a table. `kind` is the Arrow type; a column that `may_be_null` is null where nothing is known.

    A column that `is_optional` is left out if all its values are 0 or empty. Bundles of earlier versions lack it.
    """

    name: str
    kind: str
    meaning: str
    may_be_null: bool = False
    is_optional: bool = False


TABLES: Final[Mapping[str, Sequence[Field]]] = {
    "jobs": (
        Field("job", "string", "name of the job; rows are in the order of arrival"),
        Field("team", "string", "team of the job (`vc` in the trace)"),
        Field("class", "string", "class of the job (`class` in the trace); empty if the trace has none"),
        Field("quota_gpus", "int64", "quota of the team in GPUs; null if the policy has no queues", may_be_null=True),
        Field("arrival_s", "float64", "when the job was submitted"),
        Field("duration_s", "float64", "how long the job runs; `inf` if it runs until the replay ends"),
        Field("workers", "int64", "number of pods of the job"),
        Field("min_workers", "int64", "the job runs when so many pods are bound"),
        Field("gpus_per_worker", "float64", "GPUs that a worker requests, parts included"),
        Field("cpu_milli_per_worker", "int64", "CPU that a worker requests, in thousandths of a core"),
        Field("memory_mib_per_worker", "int64", "memory that a worker requests, in MiB"),
        Field("priority", "int64", "priority of the pods", is_optional=True),
        Field(
            "gpu_model",
            "string",
            "GPU models that a worker may have, between `\\|`; empty for any",
            is_optional=True,
        ),
        Field(
            "node_selector",
            "string",
            "labels that a node must have, as in `zone=a;rack=3`; empty if there are none",
            is_optional=True,
        ),
        Field("started_s", "float64", "when the job began to run for the first time", may_be_null=True),
        Field("ended_s", "float64", "when the job ended", may_be_null=True),
        Field("evictions", "int64", "number of runs that an eviction ended"),
        Field("outcome", "string", "`finished`, `running`, `waiting` (it ran before) or `never_ran`"),
        Field("reason", "string", "why an unfinished job waits: a code such as `NotEnoughResources`", may_be_null=True),
        Field("message", "string", "the message of the first waiting pod of the job", may_be_null=True),
    ),
    "pods": (
        Field("pod", "string", "name of the pod; a pod that was evicted is created again under its name"),
        Field("job", "string", "job of the pod"),
        Field(
            "run",
            "int64",
            "1 for the first pods of the job, 2 for those that are created after its first interruption, and so on",
        ),
        Field("created_s", "float64", "when the pod was created"),
        Field("node", "string", "node of the pod", may_be_null=True),
        Field("bound_s", "float64", "when the pod was bound", may_be_null=True),
        Field("binding", "int64", "how many pods were bound before", may_be_null=True),
        Field("run_started_s", "float64", "when this run of the job began", may_be_null=True),
        Field(
            "run_ended_s", "float64", "when this run of the job ended, also if the pod left before", may_be_null=True
        ),
        Field("left_s", "float64", "when the pod ended or was deleted", may_be_null=True),
        Field(
            "outcome",
            "string",
            "`finished`, `evicted`, `restarted` (an eviction interrupted the job), `bound`, or `pending` (never bound)",
        ),
    ),
    "timeline": (
        Field("time_s", "float64", "the row holds from this time until the time of the next row"),
        Field("used_gpus", "float64", "GPUs of jobs that run"),
        Field("held_gpus", "float64", "GPUs of bound or reserved pods whose job does not run yet"),
        Field("waiting_jobs", "int64", "jobs that have arrived and do not run"),
    ),
    "nodes": (
        Field("node", "string", "name of the node; a node that returns has another row"),
        Field("gpus", "float64", "GPUs of the node"),
        Field("gpu_model", "string", "model of the GPUs; empty if the cluster names none"),
        Field("cpu_milli", "int64", "CPU of the node, in thousandths of a core"),
        Field("memory_mib", "int64", "memory of the node, in MiB"),
        Field("added_s", "float64", "when the node was added"),
        Field("removed_s", "float64", "when the node was removed", may_be_null=True),
        Field("idle_watts", "float64", "power of the node without load", may_be_null=True),
        Field("gpu_watts", "float64", "additional power of each GPU in use", may_be_null=True),
    ),
}
"""The columns of each table, in order.

`jobs` also has the columns of the trace that the replay does not know, as text.
"""


def _schema_of(table: str, rows: Sequence[Mapping[str, Any]], extra: Iterable[str]) -> pa.Schema:
    """Return the Arrow schema of a table; `extra` names the columns of the trace that the replay does not know."""
    own = [
        pa.field(each.name, pa.type_for_alias(each.kind), nullable=each.may_be_null)
        for each in TABLES[table]
        if not each.is_optional or any(row[each.name] for row in rows)
    ]
    return pa.schema([*own, *(pa.field(EXTRA + name, pa.string()) for name in extra)])


@attrs.frozen(kw_only=True)
class Tables:
    """The tables of one run, with the schemas of `TABLES`."""

    jobs: pa.Table
    pods: pa.Table
    timeline: pa.Table
    nodes: pa.Table

    def items(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield each table with its name."""
        for name in TABLES:
            yield name, getattr(self, name)


def tables_of(played: Replay, cluster: Cluster, teams: Sequence[Team]) -> Tables:
    """Return the tables of a replay that has ended; `teams` are empty if the policy has no queues."""
    meter = played.meter
    messages = played.waiting_messages()
    quotas = {team.name: team.quota for team in teams}
    runs = [*meter.runs.values()]
    extra = dict.fromkeys(name for run in runs for name in run.job.columns)
    ends = {name: dict(run.spans) for name, run in meter.runs.items()}
    timeline = [
        {"time_s": at.time, "used_gpus": at.used, "held_gpus": at.idle, "waiting_jobs": at.waiting_jobs}
        for at in meter.moments
    ]
    return Tables(
        jobs=_table("jobs", [_job(run, quotas, messages, extra) for run in runs], extra),
        pods=_table("pods", [_pod(pod, meter.runs[pod.job], ends[pod.job]) for pod in meter.pods]),
        timeline=_table("timeline", timeline),
        nodes=_table("nodes", [*_nodes(played, cluster)]),
    )


def _table(name: str, rows: Sequence[Mapping[str, Any]], extra: Iterable[str] = ()) -> pa.Table:
    schema = _schema_of(name, rows, extra)
    columns = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if pa.types.is_floating(field.type):
            values = [None if value is None else round(value, 6) for value in values]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _job(
    run: JobRun, quotas: Mapping[str, int], messages: Mapping[str, str], extra: Iterable[str]
) -> Mapping[str, Any]:
    job = run.job
    outcome = "finished" if run.ended is not None else "running" if run.started is not None else "waiting"
    if outcome == "waiting" and not run.spans:
        outcome = "never_ran"
    reason, message = _why(messages.get(job.name, "")) if outcome in UNFINISHED else (None, None)
    first = run.spans[0][0] if run.spans else run.started
    return {
        "job": job.name,
        "team": job.team,
        "class": job.job_class,
        "quota_gpus": quotas.get(job.team),
        "arrival_s": run.arrived,
        "duration_s": job.duration,
        "workers": job.workers,
        "min_workers": job.min_workers,
        "gpus_per_worker": float(gpus_of(job.worker_gpu_milli)),
        "cpu_milli_per_worker": job.cpu_milli,
        "memory_mib_per_worker": job.memory_mib,
        "priority": job.priority,
        "gpu_model": "|".join(job.gpu_models),
        "node_selector": ";".join(f"{key}={value}" for key, value in job.node_selector.items()),
        "started_s": first,
        "ended_s": run.ended,
        # The last run of a job that ended was not evicted.
        "evictions": len(run.spans) - (run.ended is not None),
        "outcome": outcome,
        "reason": reason,
        "message": message,
        **{EXTRA + name: job.columns.get(name) for name in extra},
    }


def _why(message: str) -> tuple[str, str]:
    """Return the code of the reason and the text of a pod's message."""
    found = _CODE.fullmatch(message)
    if found is not None:
        return found["code"], found["text"]
    return (UNSCHEDULABLE, message) if message else (NO_REASON, "")


def _pod(pod: PodRun, run: JobRun, ends: Mapping[float, float]) -> Mapping[str, Any]:
    """Return the row of a pod; `ends` has the end of each run of its job, by the begin."""
    if pod.is_evicted:
        outcome = "evicted"
    elif pod.left is not None and pod.left != run.ended:
        outcome = "restarted"
    elif pod.bound is None:
        outcome = "pending"
    else:
        outcome = "bound" if pod.left is None else "finished"
    return {
        "pod": pod.name,
        "job": pod.job,
        "run": pod.run,
        "created_s": pod.created,
        "node": pod.node or None,
        "bound_s": pod.bound,
        "binding": pod.place,
        "run_started_s": pod.run_started,
        "run_ended_s": ends.get(pod.run_started) if pod.run_started is not None else None,
        "left_s": pod.left,
        "outcome": outcome,
    }


def _nodes(played: Replay, cluster: Cluster) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each time in which a node was there."""
    changes = played.node_changes
    presence = ((node, 0.0, None) for node in cluster.nodes) if changes is None else changes.presence()
    for node, added, removed in presence:
        yield {
            "node": node.name,
            "gpus": float(node.gpus),
            "gpu_model": node.gpu_model,
            "cpu_milli": node.cpu_milli,
            "memory_mib": node.memory_mib,
            "added_s": added,
            "removed_s": removed,
            "idle_watts": node.watts.idle if node.watts is not None else None,
            "gpu_watts": node.watts.gpu if node.watts is not None else None,
        }
