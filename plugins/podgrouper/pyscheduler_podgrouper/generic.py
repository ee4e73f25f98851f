"""The pod group of a workload of any kind: its name, queue, priority, preemptibility and topology.

For most kinds of workloads, a rule starts from this group and changes parts of it.

Source: KAI-Scheduler, `pkg/podgrouper/podgrouper/plugins/defaultgrouper`, `pkg/podgrouper/topowner`.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import yaml

from pyscheduler_podgrouper.contract import GroupPlan, ObjectForbiddenError, ObjectNotFoundError, Owner, TopologyPlan
from pyscheduler_podgrouper.fields import GroupingError, text

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler_podgrouper.contract import Lookup

__all__ = [
    "BUILD",
    "INFERENCE",
    "POD_GROUP_ANNOTATION",
    "PREEMPTIBILITY_LABEL",
    "PRIORITY_LABEL",
    "SUB_GROUP_LABEL",
    "TOPOLOGY",
    "TOPOLOGY_PREFERRED",
    "TOPOLOGY_REQUIRED",
    "annotations_of",
    "default_name",
    "generic",
    "labels_of",
    "parse_preemptibility",
    "priority_class",
    "queue_of",
]

_log = logging.getLogger(__name__)

POD_GROUP_ANNOTATION: Final = "pod-group-name"
SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
PRIORITY_LABEL: Final = "priorityClassName"
PREEMPTIBILITY_LABEL: Final = "kai.scheduler/preemptibility"
TOPOLOGY: Final = "kai.scheduler/topology"
TOPOLOGY_REQUIRED: Final = "kai.scheduler/topology-required-placement"
TOPOLOGY_PREFERRED: Final = "kai.scheduler/topology-preferred-placement"
TOP_OWNER_ANNOTATION: Final = "kai.scheduler/top-owner-metadata"
_USER: Final = "user"
_PROJECT: Final = "project"
_DEFAULTS_KEY: Final = "types"
_DEFAULTS_FIELDS: Final = ("typeName", "group", "priorityName", "preemptibility")

BUILD: Final = "build"
TRAIN: Final = "train"
INFERENCE: Final = "inference"

#: Texts that YAML reads as they are, and words that it does not; for others YAML is asked, which takes long.
_PLAIN: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9./-]*|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+)\Z", re.ASCII)
_WORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_PREEMPTIBILITIES: Final = frozenset({"preemptible", "non-preemptible", ""})


def generic(top: Owner, chain: Sequence[Owner], pod: Pod, lookup: Lookup) -> GroupPlan:
    """Return a group of one member for a top owner. An empty `chain` means that only the top owner counts."""
    owners = chain or (top,)
    return GroupPlan(
        name=default_name(top),
        namespace=pod.namespace,
        owner=top.reference,
        labels=labels_of(top, pod),
        annotations=annotations_of(top, pod),
        queue=queue_of(top, pod, lookup),
        priority_class_name=priority_class(owners, pod, lookup, TRAIN),
        preemptibility=_preemptibility(owners, pod, lookup),
        topology=TopologyPlan(
            topology=top.annotations.get(TOPOLOGY, ""),
            required=top.annotations.get(TOPOLOGY_REQUIRED, ""),
            preferred=top.annotations.get(TOPOLOGY_PREFERRED, ""),
        ),
    )


def default_name(owner: Owner | Pod) -> str:
    """Return the name of an owner's group."""
    return f"pg-{owner.name}-{owner.uid}"


def labels_of(owner: Owner, pod: Pod) -> dict[str, str]:
    """Return the labels of a group: all of the owner, and the user of the pod if the owner names none."""
    labels = dict(owner.labels)
    if _USER in pod.labels:
        labels.setdefault(_USER, pod.labels[_USER])
    return labels


def annotations_of(owner: Owner, pod: Pod) -> dict[str, str]:
    """Return the annotations of a group: the user of the pod, a description of the owner, and all of the owner."""
    user = {_USER: pod.annotations[_USER]} if _USER in pod.annotations else {}
    return {**user, TOP_OWNER_ANNOTATION: _described(owner), **owner.annotations}


def _described(owner: Owner) -> str:
    """Return the YAML that names an owner, as Go's encoder writes it."""
    group, version, kind = owner.gvk
    named = {"name": owner.name, "uid": owner.uid, "group": group, "version": version, "kind": kind}
    return "".join(f"{key}: {_scalar(value)}\n" for key, value in named.items())


