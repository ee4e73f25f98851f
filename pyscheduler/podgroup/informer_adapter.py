"""Pass the events of pods and group objects to a `GroupDirectory`."""

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


#: How many ended and deleted pods are remembered, in case the other watch is far behind.
_REMEMBERED: Final = 10_000


class PodWatchMerger:
    """Merges the two watches of pods."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        #: Uids of ended pods that exist.
        self._ended: set[str] = set()
        #: Uids of ended pods that were deleted, the latest last; the other watch may not know it yet.
        self._gone: dict[str, None] = {}

    def added(self, pod: Pod) -> None:
        """Handle a new living pod."""
        if pod.uid not in self._ended and pod.uid not in self._gone:
            self._directory.pod_added(pod)

    def updated(self, old: Pod, new: Pod) -> None:
        """Handle an update of a living pod."""
        if new.uid not in self._ended and new.uid not in self._gone:
            self._directory.pod_updated(old, new)

    def deleted(self, pod: Pod) -> None:
        """Handle the deletion or the end of a living pod."""
        if pod.uid not in self._ended:
            self._directory.pod_deleted(pod)

    def ended(self, pod: EndedPod) -> None:
        """Handle a new ended pod, or an update of one, which may name another group."""
        if pod.is_terminal:
            self._ended.add(pod.uid)
            self._gone.pop(pod.uid, None)
            self._directory.pod_added(pod.as_pod())

    def ended_deleted(self, pod: EndedPod) -> None:
        """Handle the deletion of an ended pod."""
        if pod.uid not in self._ended:
            return
        self._ended.discard(pod.uid)
        self._gone[pod.uid] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._directory.pod_deleted(pod.as_pod())


class InformerAdapter:
    """Feeds a directory with the pods of all profiles and with the watched group objects."""

    def __init__(self, directory: GroupDirectory) -> None:
        self._directory = directory
        self._pods: PodWatchMerger | None = None
        self._connected: set[type[KubeObject]] = set()

    def connect(self, handle: Handle, dialects: Iterable[Dialect]) -> None:
        """Register handlers for the kinds that have none yet; each profile may watch further kinds."""
        directory = self._directory
        pods = self._pods
        if pods is None:
            pods = self._pods = PodWatchMerger(directory)
            handle.lister(Pod).add_event_handler(on_add=pods.added, on_update=pods.updated, on_delete=pods.deleted)
        ended = _lister(handle, EndedPod) if EndedPod not in self._connected else None
        if ended is not None:
            self._connected.add(EndedPod)
            ended.add_event_handler(
                on_add=pods.ended, on_update=lambda _old, new: pods.ended(new), on_delete=pods.ended_deleted
            )
        for kind in (kind for dialect in dialects for kind in dialect.kinds if kind.type not in self._connected):
            lister = _lister(handle, kind.type)
            if lister is not None:
                self._connected.add(kind.type)
                lister.add_event_handler(
                    on_add=directory.object_added,
                    on_update=lambda _old, new: directory.object_added(new),
                    on_delete=directory.object_deleted,
                )


def _lister(handle: Handle, kind: type[K]) -> Lister[K] | None:
    """Return the lister of a kind; None if no plugin made so far watches it."""
    try:
        return handle.lister(kind)
    except PluginError:
        return None
