"""Knative Services: a pod group for each Revision; without gang scheduling, a pod group for each pod.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/knative`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyscheduler_podgrouper.contract import GroupPlan, ObjectNotFoundError, Owner
from pyscheduler_podgrouper.fields import GroupingError, go_integer, int32
from pyscheduler_podgrouper.generic import (
    INFERENCE,
    POD_GROUP_ANNOTATION,
    annotations_of,
    default_name,
    labels_of,
    priority_class,
    queue_of,
)
from pyscheduler_podgrouper.rules.simple import PODGROUP_API_VERSION

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = ["knative_service"]

_REVISION_LABEL: Final = "serving.knative.dev/revision"
_MIN_SCALE: Final = "autoscaling.knative.dev/min-scale"


def knative_service(_top: Owner, _chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return the group of a Revision, or a group for each of its pods."""
    name = pod.labels.get(_REVISION_LABEL)
    if name is None:
        raise GroupingError(f"revisionName not found for knative service pod {pod.namespace}/{pod.name}")
    revision = lookup.get("serving.knative.dev/v1", "Revision", name, pod.namespace)
    if not lookup.settings.gang_schedule_knative or _has_group_per_pod(revision, pod, lookup):
        return GroupPlan(
            name=default_name(pod),
            namespace=pod.namespace,
            owner=Owner.from_object(pod).reference,
            labels=labels_of(revision, pod),
            annotations=annotations_of(revision, pod),
            queue=queue_of(revision, pod, lookup),
            priority_class_name=INFERENCE,
        )
    scale = go_integer(revision.annotations.get(_MIN_SCALE, "1"))
    return GroupPlan(
        name=default_name(revision),
        namespace=revision.namespace or pod.namespace,
        owner=revision.reference,
        labels=labels_of(revision, pod),
        annotations=annotations_of(revision, pod),
        queue=queue_of(revision, pod, lookup),
        priority_class_name=priority_class((revision,), pod, lookup, INFERENCE),
        min_member=1 if scale is None else int32(scale, _MIN_SCALE),
    )


def _has_group_per_pod(revision: Owner, pod: Pod, lookup: Lookup) -> bool:
    """Return True for a Revision whose pods were grouped one by one before: they stay so."""
    found: set[str] = set()
    for each in lookup.pods(pod.namespace, labels={_REVISION_LABEL: revision.name}):
        group = each.annotations.get(POD_GROUP_ANNOTATION)
        if group is None:
            continue
        if group in found:
            return False  # two pods share a group
        found.add(group)
    if len(found) != 1:
        return len(found) > 1
    (name,) = found
    try:
        group_object = lookup.get(PODGROUP_API_VERSION, "PodGroup", name, pod.namespace)
    except ObjectNotFoundError:
        return False
    owners = group_object.owner_references
    said = f"unable to determine gang behavior for revision {pod.namespace}/{revision.name}: podgroup {name}"
    if not owners:
        raise GroupingError(f"{said} has no owner references")
    if owners[0].kind not in {revision.kind, "Pod"}:
        raise GroupingError(f"{said} has unexpected owner reference: {owners[0].kind}/{owners[0].name}")
    return owners[0].kind == "Pod"
