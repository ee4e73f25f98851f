"""A `Statement` evicts, places and nominates pods in the snapshot, and can undo these changes (see `what_if`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.snapshot import Checkpoint

__all__ = ["Statement"]


class Statement(Protocol):
    """Changes of the snapshot and of plugins' books within a trial."""

    def place(self, info: PodInfo, node_name: str) -> None:
        """Put a pod on a node; raise `KeyError` if the node is not in the snapshot. A nomination of the pod ends.

        A pod that was evicted from that node holds again what it held there.
        """
        ...

    def evict(self, info: PodInfo, node_name: str) -> None:
        """Take a pod off a node; raise `KeyError` if either is not in the snapshot."""
        ...

    def evict_all(self, infos: Iterable[PodInfo], node_name: str, *, free_ports: bool = False) -> None:
        """Take several pods off a node, with what they hold in plugins' books (`ReservePlugin.release_in_trial`).

        With `free_ports` their host ports count as free, even where another pod uses them as well.
        """
        ...

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node; "" ends its nomination."""
        ...

    def checkpoint(self) -> Checkpoint:
        """Mark the present state. Checkpoints nest."""
        ...

    def rollback(self, to: Checkpoint) -> None:
        """Undo everything since the checkpoint, which is used up."""
        ...

    def undo_at_end(self) -> AbstractContextManager[None]:
        """Take a checkpoint on entry, roll back to it on exit."""
        ...
