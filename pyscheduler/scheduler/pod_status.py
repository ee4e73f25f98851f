"""Write the `PodScheduled` condition and the nominated node of pods, in the background.

While a write for a pod is under way, later values wait, and only the latest value is written.

Differs from kube-scheduler, which by default waits for each write in the scheduling cycle.
Source: kube-scheduler 1.36, `updatePod`, `PodStatusPatchCall`.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import format_time
from pyscheduler.framework.errors import ConflictError, NotFoundError
from pyscheduler.framework.interfaces import NominatingInfo
from pyscheduler.framework.watches import PolicyRule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from kube_objects.clock import Clock, Timer
    from pyscheduler.api import Pod
    from pyscheduler.framework.handle import Client
    from pyscheduler.framework.recorder import Recorder

__all__ = ["RULES", "WAITING_ON_PERMIT", "PodStatusWriter"]

_log = logging.getLogger(__name__)

_POD_SCHEDULED: Final = "PodScheduled"
#: The reason of the condition, and of the event, of a pod that plugins hold at Permit.
WAITING_ON_PERMIT: Final = "WaitingOnPermit"
#: A pod that is bound within this time is not nominated before.
_EXPECTATION_SECONDS: Final = 0.5

#: The permissions that the writer needs.
RULES: Final = (PolicyRule(api_groups=("",), resources=("pods/status",), verbs=("patch",)),)


@attrs.define(kw_only=True)
class _Write:
    """A write for one pod, to be sent or sent; a field that is None is not written."""

    pod: Pod
    condition: Mapping[str, object] | None = None
    nominated_node: str | None = None


@attrs.frozen
class _Expectation:
    """A pod that will be nominated to a node (unless it is "") at `due`, in clock seconds; `wait` as for `expect`."""

    due: float
    pod: Pod
    node_name: str
    wait: Callable[[], str]
    reason: str


@attrs.define(kw_only=True)
class PodStatusWriter:
    """The one writer of pod statuses. At most `concurrency` patches are under way at once."""

    client: Client
    clock: Clock
    recorder: Recorder
    concurrency: int = 16
    _pending: dict[str, _Write] = attrs.Factory(dict)
    #: The last write that was sent for a pod, which the pod may not show yet, until the pod is forgotten.
    _sent_last: dict[str, _Write] = attrs.Factory(dict)
    _busy: dict[str, asyncio.Task[None]] = attrs.Factory(dict)
    #: The pods whose last write failed.
    _failed: set[str] = attrs.Factory(set)
    #: In the order in which they are due, which is the order in which they came.
    _expected: dict[str, _Expectation] = attrs.Factory(dict)
    #: Fires when the first expectation is due.
    _expecting: Timer | None = None

    def write(
        self,
        pod: Pod,
        *,
        reason: str | None = None,
        message: str = "",
        nominating: NominatingInfo | None = None,
    ) -> None:
        """Write `PodScheduled=False` with `reason` and `message` (none: leave the condition), and the nomination."""
        uid = pod.uid
        if nominating is not None:
            self._expected.pop(uid, None)
        told = self._unseen(pod)
        pending = self._pending.get(uid) or _Write(pod=pod)
        pending.pod = pod
        if reason is not None:
            pending.condition = self._condition(pod, reason, message, told)
        if nominating is not None and nominating.override:
            present = pod.status.nominated_node_name
            if told is not None and told.nominated_node is not None:
                present = told.nominated_node
            pending.nominated_node = nominating.node_name if nominating.node_name != present else None
        if pending.condition is None and pending.nominated_node is None:
            self._pending.pop(uid, None)
            return
        self._pending[uid] = pending
        self._start_next()

    def expect(
        self, pod: Pod, node_name: str, *, wait: Callable[[], str] = lambda: "", reason: str = WAITING_ON_PERMIT
    ) -> None:
        """Nominate the pod to its expected node in half a second, unless `drop` is called before.

        Without a `node_name`, the nomination stays. `wait` returns then why the pod waits, for its condition with
        `reason`; "" leaves the condition.
        """
        self._expected.pop(pod.uid, None)
        self._expected[pod.uid] = _Expectation(self.clock.now() + _EXPECTATION_SECONDS, pod, node_name, wait, reason)
        if self._expecting is None:
            self._expecting = self.clock.call_later(_EXPECTATION_SECONDS, self._write_expected)

    def drop(self, uid: str) -> asyncio.Task[None] | None:
        """Drop the pending writes of a pod before its binding; return the write under way, if any."""
        self._expected.pop(uid, None)
        self._pending.pop(uid, None)
        return self._busy.get(uid)

    def forget(self, uid: str) -> None:
        """Drop everything about a pod that is bound or deleted."""
        self._expected.pop(uid, None)
        self._pending.pop(uid, None)
        self._sent_last.pop(uid, None)
        self._failed.discard(uid)

    @property
    def idle(self) -> bool:
        """Return True if nothing is expected, pending or under way."""
        return not self._pending and not self._busy and not self._expected

    async def sent(self, uids: Collection[str]) -> bool:
        """Wait until nothing is pending or under way for these pods; return False if the last write of one failed."""
        for uid in uids:
            while uid in self._pending or uid in self._busy:
                busy = [self._busy[uid]] if uid in self._busy else [*self._busy.values()]
                await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
        return self._failed.isdisjoint(uids)

    async def flush(self) -> None:
        """Wait until everything pending is written or rejected; drop what is only expected."""
        self._expect_no_more()
        while self._busy:
            await asyncio.wait(list(self._busy.values()))

    def cancel(self) -> None:
        """Drop everything that is not written yet."""
        self._expect_no_more()
        self._pending.clear()
        for task in self._busy.values():
            task.cancel()

    def _expect_no_more(self) -> None:
        self._expected.clear()
        if self._expecting is not None:
            self._expecting.cancel()
            self._expecting = None

    def _write_expected(self) -> None:
        """Nominate the pods whose expectation is due."""
        now = self.clock.now()
        while self._expected:
            first = next(iter(self._expected.values()))
            if first.due > now:
                self._expecting = self.clock.call_at(first.due, self._write_expected)
                return
            del self._expected[first.pod.uid]
            message = first.wait()
            self.write(
                first.pod,
                reason=first.reason if message else None,
                message=message,
                nominating=NominatingInfo(first.node_name) if first.node_name else None,
            )
        self._expecting = None

    def _unseen(self, pod: Pod) -> _Write | None:
        """Return the last write that this version of the pod does not show; None if it shows it, or may."""
        # A nomination that is set and soon cleared would stay if the new value were compared with `pod` only.
        told = self._sent_last.get(pod.uid)
        if told is None or pod.uid in self._busy or told.pod.resource_version == pod.resource_version:
            return told
        del self._sent_last[pod.uid]
        return None

    def _start_next(self) -> None:
        while len(self._busy) < self.concurrency:
            # At most `concurrency` entries are skipped: those whose earlier write is still under way.
            uid = next((uid for uid in self._pending if uid not in self._busy), None)
            if uid is None:
                return
            write = self._pending.pop(uid)
            before = self._unseen(write.pod)
            self._sent_last[uid] = _Write(
                pod=write.pod,
                condition=write.condition or (before.condition if before else None),
                nominated_node=write.nominated_node
                if write.nominated_node is not None or before is None
                else before.nominated_node,
            )
            task = asyncio.create_task(self._send(uid, write), name=f"status {write.pod.key}")
            self._busy[uid] = task
            task.add_done_callback(partial(self._sent, uid))

    def _sent(self, uid: str, _task: asyncio.Task[None]) -> None:
        del self._busy[uid]
        self._start_next()

    async def _send(self, uid: str, write: _Write) -> None:
        status: dict[str, object] = {}
        self._failed.discard(uid)
        if write.condition is not None:
            status["conditions"] = [write.condition]
        if write.nominated_node is not None:
            # A patch deletes by null; some servers keep "".
            status["nominatedNodeName"] = write.nominated_node or None
        try:
            await self.client.patch_pod_status(write.pod, {"status": status})
        except (NotFoundError, ConflictError):  # the patch names the uid; another pod of that name is a conflict
            self._sent_last.pop(uid, None)
            _log.debug("Pod is gone before its status was written pod=%s", write.pod.key)
        except Exception as error:  # noqa: BLE001 - information for users; the next attempt writes it again
            self._sent_last.pop(uid, None)
            self._failed.add(uid)
            self.recorder.warning("status_patch_failed")
            _log.warning("Error updating pod pod=%s err=%s", write.pod.key, error)

    def _condition(self, pod: Pod, reason: str, message: str, told: _Write | None) -> Mapping[str, object] | None:
        """Return the condition to write; None if the pod has it already."""
        present = _present_condition(pod, told)
        if present == ("False", reason, message):
            return None
        condition: dict[str, object] = {
            "type": _POD_SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
        }
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        if present is None or present[0] != "False":
            condition["lastTransitionTime"] = format_time(self.clock.wall())
        return condition


def _present_condition(pod: Pod, told: _Write | None) -> tuple[object, object, object] | None:
    """Return status, reason and message of the condition that the pod has, or will have when the watch is current."""
    if told is not None and told.condition is not None:
        return told.condition["status"], told.condition["reason"], told.condition["message"]
    for condition in pod.status.conditions:
        if condition.type == _POD_SCHEDULED:
            return condition.status, condition.reason, condition.message
    return None
