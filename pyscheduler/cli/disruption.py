"""Rows of `pyscheduler explain` about evictions: the pod is evicted, or waits until preemption victims have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.durations import format_duration
from kube_objects.times import format_time
from pyscheduler.api import PodDisruptionBudget, kind_of
from pyscheduler.cli.explanation import INFO, Step
from pyscheduler.framework.departures import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    ends_at,
    grace_seconds,
    leaving,
)
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.runtime.preemption.disruption_budgets import Budgets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyscheduler.api import Pod, PodCondition
    from pyscheduler.cluster.object_sources import Read

__all__ = ["disruption_steps", "first_few", "is_evicted", "overdue_step", "victim_steps"]

_BUDGETS: Final = kind_of(PodDisruptionBudget, "poddisruptionbudgets")
#: The number of pods that a step lists.
_NAMED: Final = 5


async def disruption_steps(
    pod: Pod, read: Read, pods: Iterable[Pod], now: float, heirs: Iterable[str] = ()
) -> list[Step]:
    """Return the step of a pod that is evicted, or that ends on its node for another reason; none for any other pod.

    `pods` are those that the user may see; `now` is in seconds since the epoch. `heirs` are the pods for which the pod
    is preempted, as far as they are known already.
    """
    said = _target(pod)
    if said is None:
        return [Step("ending", INFO, "", _ending(pod, now))] if pod.is_terminating and pod.node_name else []
    text = f"{said.reason}: {said.message}"
    if said.reason == PREEMPTION_BY_SCHEDULER:
        nominated = (each.key for each in pods if pod.node_name and each.status.nominated_node_name == pod.node_name)
        names = sorted({*heirs, *nominated})
        if names:
            text += f"; {pod.node_name} is promised to {', '.join(names)}"
        budgets = [each for each in await read(_BUDGETS) if isinstance(each, PodDisruptionBudget)]
        violated = Budgets(budgets).violated_by([PodInfo.of(pod)])
        if violated:
            text += f"; violates the disruption budget {', '.join(violated)}"
    if pod.is_terminating:
        text += f"; {_ending(pod, now)}"
    return [Step("eviction", INFO, "", text)]


def is_evicted(pod: Pod) -> bool:
    """Return True if the pod is being evicted."""
    return _target(pod) is not None


def _target(pod: Pod) -> PodCondition | None:
    marks = (each for each in pod.status.conditions if (each.type, each.status) == (DISRUPTION_TARGET, "True"))
    return next(marks, None)


def victim_steps(pod: Pod, on_node: Iterable[PodInfo], now: float) -> list[Step]:
    """Return the step that names the pods for whose end a pod waits on its nominated node; none if there are none.

    `on_node` are the pods of that node; `now` is in seconds since the epoch.
    """
    ending = [each.pod for each in leaving(on_node, pod)]
    node = pod.status.nominated_node_name
    return _victims(f"{node} is promised to the pod, when these pods have ended: ", ending, now)


def overdue_step(evicted: Iterable[Pod], now: float) -> list[Step]:
    """Return the step that names the evicted pods that outlive their grace period; none if there are none."""
    overdue = [each for each in evicted if ends_at(each, now) < now]
    return _victims("pods that a scheduler has evicted, and that outlive their grace period: ", overdue, now)


def _victims(text: str, ending: list[Pod], now: float) -> list[Step]:
    if not ending:
        return []
    ending.sort(key=lambda each: (ends_at(each, now), each.key))
    return [Step("victims", INFO, "", text + first_few([_ending(each, now) for each in ending]))]


def first_few(texts: Sequence[str]) -> str:
    """Join the first texts, and the number of the others."""
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return "; ".join([*texts[:_NAMED], *more])


def _ending(pod: Pod, now: float) -> str:
    """Return since when a pod is ending, and how long it may take."""
    given = pod.metadata.deletion_grace_period_seconds
    grace = grace_seconds(pod) if given is None else float(given)
    end = ends_at(pod, now)
    if given == 0:  # its containers have ended, or it was deleted by force; without a finalizer it would be gone
        over = format_duration(float(round(now - end)))
        finalizers = ", ".join(pod.metadata.finalizers)
        return (
            f"{pod.key} on {pod.node_name}, ending since {format_time(end)}, held for {over} by finalizers {finalizers}"
        )
    text = f"{pod.key} on {pod.node_name}, ending since {format_time(end - grace)}, grace period {grace:g} s"
    if end < now:
        text += f", which is over for {format_duration(float(round(now - end)))}"
    if pod.metadata.finalizers:
        text += f", finalizers {', '.join(pod.metadata.finalizers)}"
    return text
