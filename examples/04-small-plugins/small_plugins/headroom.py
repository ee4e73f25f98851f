"""Headroom: keep a share of every node's CPU free. The filter is written twice: for all nodes at once, and for one."""

from collections.abc import Sequence
from typing import Final

import attrs

from pyscheduler import (
    CPU,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    NodeInfo,
    Nodes,
    NodeStatuses,
    Pod,
    PreFilterPlugin,
    QueueingHint,
    StateKey,
    Status,
)
from pyscheduler.api import pod_requests

NO_HEADROOM: Final = Status.unschedulable("node(s) had no CPU headroom left")


@attrs.frozen(kw_only=True)
class HeadroomArgs:
    """The share of a node's CPU that stays free, in percent."""

    percent: int = attrs.field(default=10, validator=[attrs.validators.ge(0), attrs.validators.le(100)])


class Headroom(FilterPlugin, EnqueueExtensions):
    """All nodes at once: a few array operations, however many nodes there are."""

    args_type = HeadroomArgs
    args: HeadroomArgs

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        usable = nodes.allocatable(CPU) * (100 - self.args.percent) // 100
        wanted = nodes.requested(CPU) + pod_requests(pod).get(CPU, 0)
        return NodeStatuses.failing(wanted > usable, NO_HEADROOM)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        grown = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [ClusterEventWithHint(grown), ClusterEventWithHint(gone, self.after_deletion)]

    def after_deletion(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Try again only if the pod that went away had CPU on a node."""
        freed = isinstance(old, Pod) and old.node_name and pod_requests(old).get(CPU, 0)
        return QueueingHint.QUEUE if freed else QueueingHint.SKIP


WANTED: Final[StateKey[int]] = StateKey("HeadroomOneByOne/wanted")


class HeadroomOneByOne(PreFilterPlugin, FilterPlugin):
    """The same rule for one node at a time: simpler to write, and one Python call per node."""

    args_type = HeadroomArgs
    args: HeadroomArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        state.write(WANTED, pod_requests(pod).get(CPU, 0))

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        usable = node.allocatable.milli_cpu * (100 - self.args.percent) // 100
        return NO_HEADROOM if node.requested.milli_cpu + state.read(WANTED) > usable else None
