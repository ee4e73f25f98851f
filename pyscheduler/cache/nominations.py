"""The nominated pods of each node, as a scheduling cycle sees them.

The cycle can change nominations, and undo the changes. The queue does not see the changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.changed_keys import ChangedKeys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyscheduler.framework.handle import Nominator
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Nominations"]


class Nominations:
    """Nominations of `queued` (the queue's; None for none) and of statements, which can be undone to any length.

    `changed` holds the names of nodes whose nominations a statement changed or restored; `queued.changed` holds those
    that the queue changed.
    """

    __slots__ = ("_by_node", "_log", "_node_of", "_queued", "changed")

    def __init__(self, queued: Nominator | None = None) -> None:
        self._queued = queued
        self.changed: ChangedKeys[str] = ChangedKeys()
        # The node of each pod that a statement nominated or placed, "" for none.
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, tuple[PodInfo, ...]] = {}
        # For each change the pod, its node before (None: no statement named the pod), and the nodes' pods before.
        self._log: list[tuple[str, str | None, dict[str, tuple[PodInfo, ...]]]] = []

    def __len__(self) -> int:
        """Return how many changes statements made; a mark for `undo`."""
        return len(self._log)

    @property
    def position(self) -> tuple[int, int]:
        """Return how many changes the queue and the statements made so far; equal while nothing changed."""
        return (self._queued.changed.position if self._queued is not None else 0), self.changed.position

    def since(self, position: tuple[int, int]) -> Sequence[str] | None:
        """Return the names of nodes whose nominations may have changed since `position`; None for all nodes."""
        queued = self._queued.changed.since(position[0]) if self._queued is not None else ()
        changed = self.changed.since(position[1])
        if queued is None or changed is None:
            return None
        return [*dict.fromkeys((*queued, *changed))] if queued and changed else queued or changed

    @property
    def nodes(self) -> Collection[str]:
        """Return the names of nodes that pods are nominated to.

        Some names may belong to nodes that the snapshot does not have, or to the queue's nominations that a statement
        ended.
        """
        queued = self._queued.nodes if self._queued is not None else ()
        return {*queued, *self._by_node} if self._by_node else queued

    def pods_on(self, node_name: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node: the queue's first, the earliest nomination first."""
        queued = self._queued.pods_on(node_name) if self._queued is not None else ()
        known = self._node_of
        if not known:
            return queued
        return [*(info for info in queued if info.pod.uid not in known), *self._by_node.get(node_name, ())]

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated to, or ""."""
        node_name = self._node_of.get(uid)
        return self._node_in_queue(uid) if node_name is None else node_name

    def set(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node, or to none when `node_name` is empty."""
        uid = info.pod.uid
        before = self._node_of.get(uid)
        touched = {name: self._by_node.get(name, ()) for name in (before, node_name) if name}
        self._log.append((uid, before, touched))
        self._node_of[uid] = node_name
        if before:
            self._put(before, tuple(each for each in touched[before] if each.pod.uid != uid))
        if node_name:
            self._put(node_name, (*self._by_node.get(node_name, ()), info))
        self._note(self._node_in_queue(uid))

    def undo(self, length: int) -> None:
        """Undo changes until so many are left."""
        while len(self._log) > length:
            uid, before, touched = self._log.pop()
            if before is None:
                del self._node_of[uid]
            else:
                self._node_of[uid] = before
            for name, pods in touched.items():
                self._put(name, pods)
            self._note(self._node_in_queue(uid))

    def _node_in_queue(self, uid: str) -> str:
        return self._queued.node_of(uid) if self._queued is not None else ""

    def _note(self, node_name: str) -> None:
        if node_name:
            self.changed.note(node_name)

    def _put(self, node_name: str, pods: tuple[PodInfo, ...]) -> None:
        self.changed.note(node_name)
        if pods:
            self._by_node[node_name] = pods
        else:
            self._by_node.pop(node_name, None)
