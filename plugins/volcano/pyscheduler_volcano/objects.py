"""Read the queues and pod groups of Volcano, and those of its predecessor kube-batch.

Sources: volcano `apis/scheduling/v1beta1` (types and annotations), `pkg/scheduler/api/queue_info.go`, `job_info.go` and
`pod_info.go` (defaults); kube-batch `pkg/apis/scheduling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from pyscheduler.api import kind_of
from pyscheduler.podgroup import created_at
from pyscheduler.podgroup.sub_group_fields import volcano_sub_groups
from pyscheduler.podgroup.sub_groups import TASK_SPEC, ByPolicy
from pyscheduler_batch.dialects import JobDialect, QueueDialect
from pyscheduler_batch.model.job_spec import JobSpec, SubGroupSpec
from pyscheduler_batch.model.queue_object import QueueObject
from pyscheduler_batch.model.queue_spec import ROOT_QUEUE, QueueSpec, QueueState
from pyscheduler_batch.model.values import (
    Warnings,
    amounts_of,
    boolean,
    duration,
    go_boolean,
    integer,
    items_of,
    mapping_of,
    text_of,
    time_of,
    warn,
)

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.podgroup import GroupFields, GroupObject

__all__ = [
    "DEFAULT_QUEUE",
    "JOBS",
    "LAST_EVICTION",
    "PREEMPTABLE",
    "QUEUES",
    "ROOT_QUEUE",
    "VOLCANO_QUEUES",
    "VolcanoQueue",
    "kube_batch_job",
    "kube_batch_queue",
    "volcano_job",
    "volcano_pod_preemptible",
    "volcano_pod_queue",
    "volcano_pod_role",
    "volcano_queue",
]

DEFAULT_QUEUE: Final = "default"
"""The queue of a group that names none."""

LAST_EVICTION: Final = "pyscheduler.io/last-eviction-timestamp"
"""`Job.last_eviction`, for the next leader; an annotation of our own."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
QUEUE_NAME: Final = "scheduling.volcano.sh/queue-name"
_SLA: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
_HIERARCHY: Final = "volcano.sh/hierarchy"
_HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
_HEAVIEST: Final = 65535


class VolcanoQueue(QueueObject):
    """Queue of Volcano."""

    api_version: ClassVar[str] = "scheduling.volcano.sh/v1beta1"


VOLCANO_QUEUES: Final = kind_of(VolcanoQueue, "queues", namespaced=False)


# --- queues -------------------------------------------------------------------------------------


def kube_batch_queue(queue: QueueObject) -> QueueSpec:
    """Return what a Queue of kube-batch says: a weight, 1 if unset, and a capability, unlimited if unset."""
    warnings: Warnings = []
    spec = mapping_of(queue.spec, "spec", warnings)
    weight = spec.get("weight")
    return QueueSpec(
        name=queue.name,
        uid=queue.uid,
        dialect="kube-batch",
        created=created_at(queue),
        weight=1 if weight is None else integer(weight, "spec.weight", warnings, default=1, least=1, most=_HEAVIEST),
        limit=amounts_of(spec.get("capability"), "spec.capability", warnings),
        warnings=tuple(warnings),
    )


def volcano_queue(queue: QueueObject) -> QueueSpec:
    """Return what a Queue of Volcano says.

    A queue other than `root` without a parent is below `root`. A resource without capability is unlimited. A queue
    without a state is open, because no controller of Volcano needs to run.
    """
    simple = kube_batch_queue(queue)
    warnings: Warnings = list(simple.warnings)
    unused: Warnings = []
    spec = mapping_of(queue.spec, "spec", unused)
    status = mapping_of(queue.status, "status", unused)
    guarantee = mapping_of(spec.get("guarantee"), "spec.guarantee", warnings)
    priority = spec.get("priority")
    parent = text_of(spec.get("parent"), "spec.parent", warnings, default=ROOT_QUEUE)
    return attrs.evolve(
        simple,
        dialect="volcano",
        parent="" if queue.name == ROOT_QUEUE else parent,
        priority=0 if priority is None else integer(priority, "spec.priority", warnings, default=0, least=0),
        quota=amounts_of(spec.get("deserved"), "spec.deserved", warnings),
        guarantee=amounts_of(guarantee.get("resource"), "spec.guarantee.resource", warnings),
        reclaimable=boolean(spec.get("reclaimable"), "spec.reclaimable", warnings, default=True),
        state=_state(status.get("state"), warnings),
        hierarchy=queue.annotations.get(_HIERARCHY, ""),
        hierarchy_weights=queue.annotations.get(_HIERARCHY_WEIGHTS, ""),
        affinity=mapping_of(spec.get("affinity"), "spec.affinity", warnings),
        warnings=tuple(warnings),
    )


def _state(value: object, warnings: Warnings) -> QueueState:
    text = text_of(value, "status.state", warnings, default=QueueState.OPEN)
    if text in set(QueueState):
        return QueueState(text)
    warn(warnings, "status.state", text, f"is none of {', '.join(QueueState)}; Unknown counts")
    return QueueState.UNKNOWN


# --- jobs ---------------------------------------------------------------------------------------


