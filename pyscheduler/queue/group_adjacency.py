"""Keep the pods of one group together when pods leave activeQ.

The first members of a group occupy nodes while they wait for the other members. If other pods are tried
in between, this wait is longer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyscheduler.queue.heap import SortKey

__all__ = ["AdjacencyKey", "GroupAdjacency"]

#: Return the pod's group, or None.
AdjacencyKey: TypeAlias = Callable[[QueuedPodInfo], Hashable | None]


class GroupAdjacency:
    """The pods of activeQ by group, and the present run."""

    __slots__ = ("_group_of", "_key", "_members", "_ready", "_run", "_sort_key", "_taken")

    def __init__(self, key: AdjacencyKey, sort_key: SortKey) -> None:
        self._key = key
        self._sort_key = sort_key
        #: Pods by group and uid, and the group of each pod.
        self._members: dict[Hashable, dict[str, QueuedPodInfo]] = {}
        self._group_of: dict[str, Hashable] = {}
        #: The group of the present run, its members that can still leave, and the members that left. No member leaves
        #: twice in one run; otherwise, a group that retries at once could starve other pods.
        self._run: Hashable | None = None
        self._ready = PodHeap(sort_key)
        self._taken: set[str] = set()

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod that is new in activeQ, or that changed."""
        uid = info.pod.uid
        group = self._key(info)
        if group != self._group_of.get(uid):
            self.remove(uid)
        if group is None:
            return
        self._group_of[uid] = group
        self._members.setdefault(group, {})[uid] = info
        if group == self._run and uid not in self._taken:
            self._ready.put(info)

    def resort(self, infos: Iterable[QueuedPodInfo]) -> None:
        """Sort again those of the pods that are in the run."""
        self._ready.resort(infos)

    def remove(self, uid: str) -> None:
        """Remove a pod that left activeQ."""
        group = self._group_of.pop(uid, None)
        if group is None:
            return
        members = self._members[group]
        del members[uid]
        if not members:
            del self._members[group]
        self._ready.remove(uid)

    def next(self) -> QueuedPodInfo | None:
        """Return the next pod of the run; None if the run is over."""
        info = self._ready.peek()
        if info is None:
            self._run = None
            self._taken.clear()
        return info

    def begin(self, info: QueuedPodInfo) -> None:
        """Record that a pod leaves activeQ: it continues the run, or begins one."""
        uid = info.pod.uid
        group = self._group_of.get(uid)
        if group is None:
            return
        if self._run is None:
            self._run = group
            self._ready = PodHeap(self._sort_key)
            for member in self._members[group].values():
                self._ready.put(member)
        self._taken.add(uid)

    def check_invariants(self, active: Collection[str]) -> None:
        """Raise AssertionError if the groups have other pods than activeQ."""
        filed = {uid: group for group, members in self._members.items() for uid in members}
        assert filed == self._group_of, "groups and members disagree"
        assert filed.keys() <= set(active), "a pod is in a group and not in activeQ"
        for info in self._ready:
            uid = info.pod.uid
            assert self._group_of.get(uid) == self._run, f"pod {info.pod.key} is in the run of another group"
            assert uid not in self._taken, f"pod {info.pod.key} would leave twice in one run"
