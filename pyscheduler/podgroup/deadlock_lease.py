"""A lease: the time in which groups that yielded are refused, and the winner's nodes are nominated for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs

from pyscheduler.framework import NominatingInfo, PodInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import Nominator, Timer
    from pyscheduler.podgroup.deadlock_units import Contender, UnitKey

__all__ = ["Lease"]


@attrs.define(kw_only=True, eq=False)
class Lease:
    """One resolution under way. `ends_at` is the clock's, in seconds."""

    winner: Contender
    #: The units that yielded.
    yielded: Mapping[UnitKey, Contender]
    #: Units that could not be placed either, and would take the freed room before the winner.
    held_off: dict[UnitKey, Contender]
    ends_at: float
    nominator: Nominator
    timer: Timer | None = None
    #: Rejected pods that have not given their nodes back yet, by uid.
    leaving: set[str] = attrs.Factory(set)
    #: Set when all of them have, or when the lease ends.
    is_room_free: asyncio.Event = attrs.Factory(asyncio.Event)
    #: The winner's missing members, with the nodes nominated for them.
    nominated: list[tuple[Pod, str]] = attrs.Factory(list)

    def nominate(self, nodes: Sequence[tuple[Pod, str]]) -> None:
        """Nominate the nodes for these pods: pods of a lower or the same priority do not take them."""
        for pod, node_name in nodes:
            self.nominator.add(PodInfo.of(pod), NominatingInfo(node_name))
            self.nominated.append((pod, node_name))

    def release_held_off(self) -> list[Contender]:
        """End the refusal of units that did not yield; return these units."""
        released = list(self.held_off.values())
        self.held_off.clear()
        return released

    def left(self, uid: str) -> None:
        """Record that a pod gave its node back."""
        self.leaving.discard(uid)
        if not self.leaving:
            self.is_room_free.set()

    def end(self) -> None:
        """End the lease and its nominations."""
        self.is_room_free.set()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for pod, node_name in self.nominated:
            if self.nominator.node_of(pod.uid) == node_name:
                self.nominator.delete(pod)
        self.nominated.clear()
