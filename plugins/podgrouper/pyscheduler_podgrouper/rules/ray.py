"""RayCluster, RayJob and RayService: one pod group for the head and the workers of a cluster.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/ray`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_podgrouper.contract import (
    GroupPlan,
    ObjectForbiddenError,
    ObjectNotFoundError,
    Owner,
    SubGroupPlan,
    TopologyPlan,
)
from pyscheduler_podgrouper.fields import GroupingError, boolean, int32, integer, items, mapping, text
from pyscheduler_podgrouper.generic import TOPOLOGY, TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED, generic
from pyscheduler_podgrouper.rules.simple import PODGROUP_API_VERSION

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup, Rule

__all__ = ["ray_rule"]

_HEAD: Final = "headgroup"
_GROUP_LABEL: Final = "ray.io/group"
_PRIORITY_LABEL: Final = "ray.io/priority-class-name"


def ray_rule(*names: Sequence[str]) -> Rule:
    """Return the rule of a kind; `names` are the fields that may name its RayCluster, none if it is one."""

    def rule(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
        cluster = _cluster(top, names, lookup) if names else top
        plan = generic(top, (), pod, lookup)
        sub_groups = tuple(_sub_groups(cluster, pod))
        minimum = int32(sum(each.min_member for each in sub_groups), "number of pods")
        return attrs.evolve(
            plan,
            min_member=minimum,
            sub_groups=sub_groups if _may_have_sub_groups(plan, lookup) else (),
            priority_class_name=top.labels.get(_PRIORITY_LABEL, plan.priority_class_name),
        )

    return rule


def _cluster(top: Owner, names: Sequence[Sequence[str]], lookup: Lookup) -> Owner:
    """Return the RayCluster that a RayJob or a RayService made."""
    name = next((name for path in names if (name := text(top.body, *path))), None)
    if name is None:
        raise GroupingError(
            f"failed to extract rayClusterName for {top.namespace}/{top.name} of kind {top.kind}. "
            "Please make sure that the ray-operator is up and a rayCluster child-object has been created"
        )
    return lookup.get(top.api_version, "RayCluster", name, top.namespace)


def _may_have_sub_groups(plan: GroupPlan, lookup: Lookup) -> bool:
    """Return False for a group that an older version made without sub-groups: its pods have no label."""
    try:
        group = lookup.get(PODGROUP_API_VERSION, "PodGroup", plan.name, plan.namespace)
    except (ObjectNotFoundError, ObjectForbiddenError):
        return True
    return bool(items(group.body, "spec", "subGroups"))


def _sub_groups(cluster: Owner, pod: Pod) -> list[SubGroupPlan]:
    """Return the sub-group of the head, and one for each group of workers that has any."""
    head = mapping(cluster.body, "spec", "headGroupSpec")
    topology = None if head is None else _topology(head, "headGroupSpec")
    found = [SubGroupPlan(name=_HEAD, min_member=1, topology=topology)]
    for index, group in enumerate(items(cluster.body, "spec", "workerGroupSpecs") or ()):
        if not isinstance(group, Mapping):
            raise GroupingError(f"failed to parse worker group spec {index}")
        minimum = _workers(group, index)
        if minimum is None:
            continue
        hosts = integer(group, "numOfHosts")
        name = _name(group, index)
        found.append(
            SubGroupPlan(
                name=name,
                min_member=minimum * (1 if hosts is None else hosts),
                topology=_topology(group, f"workerGroupSpecs.{name}"),
            )
        )
    own = pod.labels.get(_GROUP_LABEL)
    first = next((each for each in found if each.name == own), None)
    return [attrs.evolve(each, pods=(pod.name,)) if each is first else each for each in found]


def _name(group: Mapping[str, Any], index: int) -> str:
    name = group.get("groupName")
    return name if isinstance(name, str) and name else f"worker-group-{index}"


def _workers(group: Mapping[str, Any], index: int) -> int | None:
    """Return the least number of replicas of a group of workers; None if the group has no workers now."""
    if boolean(group, "suspended"):
        return None
    replicas = integer(group, "replicas") or 0
    least = integer(group, "minReplicas") or 0
    if least > replicas:
        raise GroupingError(
            "ray-cluster replicas for a workerGroupsSpec can't be less than minReplicas. "
            f"Given {replicas} replicas and {least} minReplicas. "
            f"Please fix the replicas field for group number {index}"
        )
    if not least and not replicas:
        return None
    return least if least > 0 else replicas


def _topology(group: Mapping[str, Any], where: str) -> TopologyPlan | None:
    """Return the topology constraint of a sub-group; None without a level."""
    annotations = ("template", "metadata", "annotations")
    topology, required, preferred = (
        text(group, *annotations, key) or "" for key in (TOPOLOGY, TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED)
    )
    if not required and not preferred:
        return None
    if not topology:
        raise GroupingError(
            f"topology annotation ({TOPOLOGY}) is required for {where} when topology placement annotations are set"
        )
    return TopologyPlan(topology=topology, required=required, preferred=preferred)
