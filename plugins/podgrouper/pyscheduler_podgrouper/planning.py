"""Plan the group of a pod: find the pod's owners, and call the function for the kind of the top owner.

Source: KAI-Scheduler, `pkg/podgrouper/pod_controller.go` and `pkg/podgrouper/podgrouper/plugins/skiptopowner`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_podgrouper.contract import ObjectForbiddenError, ObjectNotFoundError, Owner
from pyscheduler_podgrouper.fields import GroupingError
from pyscheduler_podgrouper.generic import POD_GROUP_ANNOTATION, default_name
from pyscheduler_podgrouper.owners import OwnersError, find_owners
from pyscheduler_podgrouper.rules.simple import PODGROUP_API_VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import GroupPlan, Lookup
    from pyscheduler_podgrouper.table import GrouperTable

__all__ = ["plan_group"]


def plan_group(pod: Pod, lookup: Lookup, table: GrouperTable) -> GroupPlan | None:
    """Return the group of a pod; None if the pod is to be left alone. Raise `GroupingError` if there is no answer."""
    if _is_users(pod, lookup):
        return None
    try:
        top, chain = find_owners(pod, lookup)
    except OwnersError:
        if pod.is_terminating:
            return None
        raise
    plan = _plan(top, chain, pod, lookup, table)
    pool_key = lookup.settings.node_pool_label_key
    if pool_key and pool_key in pod.labels and pool_key not in plan.labels:
        return attrs.evolve(plan, labels={**plan.labels, pool_key: pod.labels[pool_key]})
    return plan


def _is_users(pod: Pod, lookup: Lookup) -> bool:
    """Return True for a pod without owners in a group that a user made.

    A group that the pod itself owns, or that is named after it, is one of ours.
    """
    name = pod.annotations.get(POD_GROUP_ANNOTATION)
    if name is None or pod.metadata.owner_references or name == default_name(pod):
        return False
    try:
        group = lookup.get(PODGROUP_API_VERSION, "PodGroup", name, pod.namespace)
    except (ObjectNotFoundError, ObjectForbiddenError):
        return True
    return all(owner.uid != pod.uid for owner in group.owner_references)


def _plan(top: Owner, chain: Sequence[Owner], pod: Pod, lookup: Lookup, table: GrouperTable) -> GroupPlan:
    """Return what the rule of the top owner says, or of the first owner below that is not passed over."""
    row = table.find(*top.gvk)
    while row.skips:
        below = chain[-2] if len(chain) > 1 else Owner.from_object(pod)
        chain = chain[:-1]
        try:
            found = lookup.get(below.api_version, below.kind, below.name, below.namespace)
        except GroupingError as error:
            raise GroupingError(f"failed to get last owner: {error}") from error
        top = found.with_missing_from(top)
        row = table.find_exact(*top.gvk)
    return row.rule(top, chain, pod, lookup)
