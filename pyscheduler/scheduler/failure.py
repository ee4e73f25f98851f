"""After a failed scheduling attempt, decide what happens to the pod, and carry out the decision.

Differs from kube-scheduler: a pod that is already bound or deleted does not get `PodScheduled=False`.
Source: kube-scheduler 1.36, `handleSchedulingFailure`.
"""

from __future__ import annotations

import logging
import re
from enum import Enum
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.diagnosis import Diagnosis, FitError, NoNodesError
from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.framework.group_cycle import PodGroupUnschedulableError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.plugin_failures import Repeats
from pyscheduler.framework.pod_info import PodInfo
from pyscheduler.framework.preemption import preemption_findings
from pyscheduler.framework.stories import NullStories

if TYPE_CHECKING:
    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.stories import Stories
    from pyscheduler.framework.watches import Lister
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.pod_status import PodStatusWriter

__all__ = [
    "CLEAR_NOMINATION",
    "FailureHandler",
    "FailurePlan",
    "PodState",
    "pending_version",
    "plan_failure",
    "truncated",
]

_log = logging.getLogger(__name__)

#: Of an attempt that ended otherwise than by a search for a node.
_NO_DIAGNOSIS: Final = Diagnosis()

CLEAR_NOMINATION: Final = NominatingInfo("")

#: The longest `note` that the API server accepts in an event, in bytes.
_NOTE_LIMIT: Final = 1024


class PodState(Enum):
    """The state of a pod whose attempt failed, as the API server reports it."""

    PENDING = "pending"
    #: Another pod has its name.
    RECREATED = "recreated"
    #: The binding succeeded although its answer was lost, or another scheduler bound the pod.
    BOUND = "bound"
    DELETED = "deleted"


@attrs.frozen(kw_only=True)
class FailurePlan:
    """The plan after a failed attempt: only a pending pod returns to the queue and gets a condition."""

    state: PodState
    #: The plugins whose hints decide about the next attempt; none after an error.
    unschedulable_plugins: set[str]
    pending_plugins: set[str]
    #: The pod as it returns to the queue.
    info: PodInfo
    #: Why the newest version cannot be used; `info` is the last version that could be read then.
    unreadable: PySchedulerError | None = None
    #: The object that the event is about; None: no event.
    event_on: Pod | None
    #: The reason of the condition `PodScheduled=False`.
    reason: str


def plan_failure(queued: QueuedPodInfo, status: Status, newest: Pod | None) -> FailurePlan:
    """Return the plan; `newest` is what the API server has under the pod's name, None if there is no such pod."""
    unschedulable, pending = _rejectors(status)
    state = _state_of(queued.pod, newest)
    info, unreadable, event_on = queued.pod_info, None, queued.pod
    if state is PodState.PENDING:
        assert newest is not None, "a pending pod exists"
        info, unreadable = _refreshed(info, newest)
        event_on = newest
    return FailurePlan(
        state=state,
        unschedulable_plugins=unschedulable,
        pending_plugins=pending,
        info=info,
        unreadable=unreadable,
        event_on=None if state is PodState.RECREATED else event_on,
        reason="Unschedulable" if status.is_rejected else "SchedulerError",
    )


def _state_of(pod: Pod, newest: Pod | None) -> PodState:
    """Return the state of a popped pod; `newest` is what the API server has under its name."""
    if newest is None:
        return PodState.DELETED
    if newest.node_name:
        return PodState.BOUND
    return PodState.PENDING if newest.uid == pod.uid else PodState.RECREATED


def _rejectors(status: Status) -> tuple[set[str], set[str]]:
    """Return the plugins that rejected the pod, and those that wait for an event of their own."""
    error = status.error
    if isinstance(error, FitError):
        return error.diagnosis.unschedulable_plugins, error.diagnosis.pending_plugins
    if isinstance(error, PodGroupUnschedulableError):
        return set(error.rejectors), set()
    return set(), set()


def _refreshed(info: PodInfo, newest: Pod) -> tuple[PodInfo, PySchedulerError | None]:
    """Return the facts about the newest version of the pod; the old facts and the error if it cannot be read."""
    if newest.resource_version == info.pod.resource_version:
        return (info if info.pod is newest else info.with_pod(newest)), None
    try:
        return PodInfo.of(newest), None
    except PySchedulerError as error:
        return info, error


