"""Grove's PodGangSet and PodCliqueSet: a pod's group is read from its PodGang object.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/grove`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_podgrouper.contract import GroupPlan, Owner, SubGroupPlan, TopologyPlan
from pyscheduler_podgrouper.fields import GroupingError, int32, integer, items, text
from pyscheduler_podgrouper.generic import (
    PREEMPTIBILITY_LABEL,
    PRIORITY_LABEL,
    TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    generic,
    parse_preemptibility,
)

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = ["grove"]

_POD_GANG: Final = "grove.io/podgang"
_TOPOLOGY_NAME: Final = "grove.io/topology-name"
_CONSTRAINT: Final = ("topologyConstraint", "packConstraint")


def grove(top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group that a PodGang describes.

    The queue is that of the PodGang or the pod: labels of the top owner are added later.
    """
    name = pod.labels.get(_POD_GANG)
    if name is None:
        where = f"{pod.namespace}/{pod.name}"
        raise GroupingError(f"label for podgang name (key: {_POD_GANG}) not found in pod {where}")
    said = f"PodGang {pod.namespace}/{name}"
    try:
        gang = lookup.get("scheduler.grove.io/v1alpha1", "PodGang", name, pod.namespace)
    except GroupingError as error:
        raise GroupingError(f"failed to get {said}. Err: {error}") from error
    topology = gang.annotations.get(_TOPOLOGY_NAME, gang.annotations.get(TOPOLOGY, ""))
    try:
        plan = generic(gang, (), pod, lookup)
        plan = _with_constraint(plan, _constraint(gang.body.get("spec"), topology))
        own = text(gang.body, "spec", "priorityClassName")
        plan = plan if own is None else attrs.evolve(plan, priority_class_name=own)
        plan = _with_owner(plan, top)
        parents, parent_of = _parents(gang, topology)
        children = _children(gang, pod.namespace, parent_of, topology)
    except GroupingError as error:
        raise GroupingError(f"failed to parse {said}. Err: {error}") from error
    minimum = int32(sum(each.min_member for each in children), "minReplicas")
    return attrs.evolve(plan, sub_groups=(*parents, *children), min_member=minimum)


def _with_constraint(plan: GroupPlan, constraint: TopologyPlan | None) -> GroupPlan:
    return plan if constraint is None else attrs.evolve(plan, topology=constraint)


def _with_owner(plan: GroupPlan, top: Owner) -> GroupPlan:
    """Return the plan with the labels and annotations of the top owner added, and what they say."""
    labels = {**top.labels, **plan.labels}
    annotations = {**top.annotations, **plan.annotations}
    preemptibility = plan.preemptibility
    if PREEMPTIBILITY_LABEL in labels:
        said = parse_preemptibility(labels[PREEMPTIBILITY_LABEL])
        if said is None:
            raise GroupingError(
                f"failed to parse preemptibility from top owner {plan.namespace}/{plan.name}. "
                f"Err: invalid preemptibility value: {labels[PREEMPTIBILITY_LABEL]}"
            )
        preemptibility = said
    return attrs.evolve(
        plan,
        labels=labels,
        annotations=annotations,
        priority_class_name=labels.get(PRIORITY_LABEL, plan.priority_class_name),
        preemptibility=preemptibility,
        topology=TopologyPlan(
            topology=plan.topology.topology or annotations.get(TOPOLOGY, ""),
            required=plan.topology.required or annotations.get(TOPOLOGY_REQUIRED, ""),
            preferred=plan.topology.preferred or annotations.get(TOPOLOGY_PREFERRED, ""),
        ),
    )


def _constraint(where: object, topology: str) -> TopologyPlan | None:
    """Return the topology constraint of an object's field; None if it has none."""
    preferred = text(where, *_CONSTRAINT, "preferred")
    required = text(where, *_CONSTRAINT, "required")
    if preferred is None and required is None:
        return None
    if not topology:
        raise GroupingError("topology name cannot be empty when topology constraints are defined")
    return TopologyPlan(topology=topology, required=required or "", preferred=preferred or "")


def _needed(value: Any, name: str) -> Any:
    if value is None:
        raise GroupingError(f"missing required '{name}' field")
    return value


def _parents(gang: Owner, topology: str) -> tuple[list[SubGroupPlan], dict[str, str]]:
    """Return the sub-groups that only hold others, and the name of the parent by the name of the child."""
    parents: list[SubGroupPlan] = []
    parent_of: dict[str, str] = {}
    for index, config in enumerate(items(gang.body, "spec", "topologyConstraintGroupConfigs") or ()):
        where = f"spec.topologyConstraintGroupConfigs[{index}]"
        if not isinstance(config, Mapping):
            raise GroupingError(f"invalid structure of {where}")
        try:
            name = _needed(text(config, "name"), "name")
            children = items(config, "podGroupNames") or []
            if not all(isinstance(child, str) for child in children):
                raise GroupingError("failed to parse 'podGroupNames' field. Err: it is not a list of texts")
            if not children:
                continue
            parent_of.update(dict.fromkeys(children, name))
            parents.append(SubGroupPlan(name=name, min_member=0, topology=_constraint(config, topology)))
        except GroupingError as error:
            raise GroupingError(f"failed to parse {where}: {error}") from error
    return parents, parent_of


def _children(gang: Owner, namespace: str, parent_of: Mapping[str, str], topology: str) -> list[SubGroupPlan]:
    """Return the sub-groups that hold pods."""
    found = []
    for index, group in enumerate(items(gang.body, "spec", "podgroups") or ()):
        where = f"spec.podgroups[{index}]"
        if not isinstance(group, Mapping):
            raise GroupingError(f"invalid structure of {where}")
        try:
            found.append(_child(group, namespace, parent_of, topology))
        except GroupingError as error:
            raise GroupingError(f"failed to parse {where}. Err: {error}") from error
    return found


def _child(group: Mapping[str, Any], namespace: str, parent_of: Mapping[str, str], topology: str) -> SubGroupPlan:
    name = _needed(text(group, "name"), "name")
    minimum = _needed(integer(group, "minReplicas"), "minReplicas")
    if minimum <= 0:
        raise GroupingError("invalid 'minReplicas' field. Must be greater than 0")
    pods = [
        _referenced(reference, index, namespace)
        for index, reference in enumerate(_needed(items(group, "podReferences"), "podReferences"))
    ]
    return SubGroupPlan(
        name=name,
        min_member=minimum,
        parent=parent_of.get(name),
        topology=_constraint(group, topology),
        pods=tuple(pods),
    )


def _referenced(reference: object, index: int, namespace: str) -> str:
    """Return the name of a pod that a PodGang refers to; another namespace would let users move others' pods."""
    if not isinstance(reference, Mapping):
        raise GroupingError(f"invalid podReferences[{index}]")
    of = _needed(text(reference, "namespace"), "namespace")
    name: str = _needed(text(reference, "name"), "name")
    if of != namespace:
        raise GroupingError(
            f"cross-namespace pod reference not allowed: pod {of}/{name} "
            f"cannot be referenced from PodGang in namespace {namespace}"
        )
    return name
