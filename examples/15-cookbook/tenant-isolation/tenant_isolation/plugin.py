"""TenantIsolation: pods of different tenants do not share a node."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import (
    MAX_SCORE,
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
    Pod,
    PreFilterPlugin,
    PreScorePlugin,
    QueueingHint,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.api import EVERYTHING, Namespace, kind_of
from pyscheduler.framework import event_resource

NAMESPACES: Final = kind_of(Namespace, "namespaces", namespaced=False)
TAKEN: Final = Status.unschedulable("node(s) had pods of another tenant")
UNKNOWN: Final = Status.unresolvable("the namespace of the pod is not known yet")


@attrs.frozen(kw_only=True)
class TenantIsolationArgs:
    """The label of namespaces that names their tenant. Pods cannot choose their tenant themselves."""

    tenant_label: str = attrs.field(default="example.com/tenant", validator=attrs.validators.min_len(1))


class TenantIsolation(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Reject nodes with pods of another tenant, and prefer those with pods of the same.

    Pods in namespaces without a tenant (DaemonSets of the system) run anywhere, and do not take a node for anybody. The
    plugin keeps no books of pods: the snapshot counts them, assumed pods included, also in trials and in preemption.
    """

    # No `reuse`: the answer depends on the pod's namespace, which no equivalence class has.
    args_type = TenantIsolationArgs
    args: TenantIsolationArgs
    watches = (NAMESPACES,)

    def __init__(self, args: TenantIsolationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        #: The namespaces of each tenant, and those of all.
        self.namespaces_of: Mapping[str, frozenset[str]] = {}
        self.owned: frozenset[str] = frozenset()
        handle.lister(Namespace).add_event_handler(
            on_add=self.after_change, on_update=self.after_update, on_delete=self.after_change
        )

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        if self.handle.lister(Namespace).get(pod.namespace) is None:
            return UNKNOWN
        return None if self.tenant_of(pod) else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        others = nodes.matching_pods(EVERYTHING, self.owned) - self.own_pods(pod, nodes)
        return NodeStatuses.failing(others > 0, TAKEN)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return None if self.tenant_of(pod) else Status.skip()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        # A tenant that fills its nodes leaves more nodes to the others.
        return np.where(self.own_pods(pod, nodes) > 0, MAX_SCORE, 0).astype(np.int64)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE)
        new = ClusterEvent(EventResource.NODE, ActionType.ADD)
        relabeled = ClusterEvent(event_resource(NAMESPACES), ActionType.ADD | ActionType.UPDATE | ActionType.DELETE)
        return [
            ClusterEventWithHint(gone, self.after_deletion),
            ClusterEventWithHint(new),
            ClusterEventWithHint(relabeled),
        ]

    def after_deletion(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Retry if the deleted pod had a node, and another tenant."""
        if isinstance(old, Pod) and (not old.node_name or self.tenant_of(old) in {"", self.tenant_of(pod)}):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("TenantIsolation/tenant", self.tenant_of(pod)),)

    def tenant_of(self, pod: Pod) -> str:
        """Return the tenant of the pod's namespace; "" if it has none."""
        namespace = self.handle.lister(Namespace).get(pod.namespace)
        return "" if namespace is None else namespace.labels.get(self.args.tenant_label, "")

    def own_pods(self, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        """Return int64[n]: how many pods of the same tenant each node has."""
        return nodes.matching_pods(EVERYTHING, self.namespaces_of.get(self.tenant_of(pod), frozenset()))

    def after_update(self, old: Namespace, new: Namespace) -> None:
        """Take in a namespace whose labels changed."""
        if old.labels != new.labels:
            self.after_change(new)

    def after_change(self, _: Namespace) -> None:
        """Group the namespaces by tenant again."""
        found: dict[str, set[str]] = {}
        for namespace in self.handle.lister(Namespace):
            tenant = namespace.labels.get(self.args.tenant_label, "")
            if tenant:
                found.setdefault(tenant, set()).add(namespace.name)
        self.namespaces_of = {tenant: frozenset(names) for tenant, names in found.items()}
        self.owned = frozenset().union(*self.namespaces_of.values())