@attrs.define(kw_only=True)
class FailureHandler:
    """Deals with failed attempts, so that no pod is lost: each is in the queue afterwards, bound, or deleted."""

    clock: Clock
    recorder: Recorder
    queue: SchedulingQueue
    pods: Lister[Pod]
    statuses: PodStatusWriter
    stories: Stories = attrs.Factory(NullStories)
    #: Errors of plugins, by plugin and text.
    _repeats: Repeats = attrs.field(factory=Repeats, init=False)

    def handle(self, attempt: Attempt, status: Status, nominating: NominatingInfo | None) -> None:
        """Deal with a failed attempt; with `nominating` None the pod's nomination stays."""
        queued, pod = attempt.queued, attempt.queued.pod
        attempt.record(self.recorder, "unschedulable" if status.is_rejected else "error", self.clock.now())
        plan = plan_failure(queued, status, self.pods.get(pod.name, pod.namespace))
        if plan.state is PodState.PENDING:
            self._requeue(attempt, status, plan, nominating)
        else:
            _log.info("Pod is not requeued pod=%s reason=%s", pod.key, plan.state.value)
            self.queue.done(pod.uid)
        attempt.is_settled = True
        if plan.event_on is None or (attempt.after_failure.is_unfinished and queued.consecutive_errors):
            return
        message = _encodable(status.message)
        if attempt.is_deleted:
            _log.info('Pod was deleted while it was bound pod=%s err="%s"', pod.key, message)
        else:
            self._log(plan.event_on, status, message)
        attempt.profile.event_recorder.event(
            plan.event_on, type="Warning", reason="FailedScheduling", action="Scheduling", note=truncated(message)
        )
        if plan.state is PodState.PENDING:
            self.statuses.write(plan.event_on, reason=plan.reason, message=message, nominating=nominating)
            self._tell(attempt, plan, status, message)

    def _tell(self, attempt: Attempt, plan: FailurePlan, status: Status, message: str) -> None:
        """Add the failure to the pod's story, with the pods that were chosen as victims.

        The stories of the victims get their records when the evictions succeed (`runtime/preemption/eviction.py`).
        """
        pod = attempt.queued.pod
        plugins = plan.unschedulable_plugins | plan.pending_plugins or ({status.plugin} if status.plugin else set())
        findings = preemption_findings(attempt.state)
        chosen = findings.chosen if findings is not None else None
        self.stories.waits(
            pod,
            plan.reason,
            message,
            plugins=tuple(sorted(plugins)),
            node=self.queue.nominator.node_of(pod.uid),
            others=[info.pod.key for info in chosen.victims] if chosen is not None else (),
        )

    def _requeue(self, attempt: Attempt, status: Status, plan: FailurePlan, nominating: NominatingInfo | None) -> None:
        """Return the pod to the queue and keep, set or clear its nomination."""
        queued, pod = attempt.queued, attempt.queued.pod
        queued.unschedulable_plugins, queued.pending_plugins = plan.unschedulable_plugins, plan.pending_plugins
        queued.pod_info = plan.info
        if plan.unreadable is not None:
            # The event handlers have reported it.
            _log.warning("Pod cannot be read any more pod=%s err=%s", pod.key, plan.unreadable)
        if not status.is_rejected:
            queued.woken_by = ""  # an error counts, also in an early attempt
        diagnosis = status.error.diagnosis if isinstance(status.error, FitError) else _NO_DIAGNOSIS
        self.queue.requeue_failed(
            queued,
            attempt.after_failure,
            retry_after_seconds=diagnosis.retry_after_seconds,
            retry_plugin=diagnosis.retry_plugin,
        )
        # The next cycle must know the nomination before the API server sends it back. Without a new nomination, the one
        # that is not written yet stays.
        if nominating is not None and nominating.override:
            self.queue.nominator.add(queued.pod_info, nominating)
        else:
            self.queue.nominator.update(pod, queued.pod_info)

    def _log(self, pod: Pod, status: Status, message: str) -> None:
        if isinstance(status.error, NoNodesError):
            _log.info("Unable to schedule pod; no nodes are registered to the cluster; waiting pod=%s", pod.key)
        elif isinstance(status.error, FitError):
            _log.info('Unable to schedule pod; no fit; waiting pod=%s err="%s"', pod.key, message)
        elif isinstance(status.error, PodGroupUnschedulableError) or (status.is_rejected and status.error is None):
            _log.info('Unable to schedule pod belonging to a pod group; waiting pod=%s err="%s"', pod.key, message)
        else:
            self.recorder.warning("attempt_error")
            # A broken plugin fails in each attempt, with a text that is the same except for the name of the pod.
            kind = status.plugin, re.sub(rf"\b{re.escape(pod.name)}\b", "", message)
            count = self._repeats.count(kind) if status.plugin else 1
            times = "; retrying" if count == 1 else f" again; retrying times={count}"
            values = pod.key, status.plugin, message
            _log.log(Repeats.level(count), f'Error scheduling pod{times} pod=%s plugin=%s err="%s"', *values)


def pending_version(pods: Lister[Pod], pod: Pod) -> Pod | None:
    """Return the newest version of a popped pod; None if it was deleted, recreated or bound by another scheduler."""
    newest = pods.get(pod.name, pod.namespace)
    return newest if _state_of(pod, newest) is PodState.PENDING else None


def _encodable(message: str) -> str:
    """Return the message with `?` for each half of a surrogate pair, which a plugin's text may have."""
    return message if message.isascii() else message.encode(errors="replace").decode()


def truncated(message: str, limit: int = _NOTE_LIMIT) -> str:
    """Return as much of a message as fits into an event, or into so many bytes, cut between two characters."""
    if len(message) <= limit and message.isascii():
        return message
    data = message.encode()
    if len(data) <= limit:
        return message
    suffix = " ..."
    return data[: limit - len(suffix)].decode(errors="ignore") + suffix
