"""Let a plugin check whether pods would fit if certain other pods were gone.

The check changes the snapshot, and undoes the changes at the end. No scheduling cycle runs meanwhile.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.placement import feasible_nodes
from pyscheduler.runtime.statement import Statement

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.runtime.snapshot_access import SnapshotAccess

__all__ = ["ProfileWhatIf", "what_if"]


@asynccontextmanager
async def what_if(profile: Profile, access: SnapshotAccess) -> AsyncIterator[ProfileWhatIf]:
    """Give the what-if of a profile once no cycle uses the snapshot; undo its changes to the snapshot at the end."""
    async with access:
        access.refresh()
        with Statement(profile.snapshot, release=profile.release()) as statement:
            yield ProfileWhatIf(profile, statement)


class ProfileWhatIf:
    """The `WhatIf` that plugins see; it asks the filters of one profile."""

    def __init__(self, profile: Profile, statement: Statement) -> None:
        self._profile = profile
        self.statement = statement
        self._turns = CooperativeYield(profile.clock)

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot."""
        return self._profile.snapshot

    def find_node(self, info: PodInfo) -> str:
        """Return the first node that can take the pod, or ""."""
        state = CycleState(self.statement.trial)
        try:
            return feasible_nodes(self._profile, state, info.pod, self.snapshot.nodes, limit=1).name(0)
        except (FitError, PluginError):
            return ""

    async def turn(self) -> None:
        """Yield to the event loop if it is time."""
        await self._turns.yield_if_due()
