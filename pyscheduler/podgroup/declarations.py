"""Read the settings of a group, such as its minimum of members, from labels, annotations and PodGroup objects.

Sources: Koordinator, `apis/extension/coscheduling.go`; the PodGroup types of kube-batch and Volcano.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_objects.caching import bounded_cache
from pyscheduler.podgroup.fields import NOTHING_SAID, GroupFields, Problem
from pyscheduler.podgroup.values import (
    read_duration,
    read_gang_group,
    read_gather,
    read_integer,
    read_match_policy,
    read_minimum,
    read_mode,
    read_resources,
    read_timeout,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.api import Pod
    from pyscheduler.podgroup.wire import GroupObject, InTreePodGroup

__all__ = [
    "GANG_ANNOTATIONS",
    "GANG_TIMEOUT_ANNOTATION",
    "LIGHTWEIGHT_KEYS",
    "LIGHTWEIGHT_X_KEYS",
    "gang_pod_fields",
    "in_tree_object_body",
    "in_tree_object_fields",
    "lightweight_x_pod_fields",
    "object_body",
    "object_fields",
]

GANG_ANNOTATIONS: Final = "gang.scheduling.koordinator.sh/"
"""The prefix of Koordinator's annotations."""

GANG_TIMEOUT_ANNOTATION: Final = f"{GANG_ANNOTATIONS}timeout"
"""The scheduler writes this annotation on the members of a gang that timed out."""

LIGHTWEIGHT_KEYS: Final = "pod-group.scheduling.sigs.k8s.io/"
"""The prefix of the labels (or annotations) of groups without an object that the gang plugin serves."""

LIGHTWEIGHT_X_KEYS: Final = "pod-group.scheduling.x-k8s.io/"
"""The prefix of the labels of groups without an object that the coscheduling plugin serves."""

_MIN: Final = f"{GANG_ANNOTATIONS}min-available"
_TOTAL: Final = f"{GANG_ANNOTATIONS}total-number"
_WAIT: Final = f"{GANG_ANNOTATIONS}waiting-time"
_MODE: Final = f"{GANG_ANNOTATIONS}mode"
_GROUPS: Final = f"{GANG_ANNOTATIONS}groups"
#: An older name, which examples still use.
_GROUPS_ALIAS: Final = f"{GANG_ANNOTATIONS}gang-groups"
_POLICY: Final = f"{GANG_ANNOTATIONS}match-policy"
_GATHER: Final = f"{GANG_ANNOTATIONS}network-topology-spec"
_POLICY_ALIAS: Final = f"{LIGHTWEIGHT_KEYS}match-policy"
_LIGHT_MIN: Final = f"{LIGHTWEIGHT_KEYS}min-available"
_LIGHT_X_MIN: Final = f"{LIGHTWEIGHT_X_KEYS}min-available"

#: How many different declarations are cached; a cluster has about as many as groups.
_REMEMBERED: Final = 1 << 14


def lightweight_x_pod_fields(pod: Pod) -> GroupFields:
    """Return what the labels of a coscheduling group without an object say."""
    value = pod.labels.get(_LIGHT_X_MIN)
    return NOTHING_SAID if value is None else _minimum_only(_LIGHT_X_MIN, value)


@bounded_cache(_REMEMBERED)
def _minimum_only(where: str, value: str) -> GroupFields:
    problems: list[Problem] = []
    return GroupFields(min=read_minimum(value, where, problems, least=0), problems=tuple(problems))


def gang_pod_fields(pod: Pod) -> GroupFields:
    """Return what a pod's annotations, or the older labels, say about its gang."""
    annotations, labels = pod.annotations, pod.labels
    light_min = labels.get(_LIGHT_MIN)
    if not annotations and light_min is None and _POLICY_ALIAS not in labels:
        return NOTHING_SAID
    minimum, where = annotations.get(_MIN), _MIN
    if minimum is None:
        minimum, where = light_min if light_min is not None else annotations.get(_LIGHT_MIN), _LIGHT_MIN
    return _annotated(where, minimum, annotations, labels.get(_POLICY_ALIAS))


