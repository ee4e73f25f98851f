"""Put the annotation `timeout` on the members of gangs that timed out.

Pods with this annotation are refused, also after a restart of the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.api import Pod
from pyscheduler.framework import APIError, NotFoundError, TransportError
from pyscheduler.podgroup.declarations import GANG_TIMEOUT_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework import Handle
    from pyscheduler_gang.record import GangRecord

__all__ = ["TimeoutMarks"]

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 60.0


class TimeoutMarks:
    """Marks members, and writes their annotations in the background."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        #: Marked pods without the annotation, by uid.
        self._unwritten: dict[str, Pod] = {}
        self._is_writing = False

    def is_unwritten(self, uid: str) -> bool:
        """Return True if the annotation of a marked pod is not written."""
        return uid in self._unwritten

    def put(self, record: GangRecord, pods: Iterable[Pod]) -> None:
        """Mark members of a gang that timed out."""
        for pod in list(pods):
            if pod.uid in record.timed_out:
                continue
            self.note(record, pod.uid)
            self._unwritten[pod.uid] = pod
        if self._unwritten and not self._is_writing:
            self._is_writing = True
            self._handle.spawn(self._write(), name="gang timeouts")

    def note(self, record: GangRecord, uid: str) -> None:
        """Record that a member timed out: it has the annotation, or gets it."""
        record.remove_from_rounds(uid)
        record.timed_out.add(uid)

    def stored(self, uid: str) -> None:
        """Record that the annotation is written, or not needed any more."""
        self._unwritten.pop(uid, None)

    async def _write(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        try:
            while self._unwritten:
                batch = list(self._unwritten.values())[:_AT_ONCE]
                results = await asyncio.gather(*(self._annotate(pod) for pod in batch))
                if all(results):
                    pause = _FIRST_PAUSE_SECONDS
                    continue
                # Move failed ones to the end, so that they do not hold up the others.
                for pod in batch:
                    if pod.uid in self._unwritten:
                        self._unwritten[pod.uid] = self._unwritten.pop(pod.uid)
                await self._handle.clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        finally:
            self._is_writing = False

    async def _annotate(self, pod: Pod) -> bool:
        """Write one annotation; return False if the write must be retried."""
        # With the uid: a new pod of this name must not get the annotation.
        metadata = {"uid": pod.uid, "annotations": {GANG_TIMEOUT_ANNOTATION: "true"}}
        try:
            await self._handle.client.patch(Pod, pod.name, pod.namespace, patch={"metadata": metadata})
        except NotFoundError:
            pass
        except (APIError, TransportError) as error:
            known = self._handle.lister(Pod).get(pod.name, pod.namespace)
            if known is not None and known.uid == pod.uid:
                self._handle.recorder.warning("gang_timeout_not_written")
                _log.warning("Timeout of gang cannot be written, trying again pod=%s err=%s", pod.key, error)
                return False
        self._unwritten.pop(pod.uid, None)
        return True
