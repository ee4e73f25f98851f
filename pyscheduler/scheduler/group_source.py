"""The contract of those that name groups to group cycles: plugins, and the scheduler itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from pyscheduler.api import Pod
    from pyscheduler.framework.group_cycle import GroupVerdict, MemberTree
    from pyscheduler.framework.group_placements import PlacementLevels
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.status import Status

__all__ = ["GroupSource"]


class GroupSource(Protocol):
    """Names the pods that are scheduled in one cycle; a `GroupCyclePlugin` is one."""

    @property
    def name(self) -> str:
        """Return the plugin name under which members wait at Permit."""
        ...

    @property
    def retries_after_backoff(self) -> bool:
        """Return True if members that had a node wait for their backoff only, and for no event."""
        ...

    def groups_to_schedule(self, pod: Pod) -> Mapping[Hashable, Iterable[Pod]] | None:
        """Return the groups that are scheduled with a pod, each with its members; None for a pod without group."""
        ...

    @property
    def tries_again(self) -> bool:
        """Return True if a group that does not fit is tried in another order before it fails."""
        ...

    def places_missing(self, group: Hashable) -> int:
        """Return how many members without a place must find one before the group can start."""
        ...

    def member_tree(self, group: Hashable) -> MemberTree | None:
        """Return the parts of a group that have minimums of their own; None for a group without such parts."""
        ...

    def placement_levels(self, groups: Collection[Hashable], nodes: Nodes) -> PlacementLevels | Status | None:
        """Return the sets of nodes of which the groups may use one; None for all nodes."""
        ...

    def group_cycle_ended(self, groups: Collection[Hashable], verdict: GroupVerdict) -> None:
        """Handle the outcome of a cycle."""
        ...
