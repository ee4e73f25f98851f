"""Convert a test case for KAI-Scheduler to API objects, and the settings of the case to args of the plugin Batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import format_time
from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler_batch.gpu_sharing.device_shares import FRACTION_ANNOTATION, MEMORY_ANNOTATION
from pyscheduler_batch.model.axis import CPU, GPU, MEMORY, PODS
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_kai.objects import (
    KAI_QUEUES,
    LAST_START_ANNOTATION,
    QUEUE_LABEL,
    STALE_ANNOTATION,
    SUB_GROUP_LABEL,
)
from pyscheduler_kai.topologies import KAI_TOPOLOGIES
from pyscheduler_lab.simulation.batch_cases.objects import (
    Json,
    in_namespace,
    manifest,
    node,
    pod,
)
from pyscheduler_lab.simulation.group_objects import class_name, priority_classes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyscheduler_batch.sessions.source import Sessions

__all__ = ["FIELDS", "args_of", "next_round", "objects_of", "set_usage", "shares_gpus"]

#: By field of a case, the resource. The same units.
FIELDS: Final = {"gpu": GPU, "cpuMillis": CPU, "memoryBytes": MEMORY}
_DEFAULT_PRIORITY: Final = 50
_TASK_PRIORITY: Final = "kai.scheduler/task-priority"
#: The label with the name of a shared device, and the namespace of the pods that reserve devices.
_SHARED_GPU: Final = "runai-gpu-group"
_RESOURCE_API: Final = "resource.k8s.io/v1"
_RESERVATIONS: Final = "kai-resource-reservation"
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
    tiers = given.get("tiers") or [
        [{"name": each.name, "arguments": dict(each.arguments)} for each in tier] for tier in defaults
    ]
    for field, (policy, argument) in _OF_POLICIES.items():
        if field in given:
            entry = next(each for tier in tiers for each in tier if each["name"] == policy)
            entry["arguments"][argument] = str(given[field])
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
    return [*found, *_reservations(jobs, now), *_device_objects(case.get("dra") or {})]


def shares_gpus(case: Json) -> bool:
    """Return whether a task of the case requests a part of a GPU."""
    return any(
        "gpuFraction" in task or "gpuMemoryMiB" in task for job in case.get("jobs") or () for task in job["tasks"]
    )


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
    return node(spec["name"], {**offered, PODS: spec.get("maxPods", 0), **spec.get("mig", {})}, spec.get("labels"))


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
    labels = dict(spec.get("podLabels") or {})
    for field, key in (("subGroup", SUB_GROUP_LABEL), ("taskPriority", _TASK_PRIORITY)):
        if spec.get(field) is not None:
            labels[key] = str(spec[field])
    affinity = {
        kind: {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": spec[field], "labelSelector": {"matchLabels": spec["podLabels"]}}
            ]
        }
        for field, kind in (("podAffinityKey", "podAffinity"), ("podAntiAffinityKey", "podAntiAffinity"))
        if field in spec
    }
    shares = {
        key: str(spec[field])
        for field, key in (("gpuFraction", FRACTION_ANNOTATION), ("gpuMemoryMiB", MEMORY_ANNOTATION))
        if spec.get(field)
    }
    requests = {name: spec[field] for field, name in FIELDS.items() if spec.get(field)}
    claims = [{"name": each, "resourceClaimName": each} for each in spec.get("claims") or ()]
    return pod(
        spec["name"],
        requests={**requests, **spec.get("mig", {})},
        state=spec.get("state", "Pending"),
        on=spec.get("node") or "",
        created=now - spec.get("createdSecondsAgo", 0),
        now=now,
        labels=labels | _group_labels(spec),
        annotations={"pod-group-name": group, **shares},
        **({"nodeSelector": spec["nodeSelector"]} if spec.get("nodeSelector") else {}),
        **({"affinity": affinity} if affinity else {}),
        **({"resourceClaims": claims} if claims else {}),
    )


def _groups(spec: Json) -> list[str]:
    """Return the names of the devices that a task shares: those of a case are unique on a node only."""
    return [f"{spec['node']}-{each}" for each in spec.get("gpuGroups") or () if "node" in spec]


def _group_labels(spec: Json) -> dict[str, str]:
    names = _groups(spec)
    return {_SHARED_GPU: names[0]} if len(names) == 1 else {f"{_SHARED_GPU}/{name}": name for name in names}


def _reservations(jobs: Iterable[Json], now: float) -> Iterator[Json]:
    """Yield a pod for each shared device, which holds the device of the device plugin."""
    nodes = {name: task["node"] for job in jobs for task in job.get("tasks") or () for name in _groups(task)}
    for name, node_name in nodes.items():
        found = pod(
            f"reservation-{name}",
            requests={GPU: 1},
            state="Running",
            on=node_name,
            created=now,
            now=now,
            labels={_SHARED_GPU: name},
        )
        found["metadata"]["namespace"] = _RESERVATIONS
        found["spec"]["schedulerName"] = "nobody"
        yield found


def _device_objects(dra: Json) -> Iterator[Json]:
    """Yield the classes, slices and claims of devices of a case."""
    slices, claims = dra.get("slices") or (), dra.get("claims") or ()
    for name in dra.get("classes") or ():
        drivers = sorted({each["driver"] for each in slices if each["class"] == name})
        expression = " || ".join(f"device.driver == '{driver}'" for driver in drivers) or "false"
        yield manifest(_RESOURCE_API, "DeviceClass", name, spec={"selectors": [{"cel": {"expression": expression}}]})
    for each in slices:
        spec = {
            "driver": each["driver"],
            "nodeName": each["node"],
            "pool": {"name": each["name"], "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": str(number)} for number in range(each["devices"])],
        }
        yield manifest(_RESOURCE_API, "ResourceSlice", each["name"], spec=spec)
    pools = {each["node"]: each for each in slices}
    for each in claims:
        exactly = {"deviceClassName": each["class"], "allocationMode": "ExactCount", "count": each["count"]}
        status: Json = {}
        if each.get("allocated"):
            results = [
                {
                    "request": "devices",
                    "device": given["device"],
                    "driver": pools[given["node"]]["driver"],
                    "pool": pools[given["node"]]["name"],
                }
                for given in each["allocated"]
            ]
            status["allocation"] = {"devices": {"results": results}}
        users = [*(each.get("reservedFor") or ()), *(f"other-{at}" for at in range(each.get("reservedForOthers", 0)))]
        if users:
            status["reservedFor"] = [{"resource": "pods", "name": name, "uid": name} for name in users]
        labels = {QUEUE_LABEL: each["queueLabel"]} if each.get("queueLabel") else None
        spec = {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}
        yield in_namespace(
            manifest(_RESOURCE_API, "ResourceClaim", each["name"], labels=labels, spec=spec, status=status)
        )


def next_round(case: Json, actual: Json) -> Json:
    """Return the case in which the decisions of a round have come true.

    What was bound runs, what was promised waits, and what was evicted was deleted and created anew.
    """
    jobs = []
    for job in case["jobs"]:
        tasks = [_later(task, actual["tasks"][task["name"]], job) for task in job["tasks"]]
        runs = any(task["state"] == "Running" for task in tasks)
        started = {"lastStartSecondsAgo": 60} if runs else {}
        kept = {name: value for name, value in job.items() if name != "lastStartSecondsAgo"}
        jobs.append({**kept, **started, "tasks": tasks})
    return {**case, "jobs": jobs, "dra": _later_devices(case.get("dra") or {}, jobs)}


def _later_devices(dra: Json, jobs: Iterable[Json]) -> Json:
    """Return the devices with claims as pods that run have them; a claim that nobody uses any more has none."""
    running = {task["name"]: task for job in jobs for task in job["tasks"] if task["state"] != "Pending"}
    claims = {}
    for each in dra.get("claims") or ():
        users = [name for name, task in running.items() if each["name"] in (task.get("claims") or ())]
        is_used = users or each.get("reservedForOthers")
        kept = {name: value for name, value in each.items() if name != "allocated" or is_used}
        claims[each["name"]] = {**kept, "reservedFor": users}
    for claim in claims.values():
        if claim["reservedFor"] and not claim.get("allocated"):
            taken = [given for each in claims.values() for given in each.get("allocated") or ()]
            node_name = running[claim["reservedFor"][0]]["node"]
            offered = [
                {"node": node_name, "device": str(number)}
                for each in dra["slices"]
                if each["node"] == node_name and each["class"] == claim["class"]
                for number in range(each["devices"])
            ]
            claim["allocated"] = [each for each in offered if each not in taken][: claim["count"]]
    return {**dra, "claims": [*claims.values()]}


def _later(task: Json, found: Json, job: Json) -> Json:
    waiting = {name: value for name, value in task.items() if name not in {"node", "gpuGroups"}}
    state = found["state"]
    if state == "allocated":
        node_name = found["node"]
        groups = [each.removeprefix(f"{node_name}-") for each in found.get("gpuGroups", ())]
        return {**waiting, "state": "Running", "node": node_name, **({"gpuGroups": groups} if groups else {})}
    if state == "pipelined" or (state == "releasing" and not job.get("staysReleasing")):
        return {**waiting, "state": "Pending"}
    return {**task, "state": state.capitalize()}
