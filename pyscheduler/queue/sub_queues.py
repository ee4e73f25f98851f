"""Where a waiting pod can be, and how it gets from one place to another.

    add ──────────────► active ──pop──► in flight ──► bound, or back:
                          ▲  ▲                          │
          backoff is over │  │ event, not backing off   │
                          │  │                          ▼
                        backoff ◄──event── unschedulable (rejected, or gated)

PreEnqueue plugins stand before activeQ, and with SchedulerPopFromBackoffQ before backoffQ instead, since pods may be
popped straight from there. A pod they hold back is gated: it waits among the unschedulable pods, and only events that
the gating plugin registered make PreEnqueue run again.

`SubQueues` moves pods and keeps every pod in exactly one place; why a pod moves is `SchedulingQueue`'s business.
Source: kube-scheduler 1.36, `moveToActiveQ`, `moveToBackoffQ`, `requeuePodWithQueueingStrategy`.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from pyscheduler.framework.events import UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE
from pyscheduler.queue.hints import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.framework.status import Status
    from pyscheduler.queue.active import ActiveQueue
    from pyscheduler.queue.backoff import BackoffQueue
    from pyscheduler.queue.nominator import Nominator
    from pyscheduler.queue.unschedulable import UnschedulablePods

__all__ = ["PreEnqueue", "QueuePlace", "SubQueues"]

_log = logging.getLogger(__name__)

#: Run a profile's PreEnqueue plugins: None, or the refusal, which names its plugin. Must not raise.
PreEnqueue: TypeAlias = "Callable[[Pod], Status | None]"

#: Labels of the events that bring a pod, or a new version of it.
_NEWS: Final = frozenset({UNSCHEDULED_POD_ADD.label, UNSCHEDULED_POD_UPDATE.label})


class QueuePlace(StrEnum):
    """Where a pod is; the first three are also the `queue` label of scheduler_queue_incoming_pods_total."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in_flight"


