"""Make Volcano one of the batch systems whose rules the plugin `Batch` can follow."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import Pod, ResourceClaim, ResourceQuota
from pyscheduler.framework import PluginError
from pyscheduler_batch.system import System
from pyscheduler_quota.quotas import RESOURCE_QUOTAS
from pyscheduler_volcano.device_quotas import claims_of
from pyscheduler_volcano.hyper_nodes import HYPER_NODES
from pyscheduler_volcano.node_order import DEFAULTS, with_node_order
from pyscheduler_volcano.objects import JOBS, QUEUES, ROOT_QUEUE
from pyscheduler_volcano.predicate_switches import with_predicates
from pyscheduler_volcano.preset import VOLCANO
from pyscheduler_volcano.quota_limits import QuotaLimits
from pyscheduler_volcano.reports import VolcanoReports
from pyscheduler_volcano.resource_quota import ResourceQuotas
from pyscheduler_volcano.session import VolcanoSession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler_batch.batch_args import BatchArgs
    from pyscheduler_batch.contract import Session
    from pyscheduler_batch.status.reports import Reports

__all__ = ["Volcano"]

_ROOM: Final = "pyscheduler_volcano"
#: The resources that balanced allocation counts.
_BALANCED: Final = ("cpu", "memory", "nvidia.com/gpu")


class Volcano(System):
    """Queues with states, groups that are enqueued before they have pods, quotas of namespaces, and hypernodes."""

    preset = VOLCANO
    actions: ClassVar[Mapping[str, str]] = {
        "enqueue": f"{_ROOM}.enqueue:Enqueue",
        "allocate": f"{_ROOM}.allocate:Allocate",
        "backfill": f"{_ROOM}.backfill:Backfill",
        "preempt": f"{_ROOM}.preempt:Preempt",
        "reclaim": f"{_ROOM}.reclaim:Reclaim",
    }
    policies: ClassVar[Mapping[str, str]] = {
        "binpack": f"{_ROOM}.binpack:Binpack",
        "capacity": f"{_ROOM}.capacity:Capacity",
        "conformance": f"{_ROOM}.conformance:Conformance",
        "drf": f"{_ROOM}.drf:Drf",
        "gang": f"{_ROOM}.gang:Gang",
        "network-topology-aware": f"{_ROOM}.network_topology:NetworkTopologyAware",
        "nodeorder": f"{_ROOM}.nodeorder:NodeOrder",
        "overcommit": f"{_ROOM}.overcommit:Overcommit",
        "predicates": f"{_ROOM}.predicates:Predicates",
        "priority": f"{_ROOM}.priority:Priority",
        "proportion": f"{_ROOM}.proportion:Proportion",
        "resourcequota": f"{_ROOM}.resource_quota:ResourceQuotas",
        "sla": f"{_ROOM}.sla:Sla",
    }
    session: ClassVar[str] = f"{_ROOM}.session:VolcanoSession"
    jobs, queues = JOBS, QUEUES
    read_by: ClassVar[Mapping[str, ResourceKind]] = {
        "network-topology-aware": HYPER_NODES,
        ResourceQuotas.name: RESOURCE_QUOTAS,
    }
    followed_apart = frozenset({RESOURCE_QUOTAS})
    reports: ClassVar[Reports] = VolcanoReports()
    #: Of queues, why one is closed.
    annotated: ClassVar[Sequence[str]] = ("podgroups", "queues")

    counts_empty_groups = True
    root_queue = ROOT_QUEUE

    @classmethod
    def profile(cls, profile: Mapping[str, object], args: BatchArgs, gates: Mapping[str, bool]) -> Mapping[str, object]:
        """Return the profile with the weights of `nodeorder`, and the filters that `predicates` leaves."""
        return with_predicates(with_node_order(profile, args, DEFAULTS, balanced=_BALANCED), args, gates)

    @classmethod
    def waits_for_quota(cls, args: BatchArgs) -> bool:
        """Return whether jobs are held for lack of quota; Volcano's own policy for it decides if it is there."""
        return super().waits_for_quota(args) and args.policy(ResourceQuotas.name) is None

    @cached_property
    def _limits(self) -> QuotaLimits:
        """Return the quotas of all namespaces."""
        return QuotaLimits()

    def subscribe(self, on_change: Callable[[str | None], object]) -> None:
        """Follow hypernodes and quotas. A quota makes a pass due, but nothing is read anew.

        Otherwise tenants could delay others with quotas that change.
        """
        super().subscribe(on_change)

        def limit_changed(quota: ResourceQuota) -> None:
            if self._limits.put(quota):
                on_change(f"quota/{quota.namespace}")

        def limit_gone(quota: ResourceQuota) -> None:
            self._limits.remove(quota)
            on_change(f"quota/{quota.namespace}")

        if RESOURCE_QUOTAS in self.kinds_read:
            self.handle.lister(ResourceQuota).add_event_handler(
                on_add=limit_changed, on_update=lambda _, new: limit_changed(new), on_delete=limit_gone
            )

    def prepare(self, session: Session) -> None:
        """Give a session hypernodes, quotas, and the claims of pods."""
        assert isinstance(session, VolcanoSession), "the class that `session` names"
        session.hyper_nodes = self.reading(HYPER_NODES)
        session.has_enqueue = "enqueue" in self.args.actions
        if RESOURCE_QUOTAS in self.kinds_read:
            session.quotas = self._limits.tightest
        session.claims_of = self._claims_of
        session.has_device_parts = self.handle.feature_gates["DRAConsumableCapacity"]

    def _claims_of(self, pod: Pod) -> Mapping[str, Mapping[str, float]]:
        try:
            claims = self.handle.lister(ResourceClaim)
        except PluginError:
            return {}  # no profile has the plugin DynamicResources, so no pod gets its claims
        # The pod of a task may be older than the claims that were made for it.
        return claims_of(self.handle.lister(Pod).get(pod.name, pod.namespace) or pod, claims.get)
