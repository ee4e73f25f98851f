"""Read the waiting pods of a profile from the scheduling queue: all of them, or those changed since the last round."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.queue.sub_queues import SubQueues

__all__ = ["PendingPods"]


class PendingPods:
    """Reads the pods of one profile that wait for a node, wherever they are in the queue."""

    def __init__(self, sub_queues: SubQueues, profile_name: str) -> None:
        self._queues = sub_queues
        self._profile_name = profile_name
        #: UIDs of the pods that were not held when they were read last.
        self._elsewhere: Collection[str] = ()
        #: UIDs of the pods that PreEnqueue rejected when they were read last.
        self.gated: Collection[str] = ()

    def all(self) -> list[PodInfo]:
        """Return all pods."""
        # The rule of `_counts`, inline: there may be 50,000 pods.
        name, found = self._profile_name, []
        for queued in self._queues:
            info = queued.pod_info
            pod = info.pod
            if pod.spec.scheduler_name == name and pod.metadata.deletion_timestamp is None:
                found.append(info)
        self._note_gated(self._others())
        return found

    def _counts(self, info: QueuedPodInfo) -> bool:
        return info.pod.scheduler_name == self._profile_name and not info.pod.is_terminating

    def changes(self) -> tuple[list[PodInfo], Collection[str]] | None:
        """Return the pods that came or changed, and the uids of those that left; None if all have to be read.

        Some pods that did not change are among the first, and uids of pods that never waited among the second.
        """
        held = self._queues.held
        changed = held.take_changes(self._profile_name)
        # Pods that are not held are few: they are gated, or have just failed.
        others = self._others()
        self._note_gated(others)
        before, self._elsewhere = self._elsewhere, others.keys()
        if changed is None:
            return None
        fresh = [held[uid] for uid in changed if uid in held and self._counts(held[uid])]
        fresh += others.values()
        here = {info.pod.uid for info in fresh}
        # In order: sets of text have another order in each process.
        gone = dict.fromkeys(uid for uid in chain(changed, before) if uid not in here)
        return [info.pod_info for info in fresh], gone

    def failed(self) -> Iterator[Pod]:
        """Yield the pods whose last attempt failed, until their backoff ends."""
        for info in self._queues.backoff:
            if self._counts(info):
                yield info.pod

    def _note_gated(self, others: Mapping[str, QueuedPodInfo]) -> None:
        self.gated = {uid for uid, info in others.items() if info.gating_plugin}

    def _others(self) -> dict[str, QueuedPodInfo]:
        # The rule of `_counts`, inline: there may be 50,000 gated pods.
        name, queues, found = self._profile_name, self._queues, {}
        waiting: Iterable[QueuedPodInfo] = chain(queues.active, queues.backoff, queues.unschedulable)
        for info in waiting:
            pod = info.pod_info.pod
            if pod.spec.scheduler_name == name and pod.metadata.deletion_timestamp is None:
                found[pod.metadata.uid] = info
        return found
