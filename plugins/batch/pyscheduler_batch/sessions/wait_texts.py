"""Write why pods of a batch profile wait: as a condition and as an event."""

from __future__ import annotations

import math
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.scheduler.failure import pending_version, truncated
from pyscheduler_batch.model.tasks import TaskState
from pyscheduler_batch.sessions.filter_lines import NO_LINE
from pyscheduler_batch.sessions.recovery import TURN_EVERY
from pyscheduler_batch.sessions.tables import NO_GROUP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from kube_objects.clock import Timer
    from pyscheduler.api import Pod
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.pod_status import PodStatusWriter
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle
    from pyscheduler_batch.model.batch_plugin import BatchPlugin
    from pyscheduler_batch.model.tasks import Job
    from pyscheduler_batch.sessions.filter_lines import FilterLine, FilterLines

__all__ = ["LONGEST_TEXT", "NOT_READY", "WaitTexts", "waiting_text"]

#: The reason of jobs that lack pods, or to which a pass did not come.
NOT_READY: Final = "NotReady"

_WAITING: Final = frozenset({TaskState.PENDING, TaskState.PIPELINED, TaskState.ALLOCATED})
#: Reasons that are often over when they could be written.
_SOON_OVER: Final = frozenset({NO_GROUP, NOT_READY})
#: The longest text of a job that waits, in bytes, as for messages of conditions elsewhere in Kubernetes.
LONGEST_TEXT: Final = 32_768
#: A text with the same first reason is written so long after the pass, in seconds.
LATE_SECONDS: Final = 1.0
#: So many such texts are written at once, and so long after the ones before.
LATE_AT_ONCE: Final = 20
LATE_PERIOD_SECONDS: Final = 0.1
#: An event with the same first reason is recorded again after so long.
EVENT_SECONDS: Final = 10.0
_FEW: Final = 1000


@attrs.frozen(eq=False)
class _Late:
    """A text that is not written yet; `since` is when it was due first, in clock seconds."""

    pod: Pod
    text: str
    is_marked: bool
    since: float


@attrs.frozen(eq=False)
class _Told:
    """The last report about a job, and the pods concerned (their uids). `job`: None if its group has no object."""

    job: Job | None
    changes: int
    text: str
    pods: Sequence[str]
    line: FilterLine = NO_LINE

    def holds(self, job: Job, text: str) -> bool:
        """Return whether the same is to be said of the same pods."""
        return self.job is job and self.changes == job.changes and self.line.is_current and self.text == text


