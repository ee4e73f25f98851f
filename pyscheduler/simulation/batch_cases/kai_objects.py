"""A case of KAI-Scheduler as API objects, and the configuration of its cycle as args of the plugin `Batch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import format_time
from pyscheduler.batch.axis import CPU, GPU, MEMORY, PODS
from pyscheduler.batch.configuration import batch_args
from pyscheduler.batch.kai_objects import LAST_START_ANNOTATION, STALE_ANNOTATION, SUB_GROUP_LABEL
from pyscheduler.batch.queue_wire import KAI_QUEUES
from pyscheduler.batch.topology import KAI_TOPOLOGIES
from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler.simulation.batch_cases.objects import (
    Json,
    class_name,
    in_namespace,
    manifest,
    node,
    pod,
    priority_classes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.scheduler.sessions.source import Sessions

__all__ = ["FIELDS", "args_of", "objects_of", "set_usage"]

#: By field of a case, the resource. The same units.
FIELDS: Final = {"gpu": GPU, "cpuMillis": CPU, "memoryBytes": MEMORY}
_DEFAULT_PRIORITY: Final = 50
#: By field of a queue in a case: that of the object, and the units of the case in one of the object.
_OF_QUEUES: Final = {"gpu": ("gpu", 1), "cpuMillis": ("cpu", 1), "memoryBytes": ("memory", 10**6)}
#: By argument of a case: the policy, and its name there.
_OF_POLICIES: Final = {
    "saturationMultiplier": ("proportion", "relcaimerSaturationMultiplier"),
    "kValue": ("proportion", "kValue"),
    "reclaimResolveMethod": ("minruntime", "reclaimResolveMethod"),
    "gpuPlacement": ("nodeplacement", "gpu"),
    "cpuPlacement": ("nodeplacement", "cpu"),
}
_SETTINGS: Final = ("consolidatingReclaim", "maxConsolidationVictims")


def args_of(case: Json) -> Json:
    """Return the args of `Batch` for the configuration of a case."""
    given = case.get("args") or {}
    defaults = batch_args({"preset": "kai"}).tiers
    tiers = [[{"name": each.name, "arguments": dict(each.arguments)} for each in tier] for tier in defaults]
    for field, (policy, argument) in _OF_POLICIES.items():
        if field in given:
            entry = next(each for tier in tiers for each in tier if each["name"] == policy)
            entry["arguments"][argument] = str(given[field])  # type: ignore[index]  # a mapping, as made above
    settings = {name: given[name] for name in _SETTINGS if name in given}
    # Without actions a cycle only computes shares; the file cannot say so, the caller leaves them out.
    return {"preset": "kai", "actions": case.get("actions") or ["allocate"], "tiers": tiers, **settings}


#: The fields of a job that a PodGroup has under the same name.
_OF_GROUPS: Final = ("minMember", "minSubGroup", "preemptibility", "topologyConstraint")


def objects_of(case: Json, now: float) -> list[Json]:
    """Return the objects of a case whose times are seconds before `now`."""
    jobs = case.get("jobs") or ()
    found = [_node(spec) for spec in case.get("nodes") or ()]
    found += [_queue(spec, now) for spec in case.get("queues") or ()]
    found += [_topology(spec) for spec in case.get("topologies") or ()]
    found += priority_classes(spec.get("priority", _DEFAULT_PRIORITY) for spec in jobs)
    for spec in jobs:
        found.append(_group(spec, now))
        found += [_pod(each, spec["name"], now) for each in spec.get("tasks") or ()]
    return found


def set_usage(sessions: Sessions, usage: Mapping[str, Json]) -> None:
    """Give the queues their usage in the past, which no object holds."""
    queues, axis = sessions.tables.queues, sessions.tables.axis
    past = np.zeros((len(queues.names), len(axis)))
    for name, of_queue in usage.items():
        for field, value in of_queue.items():
            if name in queues.index and field in FIELDS:
                past[queues.index[name], axis.index[FIELDS[field]]] = value
    queues.usage = past


def _node(spec: Json) -> Json:
    offered = {name: spec.get(field, 0) for field, name in FIELDS.items()}
    return node(spec["name"], {**offered, PODS: spec.get("maxPods", 0)}, spec.get("labels"))


def _topology(spec: Json) -> Json:
    levels = [{"nodeLabel": each} for each in spec["levels"]]
    return manifest(KAI_TOPOLOGIES.api_version, "Topology", spec["name"], spec={"levels": levels})


def _queue(spec: Json, now: float) -> Json:
    resources = {}
    for field, (name, unit) in _OF_QUEUES.items():
        given = spec.get(field, {})
        resources[name] = {
            part: value if (value := given.get(part, 0)) == -1 or part == "overQuotaWeight" else value / unit
            for part in ("quota", "limit", "overQuotaWeight")
        }
    found: Json = {"resources": resources}
    for field, name in (("parent", "parentQueue"), ("priority", "priority")):
        if spec.get(field) is not None:
            found[name] = spec[field]
    for name in ("preemptMinRuntime", "reclaimMinRuntime"):
        if f"{name}Seconds" in spec:
            found[name] = f"{spec[f'{name}Seconds']}s"
    created = now - spec.get("createdSecondsAgo", 0)
    return manifest(KAI_QUEUES.api_version, "Queue", spec["name"], created=created, spec=found)


def _group(spec: Json, now: float) -> Json:
    found: Json = {
        "queue": spec["queue"],
        "priorityClassName": class_name(spec.get("priority", _DEFAULT_PRIORITY)),
        **{name: spec[name] for name in _OF_GROUPS if name in spec},
    }
    if spec.get("subGroups"):
        found["subGroups"] = spec["subGroups"]
    for field, name in (
        ("stalenessGraceSeconds", "stalenessGracePeriod"),
        ("preemptionDelaySeconds", "preemptionDelay"),
    ):
        if spec.get(field) is not None:
            found[name] = f"{spec[field]}s"
    annotations = {
        key: format_time(now - spec[field])
        for field, key in (("lastStartSecondsAgo", LAST_START_ANNOTATION), ("staleSinceSecondsAgo", STALE_ANNOTATION))
        if spec.get(field) is not None
    }
    created = now - spec.get("createdSecondsAgo", 0)
    return in_namespace(
        manifest(
            KAI_PODGROUPS.api_version, "PodGroup", spec["name"], created=created, annotations=annotations, spec=found
        )
    )


def _pod(spec: Json, group: str, now: float) -> Json:
    return pod(
        spec["name"],
        requests={name: spec[field] for field, name in FIELDS.items() if spec.get(field)},
        state=spec.get("state", "Pending"),
        on=spec.get("node") or "",
        created=now - spec.get("createdSecondsAgo", 0),
        now=now,
        labels={SUB_GROUP_LABEL: spec["subGroup"]} if spec.get("subGroup") else None,
        annotations={"pod-group-name": group},
        **({"nodeSelector": spec["nodeSelector"]} if spec.get("nodeSelector") else {}),
    )
