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

from pyscheduler.queue.hints import Strategy
from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.active import ActiveQueue
    from pyscheduler.queue.backoff import BackoffQueue
    from pyscheduler.queue.hints import Matches, QueueingHints

__all__ = ["EarlyRetries", "listens"]

#: Time between two looks for room, in seconds. Events in between are looked into together.
LOOK_SECONDS: Final = 0.1
#: So many pods are looked at then, those that were woken first; thousands of groups leave time for other pods.
_LOOKS: Final = 20


def listens(info: QueuedPodInfo) -> bool:
    """Tell whether events can bring the pod back while it is backing off."""
    return info.after_failure is not None and info.after_failure.room_for > 0


class EarlyRetries:
    """The pods that an event has woken and that are yet to be looked at; `hints` say whether it may help."""

    def __init__(
        self, *, clock: Clock, recorder: Recorder, hints: QueueingHints, active: ActiveQueue, backoff: BackoffQueue
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._hints = hints
        self._active = active
        self._backoff = backoff
        #: The event's label by uid.
        self._woken: dict[str, str] = {}
        self._timer = TickTimer(clock, LOOK_SECONDS)

    def start(self) -> None:
        """Bring pods to activeQ, to be looked at, at the tick after they were woken."""
        self._timer.start(self._bring, origin=0.0)
        if self._woken:
            self._timer.arm(self._clock.now())

    def stop(self) -> None:
        """Bring nobody any more."""
        self._timer.stop()

    def wake(self, info: QueuedPodInfo, event: str) -> None:
        """Note that an event may help a pod that is in backoff; one that does not listen is left alone."""
        if listens(info):
            self._woken.setdefault(info.pod.uid, event)
            self._timer.arm(self._clock.now())

    def hear(self, info: QueuedPodInfo, matches: Matches, old: object | None, new: object | None) -> None:
        """Wake a pod that is in backoff if a plugin that rejected it finds the event worth an attempt."""
        if not listens(info) or not matches.may_move(info.pod.scheduler_name, info.rejectors):
            return
        if self._hints.evaluate(info, matches, old, new) is not Strategy.SKIP:
            self.wake(info, matches.label)

    def announce(
        self, matches: Matches, old: object | None, new: object | None, concerns: Callable[[Pod], bool]
    ) -> None:
        """Let all hear of an event that listen and that it `concerns`."""
        for uid, info in list(self._backoff.listening.items()):
            if uid not in self._woken and concerns(info.pod):
                self.hear(info, matches, old, new)

    def settle(self, info: QueuedPodInfo, *, has_room: bool) -> bool:
        """Tell whether a pod that was popped to be looked at is to be tried; else undo what the pop has changed."""
        if has_room and self._clock.now() >= info.early_from:
            self._recorder.incoming_pod(queue="active", event=info.woken_by)
            return True
        info.attempts -= 1
        info.woken_by = ""
        if has_room:
            self._backoff.end_at(info, info.early_from)
        else:
            info.early_failures, info.early_from = 0, 0.0
        return False

    def count_failure(self, info: QueuedPodInfo) -> None:
        """Count an attempt that an event brought and that failed; `enqueued_at` is when."""
        info.woken_by = ""
        info.early_failures += 1
        info.early_from = info.enqueued_at + self._backoff.duration(info.early_failures)

    def _bring(self, _now: float) -> None:
        for uid in list(islice(self._woken, _LOOKS)):
            event = self._woken.pop(uid)
            info = self._backoff.listening.get(uid)
            if info is not None:
                self._backoff.remove(uid)
                info.woken_by = event
                self._active.put(info)
        if self._woken:
            self._timer.arm(self._clock.now())
        self._active.wake()
