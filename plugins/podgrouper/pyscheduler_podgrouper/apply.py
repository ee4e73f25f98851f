"""Compute the body of a new PodGroup, or the patch that updates an existing one.

Source: KAI-Scheduler, `pkg/podgrouper/podgroup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_podgrouper.rules.simple import PODGROUP_API_VERSION

if TYPE_CHECKING:
    from pyscheduler.api import OwnerReference
    from pyscheduler_podgrouper.contract import GroupPlan, Owner, Settings

__all__ = ["group_body", "group_patch", "with_kept_fields"]

_CONSTRAINT: Final = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")


def _reference(owner: OwnerReference) -> dict[str, str]:
    return {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}


def _spec(plan: GroupPlan) -> dict[str, Any]:
    """Return the fields of the spec that the grouper owns; empty ones are not written."""
    named: dict[str, Any] = {
        "minMember": max(0, plan.min_member),
        "queue": plan.queue,
        "priorityClassName": plan.priority_class_name,
        "preemptibility": plan.preemptibility,
        "topologyConstraint": plan.topology.wire(),
        "subGroups": [each.wire() for each in plan.sub_groups],
    }
    return {name: value for name, value in named.items() if value}


def group_body(plan: GroupPlan) -> dict[str, Any]:
    """Return the body of a new PodGroup."""
    return {
        "apiVersion": PODGROUP_API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": dict(plan.labels),
            "annotations": dict(plan.annotations),
            "ownerReferences": [_reference(plan.owner)],
        },
        "spec": _spec(plan),
    }


def with_kept_fields(plan: GroupPlan, existing: Owner, settings: Settings) -> GroupPlan:
    """Return the plan with what an existing group keeps: its queue, the label of the queue, and its node pool.

    Others may move a group to another queue or node pool, and the workload does not move it back.
    """
    labels = {key: value for key, value in plan.labels.items() if key != settings.node_pool_label_key}
    for key in (settings.node_pool_label_key, settings.queue_label_key):
        if key in existing.labels:
            labels[key] = existing.labels[key]
    spec = existing.body.get("spec")
    queue = spec.get("queue") if isinstance(spec, Mapping) else None
    return attrs.evolve(plan, labels=labels, queue=queue if isinstance(queue, str) and queue else plan.queue)


def group_patch(plan: GroupPlan, existing: Owner, settings: Settings) -> dict[str, Any]:
    """Return the JSON merge patch that brings an existing group to the plan; empty if nothing is to be changed.

    Fields, labels and annotations that the plan does not have stay as they are.
    """
    plan = with_kept_fields(plan, existing, settings)
    metadata: dict[str, Any] = {}
    for name, wanted, found in (
        ("labels", plan.labels, existing.labels),
        ("annotations", plan.annotations, existing.annotations),
    ):
        changed = {key: value for key, value in wanted.items() if found.get(key) != value}
        if changed:
            metadata[name] = changed
    if list(existing.owner_references) != [plan.owner]:
        metadata["ownerReferences"] = [_reference(plan.owner)]
    spec = _spec_patch(_spec(plan), existing.body.get("spec"))
    return {**({"metadata": metadata} if metadata else {}), **({"spec": spec} if spec else {})}


def _spec_patch(wanted: Mapping[str, Any], found: object) -> dict[str, Any]:
    existing = found if isinstance(found, Mapping) else {}
    patch: dict[str, Any] = {}
    for name in ("minMember", "queue", "priorityClassName", "preemptibility"):
        if (existing.get(name) or None) != wanted.get(name):
            patch[name] = wanted.get(name)
    constraint = wanted.get("topologyConstraint", {})
    if _constraint(existing.get("topologyConstraint")) != constraint:
        # A merge patch removes only what it names.
        patch["topologyConstraint"] = {key: constraint.get(key) for key in _CONSTRAINT}
    groups = wanted.get("subGroups", [])
    said = existing.get("subGroups")
    if [_sub_group(each) for each in said or ()] != groups:
        patch["subGroups"] = groups or None
    return patch


def _constraint(value: object) -> object:
    """Return a topology constraint without empty fields."""
    return {key: each for key, each in value.items() if each} if isinstance(value, Mapping) else value or {}


def _sub_group(value: object) -> object:
    """Return a sub-group as a plan writes it: without empty fields."""
    if not isinstance(value, Mapping):
        return value
    shown = {key: each for key, each in value.items() if each}
    if isinstance(value.get("topologyConstraint"), Mapping):
        shown["topologyConstraint"] = _constraint(value["topologyConstraint"])
    return shown
