"""Connects a directory to the events that plugins' handles give.

Pods come over two watches: one of those that live, and one of those that have ended, where some plugin watches
`ENDED_PODS`. A pod that ends is deleted from the first and added to the second, and nobody says in which order the two
are heard, nor how far one is behind the other. A pod that has ended never lives again, so what the second says counts:
nothing that the first tells of such a pod is news, not even after the second has told that it was deleted.

A kind whose CRD is absent has no events, and begins to have them when the CRD appears; it need not be watched at all
unless some plugin declares it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pyscheduler.api import EndedPod, KubeObject, Pod
from pyscheduler.framework import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyscheduler.framework import Handle, Lister
    from pyscheduler.podgroup.dialects import Dialect
    from pyscheduler.podgroup.directory import GroupDirectory

__all__ = ["InformerAdapter", "PodWatchMerger"]

K = TypeVar("K", bound=KubeObject)


#: So many pods that ended and were deleted are remembered, in case the other watch is far behind.
_REMEMBERED: Final = 10_000


class PodWatchMerger:
    """Puts both watches of pods together."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        #: Uids of pods that have ended and are there still.
        self._ended: set[str] = set()
        #: Uids of pods that ended and were deleted, latest last; the other watch may have yet to hear of any of it.
        self._gone: dict[str, None] = {}

    def added(self, pod: Pod) -> None:
        """Take in a pod from the watch of living ones."""
        if pod.uid not in self._ended and pod.uid not in self._gone:
            self._directory.pod_added(pod)

    def updated(self, old: Pod, new: Pod) -> None:
        """Take in what has become of a living pod."""
        if new.uid not in self._ended and new.uid not in self._gone:
            self._directory.pod_updated(old, new)

    def deleted(self, pod: Pod) -> None:
        """Take in that a pod lives no more."""
        if pod.uid not in self._ended:
            self._directory.pod_deleted(pod)

    def ended(self, pod: EndedPod) -> None:
        """Take in a pod that has ended."""
        if pod.is_terminal:
            self._ended.add(pod.uid)
            self._gone.pop(pod.uid, None)
            self._directory.pod_added(pod.as_pod())

    def ended_updated(self, _old: EndedPod, new: EndedPod) -> None:
        """Take in what has become of a pod that had ended: it names another group, perhaps."""
        self.ended(new)

    def ended_deleted(self, pod: EndedPod) -> None:
        """Take in that a pod that had ended is gone."""
        if pod.uid not in self._ended:
            return
        self._ended.discard(pod.uid)
        self._gone[pod.uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._directory.pod_deleted(pod.as_pod())


class InformerAdapter:
    """Keeps a directory up to date with all pods, of whatever profile, and with the group objects that are watched."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._pods: PodWatchMerger | None = None
        self._heard: set[type[KubeObject]] = set()

    def connect(self, handle: Handle, dialects: Iterable[Dialect]) -> None:
        """Listen to what is not listened to yet; each profile may bring further kinds that are watched."""
        directory = self._directory
        if self._pods is None:
            pods = self._pods = PodWatchMerger(directory)
            handle.lister(Pod).add_event_handler(on_add=pods.added, on_update=pods.updated, on_delete=pods.deleted)
        ended = _lister(handle, EndedPod) if EndedPod not in self._heard else None
        if ended is not None:
            self._heard.add(EndedPod)
            ended.add_event_handler(
                on_add=self._pods.ended, on_update=self._pods.ended_updated, on_delete=self._pods.ended_deleted
            )
        for kind in (kind for dialect in dialects for kind in dialect.kinds if kind.type not in self._heard):
            lister = _lister(handle, kind.type)
            if lister is not None:
                self._heard.add(kind.type)
                lister.add_event_handler(
                    on_add=directory.object_added,
                    on_update=directory.object_updated,
                    on_delete=directory.object_deleted,
                )


def _lister(handle: Handle, kind: type[K]) -> Lister[K] | None:
    """Return the lister of a kind; None where no plugin that was made so far watches it."""
    try:
        return handle.lister(kind)
    except PluginError:
        return None
