"""What happens to a pod whose attempt failed: back into the queue, and users are told why.

Source: kube-scheduler 1.36, `handleSchedulingFailure`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.diagnosis import FitError, NoNodesError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.pod_info import PodInfo

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.watches import Lister
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.scheduler.cycle import Attempt
    from pyscheduler.scheduler.pod_status import PodStatusWriter

__all__ = ["CLEAR_NOMINATION", "FailureHandler"]

_log = logging.getLogger(__name__)

CLEAR_NOMINATION: Final = NominatingInfo("")

#: The longest `note` that the API server takes in an event, in characters.
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
        message = status.message
        self._note_rejectors(attempt, status, message)
        pod = queued.pod
        cached = self.pods.get(pod.name, pod.namespace)
        if cached is None or cached.node_name:
            # Gone, or bound after all (a bind whose answer was lost): nothing to retry.
            _log.info("Pod is not requeued pod=%s reason=%s", pod.key, "bound" if cached else "deleted")
            self.queue.done(pod.uid)
        elif cached.uid != pod.uid:
            _log.info("Pod was recreated while its failure was handled pod=%s", pod.key)
            self.queue.done(pod.uid)
            return
        else:
            if cached.resource_version != pod.resource_version:
                queued.pod_info = PodInfo.of(cached)
            elif pod is not cached:
                queued.pod_info = queued.pod_info.with_pod(cached)
            pod = cached
            self.queue.requeue_failed(queued, self.queue.scheduling_cycle)
            # Before the API server's echo of the nomination arrives, the next cycle must know it already.
            self.queue.nominator.add(queued.pod_info, nominating)
        attempt.profile.event_recorder.event(
            pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=_truncated(message)
        )
        self.statuses.write(
            pod,
            reason="Unschedulable" if rejected else "SchedulerError",
            message=message,
            nominating=nominating,
        )

    def _note_rejectors(self, attempt: Attempt, status: Status, message: str) -> None:
        """Tell the queue which plugins to ask about events; clear what an earlier attempt left."""
        queued = attempt.queued
        error = status.error
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        if isinstance(error, NoNodesError):
            _log.info("Unable to schedule pod; no nodes are registered to the cluster; waiting pod=%s", queued.pod.key)
        elif isinstance(error, FitError):
            queued.unschedulable_plugins = error.diagnosis.unschedulable_plugins
            queued.pending_plugins = error.diagnosis.pending_plugins
            _log.info('Unable to schedule pod; no fit; waiting pod=%s err="%s"', queued.pod.key, message)
        else:
            self.recorder.warning("attempt_error")
            _log.error(
                'Error scheduling pod; retrying pod=%s plugin=%s err="%s"', queued.pod.key, status.plugin, message
            )


def _truncated(message: str) -> str:
    if len(message) <= _NOTE_LIMIT:
        return message
    suffix = " ..."
    return message[: _NOTE_LIMIT - len(suffix)] + suffix
