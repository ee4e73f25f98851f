"""Volcano's Job, and the Volcano PodGroups that other operators, such as KubeRay, create.

Source: Volcano, `pkg/controllers/job`.
Differs from Volcano: policies, plugins and `dependsOn` have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import as_int, name_of, pod_of, requests_of, scaled, summed, uid_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_testserver.workloads.contract import Object, View

__all__ = ["group_by_annotation", "volcano_group", "volcano_job"]

_GROUP_NAME: Final = "scheduling.k8s.io/group-name"
#: Resources whose limits a ResourceQuota can limit.
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
_ONE: Final = 1_000_000_000
_INHERITED: Final = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")


def group_by_annotation(member: Object, group: str) -> None:
    """Make a pod, or the pods of a template, members of a Volcano PodGroup, unless they name a group."""
    member.setdefault("metadata", {}).setdefault("annotations", {}).setdefault(_GROUP_NAME, group)


def volcano_group(
    name: str, *, minimum: int, queue: str = "", priority_class: str = "", resources: Mapping[str, Any], **more: Any
) -> Object:
    """Return a Volcano PodGroup; `more` are further fields of its spec."""
    spec: Object = {"minMember": minimum, "queue": queue or "default", "minResources": dict(resources), **more}
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def volcano_job(obj: Object, view: View) -> Plan:
    """Return the PodGroup and the pods of a Volcano Job."""
    spec, metadata = obj["spec"], obj["metadata"]
    tasks = [{"name": f"default{index}", **task} for index, task in enumerate(spec.get("tasks") or ())]
    minima = {task["name"]: as_int(task.get("minAvailable"), as_int(task.get("replicas"), 0)) for task in tasks}
    minimum = as_int(spec.get("minAvailable"), 0) or sum(minima.values())
    # As in Volcano, tasks of higher priority come first.
    ordered = sorted(tasks, key=lambda task: -view.priority_of(_priority_class(task)))
    counts = _least_pods(ordered, minima, minimum)
    needed = [scaled(_quota_usage(task.get("template") or {}), count) for task, count in counts]
    more = {key: spec[key] for key in ("networkTopology",) if key in spec}
    group = volcano_group(
        f"{name_of(obj)}-{uid_of(obj)}",
        minimum=minimum,
        queue=spec.get("queue") or "",
        priority_class=spec.get("priorityClassName") or "",
        resources=summed(needed),
        minTaskMember=minima,
        **more,
    )
    group["metadata"] |= {key: dict(metadata[key]) for key in ("labels", "annotations") if metadata.get(key)}
    pods = [_task_pod(obj, task, index) for task in tasks for index in range(as_int(task.get("replicas"), 0))]
    return Plan(children=(Child(obj=group), *(Child(obj=pod) for pod in pods)))


def _priority_class(task: Object) -> str:
    name: str = ((task.get("template") or {}).get("spec") or {}).get("priorityClassName") or ""
    return name


def _least_pods(tasks: Sequence[Object], minima: Mapping[str, int], minimum: int) -> list[tuple[Object, int]]:
    """Return how many pods of each task, in order, the `minResources` of a job count.

    Below the sum of the tasks' minima these are the first pods. Otherwise the minima count, then the first others.
    """
    replicas = {task["name"]: as_int(task.get("replicas"), 0) for task in tasks}
    rounds = [replicas]
    if minimum >= sum(minima.values()):
        rounds = [dict(minima), {name: count - minima[name] for name, count in replicas.items()}]
    counts: list[tuple[Object, int]] = []
    for most in rounds:
        for task in tasks:
            count = max(min(most[task["name"]], minimum), 0)
            minimum -= count
            counts.append((task, count))
    return counts


def _quota_usage(template: Object) -> dict[str, int]:
    """Return what a pod uses of quotas, by all names that a ResourceQuota may have; in billionths of a unit.

    Source: Kubernetes, `pkg/quota/v1/evaluator/core`.
    """
    usage = {"pods": _ONE, "count/pods": _ONE}
    for name, amount in requests_of(template).items():
        usage |= {name: amount, f"requests.{name}": amount}
    limits = requests_of(template, "limits")
    return usage | {f"limits.{name}": limits[name] for name in _LIMITED if name in limits}


def _task_pod(obj: Object, task: Object, index: int) -> Object:
    """Return the pod of a task."""
    spec, name = obj["spec"], name_of(obj)
    template = task.get("template") or {}
    common = {
        "volcano.sh/task-index": str(index),
        "volcano.sh/task-spec": task["name"],
        "volcano.sh/job-name": name,
        "volcano.sh/queue-name": spec.get("queue") or "default",
    }
    own = {"volcano.sh/job-namespace": obj["metadata"].get("namespace") or "default"}
    annotations = {
        _GROUP_NAME: f"{name}-{uid_of(obj)}",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": f"{name}-{task['name']}",
    }
    for key in _INHERITED:
        for place, kept in (("labels", own), ("annotations", annotations)):
            if value := (obj["metadata"].get(place) or {}).get(key):
                kept[key] = value
    fields: Object = {}
    for key, default in (("schedulerName", "volcano"), ("priorityClassName", "")):
        value = (template.get("spec") or {}).get(key) or spec.get(key) or default
        if value:
            fields[key] = value
    pod_name = f"{name}-{task['name']}-{index}"
    return pod_of(template, name=pod_name, labels=common | own, annotations=common | annotations, spec=fields)
