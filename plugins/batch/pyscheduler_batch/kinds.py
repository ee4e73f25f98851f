"""API kinds that the plugin `Batch` reads, other than groups and queues, and the RBAC rules for the plugin's writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api import BUILT_IN_KINDS, ENDED_PODS, KindTable, PodDisruptionBudget, PriorityClass, kind_of
from pyscheduler.framework import PolicyRule
from pyscheduler.podgroup import kinds_of
from pyscheduler_quota.quotas import RESOURCE_QUOTAS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler_batch.batch_args import BatchArgs
    from pyscheduler_batch.system import System

__all__ = ["ALWAYS", "kinds_of_settings", "status_rules"]

_BUDGETS: Final = kind_of(PodDisruptionBudget, "poddisruptionbudgets")
#: Priority classes, and pods that have ended.
ALWAYS: Final = (KindTable(BUILT_IN_KINDS).of(PriorityClass), ENDED_PODS)


def kinds_of_settings(args: BatchArgs, system: type[System]) -> Sequence[ResourceKind]:
    """Return the kinds that reservations of quota and the protection of victims read."""
    quotas = (RESOURCE_QUOTAS,) if system.waits_for_quota(args) else ()
    return (*quotas, *(() if args.disruption_budgets == "ignore" else (_BUDGETS,)))


def status_rules(system: type[System]) -> tuple[PolicyRule, ...]:
    """Return the permissions for evictions, and to write the status of a system's groups and queues.

    Times of groups are in annotations, and in Volcano why a queue is closed; these are not part of the status.
    """
    groups, queues = kinds_of([system.jobs.groups]), system.queues.kinds
    by_group = tuple(dict.fromkeys(kind.group for kind in groups))
    return (
        PolicyRule(api_groups=("",), resources=("pods",), verbs=("delete",)),
        PolicyRule(api_groups=("",), resources=("pods/status",), verbs=("patch",)),
        PolicyRule(api_groups=by_group, resources=("podgroups/status",), verbs=("patch",)),
        PolicyRule(api_groups=by_group, resources=tuple(system.annotated), verbs=("patch",)),
        PolicyRule(
            api_groups=tuple(dict.fromkeys(kind.group for kind in queues)),
            resources=("queues/status",),
            verbs=("patch",),
        ),
    )
