"""Build the tables of a session from descriptions of queues, jobs and tasks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.batch.queue_table import QueueTable, paths_of
from pyscheduler.batch.tasks import Job, SubGroup
from pyscheduler.batch.values import amounts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.batch.axis import Amounts, ResourceAxis
    from pyscheduler.batch.job_spec import JobSpec, SubGroupSpec
    from pyscheduler.batch.queue_spec import AmountsByResource, QueueSpec

__all__ = ["QueueProblems", "build_job", "build_queues"]

MISSING_PARENT = "ParentQueueDoesNotExist"
CYCLE = "QueueCycle"
DUPLICATE = "DuplicateQueue"


@attrs.frozen
class QueueProblems:
    """The queues that are not in the table, by name, and why: a stable reason."""

    reasons: dict[str, str]


def build_queues(axis: ResourceAxis, specs: Iterable[QueueSpec]) -> tuple[QueueTable, QueueProblems]:
    """Return the table of usable queues, parents first, and what is wrong with the others.

    A queue is left out with everything below it. A missing quota, guarantee or weight is NaN, a missing limit infinity.
    """
    by_name: dict[str, QueueSpec] = {}
    problems: dict[str, str] = {}
    for spec in specs:
        if spec.name in by_name:
            problems[spec.name] = DUPLICATE
        by_name[spec.name] = spec
        if spec.error:
            problems[spec.name] = spec.error
    ordered = _parents_first(by_name, problems)
    index = {spec.name: row for row, spec in enumerate(ordered)}
    parent = np.array([index.get(spec.parent, -1) for spec in ordered], dtype=np.int64)
    is_leaf = np.ones(len(ordered), dtype=bool)
    is_leaf[parent[parent >= 0]] = False

    def amounts(of: Callable[[QueueSpec], AmountsByResource], missing: float) -> Amounts:
        rows = [axis.amounts(of(spec), missing=missing) for spec in ordered]
        return np.array(rows).reshape(len(ordered), len(axis))

    def numbers(of: Callable[[QueueSpec], float | None]) -> Amounts:
        return np.array([math.nan if (value := of(spec)) is None else value for spec in ordered], dtype=np.float64)

    table = QueueTable(
        names=[spec.name for spec in ordered],
        index=index,
        parent=parent,
        quota=amounts(lambda spec: spec.quota, math.nan),
        limit=amounts(lambda spec: spec.limit, math.inf),
        guarantee=amounts(lambda spec: spec.guarantee, math.nan),
        over_quota_weight=amounts(lambda spec: spec.over_quota_weight, math.nan),
        weight=numbers(lambda spec: spec.weight),
        priority=numbers(lambda spec: spec.priority),
        created=numbers(lambda spec: spec.created),
        reclaimable=np.array([spec.reclaimable for spec in ordered], dtype=bool),
        state=[spec.state for spec in ordered],
        preempt_min_runtime=numbers(lambda spec: spec.preempt_min_runtime),
        reclaim_min_runtime=numbers(lambda spec: spec.reclaim_min_runtime),
        hierarchy=[(spec.hierarchy, spec.hierarchy_weights) for spec in ordered],
        allocated=np.zeros((len(ordered), len(axis))),
        non_preemptible=np.zeros((len(ordered), len(axis))),
        paths=paths_of(parent),
        is_leaf=is_leaf,
    )
    return table, QueueProblems(problems)


def _parents_first(by_name: dict[str, QueueSpec], problems: dict[str, str]) -> list[QueueSpec]:
    """Return the usable queues, each after its parent; add to `problems` those that are in or below a broken tree."""
    ordered: dict[str, QueueSpec] = {}
    for name in by_name:
        chain: list[str] = []
        at, reason = name, ""
        while at and at not in ordered:
            if at in problems or at not in by_name or at in chain:
                reason = problems.get(at) or (CYCLE if at in chain else MISSING_PARENT)
                break
            chain.append(at)
            at = by_name[at].parent
        if reason:
            problems.update(dict.fromkeys(chain, reason))
        else:
            ordered.update({each: by_name[each] for each in reversed(chain)})
    return [*ordered.values()]


def build_job(axis: ResourceAxis, spec: JobSpec, *, priority: float, preemptible: bool) -> Job:
    """Return the job of a description, without tasks."""
    minimum = amounts_of(spec.min_resources, "minResources", [])
    return Job(
        uid=spec.uid,
        key=f"{spec.namespace}/{spec.name}",
        queue=spec.queue,
        priority=priority,
        created=spec.created,
        min_member=spec.min_member,
        min_sub_group=spec.min_sub_group,
        sub_groups={each.name: _sub_group(each) for each in spec.sub_groups},
        min_task_member=spec.min_task_member,
        min_resources=axis.amounts(minimum) if minimum else None,
        preemptible=preemptible,
        last_start=spec.last_start,
        stale_since=spec.stale_since,
        staleness_grace=spec.staleness_grace,
        preemption_delay=spec.preemption_delay or 0.0,
        phase=spec.phase,
    )


def _sub_group(spec: SubGroupSpec) -> SubGroup:
    return SubGroup(name=spec.name, parent=spec.parent, min_member=spec.min_member, min_sub_group=spec.min_sub_group)
