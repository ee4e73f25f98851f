"""Pods that were rejected, or are gated, and wait for an event that concerns them.

Ten thousand of them may wait for the same thing, and most events concern none. So pods are filed by what decides
whether an event can concern them: profile, rejecting plugins, and the plugin that gates them. An event then costs one
look per distinct combination, of which there are a handful, and only pods of those that it concerns are looked at.
Pods that gave up their places together are kept apart in there: what one of them gives back is no news to the others,
and of a gang of thousands nobody needs to be asked.

For pods that nobody wakes there is a clock: who has been here for more than the maximum is tried again anyway, at the
next of the ticks that are thirty seconds apart. Differs from kube-scheduler: pods behind a gate that time does not open
are left out; there they are marked as brought back by time, count in scheduler_pod_scheduled_after_flush_total whatever
opens the gate, and make pods in flight believe that something happened.
Source: kube-scheduler 1.36, `unschedulable_pods.go`, `flushUnschedulablePodsLeftover`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.queue.hints import UNSCHEDULABLE_TIMEOUT
from pyscheduler.queue.tick_timer import TickTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["RejectionGroup", "UnschedulablePods"]

#: Says of pods whether an event is no news to them; those that are equal say the same.
Quiet: TypeAlias = "Callable[[Pod], bool]"

#: Time between two looks at who has been here for too long, in seconds.
FLUSH_SECONDS: Final = 30.0


@attrs.define(kw_only=True, eq=False)
class RejectionGroup:
    """Pods that the same events can concern."""

    scheduler_name: str
    rejectors: frozenset[str]
    gating_plugin: str
    gating_events: tuple[ClusterEvent, ...]
    #: By what makes events quiet for them since their last attempt, see `AfterFailure`.
    parts: dict[Quiet | None, dict[str, QueuedPodInfo]] = attrs.Factory(dict)

    def lets_through(self, event: ClusterEvent) -> bool:
        """Tell whether the event can get past the gate, where there is one: its plugin registered the event."""
        return not self.gating_plugin or any(registered.matches(event) for registered in self.gating_events)

    @property
    def count(self) -> int:
        """Return how many pods there are."""
        return sum(len(part) for part in self.parts.values())

    def pods(self, quiet_for: Quiet | None = None) -> Iterator[QueuedPodInfo]:
        """Yield the pods, but for parts that `quiet_for` keeps quiet: it is asked about one pod of each such part."""
        for quiet, part in self.parts.items():
            if quiet is None or quiet != quiet_for or not _holds_for(quiet, next(iter(part.values())).pod):
                yield from part.values()


@attrs.define(eq=False)
class _Entry:
    info: QueuedPodInfo
    group: RejectionGroup
    #: Which part of the group it is in.
    quiet: Quiet | None
    #: Position among all arrivals.
    arrival: int


_GroupKey = tuple[str, frozenset[str], str]


class UnschedulablePods:
    """Waiting pods by uid, and by group. Who changes a pod's plugins or gate while it is here calls `put` again."""

    def __init__(self, *, clock: Clock, recorder: Recorder, max_seconds: float) -> None:
        self._recorder = recorder
        self._max_seconds = max_seconds
        self._entries: dict[str, _Entry] = {}
        self._groups: dict[_GroupKey, RejectionGroup] = {}
        self._arrivals = 0
        self._clock = clock
        self._timer = TickTimer(clock, FLUSH_SECONDS)

    def start(self, flush: Callable[[float], object]) -> None:
        """Call `flush` with the time at each tick at which some pod has been here for too long."""
        self._timer.start(flush, origin=self._clock.now())
        self.arm()

    def stop(self) -> None:
        """Call nobody any more."""
        self._timer.stop()

    def arm(self) -> None:
        """Set the timer for the next pod that will have been here for too long."""
        oldest = min(
            (info.enqueued_at for group in self._groups.values() if _is_moved_by_time(group) for info in group.pods()),
            default=None,
        )
        if oldest is not None:
            self._timer.arm(oldest + self._max_seconds)

    def put(self, info: QueuedPodInfo, event: str) -> None:
        """Add the pod, or file it anew when it is here already; `event` says why it came, in metrics."""
        uid = info.pod.uid
        group = self._group_of(info)
        quiet = _quiet_of(info)
        entry = self._entries.get(uid)
        if entry is None:
            self._arrivals += 1
            self._entries[uid] = _Entry(info, group, quiet, self._arrivals)
            self._recorder.incoming_pod(queue="unschedulable", event=event)
        elif entry.group is not group or entry.quiet != quiet:
            self._unfile(entry)
            group = self._group_of(info)  # it may have gone with its last pod
            entry.group, entry.quiet = group, quiet
        group.parts.setdefault(quiet, {})[uid] = info
        if _is_moved_by_time(group):
            self._timer.arm(info.enqueued_at + self._max_seconds)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take the pod out; return None when it is not here."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        self._unfile(entry)
        return entry.info

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return the pod, or None when it is not here."""
        entry = self._entries.get(uid)
        return None if entry is None else entry.info

    def select(self, concerns: Callable[[RejectionGroup], bool], quiet_for: Quiet | None = None) -> list[QueuedPodInfo]:
        """Return the pods of the groups that `concerns` picks, in the order in which they came here.

        Left out are pods that gave up their places together under `quiet_for`, while it holds for them; it may hold for
        others, too.
        """
        if not self._entries:
            return []
        picked = [group for group in self._groups.values() if concerns(group)]
        found = [self._entries[info.pod.uid] for group in picked for info in group.pods(quiet_for)]
        found.sort(key=lambda entry: entry.arrival)
        return [entry.info for entry in found]

    def overdue(self, now: float) -> list[QueuedPodInfo]:
        """Return the pods that have been here for more than the maximum, but for those whose gate stays shut."""
        return [info for info in self.select(_is_moved_by_time) if now - info.enqueued_at > self._max_seconds]

    @property
    def gated_count(self) -> int:
        """Return how many of the pods are held by a PreEnqueue plugin."""
        return sum(group.count for group in self._groups.values() if group.gating_plugin)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield all pods in the order in which they came; do not add or remove any meanwhile."""
        for entry in self._entries.values():
            yield entry.info

    def check_invariants(self) -> None:
        """Raise AssertionError where a pod is filed wrongly."""
        assert sum(group.count for group in self._groups.values()) == len(self._entries), "groups hold other pods"
        for key, group in self._groups.items():
            assert group.parts, f"group {key} is empty"
            assert all(group.parts.values()), f"a part of group {key} is empty"
        for uid, entry in self._entries.items():
            info = entry.info
            assert info.pod.uid == uid, f"pod {info.pod.key} is filed under uid {uid}"
            assert entry.group.parts[entry.quiet].get(uid) is info, f"pod {info.pod.key} is missing in its group"
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
        part = group.parts[entry.quiet]
        del part[entry.info.pod.uid]
        if not part:
            del group.parts[entry.quiet]
        if not group.parts:
            del self._groups[group.scheduler_name, group.rejectors, group.gating_plugin]


def _quiet_of(info: QueuedPodInfo) -> Quiet | None:
    quiet = info.after_failure.quiet_for if info.after_failure is not None else None
    # What has no hash comes from a plugin that made it so; its pods are asked about one by one.
    return quiet if isinstance(quiet, Hashable) else None


def _holds_for(quiet: Quiet, pod: Pod) -> bool:
    try:
        return bool(quiet(pod))
    except PLUGIN_FAILURES:  # the pods are asked about one by one, and that is reported
        return False


def _is_moved_by_time(group: RejectionGroup) -> bool:
    return group.lets_through(UNSCHEDULABLE_TIMEOUT)


def _key_of(info: QueuedPodInfo) -> _GroupKey:
    return info.pod.scheduler_name, info.rejectors, info.gating_plugin
