"""Convert the jobs of a trace to nodes, groups and pods, in the form in which users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyscheduler_lab.simulation.group_objects import group_manifest
from pyscheduler_lab.simulation.scenario import CreatePodGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler.podgroup import Dialect
    from pyscheduler_lab.simulation.job_traces import Job, NodePool

__all__ = ["NAMESPACE", "group_of", "nodes_of", "pods_of"]

NAMESPACE: Final = "jobs"
"""The namespace of the jobs."""

_GPU: Final = "nvidia.com/gpu"
#: The kubelet's default.
_PODS_PER_NODE: Final = "110"


def nodes_of(pool: NodePool) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a pool."""
    room = {"cpu": f"{pool.cpu_milli}m", "memory": f"{pool.memory_mib}Mi", "pods": _PODS_PER_NODE}
    if pool.gpus:
        room[_GPU] = str(pool.gpus)
    for number in range(pool.count):
        name = f"node-{number}"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
        }


def group_of(job: Job, dialect: Dialect, *, namespace: str = NAMESPACE, queue: str = "") -> dict[str, Any]:
    """Return the group of a job, whose minimum is all workers; `queue` is for dialects of batch schedulers."""
    group = group_manifest(CreatePodGroup(name=job.name, ns=namespace, min=job.workers), dialect)
    if queue:
        group["spec"]["queue"] = queue
    return group


def pods_of(
    job: Job, dialect: Dialect, *, scheduler_name: str, namespace: str = NAMESPACE, has_group: bool
) -> Iterator[dict[str, Any]]:
    """Yield the workers of a job; with `has_group` they name their group."""
    requests = {"cpu": f"{job.cpu_milli}m", "memory": f"{job.memory_mib}Mi"}
    resources: dict[str, Any] = {"requests": requests}
    if job.gpus:
        requests[_GPU] = str(job.gpus)
        # An extended resource cannot be overcommitted: the API server requires the limit to equal the request.
        resources["limits"] = {_GPU: str(job.gpus)}
    for number in range(job.workers):
        manifest: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{job.name}-{number}", "namespace": namespace},
            "spec": {
                "schedulerName": scheduler_name,
                "containers": [{"name": "worker", "image": "worker", "resources": resources}],
            },
        }
        if has_group:
            dialect.keys[0].write(manifest, job.name)
        yield manifest