@attrs.define(kw_only=True, eq=False)
class WaitTexts:
    """Writes the texts of one profile."""

    profile: Profile
    plugin: BatchPlugin
    scheduling: SchedulingCycle
    statuses: PodStatusWriter
    #: By uid of a job that waits; by key, if its group has no object.
    _told: dict[str, _Told] = attrs.Factory(dict)
    #: By uid of a pod that waits, the text that was written last.
    _written: dict[str, str] = attrs.Factory(dict)
    #: By uid of a pod, when its event was recorded last, in clock seconds.
    _event_at: dict[str, float] = attrs.Factory(dict)
    #: By uid of a pod, and in the order in which they became due. Those that are not late any more stay in the order.
    _late: dict[str, _Late] = attrs.Factory(dict)
    _order: deque[tuple[float, str]] = attrs.Factory(deque)
    _timer: Timer | None = None

    async def report(
        self,
        jobs: Iterable[Job],
        waiting: Mapping[str, str],
        turn: Callable[[], Awaitable[None]],
        unknown: Mapping[str, Iterable[Pod]] | None = None,
        lines: FilterLines | None = None,
    ) -> None:
        """Report why pods wait. `waiting`: by job key. `unknown`: by key, pods of jobs whose group has no object.

        `lines`: None if the filters cannot be asked.
        """
        told: dict[str, _Told] = {}
        if lines is not None:
            lines.refresh(lambda uid: uid in self._written or uid in self._late)
        for at, job in enumerate(jobs):
            if at % TURN_EVERY == 0:
                await turn()
            text = waiting.get(job.key, "")
            if not text:
                continue
            before = self._told.get(job.uid)
            if before is not None and before.holds(job, text):
                told[job.uid] = before
                continue
            # What is allocated at the end of a pass was not sent: its gang is not ready, or its node has no room yet.
            pods = [pod for pod in job.pods(_WAITING) if not pod.node_name]
            line = lines.of(pods[0], text) if lines is not None and pods else NO_LINE
            whole = truncated(f"{text}; {line.text}", LONGEST_TEXT) if line.text else text
            uids = self._tell_all(pods, whole, is_marked=self.plugin.marks_unschedulable(job))
            told[job.uid] = _Told(job, job.changes, text, uids, line)
            await turn()
        for key, unknown_pods in (unknown or {}).items():
            await turn()
            text = f'{NO_GROUP}: pod group "{key.partition("/")[2]}" does not exist; create it'
            told[key] = _Told(None, 0, text, self._tell_all(unknown_pods, text, is_marked=True))
        self._follow(told)

    def _tell_all(self, pods: Iterable[Pod], text: str, *, is_marked: bool) -> Sequence[str]:
        """Report why some pods wait; return the uids of those without a node."""
        waiting = [pod for pod in pods if not pod.node_name]
        for pod in waiting:
            self._tell(pod, text, is_marked=is_marked)
        return tuple(pod.uid for pod in waiting)

    def _follow(self, told: dict[str, _Told]) -> None:
        """Take over what this report said; forget the pods that do not wait any more."""
        before, self._told = self._told, told
        fresh = {uid for key, each in told.items() if each is not before.get(key) for uid in each.pods}
        for key, each in before.items():
            if each is told.get(key):
                continue
            for uid in each.pods:
                if uid not in fresh:
                    self._written.pop(uid, None)
                    self._late.pop(uid, None)
        if len(self._event_at) > 2 * len(self._written) + _FEW:
            self._event_at = {uid: at for uid, at in self._event_at.items() if uid in self._written}

    def forget(self, uid: str) -> None:
        """Write nothing more about a pod that is about to be bound."""
        self._late.pop(uid, None)

    @property
    def idle(self) -> bool:
        """Return True: a text that is late waits for a timer."""
        return True

    async def flush(self) -> None:
        """Write no late texts any more: the scheduler stops."""
        self.cancel()

    def cancel(self) -> None:
        """Drop the texts that are not written yet."""
        self._told.clear()
        self._late.clear()
        self._order.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tell(self, pod: Pod, text: str, *, is_marked: bool) -> None:
        uid = pod.uid
        before, known = self._written.get(uid), self._late.pop(uid, None)
        if before == text:
            return
        reason = _reason(text)
        self.scheduling.stories.waits(pod, reason, text, node=self.scheduling.queue.nominator.node_of(uid))
        if reason not in _SOON_OVER and (before is None or _reason(before) != reason):
            self._write(pod, text, is_marked=is_marked)
            return
        since = self.scheduling.clock.now() if known is None else known.since
        self._late[uid] = _Late(pod, text, is_marked, since)
        if known is None:
            self._order.append((since, uid))
            self._set_timer()

    def _write(self, pod: Pod, text: str, *, is_marked: bool) -> None:
        before, now = self._written.get(pod.uid), self.scheduling.clock.now()
        self._written[pod.uid] = text
        is_new = before is None or _reason(before) != _reason(text)
        if is_new or now - self._event_at.get(pod.uid, -math.inf) >= EVENT_SECONDS:
            self._event_at[pod.uid] = now
            self.profile.event_recorder.event(
                pod, type="Warning", reason=self.plugin.pod_event, action="Scheduling", note=truncated(text)
            )
        if is_marked:
            self.statuses.write(pod, reason="Unschedulable", message=text)

    def _set_timer(self, delay: float = LATE_SECONDS) -> None:
        if self._timer is None:
            self._timer = self.scheduling.clock.call_later(delay, self._write_late)

    def _write_late(self) -> None:
        """Write the texts that are due for longest; set the timer for the rest."""
        self._timer = None
        now, count = self.scheduling.clock.now(), 0
        while self._order and count < LATE_AT_ONCE and self._order[0][0] + LATE_SECONDS <= now:
            since, uid = self._order.popleft()
            each = self._late.get(uid)
            if each is None or each.since != since:
                continue
            count += 1
            del self._late[uid]
            pod = pending_version(self.scheduling.failure.pods, each.pod)
            if pod is not None and not pod.is_terminating:
                self._write(pod, each.text, is_marked=each.is_marked)
        if self._order:
            self._set_timer(max(LATE_PERIOD_SECONDS, self._order[0][0] + LATE_SECONDS - now))


def _reason(text: str) -> str:
    """Return the first reason of a text."""
    return text.partition(":")[0]


def waiting_text(reasons: Mapping[str, str]) -> str:
    """Return why a job waits, in one text: each reason with its message."""
    return _joined(tuple(reasons.items()))


@lru_cache(maxsize=4096)
def _joined(reasons: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{reason}: {message}" if message else reason for reason, message in reasons)
