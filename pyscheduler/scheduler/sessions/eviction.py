"""Evict pods for a session: write the condition, delete the pod, remember it until its deletion is seen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs

from pyscheduler.batch.tasks import TaskState
from pyscheduler.framework.errors import APIError, TransportError
from pyscheduler.runtime.preemption.disruption import delete_with_condition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.api import Pod
    from pyscheduler.batch.decisions import Decision
    from pyscheduler.batch.tasks import Job
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.watches import Lister

__all__ = ["Evictions"]

_log = logging.getLogger(__name__)


@attrs.define(kw_only=True, eq=False)
class Evictions:
    """The evictions of one profile."""

    handle: Handle
    pods: Lister[Pod]
    #: Called when an eviction failed: the pod holds its node for longer than the session thought.
    on_failure: Callable[[], object] = lambda: None
    #: The pods whose deletion was decided and is not seen yet, by uid.
    under_way: dict[str, Pod] = attrs.Factory(dict)
    #: The uids of the pods that were evicted and still exist.
    _leaving: set[str] = attrs.Factory(set)

    def begin(self, decisions: Iterable[Decision]) -> None:
        """Begin to evict in the background."""
        for each in decisions:
            pod = each.task.pod
            if pod is not None and pod.uid not in self.under_way:
                self.under_way[pod.uid] = pod
                self._leaving.add(pod.uid)
                is_moved = each.task.state is TaskState.PIPELINED
                self.handle.spawn(self._evict(pod, each.action, each.by, is_moved=is_moved), name=f"evict {pod.key}")

    def was_evicted(self, uid: str) -> bool:
        """Return whether a pod that is gone now was evicted here; asked once per pod."""
        if uid not in self._leaving:
            return False
        self._leaving.remove(uid)
        return True

    def forget_seen(self) -> None:
        """Forget the pods whose deletion the informer has shown."""
        for uid, pod in [*self.under_way.items()]:
            newest = self.pods.get(pod.name, pod.namespace)
            if newest is None or newest.uid != uid or newest.is_terminating:
                del self.under_way[uid]

    async def _evict(self, pod: Pod, action: str, by: Job | None, *, is_moved: bool) -> None:
        """Evict one pod. A pod that is gone already is no failure."""
        message = f"action={action}" + (f" by={by.key}" if by is not None else "")
        if is_moved:
            message += " moved=true"  # the same pass promised another node to the pod's successor
        if self.handle.reject_waiting_pod(pod.uid, reason=message):
            self._forget(pod)
            return
        seen = self.pods.get(pod.name, pod.namespace)
        # The tables may be older than the status of the pod.
        newest = seen if seen is not None and seen.uid == pod.uid else pod
        try:
            now = self.handle.clock.wall()
            is_deleted = await delete_with_condition(self.handle.client, newest, message=message, now=now)
        except (APIError, TransportError) as error:
            self._forget(pod)
            self.handle.recorder.warning("eviction_failed")
            _log.warning("Pod could not be evicted pod=%s action=%s err=%s", pod.key, action, error)
            self.on_failure()
            return
        if is_deleted:
            _log.info("Evicted pod=%s action=%s by=%s", pod.key, action, by.key if by is not None else "")

    def _forget(self, pod: Pod) -> None:
        """Forget an eviction that did not delete the pod."""
        self.under_way.pop(pod.uid, None)
        self._leaving.discard(pod.uid)
