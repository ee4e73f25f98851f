"""Convert the jobs of a trace to manifests of pod groups and pods, as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_objects.names import label_key_errors
from pyscheduler_batch.gpu_sharing.device_shares import FRACTION_ANNOTATION, NUM_DEVICES_ANNOTATION
from pyscheduler_lab.clusters.node import GPU, MODEL_LABEL
from pyscheduler_lab.simulation.group_objects import group_manifest
from pyscheduler_lab.simulation.scenario import CreatePodGroup

if TYPE_CHECKING:
    from pyscheduler.podgroup import Dialect
    from pyscheduler_lab.traces import Job

__all__ = ["NAMESPACE", "group_of", "new_namespace", "pod_of"]

NAMESPACE: Final = "jobs"
"""The namespace of the jobs."""
#: The prefix of annotations with columns of the trace.
_TRACE: Final = "trace"


def new_namespace(name: str) -> dict[str, Any]:
    """Return a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def group_of(
    job: Job, dialect: Dialect, *, namespace: str = NAMESPACE, queue: str = "", priority_class: str = ""
) -> dict[str, Any]:
    """Return the group of a job with its minimum of workers.

    `queue` and `priority_class` are for dialects of batch schedulers.
    """
    group = group_manifest(CreatePodGroup(name=job.name, ns=namespace, min=job.min_workers), dialect)
    fields = {"queue": queue, "priorityClassName": priority_class}
    group["spec"] |= {name: value for name, value in fields.items() if value}
    return group


def pod_of(
    job: Job, number: int, dialect: Dialect, *, scheduler_name: str, namespace: str = NAMESPACE, has_group: bool
) -> dict[str, Any]:
    """Return one worker of a job; with `has_group` it names its group."""
    annotations = _trace_annotations(job)
    metadata: dict[str, Any] = {"name": f"{job.name}-{number}", "namespace": namespace, "annotations": annotations}
    requests = {
        name: amount
        for name, amount in (("cpu", f"{job.cpu_milli}m"), ("memory", f"{job.memory_mib}Mi"))
        if not amount.startswith("0")
    }
    resources: dict[str, Any] = {"requests": requests}
    if job.shares_gpus:
        annotations[FRACTION_ANNOTATION] = f"{job.gpu_milli / 1000:g}"
        annotations[NUM_DEVICES_ANNOTATION] = str(job.gpus)
    elif job.gpus:
        requests[GPU] = str(job.gpus)
        # An extended resource cannot be overcommitted: the API server requires the limit to equal the request.
        resources["limits"] = {GPU: str(job.gpus)}
    spec: dict[str, Any] = {
        "schedulerName": scheduler_name,
        "containers": [{"name": "worker", "image": "worker", "resources": resources}],
    }
    if job.priority:
        spec["priority"] = job.priority
    if job.node_selector:
        spec["nodeSelector"] = dict(job.node_selector)
    if job.gpu_models:
        terms = [{"matchExpressions": [{"key": MODEL_LABEL, "operator": "In", "values": [*job.gpu_models]}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    if has_group:
        dialect.keys[0].write(manifest, job.name)
    return manifest


def _trace_annotations(job: Job) -> dict[str, str]:
    """Return what plugins may read about a job: its team, its class and the further columns of the trace."""
    columns = {"vc": job.team, "class": job.job_class, **job.columns}
    annotations = {f"{_TRACE}/{name}": value for name, value in columns.items() if value}
    return {name: value for name, value in annotations.items() if not label_key_errors(name)}
