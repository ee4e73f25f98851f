"""A lease: for how long who yielded is refused, and the winner's room is kept for it."""

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
    """One resolution under way. `ends_at` is the clock's; times in seconds."""

    winner: Contender
    #: Who yielded.
    yielded: Mapping[UnitKey, Contender]
    #: Who could not be placed either, and would take what is given up before the winner does.
    held_off: dict[UnitKey, Contender]
    ends_at: float
    nominator: Nominator
    timer: Timer | None = None
    #: Who waits no more and has not given the node back yet, by uid.
    leaving: set[str] = attrs.Factory(set)
    #: Set when all of these have, or it is over.
    settled: asyncio.Event = attrs.Factory(asyncio.Event)
    #: The winner's missing members, with the nodes that are kept for them.
    nominated: list[tuple[Pod, str]] = attrs.Factory(list)

    def nominate(self, nodes: Sequence[tuple[Pod, str]]) -> None:
        """Keep the nodes for these pods: pods of a lower or the same priority do not take them."""
        for pod, node_name in nodes:
            self.nominator.add(PodInfo.of(pod), NominatingInfo(node_name))
            self.nominated.append((pod, node_name))

    def release_held_off(self) -> list[Contender]:
        """Hold nobody off any more but those who yielded; return who was held off."""
        released = list(self.held_off.values())
        self.held_off.clear()
        return released

    def left(self, uid: str) -> None:
        """Note that somebody gave the node back."""
        self.leaving.discard(uid)
        if not self.leaving:
            self.settled.set()

    def end(self) -> None:
        """Keep nothing any more."""
        self.settled.set()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for pod, node_name in self.nominated:
            if self.nominator.node_of(pod.uid) == node_name:
                self.nominator.delete(pod)
        self.nominated.clear()
