"""Run test cases for the rules of KAI-Scheduler: each case is a scheduling cycle on a small cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from pyscheduler_batch.model.axis import CPU, GPU, MEMORY
from pyscheduler_batch.model.decisions import DecisionKind, Decisions
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_lab.simulation.batch_cases.kai_objects import (
    FIELDS,
    args_of,
    next_round,
    objects_of,
    set_usage,
    shares_gpus,
)
from pyscheduler_lab.simulation.batch_cases.objects import run_pass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyscheduler_batch.model.session import Session

__all__ = ["run_case"]

Json = dict[str, Any]

#: When the cycle runs; any instant will do.
_NOW: Final = 1_000_000_000.0
_STATE_NAMES: Final = {
    TaskState.PENDING: "pending",
    TaskState.GATED: "gated",
    TaskState.ALLOCATED: "allocated",
    TaskState.BINDING: "allocated",
    TaskState.PIPELINED: "pipelined",
    TaskState.BOUND: "bound",
    TaskState.RUNNING: "running",
    TaskState.RELEASING: "releasing",
    TaskState.SUCCEEDED: "succeeded",
    TaskState.FAILED: "failed",
}
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_RUNS: Final = frozenset({TaskState.BOUND, TaskState.RUNNING})


def run_case(case: Json) -> Json:
    """Return `{"id", "actual"}` for a case; `actual` has every field of a recorded answer.

    If the case has `rounds`, `actual` has the answers of all rounds, and `actual.before` the tasks at their beginnings.
    """
    rounds = case.get("rounds")
    if not rounds:
        return {"id": case.get("id"), "actual": _run_round(case)}
    answers: list[Json] = []
    before: list[Json] = []
    for _ in range(rounds["until"] + rounds["after"]):
        before.append({task["name"]: _given(task) for job in case["jobs"] for task in job["tasks"]})
        answers.append(_run_round(case))
        case = next_round(case, answers[-1])
    return {"id": case.get("id"), "actual": {"rounds": answers, "before": before}}


def _given(task: Json) -> Json:
    """Return the state and node of a task of a case."""
    return {"state": task["state"].lower(), **({"node": task["node"]} if "node" in task else {})}


def _run_round(case: Json) -> Json:
    actual: Json = {}
    before: dict[str, TaskState] = {}
    has_actions = bool(case.get("actions"))

    def at_opening(session: Session) -> None:
        before.update((task.uid, task.state) for job in session.jobs.values() for task in job.tasks.values())
        if not has_actions:
            actual["queues"] = dict(_queue_fields(session))

    def at_close(session: Session) -> None:
        if has_actions:
            actual.update(_actual(session, before))

    usage = case.get("historicalUsage")
    run_pass(
        args_of(case),
        objects_of(case, _NOW),
        now=_NOW,
        at_opening=at_opening,
        at_close=at_close,
        prepare=partial(set_usage, usage=usage) if usage else None,
        plugins=["GpuSharing"] if shares_gpus(case) else [],
    )
    if has_actions:
        _add_ended(actual, case)
    return actual


def _add_ended(actual: Json, case: Json) -> None:
    """Add the jobs whose tasks have all ended: the tables do not hold them."""
    for job in case["jobs"]:
        if all(task.get("state") in _ENDED for task in job["tasks"]):
            actual["tasks"].update((task["name"], _given(task)) for task in job["tasks"])
            actual["jobs"][job["name"]] = dict(Counter(task["state"].lower() for task in job["tasks"]))


def _actual(session: Session, before: Mapping[str, TaskState]) -> Json:
    decisions = session.effects
    assert isinstance(decisions, Decisions), "the pass of a scheduler records its decisions"
    evictions: dict[str, list[Json]] = defaultdict(list)
    for each in decisions.items:
        if each.kind is DecisionKind.EVICT:
            by = {} if each.by is None else {"by": each.by.uid}
            evictions[each.task.uid].append({"action": each.action, **by})
    tasks: Json = {}
    jobs: Json = {}
    names = session.nodes.names
    shared = session.extras.get(resolve_name("pyscheduler_batch.gpu_sharing.shared:SharedRoom"))
    for job in session.jobs.values():
        counts: dict[str, int] = defaultdict(int)
        for task in job.tasks.values():
            state = _STATE_NAMES[task.state]
            # The tables do not hold the nodes of pods that have ended.
            ended_on = task.pod.node_name if task.pod is not None else ""
            node = names[task.node] if task.node >= 0 else ended_on
            found = tasks[task.uid] = {"state": state, "node": node} if node else {"state": state}
            if state == "allocated" and shared is not None and (devices := shared.devices_of(task.uid)):
                found["gpuGroups"] = list(devices)
            counts[state] += 1
            if before[task.uid] in _RUNS:
                counts["evicted"] += task.state == TaskState.RELEASING
                counts["moved"] += task.state == TaskState.PIPELINED
        jobs[job.uid] = {name: count for name, count in counts.items() if count}
    return {
        "queues": dict(_queue_fields(session)),
        "tasks": tasks,
        "jobs": jobs,
        "evictedTotal": sum(counts.get("evicted", 0) for counts in jobs.values()),
        "movedTotal": sum(counts.get("moved", 0) for counts in jobs.values()),
        "evictions": evictions,
        "bindOrder": [each.task.uid for each in decisions.items if each.kind is DecisionKind.BIND],
        "reasons": {uid: sorted(reasons) for uid, reasons in session.reasons.items()},
    }


def _queue_fields(session: Session) -> Iterator[tuple[str, Json]]:
    policy = next(entry.policy for tier in session.tiers for entry in tier if entry.policy.name == "proportion")
    shares: Any = policy
    # The policy has the columns CPU, memory and GPUs.
    places = [{CPU: 0, MEMORY: 1, GPU: 2}[name] for name in FIELDS.values()]
    for row, name in enumerate(session.queues.names):
        sections = {
            "fairShare": shares.fair_shares[row].tolist(),
            "requested": shares.requested[row].tolist(),
            "allocated": shares.allocated[row],
            "allocatedNonPreemptible": shares.non_preemptible[row],
        }
        yield (
            name,
            {
                title: {field: values[place] for field, place in zip(FIELDS, places, strict=True)}
                for title, values in sections.items()
            },
        )
