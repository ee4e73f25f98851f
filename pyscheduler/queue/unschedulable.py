"""Pods that were rejected or are gated (held back by PreEnqueue), and wait for an event that can help them.

An event is checked once for each `RejectionGroup`: the pods with the same profile, rejecting plugins and gating
plugin.

A rejected pod that has waited here for `max_seconds` is flushed, which means that it is retried without an event.

Differs from kube-scheduler: a gated pod is flushed only if the gating plugin registered `*` (all events).
Source: kube-scheduler 1.36, `unschedulable_pods.go`, `flushUnschedulablePodsLeftover`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.queue.hints import UNSCHEDULABLE_TIMEOUT
from pyscheduler.queue.retry_times import RetryTimes
from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.in_flight import Ignores

__all__ = ["RejectionGroup", "UnschedulablePods"]

#: Time between two checks for pods that have been here for too long, in seconds.
FLUSH_SECONDS: Final = 30.0


@attrs.define(kw_only=True, eq=False)
class RejectionGroup:
    """Pods that the same events can help."""

    scheduler_name: str
    rejectors: frozenset[str]
    gating_plugin: str
    gating_events: tuple[ClusterEvent, ...]
    #: The pods by uid, by the predicate that they have in common: `ignored_by` of their last attempt.
    parts: dict[Ignores | None, dict[str, QueuedPodInfo]] = attrs.Factory(dict)

    def lets_through(self, event: ClusterEvent) -> bool:
        """Return True if there is no gate, or the gating plugin registered the event."""
        return not self.gating_plugin or any(registered.matches(event) for registered in self.gating_events)

    @property
    def count(self) -> int:
        """Return how many pods there are."""
        return sum(len(part) for part in self.parts.values())

    def pods(self, ignored_by: Ignores | None = None) -> Iterator[QueuedPodInfo]:
        """Yield the pods without the parts that have this predicate, if it is True for the first pod of the part."""
        for common, part in self.parts.items():
            if common is None or common != ignored_by or not _holds_for(common, next(iter(part.values())).pod):
                yield from part.values()


@attrs.define(eq=False)
class _Entry:
    info: QueuedPodInfo
    group: RejectionGroup
    #: The key of its part of the group.
    common: Ignores | None
    #: Position among all arrivals.
    arrival: int


_GroupKey = tuple[str, frozenset[str], str]


class UnschedulablePods:
    """Waiting pods by uid and by group. Call `put` again after a change of a pod's plugins or gate."""

    def __init__(self, *, clock: Clock, recorder: Recorder, max_seconds: float) -> None:
        self._recorder = recorder
        self._max_seconds = max_seconds
        self._entries: dict[str, _Entry] = {}
        self._groups: dict[_GroupKey, RejectionGroup] = {}
        self._arrivals = 0
        self._clock = clock
        self._timer = TickTimer(clock, FLUSH_SECONDS)
        self._retry_times = RetryTimes(clock)

    def start(
        self, flush: Callable[[float], object], retry: Callable[[list[QueuedPodInfo]], object] = lambda _pods: None
    ) -> None:
        """Call `flush` with the time at each tick at which some pod has been here for too long.

        Call `retry` with the pods whose `retry_at` has come; they are still here.
        """
        self._timer.start(flush, origin=self._clock.now())
        self.arm()
        self._retry_times.start(retry)

    def stop(self) -> None:
        """Stop the timers."""
        self._timer.stop()
        self._retry_times.stop()

    def arm(self) -> None:
        """Set the timer for the next pod that reaches the maximum."""
        oldest = min(
            (info.enqueued_at for group in self._groups.values() if _is_moved_by_time(group) for info in group.pods()),
            default=None,
        )
        if oldest is not None:
            self._timer.arm(oldest + self._max_seconds)

    def put(self, info: QueuedPodInfo, event: str) -> None:
        """Add the pod, or group it again; `event` is the reason in scheduler_queue_incoming_pods_total."""
        uid = info.pod.uid
        group = self._group_of(info)
        common = _common_of(info)
        entry = self._entries.get(uid)
        if entry is None:
            self._arrivals += 1
            self._entries[uid] = _Entry(info, group, common, self._arrivals)
            self._recorder.count("scheduler_queue_incoming_pods_total", "unschedulable", event)
        elif entry.group is not group or entry.common != common:
            self._unfile(entry)
            group = self._group_of(info)  # it is deleted with its last pod
            entry.group, entry.common = group, common
        group.parts.setdefault(common, {})[uid] = info
        self._retry_times.put(info)
        if _is_moved_by_time(group):
            self._timer.arm(info.enqueued_at + self._max_seconds)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove the pod and return it; None if it is not here."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        self._unfile(entry)
        self._retry_times.remove(uid)
        entry.info.retry_at = None
        return entry.info

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod, or None if it is not here."""
        entry = self._entries.get(uid)
        return None if entry is None else entry.info

    def sleeper(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod if it is here and only events of the plugins that rejected it can move it; else None."""
        info = self.get(uid)
        return None if info is None or info.is_gated or info.retry_at is not None else info

    def select(
        self, concerns: Callable[[RejectionGroup], bool], ignored_by: Ignores | None = None
    ) -> list[QueuedPodInfo]:
        """Return the pods of the groups for which `concerns` is true, in the order in which they came here.

        Pods whose own predicate equals `ignored_by` and is true are left out. It may be true for other pods, too.
        """
        if not self._entries:
            return []
        picked = [group for group in self._groups.values() if concerns(group)]
        found = [self._entries[info.pod.uid] for group in picked for info in group.pods(ignored_by)]
        found.sort(key=lambda entry: entry.arrival)
        return [entry.info for entry in found]

    def overdue(self, now: float) -> list[QueuedPodInfo]:
        """Return the pods that have been here for longer than the maximum, without those whose gate stays shut."""
        return [info for info in self.select(_is_moved_by_time) if now - info.enqueued_at > self._max_seconds]

    @property
    def gated_count(self) -> int:
        """Return how many pods a PreEnqueue plugin rejects."""
        return sum(group.count for group in self._groups.values() if group.gating_plugin)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield all pods in the order in which they came. The caller must not add or remove pods meanwhile."""
        for entry in self._entries.values():
            yield entry.info

    def check_invariants(self) -> None:
        """Raise AssertionError if a pod is in the wrong group."""
        assert sum(group.count for group in self._groups.values()) == len(self._entries), "groups hold other pods"
        for key, group in self._groups.items():
            assert group.parts, f"group {key} is empty"
            assert all(group.parts.values()), f"a part of group {key} is empty"
        self._retry_times.check_invariants()
        timed = [uid for uid, entry in self._entries.items() if entry.info.retry_at is not None]
        assert len(timed) == len(self._retry_times), "pods without a moment of retry have a timer"
        for uid, entry in self._entries.items():
            info = entry.info
            assert info.retry_at is None or uid in self._retry_times, f"no timer retries pod {info.pod.key}"
            assert info.pod.uid == uid, f"pod {info.pod.key} is filed under uid {uid}"
            assert entry.group.parts[entry.common].get(uid) is info, f"pod {info.pod.key} is missing in its group"
            assert self._groups.get(_key_of(info)) is entry.group, f"pod {info.pod.key} is in the wrong group"

    def _group_of(self, info: QueuedPodInfo) -> RejectionGroup:
        key = _key_of(info)
        group = self._groups.get(key)
        if group is None:
            scheduler_name, rejectors, gating_plugin = key
            group = self._groups[key] = RejectionGroup(
                scheduler_name=scheduler_name,
                rejectors=rejectors,
                gating_plugin=gating_plugin,
                gating_events=info.gating_plugin_events if gating_plugin else (),
            )
        return group

    def _unfile(self, entry: _Entry) -> None:
        group = entry.group
        part = group.parts[entry.common]
        del part[entry.info.pod.uid]
        if not part:
            del group.parts[entry.common]
        if not group.parts:
            del self._groups[group.scheduler_name, group.rejectors, group.gating_plugin]


def _common_of(info: QueuedPodInfo) -> Ignores | None:
    common = info.after_failure.ignored_by if info.after_failure is not None else None
    # A predicate without a hash cannot be a key; its pods are checked one by one.
    return common if isinstance(common, Hashable) else None


def _holds_for(common: Ignores, pod: Pod) -> bool:
    try:
        return bool(common(pod))
    except PLUGIN_FAILURES:  # the pods are checked one by one, and that is reported
        return False


def _is_moved_by_time(group: RejectionGroup) -> bool:
    return group.lets_through(UNSCHEDULABLE_TIMEOUT)


def _key_of(info: QueuedPodInfo) -> _GroupKey:
    return info.pod.scheduler_name, info.rejectors, info.gating_plugin
