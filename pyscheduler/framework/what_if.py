"""Asking, between two scheduling cycles, whether pods would fit if others were not there.

A plugin that thinks about more than the pod of the current cycle does it here: `async with handle.what_if() as trial`.
No cycle begins meanwhile, the snapshot is up to date and may be changed at will, and all of it is undone at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from pyscheduler.framework.cycle_state import StateKey

if TYPE_CHECKING:
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot

__all__ = ["WHAT_IF", "WhatIf"]

WHAT_IF: Final[StateKey[bool]] = StateKey("pyscheduler/what-if")
"""Stands in the state of a cycle that is not one: somebody only asks.

A PreFilter that keeps an account of attempts, or refuses a pod for a while, lets the pod pass in silence then.
"""


class WhatIf(Protocol):
    """A question about the cluster as it is now, while nothing is scheduled."""

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot, which may be changed; it is brought back when the question is over."""
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
