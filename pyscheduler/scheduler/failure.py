"""What happens to a pod whose attempt failed: back into the queue, and users are told why.

Differs from kube-scheduler: a pod that turns out to be bound, or gone, gets the event but no `PodScheduled=False`,
which would stay on a bound pod for good.
Source: kube-scheduler 1.36, `handleSchedulingFailure`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.errors import PySchedulerError
from pyscheduler.framework.group_cycle import PodGroupUnschedulableError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.pod_info import PodInfo

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.pod_info import QueuedPodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.watches import Lister
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.scheduler.attempt import Attempt
    from pyscheduler.scheduler.pod_status import PodStatusWriter

__all__ = ["CLEAR_NOMINATION", "FailureHandler", "pending_version", "truncated"]

_log = logging.getLogger(__name__)

CLEAR_NOMINATION: Final = NominatingInfo("")

#: The longest `note` that the API server takes in an event, in bytes.
_NOTE_LIMIT: Final = 1024


@attrs.define(kw_only=True)
class FailureHandler:
    """Requeue, nominate, record the event, write the condition. Nothing is lost: the pod is in the queue or gone."""

    clock: Clock
    recorder: Recorder
    queue: SchedulingQueue
    pods: Lister[Pod]
    statuses: PodStatusWriter

    def handle(self, attempt: Attempt, status: Status, nominating: NominatingInfo | None) -> None:
        """Deal with a failed attempt; `nominating` None leaves the pod's nomination as it is."""
        queued = attempt.queued
        rejected = status.is_rejected
        self.recorder.attempt(
            result="unschedulable" if rejected else "error",
            profile=attempt.profile.name,
            seconds=self.clock.now() - attempt.started_at,
        )
        _note_rejectors(queued, status)
        pod = queued.pod
        cached = self.pods.get(pod.name, pod.namespace)
        is_pending = cached is not None and not cached.node_name
        if cached is not None and is_pending:
            if cached.uid != pod.uid:
                _log.info("Pod was recreated while its failure was handled pod=%s", pod.key)
                self.queue.done(pod.uid)
                attempt.is_settled = True
                return
            _refresh(queued, cached)
            if not rejected:
                queued.woken_by = ""  # an error counts, whatever brought the pod
            self.queue.requeue_failed(queued, attempt.after_failure)
            # Before the API server's echo of the nomination arrives, the next cycle must know it already. Where there
            # is no news of it, the one that is still to be written stays.
            if nominating is not None and nominating.override:
                self.queue.nominator.add(queued.pod_info, nominating)
            else:
                self.queue.nominator.update(pod, queued.pod_info)
            pod = cached
        else:
            # Gone, or bound after all (a bind whose answer was lost): nothing to retry.
            _log.info("Pod is not requeued pod=%s reason=%s", pod.key, "bound" if cached else "deleted")
            self.queue.done(pod.uid)
        attempt.is_settled = True
        message = status.message
        if attempt.is_deleted:
            _log.info('Pod was deleted while it was bound pod=%s err="%s"', pod.key, message)
        else:
            self._log(pod, status, message)
        attempt.profile.event_recorder.event(
            pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=truncated(message)
        )
        if is_pending:
            self.statuses.write(
                pod,
                reason="Unschedulable" if rejected else "SchedulerError",
                message=message,
                nominating=nominating,
            )

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


def _note_rejectors(queued: QueuedPodInfo, status: Status) -> None:
    """Tell the queue which plugins to ask about events; what an earlier attempt left is cleared."""
    error = status.error
    if isinstance(error, FitError):
        queued.unschedulable_plugins = error.diagnosis.unschedulable_plugins
        queued.pending_plugins = error.diagnosis.pending_plugins
    elif isinstance(error, PodGroupUnschedulableError):
        queued.unschedulable_plugins = set(error.rejectors)
        queued.pending_plugins = set()
    else:
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()


def _refresh(queued: QueuedPodInfo, newest: Pod) -> None:
    """Put the newest version of the pod into its place in the queue."""
    pod = queued.pod
    if newest.resource_version == pod.resource_version:
        if pod is not newest:
            queued.pod_info = queued.pod_info.with_pod(newest)
        return
    try:
        queued.pod_info = PodInfo.of(newest)
    except PySchedulerError as error:
        # It was readable when it came; the event handlers have complained. It is tried again as it was then.
        _log.warning("Pod cannot be read any more pod=%s err=%s", pod.key, error)


def pending_version(pods: Lister[Pod], pod: Pod) -> Pod | None:
    """Return what a popped pod is by now; None where it was deleted, made anew, or bound by somebody else."""
    current = pods.get(pod.name, pod.namespace)
    return None if current is None or current.uid != pod.uid or current.node_name else current


def truncated(message: str) -> str:
    """Return as much of a message as an event takes, cut between two characters."""
    if len(message) <= _NOTE_LIMIT and message.isascii():
        return message
    data = message.encode()
    if len(data) <= _NOTE_LIMIT:
        return message
    suffix = " ..."
    return data[: _NOTE_LIMIT - len(suffix)].decode(errors="ignore") + suffix
