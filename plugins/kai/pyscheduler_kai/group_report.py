"""Compute the status of KAI's pod groups (conditions, pod counts, resources) and their annotations.

Sources: KAI-Scheduler `pkg/scheduler/cache/status_updater`, `pkg/podgroupcontroller`, `api/common_info/job_errors.go`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import format_time
from pyscheduler_batch.contract import ALIVE, ALLOCATED, PODS, TaskState
from pyscheduler_batch.model.sub_groups import reached_minimums
from pyscheduler_batch.queue_problems import SCHEDULING_BACKOFF
from pyscheduler_batch.status.quantities import resource_list
from pyscheduler_batch.status.report import Note, raw_conditions
from pyscheduler_batch.status.writer import Patch, changed_fields
from pyscheduler_kai.backoff import ONCE
from pyscheduler_kai.cycle import cycle_of
from pyscheduler_kai.gang import DEFAULT_LEAF
from pyscheduler_kai.objects import (
    LAST_EVICTION_ANNOTATION,
    LAST_START_ANNOTATION,
    REACHED_ANNOTATION,
    STALE_ANNOTATION,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.podgroup import GroupObject
    from pyscheduler_batch.contract import Job, JobSpec, Session
    from pyscheduler_batch.status.queues import QueueSums
    from pyscheduler_kai.gang import Gang

__all__ = ["KaiReport", "SchedulingCondition", "kai_report", "resources_of"]

UNSCHEDULABLE: Final = "Unschedulable"
UNSCHEDULABLE_ON_NODE_POOL: Final = "UnschedulableOnNodePool"
UNABLE: Final = "Unable to schedule podgroup"
#: What is compared: the id and the time of a transition are no reason to write.
_COMPARED: Final = ("type", "nodePool", "reason", "message", "status")


@attrs.frozen
class SchedulingCondition:
    """An entry of `status.schedulingConditions`; `reasons` are pairs of reason and message."""

    node_pool: str
    message: str
    reasons: tuple[tuple[str, str], ...] = ()

    def merged(self, conditions: Sequence[Mapping[str, object]], now: float) -> list[Mapping[str, object]] | None:
        """Return the conditions with this one as the last; None if it is there already."""
        last = conditions[-1] if conditions else {}
        new: dict[str, object] = {
            "type": UNSCHEDULABLE_ON_NODE_POOL,
            "nodePool": self.node_pool,
            "reason": UNSCHEDULABLE,
            "message": self.message,
            "transitionID": str(_number(last.get("transitionID")) + 1),
            "lastTransitionTime": format_time(now),
            "status": "True",
        }
        if self.reasons:
            new["reasons"] = [{"reason": reason, "message": message} for reason, message in self.reasons]
        if all(last.get(name) == new[name] for name in _COMPARED):
            return None
        return [*(each for each in conditions if each.get("nodePool") != self.node_pool), new]


def _number(text: object) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


@attrs.frozen(kw_only=True)
class KaiReport:
    """The report of a pass about one group. Times are seconds since 1970."""

    counts: Mapping[str, int]
    resources: Mapping[str, Mapping[str, str]] | None = None
    condition: SchedulingCondition | None = None
    stale_since: float | None = None
    last_start: float | None = None
    last_eviction: float | None = None
    reached: Mapping[str, int] = attrs.Factory(dict)
    notes: Sequence[Note] = ()
    now: float = 0.0

    def remembered(self, spec: JobSpec) -> JobSpec:
        """Return a description of the group with its times and minima as of this report."""
        return attrs.evolve(
            spec,
            stale_since=self.stale_since,
            reached=self.reached,
            last_start=spec.last_start if self.last_start is None else self.last_start,
            last_eviction=spec.last_eviction if self.last_eviction is None else self.last_eviction,
        )

    def patches(self, group: GroupObject) -> Sequence[Patch]:
        """Return what the group's annotations and status lack."""
        patches = []
        stale = None if self.stale_since is None else format_time(self.stale_since)
        reached = json.dumps({**self.reached}, separators=(",", ":")) if self.reached else None
        wanted: dict[str, str | None] = {STALE_ANNOTATION: stale, REACHED_ANNOTATION: reached}
        if self.last_start is not None:
            wanted[LAST_START_ANNOTATION] = format_time(self.last_start)
        if self.last_eviction is not None:
            wanted[LAST_EVICTION_ANNOTATION] = format_time(self.last_eviction)
        annotations = {key: text for key, text in wanted.items() if group.annotations.get(key) != text}
        if annotations:
            patches.append(Patch({"metadata": {"annotations": annotations}}, is_status=False))
        changed = self._status(group)
        if changed:
            patches.append(Patch({"status": changed}))
        return patches

    def _status(self, group: GroupObject) -> dict[str, object]:
        status = group.status
        before: dict[str, object] = {
            "pending": status.pending,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
        }
        changed = changed_fields(before, self.counts)
        if self.resources is not None:
            known = status.resources_status if isinstance(status.resources_status, dict) else {}
            resources = changed_fields(known, self.resources)
            if resources:
                changed["resourcesStatus"] = resources
        if self.condition is not None:
            condition = self.condition
            if group.spec.scheduling_backoff == ONCE:
                condition = attrs.evolve(condition, message=f"Node-Pool '{condition.node_pool}': {condition.message}")
            conditions = condition.merged(raw_conditions(status.scheduling_conditions), self.now)
            if conditions is not None:
                changed["schedulingConditions"] = conditions
        return changed


