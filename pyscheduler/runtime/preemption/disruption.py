"""Evict a pod to make room for others: write the condition DisruptionTarget, then delete the pod.

Source: kube-scheduler 1.36, `framework/preemption/executor.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api import Pod, format_time
from pyscheduler.framework.departures import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from pyscheduler.framework.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pyscheduler.framework.handle import Client

__all__ = ["delete_with_condition"]


async def delete_with_condition(
    client: Client, pod: Pod, *, message: str, now: float, between: Callable[[], Awaitable[object]] | None = None
) -> bool:
    """Write the condition, then delete the pod; return False if this very pod is gone already.

    `message`: of the condition. `now`: wall time in seconds since 1970. `between`: what to await before the deletion.
    Raises `APIError` and `TransportError`.
    """
    condition = _condition(pod, message, now)
    try:
        if condition is not None:
            # Without an order, the API server puts new conditions first.
            types = dict.fromkeys((*(each.type for each in pod.status.conditions), DISRUPTION_TARGET))
            order = [{"type": each} for each in types]
            status = {"$setElementOrder/conditions": order, "conditions": [condition]}
            await client.patch_pod_status(pod, {"status": status})
        if between is not None:
            await between()
        await client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
    except NotFoundError:
        return False
    except ConflictError:
        if await _is_gone(client, pod):
            return False
        raise
    return True


async def _is_gone(client: Client, pod: Pod) -> bool:
    try:
        return (await client.get(Pod, pod.name, pod.namespace)).uid != pod.uid
    except NotFoundError:
        return True


def _condition(pod: Pod, message: str, now: float) -> Mapping[str, object] | None:
    """Return the condition to write; None if the pod has it."""
    generation = pod.metadata.generation
    present = next((each for each in pod.status.conditions if each.type == DISRUPTION_TARGET), None)
    wanted = ("True", PREEMPTION_BY_SCHEDULER, message, generation)
    if present is not None and wanted == (
        present.status,
        present.reason,
        present.message,
        present.observed_generation,
    ):
        return None
    condition: dict[str, object] = {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": PREEMPTION_BY_SCHEDULER,
        "message": message,
        "lastProbeTime": None,
    }
    if generation:
        condition["observedGeneration"] = generation
    if present is None or present.status != "True":
        condition["lastTransitionTime"] = format_time(now)
    return condition
