"""What a statement says about nominations, on top of what the queue's nominator knows.

Within a statement a pod may be nominated to a node, and a pod that is placed needs no nomination any more. What the
statement says of a pod outweighs the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Nominations"]


class Nominations:
    """Nominations made by statements, in a log that can be undone to any earlier length."""

    __slots__ = ("_by_node", "_log", "_node_of")

    def __init__(self) -> None:
        # The node of each pod that a statement spoke of, "" for none.
        self._node_of: dict[str, str] = {}
        self._by_node: dict[str, tuple[PodInfo, ...]] = {}
        # For each change the pod, its node before (None where nothing was said of it), and the nodes' pods before.
        self._log: list[tuple[str, str | None, dict[str, tuple[PodInfo, ...]]]] = []

    def __len__(self) -> int:
        """Return how many times a statement spoke of a nomination; a mark for `undo`."""
        return len(self._log)

    def __bool__(self) -> bool:
        """Tell whether a statement nominated some pod."""
        return bool(self._by_node)

    @property
    def is_silent(self) -> bool:
        """Tell whether no statement spoke of any pod's nomination, so that all is as the queue has it."""
        return not self._node_of

    @property
    def nodes(self) -> Collection[str]:
        """Return the names of the nodes that statements nominated pods to."""
        return self._by_node.keys()

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

    def undo(self, length: int) -> None:
        """Return to the state in which the log had that length."""
        while len(self._log) > length:
            uid, before, touched = self._log.pop()
            if before is None:
                del self._node_of[uid]
            else:
                self._node_of[uid] = before
            for name, pods in touched.items():
                self._put(name, pods)

    def clear(self) -> None:
        """Forget everything."""
        self._node_of.clear()
        self._by_node.clear()
        self._log.clear()

    def merge(self, node_name: str, queued: Sequence[PodInfo]) -> Sequence[PodInfo]:
        """Return the pods nominated to a node when the queue has `queued` there."""
        if not self._node_of:
            return queued
        known = self._node_of
        return [*(info for info in queued if info.pod.uid not in known), *self._by_node.get(node_name, ())]

    def _put(self, node_name: str, pods: tuple[PodInfo, ...]) -> None:
        if pods:
            self._by_node[node_name] = pods
        else:
            self._by_node.pop(node_name, None)
