"""Pods that leave a node to make room, and those that may never be gone.

A pod is gone when the kubelet of its node says so. The kubelet of a node that is not ready may never do that, and a pod
may outlive its grace period, for example because a volume cannot be unmounted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import DecodeError, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.api import Node, Pod
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.pod_info import PodInfo

__all__ = [
    "DISRUPTION_TARGET",
    "PREEMPTION_BY_SCHEDULER",
    "is_preempted",
    "is_ready",
    "is_stuck",
    "leaving",
    "seconds_left",
]

#: What the scheduler writes into the condition of a victim.
DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

#: The time that a pod may take beyond its grace period, in seconds.
MARGIN_SECONDS: Final = 30.0
#: The API server's default.
_GRACE_SECONDS: Final = 30


def leaving(pods: Iterable[PodInfo], pod: Pod) -> list[PodInfo]:
    """Return those of `pods` that are ending and were preempted, or have a lower priority than `pod`."""
    return [
        each
        for each in pods
        if each.pod.is_terminating and (each.pod.priority < pod.priority or is_preempted(each.pod))
    ]


def is_preempted(pod: Pod) -> bool:
    """Return whether the pod is ending because a scheduler preempted it."""
    if not pod.is_terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
    return False


def is_ready(node: Node) -> bool:
    """Return whether the kubelet of a node reports; a node that says nothing about that counts as ready."""
    return all(each.status == "True" for each in node.status.conditions if each.type == "Ready")


def is_stuck(node: NodeInfo, pod: Pod, now: float) -> bool:
    """Return whether pods of lower priority may never leave a node; `now` in seconds since the epoch."""
    if node.node is not None and not is_ready(node.node):
        return True
    return any(_left(each.pod, now) <= 0 for each in leaving(node.pods, pod))


def seconds_left(victims: Iterable[PodInfo], now: float) -> float | None:
    """Return the time until the last of some victims should be gone; None without victims."""
    return max((_left(each.pod, now) for each in victims), default=None)


def _left(pod: Pod, now: float) -> float:
    """Return the time until a pod should be gone; if it is not ending yet, from now on."""
    try:
        ends = parse_time(pod.metadata.deletion_timestamp or "")
    except DecodeError:
        grace = pod.spec.termination_grace_period_seconds
        ends = now + (_GRACE_SECONDS if grace is None else grace)
    return ends + MARGIN_SECONDS - now
