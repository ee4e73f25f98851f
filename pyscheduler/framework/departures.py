"""Estimate when a terminating pod will be gone from its node, and detect pods that may never go.

A preemptor should not wait forever for a victim, for example on a node that is down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_objects.times import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import Node, Pod
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.pod_info import PodInfo

__all__ = [
    "DISRUPTION_TARGET",
    "PREEMPTION_BY_SCHEDULER",
    "ends_at",
    "grace_seconds",
    "is_preempted",
    "is_ready",
    "is_stuck",
    "leaving",
    "seconds_left",
]

#: Type and reason of the condition that the scheduler writes to a victim.
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

#: The time that a pod may take beyond its grace period, in seconds.
MARGIN_SECONDS: Final = 30.0
#: The API server's default of `terminationGracePeriodSeconds`.
_GRACE_SECONDS: Final = 30.0


def leaving(pods: Iterable[PodInfo], pod: Pod) -> list[PodInfo]:
    """Return those of `pods` that are ending and were preempted, or have a lower priority than `pod`."""
    return [
        each
        for each in pods
        if each.pod.is_terminating and (each.pod.priority < pod.priority or is_preempted(each.pod))
    ]


def is_preempted(pod: Pod) -> bool:
    """Return True if the pod is ending because a scheduler preempted it."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
    return False


def is_ready(node: Node) -> bool:
    """Return True if the node is ready; a node without the condition `Ready` counts as ready."""
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")


def is_stuck(node: NodeInfo, pod: Pod, now: float) -> bool:
    """Return True if pods of lower priority may never leave a node; `now` in seconds since the epoch."""
    if node.node is not None and not is_ready(node.node):
        return True
    return any(_left(each.pod, now) <= 0 for each in leaving(node.pods, pod))


def grace_seconds(pod: Pod | None) -> float:
    """Return the time that a pod has to end, in seconds; None stands for a pod that is not known."""
    seconds = pod.spec.termination_grace_period_seconds if pod is not None else None
    return _GRACE_SECONDS if seconds is None else float(seconds)


def seconds_left(victims: Iterable[PodInfo], now: float) -> float | None:
    """Return the time until the last of some victims should be gone; None without victims."""
    return max((_left(each.pod, now) for each in victims), default=None)


def ends_at(pod: Pod, now: float) -> float:
    """Return when the grace period of a pod ends, in seconds since the epoch; if it is not ending yet, from now on."""
    return seconds_of(pod.metadata.deletion_timestamp, now + grace_seconds(pod))


def _left(pod: Pod, now: float) -> float:
    """Return the time until a pod should be gone."""
    return ends_at(pod, now) + MARGIN_SECONDS - now
