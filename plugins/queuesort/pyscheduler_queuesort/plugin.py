"""GangSort: by priority, then by the time of the pod's group, so that the members of a group pop one after another.

The default order goes by the time at which each pod entered the queue. Two groups whose pods arrive interleaved are
then tried interleaved, and each may end up with half the room it needs. Here all members of a group share one time,
that of the first member seen, and the group's name keeps them apart from another group of the same moment.

A key must not change while its pod is in the queue, so a group's time stands as long as any member that was seen is
still unbound; members coming late join it. When the last of them is bound, has ended or is deleted, the group is
forgotten, and pods that come later under its name start a new one. What is remembered is thus bounded by the unbound
pods of the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import Pod
from pyscheduler.framework import QueueSortPlugin

if TYPE_CHECKING:
    from pyscheduler.framework import Handle, QueuedPodInfo

__all__ = ["GROUP_LABELS", "GangSort", "group_of"]

#: Labels that name a pod's group; the first that a pod carries counts.
GROUP_LABELS: Final = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.x-k8s.io/name",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group.scheduling.sigs.k8s.io/name",
)


def group_of(pod: Pod) -> str:
    """Return the pod's group as `namespace/name`; "" for a pod that belongs to none."""
    labels = pod.metadata.labels
    for label in GROUP_LABELS:
        name = labels.get(label)
        if name:
            return f"{pod.namespace}/{name}"
    return ""


class _Groups:
    """Groups with unbound members: since when each is known, and the members seen."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._members: dict[str, set[str]] = {}
        self._group_of: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._since)

    def join(self, group: str, uid: str, now: float) -> float:
        """Count a pod in, and return the time of its group, which is `now` where the group is new."""
        if self._group_of.get(uid) != group:
            self.leave(uid)
            self._group_of[uid] = group
            self._members.setdefault(group, set()).add(uid)
        return self._since.setdefault(group, now)

    def leave(self, uid: str) -> None:
        """Count a pod out, and forget its group with the last of them."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return
        members = self._members[group]
        members.discard(uid)
        if not members:
            del self._members[group], self._since[group]


class GangSort(QueueSortPlugin):
    """Order by priority, then group time, group and the pod's own time; a pod without group is a group of one."""

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._groups = _Groups()
        if handle is not None:
            handle.lister(Pod).add_event_handler(on_update=self._updated, on_delete=self._deleted)

    def sort_key(self, info: QueuedPodInfo) -> tuple[int, float, str, float]:
        pod = info.pod
        group = group_of(pod)
        if group:
            since = self._groups.join(group, pod.uid, info.enqueued_at)
        else:
            # Its label may have been taken off while it waited.
            self._groups.leave(pod.uid)
            since = info.enqueued_at
        return (-pod.priority, since, group, info.enqueued_at)

    def _updated(self, _old: Pod, new: Pod) -> None:
        if new.node_name or new.is_terminal:
            self._groups.leave(new.uid)

    def _deleted(self, pod: Pod) -> None:
        self._groups.leave(pod.uid)