def _scalar(value: str) -> str:
    """Return a text as YAML: plain if it is read back as the same text."""
    if _PLAIN.match(value) is not None and value.lower() not in _WORDS:
        return value
    try:
        is_plain = value != "" and yaml.safe_load(f"k: {value}") == {"k": value}
    except yaml.YAMLError:
        is_plain = False
    return value if is_plain else json.dumps(value, ensure_ascii=False)


# --- queue ----------------------------------------------------------------------------------------


def queue_of(owner: Owner, pod: Pod, lookup: Lookup) -> str:
    """Return the queue: by label of the owner or the pod, by project and node pool, or the default queue."""
    settings = lookup.settings
    for labels in (owner.labels, pod.labels):
        if settings.queue_label_key in labels:
            return labels[settings.queue_label_key]
    project = owner.labels.get(_PROJECT, pod.labels.get(_PROJECT, ""))
    if not project:
        return settings.default_queue
    pool = pod.labels.get(settings.node_pool_label_key)
    return project if pool is None else f"{project}-{pool}"


# --- priority and preemptibility ------------------------------------------------------------------


def priority_class(owners: Sequence[Owner], pod: Pod, lookup: Lookup, fallback: str) -> str:
    """Return the priority class of a group: an explicit one that exists, the default of a kind, or `fallback`.

    For each owner, the nearest first, the first of these counts: the label of the owner, the label of the pod, the
    class of the pod. So a label that names a missing class hides the class of the pod.
    """
    for owner in owners:
        said = owner.labels.get(PRIORITY_LABEL, pod.labels.get(PRIORITY_LABEL, pod.spec.priority_class_name))
        if _class_exists(said, lookup):
            return said
    defaults = _defaults(lookup)
    for owner in owners:
        said = _default_of(owner, defaults).get("priorityName", "")
        if _class_exists(said, lookup):
            return said
    return fallback


def parse_preemptibility(value: str) -> str | None:
    """Return a valid value, or None."""
    return value if value in _PREEMPTIBILITIES else None


def _preemptibility(owners: Sequence[Owner], pod: Pod, lookup: Lookup) -> str:
    """Return the preemptibility: by label of an owner or of the pod, or the default of a kind; else ""."""
    for labels in (*(owner.labels for owner in owners), pod.labels):
        if PREEMPTIBILITY_LABEL in labels:
            said = parse_preemptibility(labels[PREEMPTIBILITY_LABEL])
            if said is not None:
                return said
    defaults = _defaults(lookup)
    for owner in owners:
        default = parse_preemptibility(_default_of(owner, defaults).get("preemptibility", "").lower())
        if default:
            return default
    return ""


def _class_exists(name: str, lookup: Lookup) -> bool:
    if not name:
        return False
    try:
        lookup.get("scheduling.k8s.io/v1", "PriorityClass", name)
    except (ObjectNotFoundError, ObjectForbiddenError):
        return False
    return True


def _defaults(lookup: Lookup) -> Mapping[str, Mapping[str, str]]:
    """Return the defaults of kinds by `Kind.group`, or `Kind` alone; none if the ConfigMap cannot be used."""
    name, namespace = lookup.settings.defaults_config_map, lookup.settings.defaults_config_map_namespace
    if not name or not namespace:
        return {}
    try:
        said = text(lookup.get("v1", "ConfigMap", name, namespace).body, "data", _DEFAULTS_KEY)
        rows = json.loads(said or "")
        return dict(_named_default(row) for row in rows or ())
    except (GroupingError, ValueError, TypeError) as error:
        _log.warning("Defaults of workload kinds cannot be read configMap=%s/%s err=%s", namespace, name, error)
        return {}


def _named_default(row: Any) -> tuple[str, Mapping[str, str]]:
    if not isinstance(row, Mapping):
        raise TypeError(f'"{_DEFAULTS_KEY}" is not a list of objects')
    # Other fields have no effect, and null is no text.
    said = {name: "" if row.get(name) is None else row[name] for name in _DEFAULTS_FIELDS}
    if not all(isinstance(value, str) for value in said.values()):
        raise TypeError(f'"{_DEFAULTS_KEY}" is not a list of objects with texts')
    kind, group = said["typeName"], said["group"]
    return (f"{kind}.{group}" if group else kind), said


def _default_of(owner: Owner, defaults: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    group, _, kind = owner.gvk
    named = f"{kind}.{group}" if group else kind
    return defaults.get(named, defaults.get(kind, {}))
