"""The table of workload kinds: for each kind, the function that returns the objects a workload needs, such as pods."""

from __future__ import annotations

from typing import Final

from kube_testserver.workloads.apps import daemon_set, deployment, replica_set, stateful_set
from kube_testserver.workloads.contract import Rule, WorkloadKind
from kube_testserver.workloads.jobs import job, job_set
from kube_testserver.workloads.kubeflow import mpi_job, training_job
from kube_testserver.workloads.leader_worker_set import leader_worker_set
from kube_testserver.workloads.ray import ray_cluster
from kube_testserver.workloads.spark import spark_application
from kube_testserver.workloads.volcano import volcano_job
from kube_testserver.workloads.volumes import claim

__all__ = ["WORKLOAD_KINDS"]

_TRAINING: Final = (
    ("PyTorchJob", "pytorchReplicaSpecs"),
    ("TFJob", "tfReplicaSpecs"),
    ("XGBoostJob", "xgbReplicaSpecs"),
    ("JAXJob", "jaxReplicaSpecs"),
)
_WITH_GROUP: Final = ("Pod", "PodGroup")


_CLAIMS: Final = WorkloadKind(
    group="",
    version="v1",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    rule=claim,
    makes=(),
    component="persistentvolume-controller",
)


def _row(
    group: str, version: str, kind: str, plural: str, rule: Rule, makes: tuple[str, ...] = ("Pod",)
) -> WorkloadKind:
    return WorkloadKind(group=group, version=version, kind=kind, plural=plural, rule=rule, makes=makes)


WORKLOAD_KINDS: Final = (
    _CLAIMS,
    _row("apps", "v1", "Deployment", "deployments", deployment, ("ReplicaSet",)),
    _row("apps", "v1", "ReplicaSet", "replicasets", replica_set),
    _row("apps", "v1", "StatefulSet", "statefulsets", stateful_set),
    _row("apps", "v1", "DaemonSet", "daemonsets", daemon_set),
    _row("batch", "v1", "Job", "jobs", job),
    _row("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", job_set, ("Job",)),
    _row("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", leader_worker_set, ("StatefulSet",)),
    *(
        _row("kubeflow.org", "v1", kind, f"{kind.lower()}s", training_job(section), _WITH_GROUP)
        for kind, section in _TRAINING
    ),
    _row("kubeflow.org", "v2beta1", "MPIJob", "mpijobs", mpi_job, ("Pod", "PodGroup", "Job")),
    _row("ray.io", "v1", "RayCluster", "rayclusters", ray_cluster, _WITH_GROUP),
    _row("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications", spark_application, _WITH_GROUP),
    _row("batch.volcano.sh", "v1alpha1", "Job", "jobs", volcano_job, _WITH_GROUP),
)
"""All kinds; those that the server does not know get a CustomResourceDefinition."""
