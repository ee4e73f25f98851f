"""Writing a pod's `PodScheduled` condition and nominated node, in the background.

Writes for one pod are merged while an earlier one is under way, and the last word wins; a write that would change
nothing is not sent. A binding makes what is still to be written about the pod pointless, so it drops it.
Source: kube-scheduler 1.36, `updatePod` and its API dispatcher.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import APIError, NotFoundError, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod, PodCondition
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.handle import Client
    from pyscheduler.framework.interfaces import NominatingInfo
    from pyscheduler.framework.recorder import Recorder

__all__ = ["PodStatusWriter"]

_log = logging.getLogger(__name__)

_POD_SCHEDULED: Final = "PodScheduled"


@attrs.define(kw_only=True)
class _Pending:
    """What is to be written about one pod; fields that stay None are left alone."""

    pod: Pod
    condition: Mapping[str, object] | None = None
    nominated_node: str | None = None


@attrs.define(kw_only=True)
class PodStatusWriter:
    """The one writer of pod statuses. `concurrency` bounds how many patches are under way at once."""

    client: Client
    clock: Clock
    recorder: Recorder
    concurrency: int = 16
    _pending: dict[str, _Pending] = attrs.Factory(dict)
    _busy: set[str] = attrs.Factory(set)
    _tasks: set[asyncio.Task[None]] = attrs.Factory(set)

    def write(
        self,
        pod: Pod,
        *,
        reason: str | None = None,
        message: str = "",
        nominating: NominatingInfo | None = None,
    ) -> None:
        """Write `PodScheduled=False` with `reason` and `message` (none: leave the condition), and the nomination."""
        pending = self._pending.get(pod.uid) or _Pending(pod=pod)
        pending.pod = pod
        if reason is not None:
            pending.condition = self._condition(pod, reason, message)
        if nominating is not None and nominating.override:
            changes = nominating.node_name != pod.status.nominated_node_name
            pending.nominated_node = nominating.node_name if changes else None
        if pending.condition is None and pending.nominated_node is None:
            self._pending.pop(pod.uid, None)
            return
        self._pending[pod.uid] = pending
        self._start_next()

    def forget(self, uid: str) -> None:
        """Drop what is still to be written about a pod: it is bound, or gone."""
        self._pending.pop(uid, None)

    @property
    def idle(self) -> bool:
        """Tell whether nothing is pending or under way."""
        return not self._pending and not self._busy

    async def flush(self) -> None:
        """Wait until everything pending is written, or was refused."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _start_next(self) -> None:
        while len(self._busy) < self.concurrency:
            # At most `concurrency` entries are passed over: those whose earlier write is still under way.
            uid = next((uid for uid in self._pending if uid not in self._busy), None)
            if uid is None:
                return
            pending = self._pending.pop(uid)
            self._busy.add(uid)
            task = asyncio.create_task(self._send(uid, pending), name=f"status {pending.pod.key}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, uid: str, pending: _Pending) -> None:
        status: dict[str, object] = {}
        if pending.condition is not None:
            status["conditions"] = [pending.condition]
        if pending.nominated_node is not None:
            # null is how a patch deletes; "" would be kept by a merge on some servers.
            status["nominatedNodeName"] = pending.nominated_node or None
        try:
            await self.client.patch_pod_status(pending.pod, {"status": status})
        except NotFoundError:
            _log.debug("Pod is gone before its status was written pod=%s", pending.pod.key)
        except (APIError, TransportError) as error:
            # Informational for users; the next attempt writes it again.
            self.recorder.warning("status_patch_failed")
            _log.warning("Error updating pod pod=%s err=%s", pending.pod.key, error)
        finally:
            self._busy.discard(uid)
            self._start_next()

    def _condition(self, pod: Pod, reason: str, message: str) -> Mapping[str, object] | None:
        """Return the condition to write, None where the pod already carries it."""
        present = _condition_of(pod)
        generation = pod.metadata.generation
        if present is not None and (present.status, present.reason, present.message) == ("False", reason, message):
            return None
        condition: dict[str, object] = {
            "type": _POD_SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
        }
        if generation:
            condition["observedGeneration"] = generation
        if present is None or present.status != "False":
            now = datetime.fromtimestamp(self.clock.wall(), UTC)
            condition["lastTransitionTime"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        return condition


def _condition_of(pod: Pod) -> PodCondition | None:
    return next((c for c in pod.status.conditions if c.type == _POD_SCHEDULED), None)
