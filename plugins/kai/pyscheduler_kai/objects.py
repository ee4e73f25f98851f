"""Read KAI's objects that define queues and pod groups.

Sources: KAI-Scheduler `pkg/apis/scheduling/v2` (Queue), `pkg/apis/scheduling/v2alpha2` (PodGroup),
`pkg/scheduler/api/queue_info` and `podgroup_info` (defaults), `pkg/common/constants` (labels and annotations).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from pyscheduler.api import kind_of
from pyscheduler.podgroup import created_at
from pyscheduler.podgroup.sub_groups import SUB_GROUP_LABEL, TOO_DEEP, path_problem
from pyscheduler_batch.dialects import JobDialect, QueueDialect
from pyscheduler_batch.model.job_spec import JobSpec, SubGroupSpec
from pyscheduler_batch.model.queue_object import QueueObject
from pyscheduler_batch.model.queue_spec import QueueSpec
from pyscheduler_batch.model.tasks import NOTHING
from pyscheduler_batch.model.values import (
    Warnings,
    boolean,
    duration,
    integer,
    items_of,
    mapping_of,
    number,
    text_of,
    time_of,
    warn,
)

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.podgroup import GroupFields, GroupObject

__all__ = [
    "JOBS",
    "KAI_QUEUES",
    "LAST_EVICTION_ANNOTATION",
    "LAST_START_ANNOTATION",
    "NODE_POOL_LABEL",
    "QUEUES",
    "QUEUE_LABEL",
    "REACHED_ANNOTATION",
    "STALE_ANNOTATION",
    "SUB_GROUP_LABEL",
    "KaiQueue",
    "kai_job",
    "kai_last_start",
    "kai_pod_preemptible",
    "kai_pod_queue",
    "kai_pod_sub_group",
    "kai_queue",
    "without_succeeded",
]

QUEUE_LABEL: Final = "kai.scheduler/queue"
NODE_POOL_LABEL: Final = "kai.scheduler/node-pool"
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
STALE_ANNOTATION: Final = "kai.scheduler/stale-podgroup-timestamp"
LAST_START_ANNOTATION: Final = "kai.scheduler/last-start-timestamp"
LAST_EVICTION_ANNOTATION: Final = "kai.scheduler/last-eviction-timestamp"
REACHED_ANNOTATION: Final = "pyscheduler.io/reached-minimum"
"""`Job.reached` as JSON, for the next leader; an annotation of our own."""

_TIMES: Final = (STALE_ANNOTATION, LAST_START_ANNOTATION, LAST_EVICTION_ANNOTATION)
_PRIORITY: Final = 100
_UNLIMITED: Final = -1.0
#: Field of `spec.resources`, resource, and how many units of the resource are one of the field. Memory is in megabytes.
_RESOURCES: Final = (("cpu", "cpu", 1.0), ("memory", "memory", 1e6), ("gpu", "nvidia.com/gpu", 1.0))
#: The fields of one resource, and what it means that one is not set.
_UNSET: Final = {
    "quota": "all {0} of this queue can be reclaimed",
    "limit": "no job of this queue may use {0}",
    "overQuotaWeight": "this queue has no share of {0} beyond its quota",
}
_PREEMPTIBILITY: Final = {"preemptible": True, "non-preemptible": False}


class KaiQueue(QueueObject):
    """Queue of KAI."""

    api_version: ClassVar[str] = "scheduling.run.ai/v2"


KAI_QUEUES: Final = kind_of(KaiQueue, "queues", namespaced=False)


# --- queues -------------------------------------------------------------------------------------


def kai_queue(queue: QueueObject) -> QueueSpec:
    """Return what a Queue of KAI says.

    An unset quota, limit or weight is 0, as in KAI, with a warning. -1 is unlimited. Any other negative or unusable
    value counts as 0, so that a mistake never grants resources.
    """
    warnings: Warnings = []
    spec = mapping_of(queue.spec, "spec", warnings)
    raw_priority = spec.get("priority")
    amounts = _queue_resources(spec.get("resources"), warnings)
    return QueueSpec(
        name=queue.name,
        uid=queue.uid,
        dialect="kai",
        parent=text_of(spec.get("parentQueue"), "spec.parentQueue", warnings),
        display_name=text_of(spec.get("displayName"), "spec.displayName", warnings, default=queue.name),
        created=created_at(queue),
        priority=_PRIORITY
        if raw_priority is None
        else integer(raw_priority, "spec.priority", warnings, default=_PRIORITY, least=-(2**31)),
        quota=amounts["quota"],
        limit=amounts["limit"],
        over_quota_weight=amounts["overQuotaWeight"],
        preempt_min_runtime=duration(spec.get("preemptMinRuntime"), "spec.preemptMinRuntime", warnings),
        reclaim_min_runtime=duration(spec.get("reclaimMinRuntime"), "spec.reclaimMinRuntime", warnings),
        warnings=tuple(warnings),
    )


def _queue_resources(value: object, warnings: Warnings) -> dict[str, dict[str, float]]:
    """Return quota, limit and weight by resource."""
    amounts: dict[str, dict[str, float]] = {field: {} for field in _UNSET}
    if value is None:
        warnings.append("spec.resources is not set, which means 0: no job of this queue may use cpu, memory or gpu")
    resources = mapping_of(value, "spec.resources", warnings)
    for name, resource, unit in _RESOURCES:
        said = mapping_of(resources.get(name), f"spec.resources.{name}", warnings)
        if value is not None and resources.get(name) is None:
            warnings.append(f"spec.resources.{name} is not set, which means 0: {_UNSET['limit'].format(name)}")
        for field, meaning in _UNSET.items():
            where = f"spec.resources.{name}.{field}"
            raw = said.get(field)
            if raw is None:
                amount = 0.0
                if said:
                    warnings.append(f"{where} is not set, which means 0: {meaning.format(name)}")
            elif field == "overQuotaWeight":
                amount = number(
                    raw, where, warnings, default=0.0, valid=_is_weight, wrong="is not a number of 0 or more"
                )
            else:
                wrong = "is neither a number of 0 or more nor -1, which means unlimited"
                amount = number(raw, where, warnings, default=0.0, valid=_is_amount, wrong=wrong)
                amount = math.inf if amount == _UNLIMITED else amount * unit
            amounts[field][resource] = amount
    return amounts


def _is_weight(value: float) -> bool:
    return value >= 0


def _is_amount(value: float) -> bool:
    return value >= 0 or value == _UNLIMITED


# --- jobs ---------------------------------------------------------------------------------------


def kai_job(group: GroupObject, fields: GroupFields) -> JobSpec:
    """Return what a PodGroup of KAI says; `fields` is what `podgroup` reads of it."""
    warnings: Warnings = [str(problem) for problem in fields.problems]
    spec, annotations = group.spec, group.annotations
    sub_groups, error = _sub_groups(spec.sub_groups, warnings)
    backoff = spec.scheduling_backoff
    if backoff is not None and backoff not in (-1, 1):
        warn(warnings, "spec.schedulingBackoff", backoff, "is neither -1 nor 1; -1 counts")
        backoff = None
    status = group.status
    conditions = items_of(status.conditions, "status.conditions", warnings)
    scheduling = items_of(status.scheduling_conditions, "status.schedulingConditions", warnings)
    stale, start, eviction = (
        (time_of(annotations.get(name), name, warnings) for name in _TIMES) if annotations else (None, None, None)
    )
    return JobSpec(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        dialect="kai",
        created=created_at(group),
        queue=text_of(spec.queue, "spec.queue", warnings),
        # An explicit 0 means that no member must wait for others. Source: KAI, `job_info.go`, setSubGroups.
        min_member=1 if spec.min_member is None else fields.min or 0,
        priority_class_name=text_of(spec.priority_class_name, "spec.priorityClassName", warnings),
        preemptible=_preemptibility(spec.preemptibility, "spec.preemptibility", warnings),
        sub_groups=sub_groups,
        min_sub_group=_min_sub_group(spec.min_sub_group, sub_groups, warnings),
        min_resources=fields.min_resources or {},
        phase=status.phase,
        conditions=tuple([each for each in conditions if isinstance(each, Mapping)]),
        scheduling_conditions=tuple([each for each in scheduling if isinstance(each, Mapping)]),
        mark_unschedulable=boolean(spec.mark_unschedulable, "spec.markUnschedulable", warnings, default=True),
        scheduling_backoff=-1 if backoff is None else int(backoff),
        staleness_grace=duration(spec.staleness_grace_period, "spec.stalenessGracePeriod", warnings, negative=True),
        preemption_delay=duration(spec.preemption_delay, "spec.preemptionDelay", warnings),
        stale_since=stale,
        last_start=start,
        last_eviction=eviction,
        reached=_reached(annotations.get(REACHED_ANNOTATION), warnings) if annotations else NOTHING,
        topology=mapping_of(spec.topology_constraint, "spec.topologyConstraint", warnings),
        warnings=tuple(warnings),
        error=error if fields.min is not None else "InvalidMinMember",
    )


def _reached(text: str | None, warnings: Warnings) -> Mapping[str, int]:
    """Return what the annotation says about the minimums that a job had."""
    if text is None:
        return NOTHING
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(type(each) is int for each in found.values()):
        warn(warnings, REACHED_ANNOTATION, text, "is not what the scheduler wrote; it does not count")
        return NOTHING
    return found


def kai_last_start(stamp: float | None, pods: Iterable[Pod]) -> float | None:
    """Return when a job last began to run: what its annotation says, or when its first present pod was bound, if later.

    Differs from KAI-Scheduler, which reads the annotation only: a crash, or bindings that took long, leave it too old.
    """
    bound = [
        time_of(condition.last_transition_time, "lastTransitionTime", [])
        for pod in pods
        if pod.spec.node_name and not pod.is_terminating
        for condition in pod.status.conditions
        if condition.type == "PodScheduled" and condition.status == "True"
    ]
    first = min((each for each in bound if each is not None), default=None)
    return first if stamp is None or (first is not None and first > stamp) else stamp


def without_succeeded(spec: JobSpec, living: Iterable[str], succeeded: Iterable[str]) -> JobSpec:
    """Return a job with the minimums of its living members: those that succeeded count once the others are too few.

    `living`, `succeeded`: the sub-group of each such member, "" for none.

    Differs from KAI-Scheduler, which counts no member that succeeded: the last pods of a Job with more completions than
    parallelism never start.
    """
    done = Counter(succeeded)
    if not done:
        return spec
    alive = Counter(living)

    def rest(minimum: int, alive: int, done: int) -> int:
        return max(minimum - done, 0) if alive < minimum else minimum

    if not spec.sub_groups:
        return attrs.evolve(spec, min_member=rest(spec.min_member, alive.total(), done.total()))
    parts = [
        attrs.evolve(part, min_member=rest(part.min_member, alive[part.name], done[part.name]))
        for part in spec.sub_groups
    ]
    return attrs.evolve(spec, sub_groups=(*parts,))


def _preemptibility(value: object, where: str, warnings: Warnings) -> bool | None:
    text = text_of(value, where, warnings)
    if text and text not in _PREEMPTIBILITY:
        warn(warnings, where, text, "is neither preemptible nor non-preemptible; the priority decides")
    return _PREEMPTIBILITY.get(text)


def _minimum(value: object, where: str, warnings: Warnings) -> int | None:
    return None if value is None else integer(value, where, warnings, default=1, least=0)


def _min_sub_group(value: object, sub_groups: Sequence[SubGroupSpec], warnings: Warnings) -> int | None:
    """Return how many of the sub-groups must be satisfied: None for all, and where there are none."""
    if value is not None and not sub_groups:
        warn(warnings, "spec.minSubGroup", value, "does not count without spec.subGroups; set spec.minMember")
        return None
    return _minimum(value, "spec.minSubGroup", warnings)


def _sub_groups(value: object, warnings: Warnings) -> tuple[tuple[SubGroupSpec, ...], str]:
    """Return the sub-groups, and the reason why they make no tree, or ""."""
    found: dict[str, SubGroupSpec] = {}
    error = ""
    for index, item in enumerate(items_of(value, "spec.subGroups", warnings)):
        where = f"spec.subGroups[{index}]"
        said = mapping_of(item, where, warnings)
        name = text_of(said.get("name"), f"{where}.name", warnings)
        if not name or name in found:
            warn(warnings, f"{where}.name", name, "is empty or the name of an earlier sub-group; rename it")
            error = "InvalidSubGroups"
            continue
        minimum = said.get("minMember")
        found[name] = SubGroupSpec(
            name=name,
            parent=text_of(said.get("parent"), f"{where}.parent", warnings),
            min_member=0 if minimum is None else integer(minimum, f"{where}.minMember", warnings, default=1, least=0),
            min_sub_group=_minimum(said.get("minSubGroup"), f"{where}.minSubGroup", warnings),
            topology=mapping_of(said.get("topologyConstraint"), f"{where}.topologyConstraint", warnings),
        )
    parents = {name: each.parent for name, each in found.items()}
    for name, parent in parents.items():
        problem = path_problem(name, parents)
        if problem:
            warn(warnings, f'parent of sub-group "{name}"', parent, problem)
            error = "InvalidSubGroups"
        if problem == TOO_DEEP:
            return (), error
    return tuple(found.values()), error


# --- pods ---------------------------------------------------------------------------------------


def kai_pod_sub_group(pod: Pod) -> str:
    """Return the sub-group that a pod names, or ""."""
    return pod.labels.get(SUB_GROUP_LABEL, "")


def kai_pod_queue(pod: Pod) -> str:
    """Return the queue that a pod names, or ""."""
    return pod.labels.get(QUEUE_LABEL, "")


def kai_pod_preemptible(pod: Pod) -> bool | None:
    """Return whether a pod's label says that it may be evicted for others; None if it does not say."""
    return _PREEMPTIBILITY.get(pod.labels.get(PREEMPTIBILITY_LABEL, ""))


# --- dialects -----------------------------------------------------------------------------------

QUEUES: Final = QueueDialect(name="kai", system="KAI", kinds=(KAI_QUEUES,), read=kai_queue)
"""The dialect of the queues of KAI."""

JOBS: Final = JobDialect(
    name="kai",
    read=kai_job,
    sub_group=kai_pod_sub_group,
    queue=kai_pod_queue,
    preemptible=kai_pod_preemptible,
    marks=frozenset({SUB_GROUP_LABEL, PREEMPTIBILITY_LABEL}),
)
"""The dialect of the groups of KAI."""