def kube_batch_job(group: GroupObject, fields: GroupFields) -> JobSpec:
    """Return what a PodGroup of kube-batch says; `fields` is what `podgroup` reads of it."""
    warnings: Warnings = [str(problem) for problem in fields.problems]
    spec = group.spec
    conditions = items_of(group.status.conditions, "status.conditions", warnings)
    return JobSpec(
        namespace=group.namespace,
        name=group.name,
        uid=group.uid,
        dialect="kube-batch",
        created=created_at(group),
        queue=text_of(spec.queue, "spec.queue", warnings, default=DEFAULT_QUEUE),
        min_member=fields.min or 0,
        priority_class_name=text_of(spec.priority_class_name, "spec.priorityClassName", warnings),
        min_resources=fields.min_resources or {},
        phase=group.status.phase,
        conditions=tuple(each for each in conditions if isinstance(each, Mapping)),
        last_eviction=time_of(group.annotations.get(LAST_EVICTION), LAST_EVICTION, warnings),
        warnings=tuple(warnings),
        error="" if fields.min is not None else "InvalidMinMember",
    )


def volcano_job(group: GroupObject, fields: GroupFields) -> JobSpec:
    """Return what a PodGroup of Volcano says; `fields` is what `podgroup` reads of it."""
    simple = kube_batch_job(group, fields)
    warnings: Warnings = list(simple.warnings)
    spec, annotations = group.spec, group.annotations
    trees = volcano_sub_groups(group).trees
    preemptible = _preemptable(annotations.get(PREEMPTABLE, group.labels.get(PREEMPTABLE)), warnings)
    return attrs.evolve(
        simple,
        dialect="volcano",
        preemptible=preemptible,
        sub_groups=_sub_group_policies(spec.sub_group_policy, warnings),
        policies=next((each for tree in trees if isinstance(each := tree.naming, ByPolicy)), None),
        min_task_member={
            role: integer(each, f"spec.minTaskMember.{role}", warnings, default=0, least=0)
            for role, each in mapping_of(spec.min_task_member, "spec.minTaskMember", warnings).items()
        },
        sla_waiting_time=_waiting_time(annotations, warnings),
        topology=mapping_of(spec.network_topology, "spec.networkTopology", warnings),
        warnings=tuple(warnings),
    )


def _sub_group_policies(value: object, warnings: Warnings) -> tuple[SubGroupSpec, ...]:
    policies = []
    for index, item in enumerate(items_of(value, "spec.subGroupPolicy", warnings)):
        where = f"spec.subGroupPolicy[{index}]"
        said = mapping_of(item, where, warnings)
        size, needed = said.get("subGroupSize"), said.get("minSubGroups")
        keys = items_of(said.get("matchLabelKeys"), f"{where}.matchLabelKeys", warnings)
        policies.append(
            SubGroupSpec(
                name=text_of(said.get("name"), f"{where}.name", warnings),
                min_member=1 if size is None else integer(size, f"{where}.subGroupSize", warnings, default=1, least=1),
                min_sub_group=0
                if needed is None
                else integer(needed, f"{where}.minSubGroups", warnings, default=0, least=0),
                topology=mapping_of(said.get("networkTopology"), f"{where}.networkTopology", warnings),
                selector=mapping_of(said.get("labelSelector"), f"{where}.labelSelector", warnings),
                match_label_keys=tuple(key for key in keys if isinstance(key, str)),
            )
        )
    return tuple(policies)


def _waiting_time(annotations: Mapping[str, str], warnings: Warnings) -> float | None:
    """Return the first usable waiting time; 0 is none."""
    for key in _SLA:
        seconds = duration(annotations.get(key), key, warnings)
        if seconds == 0:
            warn(warnings, key, annotations[key], "is not above 0; it counts as not set")
        elif seconds is not None:
            return seconds
    return None


def _preemptable(text: str | None, warnings: Warnings) -> bool | None:
    """Return what an annotation or label says; a word that is no boolean protects."""
    if text is None:
        return None
    value = go_boolean(text)
    if value is None:
        warn(warnings, PREEMPTABLE, text, "is neither true nor false; false counts")
    return bool(value)


# --- pods ---------------------------------------------------------------------------------------


def volcano_pod_role(pod: Pod) -> str:
    """Return the role of a pod, whose minimum is in `JobSpec.min_task_member`; "" for none."""
    return pod.annotations.get(TASK_SPEC) or pod.labels.get(TASK_SPEC, "")


def volcano_pod_queue(pod: Pod) -> str:
    """Return the queue that a pod without a group names, or ""."""
    return pod.annotations.get(QUEUE_NAME, "")


def volcano_pod_preemptible(pod: Pod) -> bool | None:
    """Return whether a pod may be evicted for others; None if it does not say, which Volcano reads as True.

    A word that is no boolean protects the pod.
    """
    text = pod.annotations.get(PREEMPTABLE, pod.labels.get(PREEMPTABLE))
    return None if text is None else bool(go_boolean(text))


# --- dialects -----------------------------------------------------------------------------------

QUEUES: Final = QueueDialect(name="volcano", system="Volcano", kinds=(VOLCANO_QUEUES,), read=volcano_queue)
"""The dialect of the queues of Volcano."""

JOBS: Final = JobDialect(
    name="volcano",
    default_queue=DEFAULT_QUEUE,
    read=volcano_job,
    role=volcano_pod_role,
    queue=volcano_pod_queue,
    preemptible=volcano_pod_preemptible,
    marks=frozenset({TASK_SPEC, PREEMPTABLE}),
)
"""The dialect of the groups of Volcano."""
