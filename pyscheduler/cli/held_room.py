"""Rows of `explain` about pods that hold resources: nominated pods, and evicted pods that still exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.cli.disruption import first_few, overdue_step
from pyscheduler.cli.explanation import INFO, Step, names_of
from pyscheduler.framework.departures import is_preempted
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.scheduler.evaluation import evaluate

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.scheduler.evaluation import Evaluation
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["held_room_steps"]


async def held_room_steps(scheduler: Scheduler, pod: Pod, found: Evaluation, now: float) -> list[Step]:
    """Return the steps that name the pods without which the pod would fit; none if there are none.

    `found` is the evaluation of the pod; `now` is in seconds since the epoch.
    """
    if found.filtered is None or found.feasible is not None or found.error is not None:
        return []
    nominator = scheduler.queue.nominator
    heirs = {
        name: [
            info for info in nominator.pods_on(name) if info.pod.uid != pod.uid and info.pod.priority >= pod.priority
        ]
        for name in [*nominator.nodes]
    }
    ending = [each for each in scheduler.pods if each.node_name and is_preempted(each) and each.uid != pod.uid]
    if not ending and not any(heirs.values()):
        return []
    nodes = await _nodes_without(scheduler, pod, found, heirs, ending)
    held = [
        f"{name} for {info.pod.key} (priority {info.pod.priority})" for name in nodes for info in heirs.get(name, ())
    ]
    steps = [Step("nominated", INFO, "", f"room is held on {first_few(held)}")] if held else []
    return [*steps, *overdue_step([each for each in ending if each.node_name in nodes], now)]


async def _nodes_without(
    scheduler: Scheduler, pod: Pod, found: Evaluation, heirs: dict[str, list[PodInfo]], ending: list[Pod]
) -> list[str]:
    """Return the nodes on which the pod would fit without some nominated pods and some pods that are ending."""
    nominator, cache = scheduler.queue.nominator, scheduler.cache
    for info in (info for infos in heirs.values() for info in infos):
        nominator.delete(info.pod)
    for each in ending:
        cache.remove_pod(each)
    try:
        without = await evaluate(scheduler, found.profile, pod)
    finally:
        for each in ending:
            cache.add_pod(each)
        for name, infos in heirs.items():
            for info in infos:
                nominator.add(info, NominatingInfo(name))
    return names_of(without.feasible) if without.feasible is not None else []
