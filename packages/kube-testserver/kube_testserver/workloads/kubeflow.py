"""Jobs of Kubeflow: PyTorchJob, TFJob, XGBoostJob, JAXJob (training-operator) and MPIJob v2beta1 (mpi-operator).

Differs from these operators: ended pods are not deleted, and elastic jobs do not grow.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import (
    as_int,
    is_ready,
    merged,
    name_of,
    pod_of,
    requests_of,
    scaled,
    summed,
)
from kube_testserver.workloads.volcano import group_by_annotation, volcano_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube_testserver.workloads.contract import Object, Rule, View

__all__ = ["mpi_job", "training_job"]

_PREFIX: Final = "training.kubeflow.org"
_MASTERS: Final = frozenset({"master", "chief"})


def training_job(section: str) -> Rule:
    """Return the rule of a kind whose roles are in the field `section` of the spec."""
    operator = f"{section.removesuffix('ReplicaSpecs').replace('xgb', 'xgboost')}job-controller"

    def rule(obj: Object, _view: View) -> Plan:
        """Return the pods of all roles; none of a suspended job."""
        run, roles = obj["spec"].get("runPolicy") or {}, obj["spec"].get(section) or {}
        if run.get("suspend"):
            return Plan()
        pods = []
        for role, spec in roles.items():
            kind = role.lower()
            for index in range(as_int(spec.get("replicas"), 1)):
                labels = _labels(obj, operator, index)
                labels[f"{_PREFIX}/replica-type"] = kind
                if kind in _MASTERS:
                    labels[f"{_PREFIX}/job-role"] = "master"
                pods.append(pod_of(spec.get("template") or {}, name=f"{name_of(obj)}-{kind}-{index}", labels=labels))
        return Plan(children=_with_group(obj, pods, roles))

    return rule


def mpi_job(obj: Object, view: View) -> Plan:
    """Return the worker pods of an MPIJob and the Job of its launcher."""
    spec, name = obj["spec"], name_of(obj)
    run, roles = spec.get("runPolicy") or {}, spec.get("mpiReplicaSpecs") or {}
    worker, launcher = roles.get("Worker") or {}, roles.get("Launcher") or {}
    count = 0 if run.get("suspend") else as_int(worker.get("replicas"), 0)
    workers = [
        pod_of(
            worker.get("template") or {},
            name=f"{name}-worker-{index}",
            labels={**_labels(obj, "mpi-operator", index), f"{_PREFIX}/job-role": "worker"},
        )
        for index in range(count)
    ]
    ready = sum(is_ready(one) for one in view.children(obj) if one["kind"] == "Pod")
    if spec.get("launcherCreationPolicy") == "WaitForWorkersReady" and ready < count:
        return Plan(children=_with_group(obj, workers, roles))
    labels = {f"{_PREFIX}/operator-name": "mpi-operator", f"{_PREFIX}/job-name": name}
    labels[f"{_PREFIX}/job-role"] = "launcher"
    template = copy.deepcopy(launcher.get("template") or {})
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = merged(metadata.get("labels"), labels)
    limits = {key: run[key] for key in ("backoffLimit", "activeDeadlineSeconds") if key in run}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{name}-launcher", "labels": labels},
        "spec": {**limits, "suspend": bool(run.get("suspend")), "template": template},
    }
    children = _with_group(obj, workers, roles, templates=[template])
    return Plan(children=(*children, Child(obj=job)))


def _labels(obj: Object, operator: str, index: int) -> dict[str, str]:
    return {
        f"{_PREFIX}/operator-name": operator,
        f"{_PREFIX}/job-name": name_of(obj),
        f"{_PREFIX}/replica-index": str(index),
    }


def _with_group(
    obj: Object, pods: list[Object], roles: Mapping[str, Object], templates: Iterable[Object] = ()
) -> tuple[Child, ...]:
    """Return pods as children; with the scheduler Volcano, make pods and templates members of a new group."""
    members = [*pods, *templates]
    if not any((one.get("spec") or {}).get("schedulerName") == "volcano" for one in members):
        return tuple(Child(obj=pod) for pod in pods)
    policy = (obj["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}
    for member in members:
        group_by_annotation(member, name_of(obj))
    total = sum(as_int(role.get("replicas"), 1) for role in roles.values())
    needed = [
        scaled(requests_of(role.get("template") or {}), as_int(role.get("replicas"), 1)) for role in roles.values()
    ]
    group = volcano_group(
        name_of(obj),
        minimum=as_int(policy.get("minAvailable"), total),
        queue=policy.get("queue") or "",
        priority_class=policy.get("priorityClass") or "",
        resources=policy.get("minResources") or summed(needed),
    )
    return (Child(obj=group), *(Child(obj=pod) for pod in pods))
