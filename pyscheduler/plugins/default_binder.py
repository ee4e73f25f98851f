"""DefaultBinder: bind a pod by posting its Binding to the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework import BindPlugin, PolicyRule, PySchedulerError, Status

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState

__all__ = ["DefaultBinder"]


class DefaultBinder(BindPlugin):
    """Bind through the handle's client, which retries what can be retried."""

    rbac = (
        PolicyRule(api_groups=("",), resources=("pods/binding",), verbs=("create",)),
        # The pod itself is asked how a binding ended whose answer was lost.
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("get",)),
    )

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        try:
            await self.handle.client.bind(pod, node_name)
        except PySchedulerError as error:
            # The pod may be bound by somebody else, or gone (409, 404): the next watch event tells. Anything else is
            # worth another attempt. Either way this one has failed and what it reserved is given back.
            return Status.from_error(error)
        return None
