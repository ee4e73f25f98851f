"""Pods in backoff that an event may bring back before their time: those whose group needs room for several pods.

A group that is tried at each event pays with an attempt of each member, and the backoff grows; one that serves its
backoff starts late. So a member that found no node says for how many pods like it there must be room
(`AfterFailure.room_for`), and goes on listening while it is backing off. An event that its rejecting plugins find worth
an attempt makes the scheduler look whether there is that much room, at the next tenth of a second, and only then is it
tried. Where there is not, it is put back, and nothing counts.

An early attempt that fails all the same does not count towards the backoff. But the next one has to wait, twice as long
each time, until the room was seen to be gone.

Differs from kube-scheduler, which tries such pods again as soon as activeQ is empty (SchedulerPopFromBackoffQ).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from pyscheduler.queue.ticks import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo

__all__ = ["EarlyWakes", "listens"]

#: Time between two looks for room, in seconds. Events in between are looked into together.
LOOK_SECONDS: Final = 0.1
#: So many pods are looked at then, those that were woken first; thousands of groups leave time for other pods.
_LOOKS: Final = 20


def listens(info: QueuedPodInfo) -> bool:
    """Tell whether events can bring the pod back while it is backing off."""
    return info.after_failure is not None and info.after_failure.room_for > 0


class EarlyWakes:
    """The pods that an event has woken and that are yet to be looked at, by uid, with the event's label."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._woken: dict[str, str] = {}
        self._timer = TickTimer(clock, LOOK_SECONDS)

    def start(self, look: Callable[[float], object]) -> None:
        """Call `look` at each tick at which some pod has been woken."""
        self._timer.start(look, origin=0.0)
        if self._woken:
            self._timer.arm(self._clock.now())

    def stop(self) -> None:
        """Call nobody any more."""
        self._timer.stop()

    def wake(self, uid: str, event: str) -> None:
        """Note that an event may help a pod."""
        self._woken.setdefault(uid, event)
        self._timer.arm(self._clock.now())

    def take(self) -> Iterator[tuple[str, str]]:
        """Take out those that it is the turn of."""
        for uid in list(islice(self._woken, _LOOKS)):
            yield uid, self._woken.pop(uid)
        if self._woken:
            self._timer.arm(self._clock.now())

    def __contains__(self, uid: str) -> bool:
        return uid in self._woken
