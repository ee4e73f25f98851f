"""`WhatIf`: lets a plugin check, between two scheduling cycles, whether pods would fit if other pods were evicted.

For the check, the plugin evicts and places pods in the snapshot. The end of the block `async with handle.what_if()`
undoes these changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.framework.statement import Statement

__all__ = ["WhatIf"]


class WhatIf(Protocol):
    """A question about the cluster as it is now, while nothing is scheduled."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot, as the statement has it."""
        ...

    @property
    def statement(self) -> Statement:
        """Return what places, evicts and nominates pods; all of it is undone when the question is over."""
        ...

    def find_node(self, info: PodInfo) -> str:
        """Return the first node of the snapshot, as it is now, that can take the pod; "" where none can.

        Asks PreFilter and Filter of the handle's profile, with nominated pods taken into account. Extenders are not
        asked. Where a plugin fails, no node can take the pod.
        """
        ...

    async def turn(self) -> None:
        """Let the event loop turn if the question has held it for some milliseconds; call it between pods."""
        ...
