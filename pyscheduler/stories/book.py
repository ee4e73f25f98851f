"""`StoryBook`: for each pod, the reasons for which it waited, and how often each reason was found."""

from __future__ import annotations

import asyncio
import logging
import sys
from bisect import bisect_left
from collections import deque
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kube_objects.times import seconds_of
from pyscheduler.framework.events import UNSCHEDULED_POD_ADD
from pyscheduler.framework.stories import Stories
from pyscheduler.stories.lines import LOGGER, log_change, log_count
from pyscheduler.stories.record import (
    DELETED,
    QUEUED,
    SCHEDULED,
    Run,
    Story,
    add_run,
    decode,
    encode,
    joined,
    key_prefix,
    short,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import QueuedPodInfo

__all__ = ["GATED", "StoryBook"]

#: Each change is a line of this logger, whatever the verbosity of other loggers.
_log = logging.getLogger(LOGGER)

#: The reason of a pod that a PreEnqueue plugin holds back.
GATED: Final = "SchedulingGated"
_GATED_QUEUE: Final = "gated"
_UNSCHEDULABLE: Final = "unschedulable"
#: Moves that no event of the cluster causes.
_OWN_MOVES: Final = frozenset(
    {"ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ", "PutBack", UNSCHEDULED_POD_ADD.label}
)
#: The most finished records, and their bytes with what the ring itself costs.
_MOST_FINISHED: Final = 50_000
_MOST_BYTES: Final = 20 << 20
_RECORD_BYTES: Final = sys.getsizeof(b"") + 8
#: The most keys of other pods in a run.
_MOST_OTHERS: Final = 16
_FIRST_SEEN: Final = attrgetter("first_seen")
_UID: Final = attrgetter("uid")
#: So many known reasons are logged at once when a replica begins to lead, and the next ones after so many seconds.
_LOGGED_AT_ONCE: Final = 200
_LOG_PAUSE_SECONDS: Final = 0.02
#: A count is logged with the first attempt of each such period, too.
_COUNT_SECONDS: Final = 600
#: So many pending stories stand for all when memory is estimated.
_SAMPLE: Final = 200


class StoryBook(Stories):
    """Keeps stories. `listeners` are called with each change: the story, and its new run."""

    def __init__(self, clock: Clock, *, most_finished: int = _MOST_FINISHED) -> None:
        super().__init__()
        self._clock = clock
        self._wall = clock.wall
        self._most_finished = most_finished
        self._pending: dict[str, Story] = {}
        self._finished: deque[bytes] = deque()
        self._finished_bytes = 0
        self._leads = False
        self.listeners: list[Callable[[Story, Run], object]] = []

    # What happens

    def begin(self) -> None:
        """Log changes and keep finished stories from now on; also log the reasons that are known already."""
        self._leads = True
        if _log.isEnabledFor(logging.INFO):
            self._log_known([(uid, story.runs[-1]) for uid, story in self._pending.items() if story.runs])

    def _log_known(self, known: list[tuple[str, Run]]) -> None:
        """Log the reasons that still hold, some at a time: there may be ten thousand, and each costs about 40 µs."""
        for uid, run in known[:_LOGGED_AT_ONCE]:
            story = self._pending.get(uid)
            # A change since then was logged with the reason before. A pod whose gate was removed has no change yet.
            if story is not None and story.runs[-1] is run and (run.reason != GATED or story.queue == _GATED_QUEUE):
                log_change(story, run, None)
        if len(known) > _LOGGED_AT_ONCE:
            self._clock.call_later(_LOG_PAUSE_SECONDS, partial(self._log_known, known[_LOGGED_AT_ONCE:]))

    async def close(self) -> None:
        """Log the final count of each reason that still holds; some at a time, see `_log_known`."""
        if not self._leads or not _log.isEnabledFor(logging.INFO):
            return
        for number, story in enumerate([*self._pending.values()], 1):
            if story.runs and story.is_pending:
                log_count(story, story.runs[-1], closed=True)
            if number % _LOGGED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def moved(self, info: QueuedPodInfo, place: str, event: str) -> None:
        """Begin a story, or note the pod's sub-queue, its gate, and the event that woke it."""
        pod = info.pod
        story = self._pending.get(pod.uid)
        if story is None:
            story = self._begin(pod)
        story.queue = place
        if place == _UNSCHEDULABLE:
            if info.gating_plugin:
                story.queue = _GATED_QUEUE
                self._note(story, GATED, info.gating_reason, (info.gating_plugin,), "", ())
        elif story.runs and event not in _OWN_MOVES:
            run = story.runs[-1]
            woken = run.woken
            if woken is None:
                woken = run.woken = {}
            woken[event] = woken.get(event, 0) + 1

    def waits(
        self,
        pod: Pod,
        reason: str,
        message: str = "",
        *,
        plugins: tuple[str, ...] = (),
        node: str = "",
        others: Collection[str] = (),
    ) -> None:
        """Count a repeated reason; note another one."""
        story = self._pending.get(pod.uid)
        if story is None:
            story = self._begin(pod)
        self._note(story, reason, message, plugins, node, others)

    def bound(self, pod: Pod, node: str, message: str = "") -> None:
        """End the pod's story with its node; a pod that has no story any more was seen on its node before."""
        self._end(pod, SCHEDULED, message, node)

    def deleted(self, pod: Pod) -> None:
        """End the pod's story."""
        self._end(pod, DELETED, "", "")

    def ended(self, pod: Pod, reason: str, message: str = "", *, node: str = "", others: Collection[str] = ()) -> None:
        """Note what happened to a pod after its binding, in a record of its own."""
        if not self._leads:
            return
        now = self._wall()
        story = Story(pod.key, pod.uid, pod.scheduler_name, now)
        run = Run(reason, short(message), now, now, 1, (), node, None, _few(others))
        self._changed(story, run)
        self._keep(story)

    def _begin(self, pod: Pod) -> Story:
        created = seconds_of(pod.metadata.creation_timestamp)
        story = Story(pod.key, pod.uid, pod.scheduler_name, self._wall(), created, "", [])
        self._pending[pod.uid] = story
        return story

    def _note(
        self, story: Story, reason: str, message: str, plugins: tuple[str, ...], node: str, others: Collection[str]
    ) -> None:
        now = self._wall()
        run = Run(reason, short(message), now, now, 1, plugins, node, None, _few(others))
        last = story.runs[-1] if story.runs else None
        if last is None or not last.is_like(run):
            self._changed(story, run)
            return
        last.count += 1
        is_due = not last.count & (last.count - 1) or now // _COUNT_SECONDS > last.last // _COUNT_SECONDS
        last.last, last.message = now, run.message
        last.others = run.others or last.others
        if is_due and self._leads and _log.isEnabledFor(logging.INFO):
            log_count(story, last, closed=False)

    def _end(self, pod: Pod, reason: str, message: str, node: str) -> None:
        story = self._pending.pop(pod.uid, None)
        if story is None or not self._leads:
            return
        now = self._wall()
        self._changed(story, Run(reason, message, now, now, 1, (), node))
        self._keep(story)

    def _changed(self, story: Story, run: Run) -> None:
        before = story.runs[-1] if story.runs else None
        add_run(story, run)
        if not self._leads:
            return
        if _log.isEnabledFor(logging.INFO):
            log_change(story, run, before)
        for listener in self.listeners:
            listener(story, run)

    def _keep(self, story: Story) -> None:
        record = encode(story)
        ring = self._finished
        ring.append(record)
        self._finished_bytes += len(record) + _RECORD_BYTES
        while len(ring) > self._most_finished or self._finished_bytes > _MOST_BYTES:
            self._finished_bytes -= len(ring.popleft()) + _RECORD_BYTES

    # Questions

    def of(self, pod: str) -> list[Story]:
        """Return the stories of the pods of this key (`namespace/name`), the newest pod first."""
        prefix = key_prefix(pod)
        found = [decode(record) for record in self._finished if record.startswith(prefix)]
        # An encoded key may begin like this one only if it is this one: its length comes first.
        found += [story for story in self._pending.values() if story.pod == pod]
        return joined(found)

    @property
    def pending(self) -> Mapping[str, Story]:
        """The stories of pods that wait, by uid; in the order in which they came."""
        return self._pending

    def pending_after(self, first_seen: float, uid: str, limit: int) -> list[Story]:
        """Return at most so many pending stories that began later, or at that time with a greater uid; in order."""
        # The book is almost in this order: only a step of the clock changes it. So sorting is one pass.
        stories = sorted(self._pending.values(), key=_FIRST_SEEN)
        start = bisect_left(stories, first_seen, key=_FIRST_SEEN)
        found: list[Story] = []
        for at, same_time in groupby(islice(stories, start, None), _FIRST_SEEN):
            if len(found) >= limit:
                break
            found += sorted((each for each in same_time if at > first_seen or each.uid > uid), key=_UID)
        return found[:limit]

    def oldest(self) -> dict[tuple[str, str, str], float]:
        """Return by profile, sub-queue and reason how long the oldest pod waits, in seconds since its creation.

        Empty before this replica leads: it does not know the reasons.
        """
        if not self._leads:
            return {}
        since: dict[tuple[str, str, str], float] = {}
        for story in self._pending.values():
            runs = story.runs
            key = (story.profile, story.queue, runs[-1].reason if runs else QUEUED)
            at = story.created or story.first_seen
            if at < since.get(key, at + 1):
                since[key] = at
        now = self._wall()
        return {key: max(now - at, 0.0) for key, at in since.items()}

    def bytes(self) -> int:
        """Return the memory of all stories: that of the finished ones is known, that of the pending ones estimated."""
        sample = [*islice(self._pending.values(), _SAMPLE)]
        if not sample:
            return self._finished_bytes
        return self._finished_bytes + sum(map(_size, sample)) * len(self._pending) // len(sample)


def _few(keys: Collection[str]) -> tuple[str, ...]:
    if not keys:
        return ()
    found = tuple(keys)
    if len(found) <= _MOST_OTHERS:
        return found
    return (*found[:_MOST_OTHERS], f"... {len(found) - _MOST_OTHERS} more")


def _size(story: Story) -> int:
    """Return the bytes of a pending story, strings that pods share not counted."""
    size = sys.getsizeof
    total = size(story) + size(story.pod) + size(story.runs) + 2 * size(0.0) + 100  # its place in the dictionary
    for run in story.runs:
        total += size(run) + size(run.message) + size(run.plugins) + 2 * size(0.0)
        total += size(run.woken) if run.woken else 0
        total += sum(map(size, run.others))
    return total
