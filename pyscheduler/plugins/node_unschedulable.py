"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint `node.kubernetes.io/unschedulable`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import NO_SCHEDULE, Node, Pod, Taint, tolerates
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    QueueingHint,
    Reuse,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.framework.signatures import sign_tolerations

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["NodeUnschedulable"]

_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_REJECTION: Final = Status.unresolvable("node(s) were unschedulable")


class NodeUnschedulable(FilterPlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes with `spec.unschedulable` to pods without the toleration."""

    reuse = Reuse.WHILE_NODE_STAYS

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        gates = handle.feature_gates if handle is not None else {}
        self._comparison_operators = gates.get("TaintTolerationComparisonOperators", False)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        cordoned = nodes.unschedulable()
        if not cordoned.any() or self._is_tolerated(pod):
            return None
        return NodeStatuses.failing(cordoned, _REJECTION)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        everywhere = self.handle.snapshot.nodes
        cordoned = int(everywhere.unschedulable().sum())
        return f"{cordoned} of {len(everywhere)} nodes are cordoned, and the pod has no toleration of {_CORDONED.key}"

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_tolerations(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
                self.after_node_change,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION), self.after_toleration_added
            ),
        )

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue on a node that came uncordoned or was uncordoned."""
        assert isinstance(new, Node)
        was_schedulable = isinstance(old, Node) and not old.spec.unschedulable
        return QueueingHint.SKIP if new.spec.unschedulable or was_schedulable else QueueingHint.QUEUE

    def after_toleration_added(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue the pod that tolerates cordoned nodes by now; tolerations can be added, never removed."""
        assert isinstance(new, Pod)
        return QueueingHint.QUEUE if new.uid == pod.uid and self._is_tolerated(new) else QueueingHint.SKIP

    def _is_tolerated(self, pod: Pod) -> bool:
        return any(
            tolerates(toleration, _CORDONED, comparison_operators=self._comparison_operators)
            for toleration in pod.spec.tolerations
        )
