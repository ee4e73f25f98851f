"""SparkApplication (spark-operator): the driver's pod and, once the driver runs, the pods of its executors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kube_testserver.workloads.contract import Child, Plan
from kube_testserver.workloads.objects import (
    as_int,
    name_of,
    phase_of,
    pod_of,
    requests_of,
    scaled,
    summed,
    uid_of,
)
from kube_testserver.workloads.volcano import group_by_annotation, volcano_group

if TYPE_CHECKING:
    from kube_testserver.workloads.contract import Object, View

__all__ = ["spark_application"]

_OPERATOR: Final = "sparkoperator.k8s.io"
_UNITS: Final = {"k": -10, "": 0, "m": 0, "g": 10, "t": 20}
_LEAST_OVERHEAD_MIB: Final = 384
_OVERHEAD: Final = 0.1


def spark_application(obj: Object, view: View) -> Plan:
    """Return the driver of an application, its executors if it runs, and the PodGroup if Volcano schedules them."""
    spec, name = obj["spec"], name_of(obj)
    executor = spec.get("executor") or {}
    instances = as_int(executor.get("instances"), 1)
    selector = f"spark-{uid_of(obj).replace('-', '')}"
    driver = _spark_pod(obj, spec.get("driver") or {}, "driver", selector)
    driver["metadata"]["name"] = f"{name}-driver"
    worker = _spark_pod(obj, executor, "executor", selector)
    children: list[Child] = []
    if spec.get("batchScheduler") == "volcano":
        options = spec.get("batchSchedulerOptions") or {}
        for pod in (driver, worker):
            group_by_annotation(pod, f"spark-{name}-pg")
        needed = [requests_of(driver), scaled(requests_of(worker), instances)]
        group = volcano_group(
            f"spark-{name}-pg",
            minimum=1,
            queue=options.get("queue") or "",
            priority_class=options.get("priorityClassName") or "",
            resources=options.get("resources") or summed(needed),
        )
        children.append(Child(obj=group))
    children.append(Child(obj=driver))
    for pod in view.children(obj):
        if pod["kind"] != "Pod" or phase_of(pod) != "Running" or "deletionTimestamp" in pod["metadata"]:
            continue
        for number in range(1, instances + 1):
            metadata = {**worker["metadata"], "name": f"{name}-{uid_of(obj)[:8]}-exec-{number}"}
            metadata["labels"] = {**metadata["labels"], "spark-exec-id": str(number)}
            children.append(Child(obj={**worker, "metadata": metadata}, owner=pod))
    return Plan(children=tuple(children))


def _spark_pod(obj: Object, given: Object, role: str, selector: str) -> Object:
    """Return the pod of a driver or an executor, without a name."""
    spec, name = obj["spec"], name_of(obj)
    labels = {
        **(given.get("labels") or {}),
        "spark-role": role,
        "spark-app-name": name,
        "spark-app-selector": selector,
        f"{_OPERATOR}/app-name": name,
        f"{_OPERATOR}/launched-by-spark-operator": "true",
    }
    memory = _mebibytes(given.get("memory") or "1g")
    overhead = given.get("memoryOverhead")
    extra = _mebibytes(overhead) if overhead else max(int(memory * _OVERHEAD), _LEAST_OVERHEAD_MIB)
    requests: Object = {
        "cpu": str(given.get("coreRequest") or given.get("cores") or 1),
        "memory": f"{memory + extra}Mi",
    }
    limits = {"memory": requests["memory"]}
    if gpu := given.get("gpu"):
        limits[gpu["name"]] = requests[gpu["name"]] = str(gpu["quantity"])
    container = {
        "name": "spark-kubernetes-driver" if role == "driver" else "spark-kubernetes-executor",
        "image": given.get("image") or spec.get("image") or "spark",
        "resources": {"requests": requests, "limits": limits},
    }
    fields: Object = {"restartPolicy": "Never", "containers": [container]}
    for key in ("nodeSelector", "tolerations", "affinity", "schedulerName", "priorityClassName"):
        if key in given:
            fields[key] = given[key]
    if spec.get("batchScheduler") == "volcano":
        fields["schedulerName"] = "volcano"
    if role == "driver" and given.get("serviceAccount"):
        fields["serviceAccountName"] = given["serviceAccount"]
    return pod_of({}, base=f"{name}-", labels=labels, annotations=given.get("annotations"), spec=fields)


def _mebibytes(text: Any) -> int:
    """Return an amount of memory as Spark writes it, in MiB; 0 for what is none."""
    match = re.fullmatch(r"(\d+)([kmgt]?)i?b?", str(text).strip().lower())
    if match is None:
        return 0
    number, power = int(match[1]), _UNITS[match[2]]
    return number << power if power >= 0 else number >> -power
