"""Retry a pod before its backoff is over if there is room for its group.

For example, the group needs room for 8 pods (`AfterFailure.room_for`). After an event that may help the pod, the
scheduler estimates how many equal pods would find room. If 8 would, the scheduler retries the pod.

Differs from kube-scheduler, which retries pods in backoff as soon as activeQ is empty (SchedulerPopFromBackoffQ).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from pyscheduler.queue.hints import Strategy
from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.active import ActiveQueue
    from pyscheduler.queue.backoff import BackoffQueue
    from pyscheduler.queue.hints import Matches, QueueingHints

__all__ = ["EarlyRetries", "listens"]

#: Time between two checks for room, in seconds. One check covers all events in between.
LOOK_SECONDS: Final = 0.1
#: The most pods per check, in the order in which they were woken: thousands of groups must not stop all other pods.
_LOOKS: Final = 20


def listens(info: QueuedPodInfo) -> bool:
    """Return True if events can bring the pod back while it is backing off."""
    return info.after_failure is not None and info.after_failure.room_for > 0


class EarlyRetries:
    """The pods that an event has woken and whose room is not checked yet."""

    def __init__(
        self,
        *,
        clock: Clock,
        recorder: Recorder,
        hints: QueueingHints,
        active: ActiveQueue,
        backoff: BackoffQueue,
        on_ready: Callable[[], object],
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._hints = hints
        self._active = active
        self._backoff = backoff
        self._on_ready = on_ready
        #: The event's label by uid.
        self._woken: dict[str, str] = {}
        self._timer = TickTimer(clock, LOOK_SECONDS)

    def start(self) -> None:
        """Move woken pods to activeQ at the next tick, for a check of their room."""
        self._timer.start(self._bring, origin=0.0)
        if self._woken:
            self._timer.arm(self._clock.now())

    def stop(self) -> None:
        """Stop the timer."""
        self._timer.stop()

    def wake(self, info: QueuedPodInfo, event: str) -> None:
        """Record that an event may help a pod in backoff; pods that do not listen are ignored."""
        if info.pod.uid in self._backoff.listening:
            self._woken.setdefault(info.pod.uid, event)
            self._timer.arm(self._clock.now())

    def hear(self, info: QueuedPodInfo, matches: Matches, old: object | None, new: object | None) -> None:
        """Wake a listening pod if a plugin that rejected it finds the event worth an attempt."""
        if not matches.may_move(info.pod.scheduler_name, info.rejectors):
            return
        if self._hints.evaluate(info, matches, old, new) is not Strategy.SKIP:
            self.wake(info, matches.label)

    def announce(
        self, matches: Matches, old: object | None, new: object | None, concerns: Callable[[QueuedPodInfo], bool]
    ) -> None:
        """Announce an event to all listening pods that it `concerns`."""
        for uid, info in list(self._backoff.listening.items()):
            if uid not in self._woken and concerns(info):
                self.hear(info, matches, old, new)

    def settle(self, info: QueuedPodInfo, *, has_room: bool) -> bool:
        """Return True if a woken pod is to be tried now; otherwise undo what the pop changed."""
        if has_room and self._clock.now() >= info.early_from:
            self._recorder.count("scheduler_queue_incoming_pods_total", "active", info.woken_by)
            return True
        info.attempts -= 1
        info.woken_by = ""
        if has_room:
            self._backoff.end_at(info, info.early_from)
        else:
            info.early_failures, info.early_from = 0, 0.0
        return False

    def count_failure(self, info: QueuedPodInfo) -> None:
        """Count an early attempt that failed at `enqueued_at`."""
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
        self._on_ready()
