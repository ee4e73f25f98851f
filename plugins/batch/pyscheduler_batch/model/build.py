"""Build the queues and jobs of a scheduling round from values that were read from API objects."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pyscheduler_batch.model.queue_table import QueueTable, paths_of
from pyscheduler_batch.model.tasks import NOTHING, Job, SubGroup
from pyscheduler_batch.model.values import amounts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from pyscheduler_batch.model.axis import Amounts, ResourceAxis
    from pyscheduler_batch.model.job_spec import JobSpec, SubGroupSpec
    from pyscheduler_batch.model.queue_spec import AmountsByResource, QueueSpec

__all__ = ["build_job", "build_queues"]

MISSING = "ParentQueueDoesNotExist"
CYCLE = "QueueCycle"
DUPLICATE = "DuplicateQueue"


def build_queues(
    axis: ResourceAxis,
    specs: Iterable[QueueSpec],
    *,
    is_tree: bool = True,
    keep_broken: bool = False,
    unset_limit: float = math.inf,
    taken: Container[str] = (),
) -> tuple[QueueTable, Mapping[str, str]]:
    """Return the table of usable queues, parents first, and by name of each other queue why it is not there.

    A queue with a broken tree above it is left out; with `keep_broken` it stays, and the table names the problem.
    Without `is_tree` parents do not count. `taken` are the names of queues of other dialects: they are duplicates.
    A missing quota, guarantee or weight is NaN, a missing limit `unset_limit`.
    """
    by_name: dict[str, QueueSpec] = {}
    problems: dict[str, str] = {}
    for spec in specs:
        if spec.name in by_name or spec.name in taken:
            problems[spec.name] = DUPLICATE
        by_name[spec.name] = spec
        if spec.error:
            problems[spec.name] = spec.error
    broken: dict[str, str] = {}
    missing: dict[str, str] = {}
    if is_tree:
        ordered, broken, missing = _parents_first(by_name, problems)
    else:
        ordered = [spec for spec in by_name.values() if spec.name not in problems]
    if keep_broken:
        ordered += [by_name[name] for name in broken]
    else:
        problems.update(broken)
    index = {spec.name: row for row, spec in enumerate(ordered)}
    above = [index.get(spec.parent, -1) if is_tree else -1 for spec in ordered]
    # A parent that follows its child is part of a broken tree.
    parent = np.array([up if up < row else -1 for row, up in enumerate(above)], dtype=np.int64)
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
        limit=amounts(lambda spec: spec.limit, unset_limit),
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
        problems=broken if keep_broken else {},
        missing_parents=missing,
    )
    return table, problems


def _parents_first(
    by_name: Mapping[str, QueueSpec], problems: Mapping[str, str]
) -> tuple[list[QueueSpec], dict[str, str], dict[str, str]]:
    """Return the usable queues, each after its parent; by name those in or below a broken tree, with the reason.

    The last part has by name the queue above that does not exist.
    """
    ordered: dict[str, QueueSpec] = {}
    broken: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name in by_name:
        chain: list[str] = []
        at, reason = name, ""
        while at and at not in ordered:
            reason = problems.get(at) or broken.get(at) or (CYCLE if at in chain else "" if at in by_name else MISSING)
            if reason:
                break
            chain.append(at)
            at = by_name[at].parent
        if reason:
            broken.update(dict.fromkeys(chain, reason))
            if reason == MISSING:
                missing.update(dict.fromkeys(chain, missing.get(at, at)))
        else:
            ordered.update({each: by_name[each] for each in reversed(chain)})
    return [*ordered.values()], broken, missing


def build_job(axis: ResourceAxis, spec: JobSpec, *, priority: float, preemptible: bool) -> Job:
    """Return the job of a description, without tasks."""
    minimum = amounts_of(spec.min_resources, "minResources", []) if spec.min_resources else NOTHING
    return Job(
        uid=spec.uid,
        key=f"{spec.namespace}/{spec.name}",
        queue=spec.queue,
        priority=priority,
        created=spec.created,
        min_member=spec.min_member,
        min_sub_group=spec.min_sub_group,
        sub_groups={each.name: _sub_group(each, spec) for each in spec.sub_groups} if spec.sub_groups else NOTHING,
        min_task_member=spec.min_task_member,
        min_resources=axis.amounts(minimum) if minimum else None,
        min_amounts=minimum,
        preemptible=preemptible,
        last_start=spec.last_start,
        last_eviction=spec.last_eviction,
        stale_since=spec.stale_since,
        reached=spec.reached,
        staleness_grace=spec.staleness_grace,
        preemption_delay=spec.preemption_delay or 0.0,
        waiting_time=spec.sla_waiting_time,
        phase=spec.phase,
        topology=spec.topology or NOTHING,
    )


def _sub_group(spec: SubGroupSpec, job: JobSpec) -> SubGroup:
    return SubGroup(
        name=spec.name,
        parent=spec.parent,
        min_member=spec.min_member,
        min_sub_group=spec.min_sub_group,
        topology=spec.topology,
        is_policy=job.policies is not None,
    )
