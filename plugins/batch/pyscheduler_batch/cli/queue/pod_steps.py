"""Show in `pyscheduler explain POD` the steps that the pod's job has on its way to its nodes.

`kubectl queue explain` shows the same steps. There are some only if the pod belongs to a job of a batch system.

If no profile of the configuration has the schedulerName of the pod, the default configuration of the batch system is
assumed, as `kubectl queue explain` does without `--config`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.cli.job_steps import JobSteps
from pyscheduler.framework.work_sources import WorkSourcePlugin

if TYPE_CHECKING:
    from pyscheduler.cli.job_steps import PodQuestion
    from pyscheduler_batch.cli.queue.answers import Cluster
    from pyscheduler_batch.cli.queue.model import DialectModel, JobEntry

__all__ = ["steps_of_pod"]

_NEXT: Final = "next"


async def steps_of_pod(question: PodQuestion) -> JobSteps | None:
    """Return the steps of the pod's job; None if another kind of profile schedules the pod, or if it is of no job."""
    plugins = question.profile.plugins.values()
    if question.is_served and not any(isinstance(plugin, WorkSourcePlugin) for plugin in plugins):
        return None
    # Imported now: most pods are none of a batch profile.
    from pyscheduler.podgroup import resolve
    from pyscheduler_batch.cli.queue.answers import explained, read_cluster
    from pyscheduler_batch.cli.queue.command import Options
    from pyscheduler_batch.cli.queue.source import Source
    from pyscheduler_batch.dialects import JOB_DIALECTS
    from pyscheduler_batch.systems import systems_by_dialect

    names = {system.preset.scheduler_name for system in systems_by_dialect().values()}
    has_group = resolve(question.pod, [row.groups for row in JOB_DIALECTS]) is not None
    # Queues and groups are not even listed for a pod of kube-scheduler.
    if not question.is_served and not has_group and question.pod.scheduler_name not in names:
        return None
    given = question.options
    options = Options(
        kubeconfig=None,
        context=None,
        objects=(),
        config_file=None,
        dialect=given.dialect,
        blocked=given.blocked,
        feature_gates=given.feature_gates,
    )
    source = Source(read=question.read, namespace=question.pod.namespace, unread=question.unread)
    config = question.config if question.is_served else None
    cluster = await read_cluster(options, source, warns=False, config=config)
    chosen = _job_of(question.pod.uid, cluster)
    if chosen is None:
        return None
    found, _ = await explained(cluster, *chosen)
    is_known = found.verdict != "unknown"
    return JobSteps(
        steps=[step for step in found.steps if step.name != _NEXT],
        verdict=found.verdict if is_known else "",
        next="; ".join(step.text for step in found.steps if step.name == _NEXT),
        assumed="" if question.is_served else f"the preset {chosen[0].name} is assumed",
    )


def _job_of(uid: str, cluster: Cluster) -> tuple[DialectModel, JobEntry] | None:
    for model in cluster.models:
        for entry in model.jobs.values():
            if uid in entry.job.tasks:
                return model, entry
    return None
