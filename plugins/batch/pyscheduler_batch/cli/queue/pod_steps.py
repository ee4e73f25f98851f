"""Explain a pod's job in `pyscheduler explain POD`, with the same checks as `pyscheduler queue explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.cli.explanation import HOLDS, INFO, Step
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
    steps = [step for step in found.steps if step.name != _NEXT]
    place = next((row for row, step in enumerate(steps, 1) if (step.name, step.result) == ("nodes", HOLDS)), 0)
    if place and is_known:
        steps[place:place] = await _members(question, chosen[1])
    return JobSteps(
        steps=steps,
        verdict=found.verdict if is_known else "",
        next="; ".join(step.text for step in found.steps if step.name == _NEXT),
        assumed="" if question.is_served else f"the preset {chosen[0].name} is assumed",
    )


async def _members(question: PodQuestion, entry: JobEntry) -> list[Step]:
    """Return the step that says how many of the pods fit that the gang needs; none for a job that needs one pod.

    The step `nodes` names one pod that finds no room, maybe only because of its siblings.
    """
    from pyscheduler.cli.group_steps import placed_together
    from pyscheduler_batch.model.tasks import ACTIVE, TaskState

    missing = entry.spec.min_member - entry.job.count(ACTIVE)
    tasks = [task for task in entry.job.tasks.values() if task.state == TaskState.PENDING and task.pod is not None]
    pods = sorted((task.pod for task in tasks if task.pod is not None), key=lambda pod: (-pod.priority, pod.name))
    if missing <= 1 or len(pods) < missing:
        return []
    placed, failure = await placed_together(question, pods[:missing])
    text = f"{placed} of {missing} members that the job needs fit at the same time"
    return [Step("members", INFO, "", f"{text}; {failure}" if failure else text)]


def _job_of(uid: str, cluster: Cluster) -> tuple[DialectModel, JobEntry] | None:
    for model in cluster.models:
        for entry in model.jobs.values():
            if uid in entry.job.tasks:
                return model, entry
    return None
