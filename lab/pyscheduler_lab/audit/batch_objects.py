"""Read the pod groups and queues of KAI, Volcano and kube-batch from their JSON."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_lab.audit.amounts import GPU, Amounts, quantity, read_amounts, seconds, timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KAI", "Group", "LabelGroups", "Queue", "SubGroup", "dialect_of", "read_group", "read_queue"]

KAI: Final = "kai"
_DIALECTS: Final = {
    "scheduling.run.ai": KAI,
    "scheduling.volcano.sh": "volcano",
    "scheduling.incubator.k8s.io": "kube-batch",
    "scheduling.sigs.dev": "kube-batch",
}
#: Resources of a KAI queue: key in the object, name, and amounts per unit of the object (memory is in MB).
_KAI_RESOURCES: Final = (("cpu", "cpu", 1.0), ("memory", "memory", 1e6), ("gpu", GPU, 1.0))
_KAI_PRIORITY: Final = 100


@attrs.frozen(kw_only=True)
class SubGroup:
    """A node of KAI's tree of sub-groups. `min_sub_group` None means all children."""

    name: str
    parent: str = ""
    min_member: int = 0
    min_sub_group: int | None = None


@attrs.frozen(kw_only=True)
class LabelGroups:
    """One entry of Volcano's `subGroupPolicy`: pods with equal values of the keys form a sub-group of `size`."""

    name: str
    labels: Mapping[str, str]
    keys: tuple[str, ...]
    size: int
    minimum: int


@attrs.frozen(kw_only=True)
class Group:
    """One version of a pod group."""

    dialect: str
    key: str
    queue: str
    min_member: int = 1
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    #: Volcano's `minTaskMember`.
    roles: Mapping[str, int] = attrs.field(factory=dict)
    label_groups: tuple[LabelGroups, ...] = ()
    priority_class: str = ""
    #: KAI: ``preemptible``, ``non-preemptible`` or "".
    preemptibility: str = ""
    #: Volcano's annotation ``volcano.sh/preemptable`` on the group; None if it is absent.
    preemptable: bool | None = None
    #: Seconds until a broken gang is evicted; None: the system's default; negative: never.
    staleness_seconds: float | None = None
    last_start: float | None = None
    stale_since: float | None = None
    #: Status: ``reason: message`` of each condition that explains why the group waits.
    reasons: tuple[str, ...] = ()

    def without_status(self) -> Group:
        """Return the group without what the scheduler writes."""
        return attrs.evolve(self, reasons=(), last_start=None, stale_since=None)


@attrs.frozen(kw_only=True)
class Queue:
    """One version of a queue. Amounts that are missing in `limit` and `quota` are unlimited."""

    dialect: str
    name: str
    parent: str = ""
    priority: int = 0
    created: float = 0.0
    #: KAI's quota; Volcano's deserved.
    quota: Amounts = attrs.field(factory=dict)
    #: KAI's limit; Volcano's capability.
    limit: Amounts = attrs.field(factory=dict)
    guarantee: Amounts = attrs.field(factory=dict)
    #: KAI's over-quota weight by resource; Volcano's weight under "".
    weight: Amounts = attrs.field(factory=dict)
    reclaimable: bool = True
    preempt_min_seconds: float | None = None
    reclaim_min_seconds: float | None = None
    #: Written by the scheduler or a controller: amounts by field name.
    status: Mapping[str, Amounts] = attrs.field(factory=dict)

    def without_status(self) -> Queue:
        """Return the queue without its status."""
        return attrs.evolve(self, status={})


def dialect_of(api_version: str) -> str:
    """Return ``kai``, ``volcano``, ``kube-batch``, or "" for every other API group."""
    return _DIALECTS.get(api_version.partition("/")[0], "")


