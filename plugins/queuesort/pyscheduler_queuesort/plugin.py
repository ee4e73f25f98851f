"""`GangSort`: sorts pods by priority and time, so that the members of a group are adjacent.

kube-scheduler sorts pods of equal priority by the time at which each pod entered the queue. If the pods of two groups
arrive alternately, each group may then get half of the nodes that it needs. `GangSort` uses one time for all members of
a group.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from pyscheduler.framework import QueueSortPlugin
from pyscheduler.podgroup import DIALECTS, PodGroups, coscheduling_key, gang_key, kinds_of
from pyscheduler_queuesort.args import GangSortArgs, QueueOrder

if TYPE_CHECKING:
    from pyscheduler.framework import Handle, QueuedPodInfo

__all__ = ["GangSort"]

#: The plugin whose groups an order sorts, even if that plugin is not enabled.
_MEANT_FOR = {QueueOrder.COSCHEDULING: "Coscheduling", QueueOrder.GANG: "Gang"}


class GangSort(QueueSortPlugin):
    """Sort by priority, then group time, group and pod; a pod without a group is a group of one."""

    args_type = GangSortArgs
    args: GangSortArgs
    watches = kinds_of(dialect for dialect in DIALECTS if dialect.claimed_by in _MEANT_FOR.values())

    def __init__(self, args: GangSortArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._order = QueueOrder(args.order)
        self._groups = PodGroups.of(handle)
        self._groups.sort_only(_MEANT_FOR[self._order])

    def sort_key(self, info: QueuedPodInfo) -> tuple[object, ...]:
        groups = self._groups
        if self._order is QueueOrder.GANG:
            return gang_key(info, groups.directory, groups.rounds)
        return coscheduling_key(info, groups.directory, groups.last_failed, epoch=groups.epoch)

    def adjacency_key(self, info: QueuedPodInfo) -> Hashable | None:
        if not self.args.back_to_back:
            return None
        state = self._groups.directory.of(info.pod)
        if state is None or not state.group.is_declared:
            return None
        group = state.group
        together = group.gang_group_id if self._order is QueueOrder.GANG else group.id.key
        # With the priority: a member of lower priority must not pass other pods.
        return (together, group.id.family, info.pod.priority)