def _annotated(where: str, minimum: str | None, annotations: Mapping[str, str], policy: str | None) -> GroupFields:
    """Return what Koordinator's annotations say, except for the minimum; `policy` counts after the annotation."""
    get = annotations.get
    groups = get(_GROUPS, get(_GROUPS_ALIAS))
    if policy is None:
        policy = get(_POLICY_ALIAS)
    return _gang_fields(where, minimum, get(_TOTAL), get(_WAIT), get(_MODE), groups, get(_POLICY, policy), get(_GATHER))


@bounded_cache(_REMEMBERED)
def _gang_fields(
    min_key: str,
    minimum: str | None,
    total: str | None,
    wait: str | None,
    mode: str | None,
    groups: str | None,
    policy: str | None,
    gather: str | None,
) -> GroupFields:
    problems: list[Problem] = []
    fields = GroupFields(
        min=None if minimum is None else read_minimum(minimum, min_key, problems, least=0),
        total=None if total is None else read_integer(total, _TOTAL, problems, otherwise="the minimum counts"),
        wait_seconds=None if wait is None else read_duration(wait, _WAIT, problems),
        mode=None if mode is None else read_mode(mode, _MODE, problems),
        policy=None if policy is None else read_match_policy(policy, _POLICY, problems),
        gang_group=None if groups is None else read_gang_group(groups, _GROUPS, problems),
        gather=None if gather is None else read_gather(gather, _GATHER, problems),
    )
    if fields.min is not None and fields.total is not None and fields.total < fields.min:
        problems.append(Problem(_TOTAL, str(total), f"is less than the minimum; {fields.min} counts"))
    fields = attrs.evolve(fields, problems=tuple(problems))
    return NOTHING_SAID if fields == NOTHING_SAID else fields


def object_fields(group: GroupObject, *, least: int = 1, gang_annotations: bool = False) -> GroupFields:
    """Return what a PodGroup says. `least` is the smallest minimum that its CRD accepts; no minimum counts as 0.

    With `gang_annotations`, Koordinator's annotations on the object count before its spec.
    """
    spec, annotations = group.spec, group.annotations
    problems: list[Problem] = []
    where, minimum = "spec.minMember", spec.min_member
    if minimum is None and spec.min_members is not None:
        where, minimum = "spec.minMembers", spec.min_members
    resources_at, resources = "spec.minResources", spec.min_resources
    if resources is None and spec.total_resources is not None:
        resources_at, resources = "spec.totalResources", spec.total_resources
    timeout = spec.schedule_timeout_seconds
    noted = NOTHING_SAID
    if gang_annotations and annotations:
        noted = _annotated(_MIN, annotations.get(_MIN), annotations, None)
        problems += noted.problems
    said = 0 if minimum is None else read_minimum(minimum, where, problems, least=least)
    wait = None if timeout is None else read_timeout(timeout, "spec.scheduleTimeoutSeconds", problems)
    return GroupFields(
        min=said if noted.min is None else noted.min,
        total=noted.total,
        min_resources=None if resources is None else read_resources(resources, resources_at, problems),
        wait_seconds=wait if noted.wait_seconds is None else noted.wait_seconds,
        mode=noted.mode,
        policy=noted.policy,
        gang_group=noted.gang_group,
        gather=noted.gather,
        problems=tuple(problems),
    )


def object_body(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a PodGroup that says these values, by the names of `GroupFields`."""
    words = {"min": "minMember", "wait_seconds": "scheduleTimeoutSeconds", "min_resources": "minResources"}
    return {"spec": {words[name]: value for name, value in said.items()}}


def in_tree_object_fields(group: InTreePodGroup) -> GroupFields:
    """Return what a PodGroup of Kubernetes 1.36 says; the policy `basic` schedules members one by one."""
    policy = group.spec.scheduling_policy
    if policy.gang is None:
        return GroupFields(min=0, is_gang=False)
    problems: list[Problem] = []
    where, count = "spec.schedulingPolicy.gang.minCount", policy.gang.min_count
    minimum = 0 if count is None else read_minimum(count, where, problems, least=1)
    return GroupFields(min=minimum, is_gang=True, problems=tuple(problems))


def in_tree_object_body(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a PodGroup of Kubernetes 1.36; without a minimum its policy is `basic`."""
    policy = {"gang": {"minCount": said["min"]}} if "min" in said else {"basic": {}}
    return {"spec": {"schedulingPolicy": policy}}
