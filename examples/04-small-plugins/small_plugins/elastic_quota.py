"""ElasticQuota: a namespace has a guaranteed minimum, and may borrow quota that other namespaces do not use.

A pod within its namespace's minimum can evict pods of namespaces that use more than their minimum. The idea is from
CapacityScheduling in kubernetes-sigs/scheduler-plugins.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np

from pyscheduler import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    Pod,
    PodInfo,
    PostFilterPlugin,
    PostFilterResult,
    PreemptionRules,
    PreEnqueuePlugin,
    Status,
)
from pyscheduler.api import KubeObject, ResourceList, Wire, amounts_of, kind_of, pod_requests
from pyscheduler.framework import event_resource
from pyscheduler.framework.namespace_usage import NamespaceUsage

EVICTING: Final = Status.unresolvable("waiting for the eviction of pods that borrow")
OVER_MAX: Final = Status.unschedulable("the maximum of the namespace's quota is reached")
NOTHING_LEFT: Final = Status.unschedulable("all minimums together are used up")


class ElasticQuotaSpec(Wire):
    """Amounts by resource name; a resource without a `max` is unlimited."""

    min: ResourceList = msgspec.field(default_factory=dict)
    max: ResourceList = msgspec.field(default_factory=dict)


class ElasticQuota(KubeObject):
    """The quota of its namespace."""

    api_version: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"
    kind: ClassVar[str] = "ElasticQuota"

    spec: ElasticQuotaSpec = ElasticQuotaSpec()


ELASTIC_QUOTAS: Final = kind_of(ElasticQuota, "elasticquotas")


class Quotas:
    """The quotas with what their namespaces use, on the snapshot as it is at each call."""

    def __init__(self, handle: Handle) -> None:
        self.usage = NamespaceUsage(handle)
        self.min: dict[str, dict[str, int]] = {}
        self.max: dict[str, dict[str, int]] = {}
        handle.lister(ElasticQuota).add_event_handler(
            on_add=self.keep, on_update=lambda _old, new: self.keep(new), on_delete=self.drop
        )

    def keep(self, quota: ElasticQuota) -> None:
        self.min[quota.metadata.namespace] = amounts_of(quota.spec.min)
        self.max[quota.metadata.namespace] = amounts_of(quota.spec.max)

    def drop(self, quota: ElasticQuota) -> None:
        del self.min[quota.metadata.namespace], self.max[quota.metadata.namespace]

    def exceeds(self, limits: dict[str, int], pod: Pod) -> bool:
        """Return True if the namespace would use more than `limits` with the pod."""
        used, wanted = self.usage.of(pod.namespace), pod_requests(pod)
        return any(amount > limits[name] - used.get(name) for name, amount in wanted.items() if name in limits)

    def exceeds_all(self, pod: Pod) -> bool:
        """Return True if all namespaces with a quota would use more than all minimums with the pod."""
        used = self.usage.by_namespace()
        return any(
            amount + sum(used[each].get(name) for each in self.min if each in used)
            > sum(minimum[name] for minimum in self.min.values() if name in minimum)
            for name, amount in pod_requests(pod).items()
            if name in self.min[pod.namespace]
        )

    def can_spare(self, victim: PodInfo) -> bool:
        """Return True if the namespace keeps its minimum without the pod."""
        minimum, used = self.min[victim.pod.namespace], self.usage.of(victim.pod.namespace)
        wanted = [name for name in minimum if victim.requests.get(name)]
        return bool(wanted) and all(used.get(name) - victim.requests.get(name) >= minimum[name] for name in wanted)


class QuotaRules(PreemptionRules):
    """A pod within its namespace's minimum takes back what others borrow; any other pod preempts in its namespace."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas

    def potential_victims(self, node: NodeInfo, preemptor: Pod, state: CycleState) -> Iterable[PodInfo]:
        quotas = self.quotas
        within = preemptor.namespace in quotas.min and not quotas.exceeds(quotas.min[preemptor.namespace], preemptor)
        for info in sorted(node.pods, key=lambda each: each.pod.priority):
            if info.pod.namespace == preemptor.namespace:
                if not within and info.pod.priority < preemptor.priority:
                    yield info
            elif within and info.pod.namespace in quotas.min and quotas.can_spare(info):
                # It is off the snapshot when this goes on, so the next answer counts without it.
                yield info


class ElasticQuotas(FilterPlugin, PostFilterPlugin, PreEnqueuePlugin, EnqueueExtensions):
    """Enforce maximums, share what is not used, and take back what is guaranteed."""

    watches = (ELASTIC_QUOTAS,)
    counts_across_nodes = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.quotas = Quotas(handle)
        self.preemptor = handle.preemptor(self.name, QuotaRules(self.quotas))

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        quotas = self.quotas
        if pod.namespace not in quotas.min:
            return None
        all_nodes = np.ones(len(nodes), dtype=np.bool_)
        if quotas.exceeds(quotas.max[pod.namespace], pod):
            return NodeStatuses.failing(all_nodes, OVER_MAX)
        return NodeStatuses.failing(all_nodes, NOTHING_LEFT) if quotas.exceeds_all(pod) else None

    async def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        return await self.preemptor.preempt(state, pod, statuses)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return EVICTING if self.preemptor.is_preempting(pod.uid) else None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = ActionType.ADD | ActionType.UPDATE | ActionType.DELETE
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(event_resource(ELASTIC_QUOTAS), changed)),
        ]
