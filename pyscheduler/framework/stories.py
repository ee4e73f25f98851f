"""`Stories`: the interface through which the scheduler reports why each pod waits.

`pyscheduler.stories` records the reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import QueuedPodInfo

__all__ = ["NullStories", "Stories"]


class Stories(Protocol):
    """The sink of what happens to pods that have no node yet, and of what ends their wait."""

    def begin(self) -> None:
        """Note that this replica schedules from now on; a standby sees pods, but decides nothing about them."""
        return

    async def close(self) -> None:
        """Note that this replica schedules no longer."""
        return

    def moved(self, info: QueuedPodInfo, place: str, event: str) -> None:
        """Note that a pod entered a sub-queue after an event; the first move begins its story."""
        return

    def waits(
        self,
        pod: Pod,
        reason: str,
        message: str = "",
        *,
        plugins: tuple[str, ...] = (),
        node: str = "",
        others: Collection[str] = (),
    ) -> None:
        """Note why a pod waits. A repeated reason is counted; another one, plugin or node is a change.

        `reason` is a code such as `Unschedulable`. `plugins` rejected the pod or hold it. `node` is its nomination, or
        where it waits at Permit. `others` are the keys of the pods that are evicted for it.
        """
        return

    def bound(self, pod: Pod, node: str, message: str = "") -> None:
        """Note that a pod has its node; this ends its story."""
        return

    def deleted(self, pod: Pod) -> None:
        """Note that a pod was deleted before it had a node; this ends its story."""
        return

    def ended(self, pod: Pod, reason: str, message: str = "", *, node: str = "", others: Collection[str] = ()) -> None:
        """Note what happened to a pod after its binding: `Preempted`, `Evicted`, or `RejectedByKubelet`.

        `others` are the keys of the pods or jobs that it makes room for.
        """
        return


class NullStories(Stories):
    """Record nothing."""

    def __init__(self) -> None:
        # A class that inherits its constructor from a Protocol has another signature once it was called.
        super().__init__()
