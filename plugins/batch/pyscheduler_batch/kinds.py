"""The kinds of objects that a preset reads, and the permissions to write their statuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import PodDisruptionBudget, kind_of
from pyscheduler.batch.dialects import JOB_DIALECTS, QUEUE_DIALECTS
from pyscheduler.batch.hyper_nodes import HYPER_NODES
from pyscheduler.batch.topology import KAI_TOPOLOGIES
from pyscheduler.framework import PolicyRule
from pyscheduler.podgroup import kinds_of
from pyscheduler.podgroup.quotas import RESOURCE_QUOTAS
from pyscheduler_batch.volcano.resource_quota import ResourceQuotas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.batch.configuration import BatchArgs

__all__ = [
    "BUDGETS",
    "TOPOLOGIES",
    "kinds_of_budgets",
    "kinds_of_groups",
    "kinds_of_policies",
    "kinds_of_queues",
    "kinds_of_reservations",
    "status_rules",
]

#: By preset and policy, the kind that the policy reads.
_READ_BY: Final = {
    ("kai", "topology"): KAI_TOPOLOGIES,
    ("volcano", "network-topology-aware"): HYPER_NODES,
    ("volcano", ResourceQuotas.name): RESOURCE_QUOTAS,
}
BUDGETS: Final = kind_of(PodDisruptionBudget, "poddisruptionbudgets")
TOPOLOGIES: Final = (KAI_TOPOLOGIES, HYPER_NODES)


def kinds_of_groups(preset: str) -> Sequence[ResourceKind]:
    """Return the kinds of groups of a preset."""
    return kinds_of(row.groups for row in JOB_DIALECTS if row.name == preset)


def kinds_of_queues(preset: str) -> Sequence[ResourceKind]:
    """Return the kinds of queues of a preset."""
    return [kind for row in QUEUE_DIALECTS if row.name == preset for kind in row.kinds]


def kinds_of_policies(args: BatchArgs) -> Mapping[str, ResourceKind]:
    """Return, by policy of the configuration, the kind that it reads."""
    return {
        policy: kind
        for (preset, policy), kind in _READ_BY.items()
        if preset == args.preset and args.policy(policy) is not None
    }


def kinds_of_budgets(args: BatchArgs) -> Sequence[ResourceKind]:
    """Return the kinds that the protection of victims reads."""
    return () if args.disruption_budgets == "ignore" else (BUDGETS,)


def kinds_of_reservations(args: BatchArgs) -> Sequence[ResourceKind]:
    """Return the kinds that reservations of quota read."""
    return (RESOURCE_QUOTAS,) if args.waits_for_quota else ()


def status_rules(preset: str) -> tuple[PolicyRule, ...]:
    """Return the permissions for evictions, and to write the status of the preset's groups and queues.

    Times of groups are in annotations, and in Volcano why a queue is closed; these are not part of the status.
    """
    groups, queues = kinds_of_groups(preset), kinds_of_queues(preset)
    by_group = tuple(dict.fromkeys(kind.group for kind in groups))
    annotated = ("podgroups", "queues") if preset == "volcano" else ("podgroups",)
    return (
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("delete",)),
        PolicyRule(api_groups=("",), resources=("pods/status",), verbs=("patch",)),
        PolicyRule(api_groups=by_group, resources=("podgroups/status",), verbs=("patch",)),
        PolicyRule(api_groups=by_group, resources=annotated, verbs=("patch",)),
        PolicyRule(
            api_groups=tuple(dict.fromkeys(kind.group for kind in queues)),
            resources=("queues/status",),
            verbs=("patch",),
        ),
    )
