"""`Snapshot`: nodes and pods as they were at the start of a scheduling cycle, with changes that can be undone.

For example, the scheduler evicts pods in the snapshot to find preemption victims. `rollback` undoes the evictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo

__all__ = ["Checkpoint", "Snapshot"]

#: A point to which a snapshot can be rolled back.
Checkpoint = NewType("Checkpoint", int)


class Snapshot(Protocol):
    """The nodes and pods of the cluster as of the last update, plus what the open statements did."""

    @property
    def nodes(self) -> Nodes:
        """Return the view of all nodes."""
        ...

    def get(self, node_name: str) -> NodeInfo | None:
        """Return one node, or None."""
        ...

    def checkpoint(self) -> Checkpoint:
        """Mark the present state. Checkpoints nest."""
        ...

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Undo everything since `checkpoint`, which is used up."""
        ...

    def keep(self, checkpoint: Checkpoint) -> None:
        """Give up the last checkpoint: what was done since is undone with the checkpoint before it."""
        ...

    def undo_at_end(self) -> AbstractContextManager[None]:
        """Take a checkpoint on entry, roll back to it on exit."""
        ...

    def what_if(self) -> AbstractContextManager[None]:
        """Return `undo_at_end()`, under its old name; deprecated."""
        ...

    def place(self, info: PodInfo, node_name: str) -> None:
        """Put a pod on a node; raise `KeyError` when the node is not here."""
        ...

    def evict(self, info: PodInfo, node_name: str, *, free_ports: bool = False) -> None:
        """Take a pod off a node; raise `KeyError` when either is not here.

        With `free_ports` its host ports count as free then, even where another pod uses them as well.
        """
        ...

    def evict_all(self, infos: Iterable[PodInfo], node_name: str, *, free_ports: bool = False) -> None:
        """Take several pods off a node at once; otherwise like `evict`."""
        ...

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node within the statement."""
        ...

    def nominated_pods(self, node_name: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node: the queue's, plus this statement's."""
        ...

    @property
    def nominated_nodes(self) -> Collection[str]:
        """Return the names of the nodes that some pod is nominated to, by the queue or this statement.

        Empty as a rule; some of the names may belong to nodes that are not here.
        """
        ...

    @property
    def nodes_with_affinity_pods(self) -> Sequence[NodeInfo]:
        """Return the nodes that hold a pod with (anti-)affinity terms."""
        ...

    @property
    def nodes_with_anti_affinity_pods(self) -> Sequence[NodeInfo]:
        """Return the nodes that hold a pod with required anti-affinity terms."""
        ...

    def pvc_in_use(self, key: str) -> bool:
        """Return whether any pod on any node uses the claim `namespace/name`."""
        ...
