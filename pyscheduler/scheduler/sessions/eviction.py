"""Evict pods for a session: write the condition, delete the pod, remember it until its deletion is seen."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import Pod, format_time
from pyscheduler.batch.tasks import TaskState
from pyscheduler.framework.errors import APIError, NotFoundError, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyscheduler.batch.decisions import Decision
    from pyscheduler.batch.tasks import Job
    from pyscheduler.framework.handle import Handle
    from pyscheduler.framework.watches import Lister

__all__ = ["Evictions"]

_log = logging.getLogger(__name__)

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"


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
        client = self.handle.client
        message = f"action={action}" + (f" by={by.key}" if by is not None else "")
        if is_moved:
            message += " moved=true"  # the same pass promised another node to the pod's successor
        held = self.handle.get_waiting_pod(pod.uid)
        if held is not None:
            self.handle.reject_waiting_pod(pod.uid, reason=message)
            del self.under_way[pod.uid]
            return
        condition = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": message,
            "lastTransitionTime": format_time(self.handle.clock.wall()),
        }
        try:
            await client.patch_pod_status(pod, {"status": {"conditions": [condition]}})
            await client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        except NotFoundError:
            return
        except (APIError, TransportError) as error:
            self.under_way.pop(pod.uid, None)
            self._leaving.discard(pod.uid)
            self.handle.recorder.warning("eviction_failed")
            _log.warning("Pod could not be evicted pod=%s action=%s err=%s", pod.key, action, error)
            self.on_failure()
            return
        _log.info("Evicted pod=%s action=%s by=%s", pod.key, action, by.key if by is not None else "")
