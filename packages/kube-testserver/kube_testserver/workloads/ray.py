"""RayCluster (of KubeRay): the pods of the head and of the workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import as_int, name_of, pod_of, requests_of, scaled, summed
from kube_testserver.workloads.volcano import group_by_annotation, volcano_group

if TYPE_CHECKING:
    from kube_testserver.workloads.contract import Object, View

__all__ = ["ray_cluster"]

_SCHEDULER: Final = "ray.io/scheduler-name"
_QUEUE: Final = "volcano.sh/queue-name"


def ray_cluster(obj: Object, _view: View) -> Plan:
    """Return the head pod and the worker pods of a RayCluster; none of a suspended one."""
    spec, name = obj["spec"], name_of(obj)
    if spec.get("suspend"):
        return Plan()
    head = (spec.get("headGroupSpec") or {}).get("template") or {}
    children = [Child(obj=_ray_pod(obj, head, "head", "headgroup", f"{name}-head-"))]
    minimum, needed = 1, [requests_of(head)]
    for index, group in enumerate(spec.get("workerGroupSpecs") or ()):
        if group.get("suspend"):
            continue
        title, template = group.get("groupName") or f"worker-group-{index}", group.get("template") or {}
        hosts = as_int(group.get("numOfHosts"), 1)
        least = as_int(group.get("minReplicas"), 0)
        replicas = min(max(as_int(group.get("replicas"), least), least), as_int(group.get("maxReplicas"), 2**31))
        pod = _ray_pod(obj, template, "worker", title, f"{name}-{title}-worker-")
        children.append(Child(obj=pod, count=replicas * hosts))
        counted = hosts * (least if spec.get("enableInTreeAutoscaling") else replicas)
        minimum += counted
        needed.append(scaled(requests_of(template), counted))
    labels = obj["metadata"].get("labels") or {}
    if labels.get(_SCHEDULER) == "volcano":
        group_name = f"ray-{name}-pg"
        for child in children:
            group_by_annotation(child.obj, group_name)
        queue = labels.get(_QUEUE, "")
        made = volcano_group(group_name, minimum=minimum, queue=queue, resources=summed(needed))
        children.append(Child(obj=made))
    return Plan(children=tuple(children))


def _ray_pod(obj: Object, template: Object, node_type: str, group: str, base: str) -> Object:
    """Return a pod of a Ray cluster."""
    name = name_of(obj)
    own = {
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
        "ray.io/cluster": name,
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": node_type,
        "ray.io/group": group,
        "ray.io/identifier": f"{name}-{node_type}",
    }
    scheduler = (obj["metadata"].get("labels") or {}).get(_SCHEDULER)
    fields = {"schedulerName": scheduler} if scheduler else {}
    if scheduler == "volcano" and _QUEUE in obj["metadata"]["labels"]:
        own[_QUEUE] = obj["metadata"]["labels"][_QUEUE]
    return pod_of(template, base=base, labels=own, spec=fields)
