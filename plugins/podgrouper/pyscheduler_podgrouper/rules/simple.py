"""Make pod groups for simple workloads, such as Jobs and Deployments.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins`: `podjob`, `spark`, `job`, `runaijob`, `cronjobs`,
`deployment`, `kubeflow/notebook`, `spotrequest`, `aml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler_podgrouper.contract import GroupPlan, ObjectNotFoundError, Owner
from pyscheduler_podgrouper.fields import GroupingError, int32, integer
from pyscheduler_podgrouper.generic import BUILD, INFERENCE, default_name, generic, priority_class

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = [
    "PODGROUP_API_VERSION",
    "aml_job",
    "cron_job",
    "deployment",
    "job",
    "notebook",
    "pod_or_spark",
    "runai_job",
    "spot_request",
]

PODGROUP_API_VERSION: Final = "scheduling.run.ai/v2alpha2"
_SPARK_NAME: Final = "spark-app-name"
_SPARK_SELECTOR: Final = "spark-app-selector"


def pod_or_spark(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a pod that is its own workload, or the group of a Spark application."""
    plan = generic(top, (), pod, lookup)
    if _SPARK_NAME in pod.labels and _SPARK_SELECTOR in pod.labels:
        return attrs.evolve(plan, name=pod.labels[_SPARK_SELECTOR])
    return plan


def job(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return a group for each pod of a Job."""
    plan = generic(top, (), pod, lookup)
    return attrs.evolve(plan, name=_legacy_name(top, pod, lookup) or f"pg-{pod.name}-{top.uid}")


def runai_job(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a RunaiJob: the name of the pod without its last part is the name."""
    plan = generic(top, (), pod, lookup)
    base = pod.name.rpartition("-")[0] if "-" in pod.name else pod.name
    return attrs.evolve(plan, name=_legacy_name(top, pod, lookup) or f"pg-{base}-{top.uid}")


def _legacy_name(top: Owner, pod: Pod, lookup: Lookup) -> str:
    """Return the name that older versions gave the group, if there is such a group; else ""."""
    if not lookup.settings.search_for_legacy_pod_groups:
        return ""
    try:
        parallelism = integer(top.body, "spec", "parallelism") or 0
    except GroupingError:
        parallelism = 0
    name = f"pg-{pod.name if parallelism > 1 else top.name}-{top.uid}"
    try:
        lookup.get(PODGROUP_API_VERSION, "PodGroup", name, pod.namespace)
    except ObjectNotFoundError:
        return ""
    return name


def cron_job(_top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a Job that a CronJob made; the CronJob itself does not count."""
    reference = next((each for each in pod.metadata.owner_references if each.kind == "Job"), None)
    if reference is None:
        raise GroupingError("no owner reference of type 'Job'")
    return generic(lookup.get("batch/v1", "Job", reference.name, pod.namespace), (), pod, lookup)


def deployment(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return a group for each pod of a Deployment, owned by the pod."""
    return attrs.evolve(
        generic(top, (), pod, lookup),
        name=default_name(pod),
        owner=Owner.from_object(pod).reference,
        priority_class_name=priority_class((top,), pod, lookup, INFERENCE),
    )


def notebook(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a Notebook."""
    plan = generic(top, (), pod, lookup)
    return attrs.evolve(plan, priority_class_name=priority_class((top,), pod, lookup, BUILD))


def spot_request(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a SPOTRequest."""
    plan = generic(top, (), pod, lookup)
    return attrs.evolve(plan, priority_class_name=priority_class((top,), pod, lookup, INFERENCE))


def aml_job(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of an AmlJob: all nodes that it asks for."""
    plan = generic(top, (), pod, lookup)
    try:
        count = integer(top.body, "spec", "job", "options", "envs", "AZUREML_NODE_COUNT")
    except GroupingError:
        count = None
    if count is None:
        raise GroupingError("azureml envs count not found in spec")
    return attrs.evolve(plan, min_member=int32(count, "AZUREML_NODE_COUNT"))