class SubQueues:
    """activeQ, backoffQ and the unschedulable pods. A pod is in one of them, or in none."""

    def __init__(
        self,
        *,
        clock: Clock,
        active: ActiveQueue,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        nominator: Nominator,
        pre_enqueue: Mapping[str, PreEnqueue],
        gating_events: Mapping[str, Mapping[str, Sequence[ClusterEvent]]],
    ) -> None:
        self._clock = clock
        self.active = active
        self.backoff = backoff
        self.unschedulable = unschedulable
        self._nominator = nominator
        self._pre_enqueue = pre_enqueue
        self._gating_events = gating_events
        #: How many pods have entered activeQ.
        self._entered = 0
        #: How many pods each plugin rejected or gates, by (plugin, profile), until they are popped or deleted.
        self.rejections: Counter[tuple[str, str]] = Counter()

    def find(self, uid: str) -> tuple[QueuePlace, QueuedPodInfo] | None:
        """Return where the pod is, and the pod; None when it is in none of the places."""
        if (info := self.active.get(uid)) is not None:
            return QueuePlace.ACTIVE, info
        if (info := self.unschedulable.get(uid)) is not None:
            return QueuePlace.UNSCHEDULABLE, info
        if (info := self.backoff.get(uid)) is not None:
            return QueuePlace.BACKOFF, info
        return None

    def to_active(self, info: QueuedPodInfo, event: str, *, from_backoff: bool = False) -> QueuePlace:
        """Move the pod to activeQ, or, if PreEnqueue refuses it, to the unschedulable pods; return where it went.

        `from_backoff`: the pod was in backoffQ until now, where it may have passed PreEnqueue already.
        """
        if not (from_backoff and self.backoff.pop_early) and not self._passes(info):
            return self.to_unschedulable(info, event)
        if info.first_attempt_at is None:
            info.first_attempt_at = self._clock.now()
            self._entered += 1
            info.first_attempt_rank = self._entered
        self.unschedulable.remove(info.pod.uid)
        self.active.add(info, event)
        if event in _NEWS:
            self._nominator.add(info.pod_info)
        return self._went(info, QueuePlace.ACTIVE, event)

    def to_backoff(self, info: QueuedPodInfo, event: str) -> QueuePlace:
        """Move the pod to backoffQ, or, if PreEnqueue is due and refuses it, to the unschedulable pods."""
        if self.backoff.pop_early and not self._passes(info):
            return self.to_unschedulable(info, event)
        self.unschedulable.remove(info.pod.uid)
        self.backoff.add(info, event)
        if self.backoff.pop_early:
            self.active.wake()
        return self._went(info, QueuePlace.BACKOFF, event)

    def to_unschedulable(self, info: QueuedPodInfo, event: str) -> QueuePlace:
        """Leave the pod among the unschedulable ones, or put it there."""
        self.unschedulable.put(info, event)
        return self._went(info, QueuePlace.UNSCHEDULABLE, event)

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, event: str) -> QueuePlace:
        """Put the pod where an event that is worth that much to it takes it; return where it went."""
        if strategy is Strategy.SKIP:
            return self.to_unschedulable(info, event)
        # A pod may have completed its backoff while it was unschedulable.
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(info):
            return self.to_backoff(info, event)
        return self.to_active(info, event)

    def update(self, place: QueuePlace, info: QueuedPodInfo, newer: PodInfo) -> None:
        """Replace the pod by a newer version where it is; it is sorted anew, and its nomination follows."""
        old = info.pod
        info.pod_info = newer
        if place is QueuePlace.ACTIVE:
            self.active.put(info)
        elif place is QueuePlace.BACKOFF:
            self.backoff.resort((info,))
        self._nominator.update(old, newer)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take the pod out, for good; return None when it is in none of the places."""
        info = self.active.remove(uid) or self.backoff.remove(uid) or self.unschedulable.remove(uid)
        if info is not None:
            self.uncount_rejections(info)
        return info

    def count_rejections(self, info: QueuedPodInfo) -> None:
        """Count the plugins that rejected a pod which comes back."""
        for plugin in info.rejectors:
            self.rejections[plugin, info.pod.scheduler_name] += 1

    def uncount_rejections(self, info: QueuedPodInfo) -> None:
        """Undo `count_rejections`, for a pod that leaves."""
        for plugin in info.rejectors:
            key = plugin, info.pod.scheduler_name
            self.rejections[key] -= 1
            if not self.rejections[key]:
                del self.rejections[key]

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield every pod; do not move any meanwhile."""
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable

    def check_invariants(self) -> None:
        """Raise AssertionError where a place is broken, a pod is in two of them, or rejections are miscounted."""
        self.active.check_invariants()
        self.backoff.check_invariants()
        self.unschedulable.check_invariants()
        uids = [info.pod.uid for info in self]
        assert len(uids) == len(set(uids)), "a pod is in two places"
        # Without popping from backoffQ a gated pod may sit there: PreEnqueue runs when it leaves.
        for info in (*self.active, *self.backoff) if self.backoff.pop_early else self.active:
            assert not info.is_gated, f"pod {info.pod.key} is gated by {info.gating_plugin} and yet in line"
        rejections: Counter[tuple[str, str]] = Counter()
        for info in self:
            rejections.update((plugin, info.pod.scheduler_name) for plugin in info.rejectors)
        assert rejections == self.rejections, f"rejections are miscounted: {self.rejections} != {rejections}"

    def _passes(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue; note the plugin that refuses the pod, and the events it registered."""
        pod = info.pod
        run = self._pre_enqueue.get(pod.scheduler_name)
        status = run(pod) if run is not None else None
        if status is None or status.is_success:
            info.gating_plugin = ""
            return True
        plugin = status.plugin
        assert plugin, "a refusal names its plugin"
        if status.is_error:
            _log.error("Unexpected error running PreEnqueue plugin=%s pod=%s err=%s", plugin, pod.key, status.message)
        if plugin not in info.unschedulable_plugins and plugin not in info.pending_plugins:
            self.rejections[plugin, pod.scheduler_name] += 1
        # A new set: the old one may be that of the diagnosis, which others read.
        info.unschedulable_plugins = info.unschedulable_plugins | {plugin}
        info.gating_plugin = plugin
        info.gating_plugin_events = tuple(self._gating_events.get(pod.scheduler_name, {}).get(plugin, ()))
        return False

    def _went(self, info: QueuedPodInfo, place: QueuePlace, event: str) -> QueuePlace:
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("Pod moved to an internal scheduling queue pod=%s event=%s queue=%s", info.pod.key, event, place)
        return place
