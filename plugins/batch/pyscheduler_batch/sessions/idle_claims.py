"""Deallocate an unused resource claim of a pod if the pod cannot run on the nodes that have the claim's devices."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.interfaces import PostFilterPlugin
from pyscheduler_batch.model.tasks import TaskState

if TYPE_CHECKING:
    from pyscheduler.runtime.profile import Profile
    from pyscheduler_batch.sessions.source import Pass

__all__ = ["give_back_devices"]

_PLUGIN: Final = "DynamicResources"


async def give_back_devices(profile: Profile, found: Pass) -> bool:
    """Give back the devices that keep pods of a pass from every node; return whether there were any."""
    plugin = profile.plugins.get(_PLUGIN)
    if not isinstance(plugin, PostFilterPlugin):
        return False
    is_any = False
    for uid, error in found.rejections.items():
        task, state = found.tables.task(uid), found.states.get(uid)
        if task is None or task.pod is None or state is None or not isinstance(error, FitError):
            continue
        # The pass may have placed it later.
        if task.state is TaskState.PENDING and task.pod.spec.resource_claims:
            answer = plugin.post_filter(state, task.pod, error.diagnosis.node_statuses)
            if inspect.isawaitable(answer):
                await answer
                is_any = True
    return is_any