def kai_report(
    job: Job, session: Session, problem: tuple[str, str] | None, sums: QueueSums, node_pool: str
) -> KaiReport:
    """Return the report of a job at the end of a pass.

    `problem`: reason and message of what is wrong with the job's queue. `sums`: what the job holds and requests.
    """
    gangs = cycle_of(session).gangs
    reasons = session.reasons.get(job.uid, {}) if problem is None else dict([problem])
    notes: list[Note] = []
    condition = None
    if job.stale_since is not None:
        notes.append(Note("StaleJob", _stale(gangs[job.uid])))
    if job.counts[TaskState.PIPELINED]:
        count = job.counts[TaskState.PIPELINED]
        notes.append(Note("Pipelined", f"{count} pods were pipelined: they wait until resources are released"))
    if problem is not None and problem[0] == SCHEDULING_BACKOFF:
        pass  # the condition that holds the group back, and its event, stay as they are
    elif problem is not None:
        message = _message(reasons)
        condition = SchedulingCondition(node_pool, message, (problem,))
        notes.append(Note(UNSCHEDULABLE, message))
    elif job.counts[TaskState.PENDING] or job.counts[TaskState.GATED]:
        if not gangs[job.uid].is_ready():
            notes.append(Note("NotReady", _not_ready(gangs[job.uid])))
        else:
            message = _message(reasons)
            notes.append(Note(UNSCHEDULABLE, message))
            if not job.count(ALLOCATED):
                condition = SchedulingCondition(node_pool, message, tuple(reasons.items()))
    return KaiReport(
        counts=_counts(job),
        resources=resources_of(sums),
        condition=condition,
        stale_since=job.stale_since,
        last_start=job.last_start,
        last_eviction=job.last_eviction,
        reached=reached_minimums(job, job.reached, ALLOCATED) if job.count(ALLOCATED) else {},
        notes=notes,
        now=session.now,
    )


def _counts(job: Job) -> dict[str, int]:
    waiting = (TaskState.PENDING, TaskState.GATED, TaskState.PIPELINED, TaskState.BINDING, TaskState.BOUND)
    return {
        "pending": job.count(waiting),
        "running": job.counts[TaskState.RUNNING],
        "succeeded": job.counts[TaskState.SUCCEEDED],
        "failed": job.counts[TaskState.FAILED],
    }


def resources_of(sums: QueueSums) -> dict[str, dict[str, str]]:
    """Return the resources in the status of a group or a queue. A pod's place is a resource here and not in KAI."""
    sets = {
        "allocated": sums.allocated,
        "allocatedNonPreemptible": sums.non_preemptible,
        "requested": sums.requested,
    }
    return {
        key: resource_list({name: amount for name, amount in amounts.items() if name != PODS})
        for key, amounts in sets.items()
    }


def _message(reasons: Mapping[str, str]) -> str:
    """Return the reason, if there is one, and all messages."""
    lead = next(iter(reasons)) if len(reasons) == 1 else UNABLE
    messages = sorted({message for message in reasons.values() if message})
    joined = ". \n".join(messages)
    return f"{lead}: {joined}." if messages else lead


def _stale(gang: Gang) -> str:
    leaves = gang.used_by_leaf()
    active, minimum = sum(used for _, used in leaves), sum(leaf.minimum for leaf, _ in leaves)
    text = f"Job is stale. {active} pods are active, minMember is {minimum}"
    for leaf, used in leaves:
        if used < leaf.minimum and leaf.name != DEFAULT_LEAF:
            text += f", subGroup {leaf.name} minMember is {leaf.minimum} and {used} pods are active"
    if gang.job.lost:
        keys = sorted(gang.job.tasks[uid].key for uid in gang.job.lost)
        text += f"; {len(keys)} pods are not bound, because their bindings fail, the first is {keys[0]}"
    return text


def _not_ready(gang: Gang) -> str:
    text = "Job is not ready for scheduling."
    for leaf in gang.leaves:
        if leaf.is_ready():
            continue
        alive = sum(task.state in ALIVE for task in leaf.tasks)
        gated = sum(task.state == TaskState.GATED for task in leaf.tasks)
        if leaf.name == DEFAULT_LEAF:
            text += f" Waiting for {leaf.minimum} pods, currently {alive} exist, {gated} are gated"
        else:
            where = f"pods for SubGroup {leaf.name}"
            text += f" Waiting for {leaf.minimum} {where}, currently {alive} exist, {gated} are gated."
    return text
