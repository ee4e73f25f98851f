"""The table of workload kinds: for each kind, the function that groups its pods.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/hub`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyscheduler.framework import ConfigError
from pyscheduler_podgrouper.contract import Grouper
from pyscheduler_podgrouper.fields import GroupingError
from pyscheduler_podgrouper.generic import generic
from pyscheduler_podgrouper.rules.grove import grove
from pyscheduler_podgrouper.rules.jobset import job_set
from pyscheduler_podgrouper.rules.knative import knative_service
from pyscheduler_podgrouper.rules.kubeflow import kubeflow_rule, mpi_job, pytorch_job
from pyscheduler_podgrouper.rules.leader_worker_set import leader_worker_set
from pyscheduler_podgrouper.rules.ray import ray_rule
from pyscheduler_podgrouper.rules.simple import (
    aml_job,
    cron_job,
    deployment,
    job,
    notebook,
    pod_or_spark,
    runai_job,
    spot_request,
)
from pyscheduler_podgrouper.rules.volcano import volcano_job

if TYPE_CHECKING:
    from pyscheduler.framework.extensions import Extensions

__all__ = ["GENERIC", "GROUPERS", "GrouperTable", "third_party_rows"]

_SPEC: Final = ("spec",)
_RAY: Final = ("v1", "v1alpha1")
_RUNAI: Final = (
    ("TrainingWorkload", "trainingworkloads"),
    ("InteractiveWorkload", "interactiveworkloads"),
    ("DistributedWorkload", "distributedworkloads"),
    ("InferenceWorkload", "inferenceworkloads"),
    ("DistributedInferenceWorkload", "distributedinferenceworkloads"),
)

GENERIC: Final = Grouper(group="", kind="", plural="", versions=("*",), rule=generic)
"""The row of all kinds that have none."""

GROUPERS: Final = (
    Grouper(group="", kind="Pod", plural="pods", versions=("v1",), rule=pod_or_spark),
    Grouper(group="apps", kind="Deployment", plural="deployments", versions=("v1",), rule=deployment),
    Grouper(group="apps", kind="ReplicaSet", plural="replicasets", versions=("v1",), rule=generic),
    Grouper(group="apps", kind="StatefulSet", plural="statefulsets", versions=("v1",), rule=generic),
    Grouper(group="batch", kind="Job", plural="jobs", versions=("v1",), rule=job, reads=_SPEC),
    Grouper(group="batch", kind="CronJob", plural="cronjobs", versions=("v1",), rule=cron_job),
    Grouper(
        group="kubeflow.org",
        kind="TFJob",
        plural="tfjobs",
        versions=("v1",),
        rule=kubeflow_rule("tfReplicaSpecs"),
        reads=_SPEC,
    ),
    Grouper(
        group="kubeflow.org", kind="PyTorchJob", plural="pytorchjobs", versions=("v1",), rule=pytorch_job, reads=_SPEC
    ),
    Grouper(
        group="kubeflow.org",
        kind="XGBoostJob",
        plural="xgboostjobs",
        versions=("v1",),
        rule=kubeflow_rule("xgbReplicaSpecs", mandatory=("Master", "Worker")),
        reads=_SPEC,
    ),
    Grouper(
        group="kubeflow.org",
        kind="JAXJob",
        plural="jaxjobs",
        versions=("v1",),
        rule=kubeflow_rule("jaxReplicaSpecs", mandatory=("Worker",)),
        reads=_SPEC,
    ),
    Grouper(
        group="kubeflow.org", kind="MPIJob", plural="mpijobs", versions=("v1", "v2beta1"), rule=mpi_job, reads=_SPEC
    ),
    Grouper(group="kubeflow.org", kind="Notebook", plural="notebooks", versions=("v1beta1",), rule=notebook),
    Grouper(
        group="kubeflow.org",
        kind="ScheduledWorkflow",
        plural="scheduledworkflows",
        versions=("v1alpha1",),
        rule=generic,
    ),
    Grouper(group="ray.io", kind="RayCluster", plural="rayclusters", versions=_RAY, rule=ray_rule(), reads=_SPEC),
    Grouper(
        group="ray.io",
        kind="RayJob",
        plural="rayjobs",
        versions=_RAY,
        rule=ray_rule(("status", "rayClusterName")),
        reads=("status",),
    ),
    Grouper(
        group="ray.io",
        kind="RayService",
        plural="rayservices",
        versions=_RAY,
        rule=ray_rule(
            ("status", "activeServiceStatus", "rayClusterName"),
            ("status", "pendingServiceStatus", "rayClusterName"),
        ),
        reads=("status",),
    ),
    Grouper(
        group="jobset.x-k8s.io", kind="JobSet", plural="jobsets", versions=("v1alpha2",), rule=job_set, reads=_SPEC
    ),
    Grouper(
        group="leaderworkerset.x-k8s.io",
        kind="LeaderWorkerSet",
        plural="leaderworkersets",
        versions=("v1",),
        rule=leader_worker_set,
        reads=_SPEC,
    ),
    Grouper(group="batch.volcano.sh", kind="Job", plural="jobs", versions=("v1alpha1",), rule=volcano_job, reads=_SPEC),
    Grouper(group="serving.knative.dev", kind="Service", plural="services", versions=("v1",), rule=knative_service),
    Grouper(
        group="machinelearning.seldon.io",
        kind="SeldonDeployment",
        plural="seldondeployments",
        versions=("v1", "v1alpha2"),
        rule=generic,
    ),
    Grouper(
        group="kubevirt.io",
        kind="VirtualMachineInstance",
        plural="virtualmachineinstances",
        versions=("v1",),
        rule=generic,
    ),
    Grouper(
        group="workspace.devfile.io", kind="DevWorkspace", plural="devworkspaces", versions=("v1alpha2",), rule=generic
    ),
    Grouper(group="tekton.dev", kind="PipelineRun", plural="pipelineruns", versions=("v1",), rule=generic),
    Grouper(group="tekton.dev", kind="TaskRun", plural="taskruns", versions=("v1",), rule=generic),
    Grouper(group="egx.nvidia.io", kind="SPOTRequest", plural="spotrequests", versions=("v1",), rule=spot_request),
    Grouper(
        group="amlarc.azureml.com", kind="AmlJob", plural="amljobs", versions=("v1alpha1",), rule=aml_job, reads=_SPEC
    ),
    Grouper(group="run.ai", kind="RunaiJob", plural="runaijobs", versions=("v1",), rule=runai_job, reads=_SPEC),
    Grouper(group="grove.io", kind="PodGangSet", plural="podgangsets", versions=("v1alpha1",), rule=grove),
    Grouper(group="grove.io", kind="PodCliqueSet", plural="podcliquesets", versions=("v1alpha1",), rule=grove),
    Grouper(group="argoproj.io", kind="Workflow", plural="workflows", versions=("v1alpha1",), skips=True),
    Grouper(group="trainer.kubeflow.org", kind="TrainJob", plural="trainjobs", versions=("v1alpha1",), skips=True),
    Grouper(
        group="nvidia.com",
        kind="DynamoGraphDeployment",
        plural="dynamographdeployments",
        versions=("v1alpha1",),
        skips=True,
    ),
    *(
        Grouper(group="run.ai", kind=kind, plural=plural, versions=("*",), skips=True, served=("v1", "v2", "v2alpha1"))
        for kind, plural in _RUNAI
    ),
)
"""The built-in rows."""


class GrouperTable:
    """Rows by group, version and kind."""

    def __init__(self, rows: Iterable[Grouper] = GROUPERS) -> None:
        self._rows: dict[tuple[str, str, str], Grouper] = {}
        for row in rows:
            self.add(row)

    def add(self, row: Grouper) -> None:
        """Add a row; raise `GroupingError` if another row has one of its versions."""
        for version in row.versions:
            known = self._rows.setdefault((row.group, version, row.kind), row)
            if known is not row:
                named = f"{row.group}/{version} {row.kind}"
                raise GroupingError(f"there are two rules for {named}; remove one of them")

    def __iter__(self) -> Iterator[Grouper]:
        return iter(dict.fromkeys(self._rows.values()))

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, group: str, version: str, kind: str) -> Grouper:
        """Return the row of a kind: of this version, else of any version, else `GENERIC`."""
        return self._rows.get((group, version, kind)) or self._rows.get((group, "*", kind)) or GENERIC

    def find_exact(self, group: str, version: str, kind: str) -> Grouper:
        """Return the row of a kind in this very version, else `GENERIC`."""
        return self._rows.get((group, version, kind)) or GENERIC


def third_party_rows(extensions: Extensions) -> list[Grouper]:
    """Return the rows that distributions offer, imported now.

    Raises `ConfigError` for one that is none, and for a kind that has a rule already.
    """
    rows = [offer.load(f'grouper "{name}"', Grouper) for name, offer in extensions.groupers.items()]
    try:
        GrouperTable((*GROUPERS, *rows))
    except GroupingError as error:
        raise ConfigError(str(error)) from error
    return rows