def read_group(obj: Mapping[str, Any], dialect: str) -> Group:
    """Decode a pod group of a dialect."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    sub_groups = spec.get("subGroups") or ()
    preemptable = annotations.get("volcano.sh/preemptable", labels.get("volcano.sh/preemptable"))
    return Group(
        dialect=dialect,
        key=f"{metadata.get('namespace', 'default')}/{metadata['name']}",
        queue=spec.get("queue") or ("" if dialect == KAI else "default"),
        min_member=_count(spec.get("minMember"), 1 if dialect == KAI else 0),
        min_sub_group=spec.get("minSubGroup"),
        sub_groups=tuple(
            SubGroup(
                name=one["name"],
                parent=one.get("parent") or "",
                min_member=_count(one.get("minMember")),
                min_sub_group=one.get("minSubGroup"),
            )
            for one in sub_groups
        ),
        roles={name: _count(count) for name, count in (spec.get("minTaskMember") or {}).items()},
        label_groups=tuple(_label_groups(one) for one in spec.get("subGroupPolicy") or ()),
        priority_class=spec.get("priorityClassName", ""),
        preemptibility=spec.get("preemptibility", ""),
        preemptable=None if preemptable is None else str(preemptable).lower() in {"true", "1", "t"},
        staleness_seconds=seconds(spec.get("stalenessGracePeriod")),
        last_start=timestamp(annotations.get("kai.scheduler/last-start-timestamp")),
        stale_since=timestamp(annotations.get("kai.scheduler/stale-podgroup-timestamp")),
        reasons=_reasons(status),
    )


def _label_groups(entry: Mapping[str, Any]) -> LabelGroups:
    return LabelGroups(
        name=entry.get("name", ""),
        labels=(entry.get("labelSelector") or {}).get("matchLabels") or {},
        keys=tuple(entry.get("matchLabelKeys") or ()),
        size=_count(entry.get("subGroupSize"), 1),
        minimum=_count(entry.get("minSubGroups")),
    )


def _reasons(status: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the reasons of the conditions that say why the group waits, as ``reason: message``."""
    found = []
    listed = [each for name in ("conditions", "schedulingConditions") if isinstance(each := status.get(name), list)]
    # Others may write anything there.
    for one in (one for each in listed for one in each if isinstance(one, dict)):
        if one.get("type") == "Scheduled" or one.get("status") == "False":
            continue
        reasons = one.get("reasons")
        details = [*(each for each in (reasons if isinstance(reasons, list) else ()) if isinstance(each, dict)), one]
        found += [f"{each['reason']}: {each.get('message', '')}" for each in details if each.get("reason")]
    return tuple(found)


def read_queue(obj: Mapping[str, Any], dialect: str) -> Queue:
    """Decode a queue of a dialect."""
    metadata, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    name, created = metadata["name"], timestamp(metadata.get("creationTimestamp")) or 0.0
    written = {field: read_amounts(amounts) for field, amounts in status.items() if isinstance(amounts, dict)}
    if dialect == KAI:
        resources = spec.get("resources") or {}
        return Queue(
            dialect=dialect,
            name=name,
            parent=spec.get("parentQueue") or "",
            priority=_count(spec.get("priority"), _KAI_PRIORITY),
            created=created,
            quota=_kai_amounts(resources, "quota"),
            limit=_kai_amounts(resources, "limit"),
            weight={
                resource: max(quantity((resources.get(key) or {}).get("overQuotaWeight", 0)), 0.0)
                for key, resource, _ in _KAI_RESOURCES
            },
            preempt_min_seconds=seconds(spec.get("preemptMinRuntime")),
            reclaim_min_seconds=seconds(spec.get("reclaimMinRuntime")),
            status=written,
        )
    return Queue(
        dialect=dialect,
        name=name,
        parent=(spec.get("parent") or "root") if dialect == "volcano" and name != "root" else "",
        priority=_count(spec.get("priority")),
        created=created,
        quota=read_amounts(spec.get("deserved")),
        limit=read_amounts(spec.get("capability")),
        guarantee=read_amounts((spec.get("guarantee") or {}).get("resource")),
        weight={"": float(max(_count(spec.get("weight"), 1), 1))},
        reclaimable=spec.get("reclaimable") is not False,
        status=written,
    )


def _count(value: object, default: int = 0) -> int:
    """Return a whole number; `default` for every other value, so that bad objects do not end a check."""
    return value if isinstance(value, int) else default


def _kai_amounts(resources: Mapping[str, Any], field: str) -> Amounts:
    """Return the amounts of one field; unlimited ones (-1, and every other negative number) are infinite."""
    found = {}
    for key, resource, unit in _KAI_RESOURCES:
        amount = quantity((resources.get(key) or {}).get(field, 0))
        found[resource] = amount * unit if amount >= 0 else math.inf
    return found
