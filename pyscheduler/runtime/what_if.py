"""Questions that plugins ask between two scheduling cycles, and what keeps cycles from beginning meanwhile.

A question may take long, so it lets the event loop turn, with the snapshot changed in the middle of a thought. A cycle
must not see that, nor bring the snapshot up to date. So cycles and questions take turns: whoever holds the lock of
`Exclusive` may use the snapshot. The cache, the queue and everything else go on as ever.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.what_if import WHAT_IF
from pyscheduler.runtime.cooperative_yield import CooperativeYield

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.runtime.profile import Profile

__all__ = ["Exclusive", "Question"]


def _stay() -> None:
    """Leave the snapshot as it is: there is no cache behind it."""


async def _at_rest() -> None:
    """Wait for nobody: nobody waits at Permit."""


class Exclusive:
    """Who may use the snapshot: one scheduling cycle, or one question. `refresh` brings it up to date.

    `settled` waits for those who are about to give back what they hold.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.refresh: Callable[[], object] = _stay
        self.settled: Callable[[], Awaitable[None]] = _at_rest

    @asynccontextmanager
    async def question(self, profile: Profile) -> AsyncIterator[Question]:
        """Give what asks in the name of a profile, once nobody else uses the snapshot."""
        async with self.lock:
            await self.settled()
            self.refresh()
            with profile.snapshot.what_if():
                yield Question(profile)


class Question:
    """The `WhatIf` that plugins see."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._turns = CooperativeYield(profile.clock)

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot."""
        return self._profile.snapshot

    def find_node(self, info: PodInfo) -> str:
        """Return the first node that can take the pod, or ""."""
        profile, pod = self._profile, info.pod
        nodes = profile.snapshot.nodes
        if not len(nodes):
            return ""
        state = CycleState()
        state.write(WHAT_IF, True)
        outcome = profile.run_pre_filter(state, pod, nodes)
        if outcome.status is not None:
            return ""
        names = outcome.result.node_names if outcome.result is not None else None
        if names is not None:
            rows = sorted(row for name in names if (row := nodes.index(name)) is not None)
            nodes = nodes.take(np.array(rows, dtype=np.int64))
        found = profile.find_feasible(state, pod, nodes, limit=1)
        return nodes.name(int(found.rows[0])) if found.status is None and len(found.rows) else ""

    async def turn(self) -> None:
        """Let the event loop turn if it is time."""
        await self._turns.yield_if_due()
