"""Queueing hints for pods that DynamicResources rejected.

Source: kube-scheduler 1.36, `dynamicresources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.api import DeviceTaintRule, Pod, ResourceClaim, kind_of
from pyscheduler.framework import ActionType, ClusterEvent, ClusterEventWithHint, EventResource, QueueingHint
from pyscheduler.framework.watches import event_resource
from pyscheduler.plugins.dynamic_resources.claims import ClaimError, find_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.plugins.dynamic_resources.claims import Find

__all__ = ["DEVICE_TAINT_RULES", "Hints"]

DEVICE_TAINT_RULES: Final = kind_of(DeviceTaintRule, "devicetaintrules", namespaced=False)
"""The kind that is watched with the gate DRADeviceTaintRules."""

_CHANGES: Final = ActionType.ADD | ActionType.UPDATE


@attrs.frozen
class Hints:
    """The hints, with the claims they look at."""

    find: Find
    #: Return True, once, if the pod was refused while something was promised to others.
    take_refused: Callable[[Pod], bool]
    #: Whether rules may taint devices.
    has_rules: bool = False

    def events(self) -> Sequence[ClusterEventWithHint]:
        """Return what DynamicResources registers."""
        nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE
        made = ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM
        rules = ClusterEvent(event_resource(DEVICE_TAINT_RULES), ActionType.UPDATE | ActionType.DELETE)
        return (
            *((ClusterEventWithHint(rules),) if self.has_rules else ()),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_CLAIM, _CHANGES), self.after_claim_change),
            ClusterEventWithHint(ClusterEvent(EventResource.POD, made), self.after_pod_change),
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE), self.after_pod_gone),
            ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, _CHANGES)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, _CHANGES)),
        )

    def after_claim_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a claim gave its devices back, or one of the pod's came, or its status changed."""
        assert isinstance(new, ResourceClaim)
        try:
            claims = find_claims(pod, self.find)
        except ClaimError:
            return QueueingHint.SKIP  # the pod could not be scheduled anyway
        before = old.status if isinstance(old, ResourceClaim) else None
        if before is not None and before.allocation is not None and new.status.allocation is None:
            return QueueingHint.QUEUE
        if all(claim.uid != new.uid for claim in claims):
            return QueueingHint.SKIP
        # What happens often is that somebody adds a finalizer.
        return QueueingHint.SKIP if before is not None and before == new.status else QueueingHint.QUEUE

    def after_pod_gone(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a pod gave back its node: no claim shows devices that were promised to it and never written."""
        return QueueingHint.QUEUE if self.take_refused(pod) else QueueingHint.SKIP

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when the last of the pod's claims was made."""
        assert isinstance(new, Pod)
        if pod.uid != new.uid:
            return QueueingHint.SKIP
        try:
            find_claims(new, self.find)
        except ClaimError:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE
