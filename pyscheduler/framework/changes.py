"""Compare the old and the new version of a pod or node, and return the cluster events that the change causes.

The API server does not say what changed, but plugins register for changes of certain fields, such as a node's labels.
Source: kube-scheduler 1.36, `pkg/scheduler/framework/events.go`, with its default feature gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import QuantityError, parse_quantity, pod_requests
from pyscheduler.framework.events import ActionType, ClusterEvent, EventResource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyscheduler.api import Node, Pod, ResourceList

__all__ = ["node_changes", "pod_changes"]

#: Events are values and there are few of them, so they are made once.
_EVENTS: Final = {
    (resource, action): ClusterEvent(resource, action)
    for resource in (EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD, EventResource.NODE)
    for action in ActionType.__members__.values()
}


def pod_changes(old: Pod, new: Pod) -> Sequence[ClusterEvent]:
    """Return the events of a pod's update, in kube-scheduler's order; at least one.

    They concern `AssignedPod` where `new` has a node, else `UnschedulablePod`. A change of nothing in particular (an
    annotation, the status) is the general Update, which only general registrations cover.
    """
    resource = EventResource.ASSIGNED_POD if new.spec.node_name else EventResource.UNSCHEDULABLE_POD
    actions = tuple(_pod_actions(old, new)) or (ActionType.UPDATE,)
    return [_EVENTS[resource, action] for action in actions]


def node_changes(old: Node, new: Node) -> Sequence[ClusterEvent]:
    """Return the events of a node's update, in kube-scheduler's order; none when nothing changed that pods wait for.

    Making the node schedulable again and changing its taints are both UpdateNodeTaint, so that one may come twice.
    """
    return [_EVENTS[EventResource.NODE, action] for action in _node_actions(old, new)]


def _pod_actions(old: Pod, new: Pod) -> Iterator[ActionType]:
    if old.metadata.labels != new.metadata.labels:
        yield ActionType.UPDATE_POD_LABEL
    if _is_scaled_down(old, new):
        yield ActionType.UPDATE_POD_SCALE_DOWN
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    # The API allows tolerations to be added, nothing else; so their number tells.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield ActionType.UPDATE_POD_TOLERATION
    if (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    ):
        yield ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    """Return whether any effective request became smaller or vanished, a resize under way taken into account."""
    try:
        before, after = pod_requests(old), pod_requests(new)
    except QuantityError:
        return False
    return any(name not in after or amount > after[name] for name, amount in before.items())


def _node_actions(old: Node, new: Node) -> Iterator[ActionType]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield ActionType.UPDATE_NODE_TAINT
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        yield ActionType.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        yield ActionType.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints:
        yield ActionType.UPDATE_NODE_TAINT
    if _conditions(old) != _conditions(new):
        yield ActionType.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield ActionType.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        yield ActionType.UPDATE_NODE_DECLARED_FEATURE


def _same_amounts(old: ResourceList, new: ResourceList) -> bool:
    """Compare by value: `1` and `1000m` are the same amount."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    try:
        return all(parse_quantity(raw) == parse_quantity(new[name]) for name, raw in old.items())
    except QuantityError:
        return False


def _conditions(node: Node) -> Mapping[str, str]:
    """Return the status of each condition; heartbeats and wording do not count."""
    return {condition.type: condition.status for condition in node.status.conditions}
