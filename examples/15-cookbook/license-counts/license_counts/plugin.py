"""LicenseCounts: pods request licenses like a resource. The licenses belong to the cluster, not to a node."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Nodes,
    NodeStatuses,
    Pod,
    PreFilterPlugin,
    QueueingHint,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.api import pod_requests

#: The licenses that the pod requests, by resource name.
WANTED: Final[StateKey[Mapping[str, int]]] = StateKey("LicenseCounts/wanted")


def _check_totals(_args: object, _attribute: object, totals: Mapping[str, int]) -> None:
    for name, total in totals.items():
        if "/" not in name:
            raise ValueError(f'totals[{name}] must be named like an extended resource, for example "license.io/{name}"')
        if total < 0:
            raise ValueError(f"totals[{name}] must not be negative, but is {total}")


@attrs.frozen(kw_only=True)
class LicenseCountsArgs:
    """The number of licenses, by the resource name under which pods request them."""

    totals: Mapping[str, int] = attrs.field(validator=_check_totals)


class LicenseCounts(PreFilterPlugin, FilterPlugin, EnqueueExtensions, SignPlugin):
    """Reject pods that request more licenses than the pods with a node leave.

    The plugin keeps no books. The snapshot has what every placed pod requests, assumed pods included. So the count is
    right after a restart, after a failed binding, in trials and in preemption.
    """

    # No `reuse`: the answer for one node depends on the pods of all others. For the same reason, preemption must try
    # one node at a time: otherwise it would evict pods of several nodes at once, and count all their licenses.
    counts_across_nodes = True
    args_type = LicenseCountsArgs
    args: LicenseCountsArgs

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        wanted = self.wanted(pod)
        if not wanted:
            return Status.skip()
        for name, amount in wanted.items():
            if amount > self.args.totals[name]:
                return Status.unresolvable(f"the cluster has only {self.args.totals[name]} of {name}")
        state.write(WANTED, wanted)
        return None

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        # `nodes` may be a part of the cluster; the count needs all of it.
        everywhere = self.handle.snapshot.nodes
        for name, amount in state.read(WANTED).items():
            if int(everywhere.requested(name).sum()) + amount > self.args.totals[name]:
                exhausted = Status.unschedulable(f"Insufficient {name} in the cluster")
                return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), exhausted)
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # UPDATE_POD_SCALE_DOWN is a pod, this one or another, that now requests less. A deleted node takes the requests
        # of its pods with it.
        freed = ClusterEvent(EventResource.POD, ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN)
        gone = ClusterEvent(EventResource.NODE, ActionType.DELETE)
        return [ClusterEventWithHint(freed, self.after_pod_change), ClusterEventWithHint(gone)]

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry if a pod gave back a license that this pod wants, or if this pod wants less."""
        if not isinstance(old, Pod):
            return QueueingHint.QUEUE
        is_own = old.uid == pod.uid
        after = self.wanted(new) if isinstance(new, Pod) else {}
        given_back = {name for name, amount in self.wanted(old).items() if amount > after.get(name, 0)}
        if not given_back.isdisjoint(self.wanted(pod)) or is_own:
            return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("LicenseCounts", tuple(sorted(self.wanted(pod).items()))),)

    def wanted(self, pod: Pod) -> Mapping[str, int]:
        """Return the licenses that a pod requests."""
        return {name: n for name, n in pod_requests(pod).items() if n and name in self.args.totals}
