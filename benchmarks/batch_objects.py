"""The objects of large batch clusters: queues, nodes with or without running pods, gangs, and PyTorchJobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.resources.open_definitions import open_definition
from pyscheduler.podgroup import DIALECTS
from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler.testing.builders import node_manifest, pod_manifest
from pyscheduler_kai.objects import KAI_QUEUES
from pyscheduler_kai.topologies import KAI_TOPOLOGIES
from pyscheduler_lab.simulation.group_objects import definitions
from pyscheduler_lab.simulation.queue_plan import Team, batch_definitions, kai_queues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["BATCH", "busy_cluster", "gang", "racks", "workload", "workload_pods"]

#: The batch profile.
BATCH: Final = "batch"
_BORROWERS: Final = 10
_GPUS: Final = 4


def busy_cluster(nodes: int, *, is_full: bool = True) -> Iterator[dict[str, Any]]:
    """Return queues, and nodes of four GPUs, each full of running pods of queues that hold twice their quota.

    The queue `starved` holds nothing, and its quota is half of all. `is_full`: False for a cluster without pods.
    """
    yield from definitions([each for each in DIALECTS if KAI_PODGROUPS in each.kinds])
    yield from (each for each in batch_definitions() if each["spec"]["group"] == KAI_QUEUES.group)
    total = nodes * _GPUS
    quota = total // 2 // _BORROWERS
    yield from kai_queues([Team(name=f"borrower-{number}", quota=quota) for number in range(_BORROWERS)])
    yield from kai_queues([Team(name="starved", quota=total // 2)])
    for number in range(nodes):
        allocatable = {"cpu": "96", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
        yield node_manifest(f"node-{number:05d}", allocatable=allocatable)
    for number in range(total if is_full else 0):
        node_name = f"node-{number % nodes:05d}"
        yield from gang(f"running-{number:06d}", f"borrower-{number % _BORROWERS}", 1, node_name=node_name)


def racks(nodes: int, rack_nodes: int) -> Iterator[dict[str, Any]]:
    """Return a queue with all GPUs, empty nodes of eight GPUs in racks, five to a block, and their Topology."""
    yield from definitions([each for each in DIALECTS if KAI_PODGROUPS in each.kinds])
    yield from (each for each in batch_definitions() if each["spec"]["group"] == KAI_QUEUES.group)
    kind = KAI_TOPOLOGIES
    yield open_definition(kind.group, kind.kind, kind.plural, [kind.version], namespaced=False)
    levels = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]
    manifest = {"apiVersion": KAI_TOPOLOGIES.type.api_version, "kind": "Topology", "metadata": {"name": "t"}}
    yield {**manifest, "spec": {"levels": levels}}
    yield from kai_queues([Team(name="all", quota=nodes * 8)])
    for number in range(nodes):
        allocatable = {"cpu": "96", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
        labels = {"rack": f"r{number // rack_nodes}", "block": f"b{number // rack_nodes // 5}"}
        yield node_manifest(f"node-{number:05d}", allocatable=allocatable, labels=labels)


def gang(
    name: str, queue: str, pods: int, group: Mapping[str, Any] | None = None, **keywords: Any
) -> Iterator[dict[str, Any]]:
    """Return a group, and its pods of one GPU; `group`: more of the group's spec."""
    spec = {"minMember": pods, "queue": queue, **(group or {})}
    metadata = {"name": name, "namespace": "default"}
    yield {"apiVersion": KAI_PODGROUPS.type.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    for number in range(pods):
        yield pod_manifest(
            f"{name}-{number}",
            requests=requests,
            annotations={"pod-group-name": name},
            scheduler_name=BATCH,
            **keywords,
        )


def workload(name: str, queue: str, pods: int) -> dict[str, Any]:
    """Return a PyTorchJob with so many workers."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": queue}},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": pods, "template": {"spec": {}}}}},
    }


def workload_pods(owner: Mapping[str, Any], pods: int) -> Iterator[dict[str, Any]]:
    """Return the pods of a PyTorchJob, as its operator makes them: of a tenth of a CPU, and in no group."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    for number in range(pods):
        pod = pod_manifest(
            f"{metadata['name']}-worker-{number}",
            requests={"cpu": "100m", "memory": "100Mi"},
            labels={"training.kubeflow.org/replica-type": "worker"},
            scheduler_name=BATCH,
        )
        pod["metadata"]["ownerReferences"] = [{**reference, "uid": metadata["uid"], "controller": True}]
        yield pod
