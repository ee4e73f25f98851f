"""For each node, the nominated pods for which a pod of a given priority must leave room."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyscheduler.framework.changed_keys import ChangedKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.cache.columns import Columns
    from pyscheduler.cache.nominations import Nominations
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Mark", "NominatedRows", "before"]

#: A moment in the history of one `NominatedRows`; equal only while nothing has changed.
Mark: TypeAlias = "tuple[ChangedKeys[int], int]"


def before(infos: Iterable[PodInfo], pod: Pod) -> list[PodInfo]:
    """Return those of the nominated pods that `pod` has to leave room for."""
    return [info for info in infos if info.pod.priority >= pod.priority and info.pod.uid != pod.uid]


class NominatedRows:
    """The nominated pods that a pod of that priority must leave room for, the pod itself among them.

    `pods`: by row, the earliest nomination first; only rows that have some. Statements count like the queue.
    """

    __slots__ = ("_changed", "_columns", "_epoch", "_nominations", "_position", "pods", "priority")

    def __init__(self, nominations: Nominations, columns: Columns, priority: int) -> None:
        self._nominations = nominations
        self._columns = columns
        self._position = (0, 0)
        self.priority = priority
        #: That of the snapshot's `ChangeLog`: when it is another, rows mean other nodes, and all of them are new.
        self._epoch = -1
        self.pods: dict[int, Sequence[PodInfo]] = {}
        self._changed: ChangedKeys[int] = ChangedKeys()

    @property
    def mark(self) -> Mark:
        """Return the present moment, for `since`."""
        return self._changed, self._changed.position

    def since(self, mark: Mark) -> Sequence[int] | None:
        """Return the rows that changed since then; None where that may be all of them."""
        changed, position = mark
        return changed.since(position) if changed is self._changed else None

    def sync(self) -> None:
        """Bring it up to date with the nominations and the snapshot."""
        position = self._nominations.position
        epoch = self._columns.changes.epoch
        if epoch == self._epoch and position == self._position:
            return
        names = self._nominations.since(self._position) if epoch == self._epoch else None
        if names is None:
            self.pods = {}
            self._changed = ChangedKeys()
            self._epoch = epoch
            names = [*self._nominations.nodes]
        self._position = position
        for name in names:
            row = self._columns.index.get(name)
            if row is None:
                continue
            ahead = self._ahead(name)
            # A statement that was rolled back changed nothing.
            if ahead == self.pods.get(row, []):
                continue
            if ahead:
                self.pods[row] = ahead
            else:
                del self.pods[row]
            self._changed.note(row)

    def row_of(self, uid: str) -> int | None:
        """Return the row to which a pod is nominated, None where it is not, or has a lower priority."""
        name = self._nominations.node_of(uid)
        row = self._columns.index.get(name) if name else None
        return row if row in self.pods else None

    def without(self, row: int, uid: str) -> Sequence[PodInfo]:
        """Return the pods of a row but for one."""
        return [info for info in self.pods.get(row, ()) if info.pod.uid != uid]

    def others_than(self, uid: str) -> Mapping[int, Sequence[PodInfo]]:
        """Return the pods by row but for one; only rows that have some."""
        own = self.row_of(uid)
        if own is None:
            return self.pods
        others = self.without(own, uid)
        return {row: infos if row != own else others for row, infos in self.pods.items() if row != own or others}

    def check_invariants(self) -> None:
        """Raise AssertionError unless an up-to-date one equals what the nominations give."""
        if self._position != self._nominations.position or self._epoch != self._columns.changes.epoch:
            return
        index = self._columns.index
        found = {
            index[name]: ahead for name in self._nominations.nodes if name in index and (ahead := self._ahead(name))
        }
        assert found == self.pods, f"nominations before priority {self.priority} are filed wrongly"

    def _ahead(self, node_name: str) -> list[PodInfo]:
        return [info for info in self._nominations.pods_on(node_name) if info.pod.priority >= self.priority]
