"""Carries out the plan for a failed attempt (`failure_rules`): queue, nomination, event, condition, log, metrics."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.group_cycle import PodGroupUnschedulableError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.scheduler.failure_rules import FailurePlan, PodState, plan_failure, state_of

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.watches import Lister
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.pod_status import PodStatusWriter

__all__ = ["CLEAR_NOMINATION", "FailureHandler", "pending_version", "truncated"]

_log = logging.getLogger(__name__)

CLEAR_NOMINATION: Final = NominatingInfo("")

#: The longest `note` that the API server accepts in an event, in bytes.
_NOTE_LIMIT: Final = 1024


@attrs.define(kw_only=True)
class FailureHandler:
    """Deals with failed attempts, so that no pod is lost: each is in the queue afterwards, bound, or deleted."""

    clock: Clock
    recorder: Recorder
    queue: SchedulingQueue
    pods: Lister[Pod]
    statuses: PodStatusWriter

    def handle(self, attempt: Attempt, status: Status, nominating: NominatingInfo | None) -> None:
        """Deal with a failed attempt; with `nominating` None the pod's nomination stays."""
        queued, pod = attempt.queued, attempt.queued.pod
        self.recorder.attempt(
            result="unschedulable" if status.is_rejected else "error",
            profile=attempt.profile.name,
            seconds=self.clock.now() - attempt.started_at,
        )
        plan = plan_failure(queued, status, self.pods.get(pod.name, pod.namespace))
        if plan.state is PodState.PENDING:
            self._requeue(attempt, status, plan, nominating)
        else:
            _log.info("Pod is not requeued pod=%s reason=%s", pod.key, plan.state.value)
            self.queue.done(pod.uid)
        attempt.is_settled = True
        if plan.event_on is None:
            return
        message = status.message
        if attempt.is_deleted:
            _log.info('Pod was deleted while it was bound pod=%s err="%s"', pod.key, message)
        else:
            self._log(plan.event_on, status, message)
        attempt.profile.event_recorder.event(
            plan.event_on, type="Warning", reason="FailedScheduling", action="Scheduling", note=truncated(message)
        )
        if plan.state is PodState.PENDING:
            self.statuses.write(plan.event_on, reason=plan.reason, message=message, nominating=nominating)

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
        self.queue.requeue_failed(queued, attempt.after_failure)
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
        elif isinstance(status.error, PodGroupUnschedulableError):
            _log.info('Unable to schedule pod belonging to a pod group; waiting pod=%s err="%s"', pod.key, message)
        else:
            self.recorder.warning("attempt_error")
            _log.error('Error scheduling pod; retrying pod=%s plugin=%s err="%s"', pod.key, status.plugin, message)


def pending_version(pods: Lister[Pod], pod: Pod) -> Pod | None:
    """Return the newest version of a popped pod; None if it was deleted, recreated or bound by another scheduler."""
    newest = pods.get(pod.name, pod.namespace)
    return newest if state_of(pod, newest) is PodState.PENDING else None


def truncated(message: str) -> str:
    """Return as much of a message as fits into an event, cut between two characters."""
    if len(message) <= _NOTE_LIMIT and message.isascii():
        return message
    data = message.encode()
    if len(data) <= _NOTE_LIMIT:
        return message
    suffix = " ..."
    return data[: _NOTE_LIMIT - len(suffix)].decode(errors="ignore") + suffix
