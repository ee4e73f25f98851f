"""Convert a recorded scheduling cycle of Volcano to API objects, and Volcano's settings to args of the plugin Batch."""

from __future__ import annotations

from typing import Final

from pyscheduler.podgroup.sub_groups import TASK_SPEC
from pyscheduler.podgroup.wire import VOLCANO_PODGROUPS
from pyscheduler_lab.simulation.batch_cases.objects import (
    NAMESPACE,
    Json,
    in_namespace,
    manifest,
    node,
    pod,
    quantities,
)
from pyscheduler_lab.simulation.group_objects import class_name, priority_classes
from pyscheduler_volcano.hyper_nodes import HYPER_NODES
from pyscheduler_volcano.objects import PREEMPTABLE, VOLCANO_QUEUES

__all__ = ["args_of", "objects_of"]

_RESOURCE_API: Final = "resource.k8s.io/v1"
#: By kind of a further object, its version, if that is not v1.
_API_VERSIONS: Final = {
    "StorageClass": "storage.k8s.io/v1",
    **dict.fromkeys(("DeviceClass", "ResourceClaim", "ResourceSlice"), _RESOURCE_API),
}
_NAMESPACED: Final = frozenset({"PersistentVolumeClaim", "ResourceClaim", "ResourceQuota"})
#: The fields of a group and of a pod that their objects have under the same name.
_OF_GROUPS: Final = ("queue", "minMember", "minTaskMember", "networkTopology", "subGroupPolicy")
_OF_PODS: Final = (
    *("priority", "preemptionPolicy", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints"),
    *("volumes", "resourceClaims"),
)
_GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"


def args_of(case: Json) -> Json:
    """Return the args of `Batch` for the configuration of a case."""
    configuration = case["configuration"]
    tiers = [{"plugins": tier} for tier in configuration["tiers"]]
    settings = {name: configuration[name] for name in ("configurations",) if name in configuration}
    return {"preset": "volcano", "actions": ", ".join(configuration["actions"]), "tiers": tiers, **settings}


def objects_of(case: Json, now: float) -> list[Json]:
    """Return the objects of a case; `now` is the time of the session, in seconds since 1970."""
    groups = case["podGroups"]
    found = [
        node(spec["name"], spec["allocatable"], spec.get("labels"), taints=spec.get("taints") or [])
        for spec in case["nodes"]
    ]
    found += [
        manifest(HYPER_NODES.api_version, "HyperNode", spec["name"], spec=spec["spec"])
        for spec in case.get("hyperNodes") or ()
    ]
    found += [_queue(spec) for spec in case["queues"]]
    found += priority_classes(spec["priority"] for spec in groups if "priority" in spec)
    found += [_group(spec) for spec in groups]
    found += [_pod(spec, now) for spec in case["pods"]]
    found += map(_other, case.get("objects") or ())
    return found


def _other(spec: Json) -> Json:
    """Return an object of which a case has the parts as they are: volumes, claims, quotas, devices."""
    parts = {key: value for key, value in spec.items() if key not in {"kind", "name", "namespace"}}
    found = manifest(_API_VERSIONS.get(spec["kind"], "v1"), spec["kind"], spec["name"], **parts)
    return in_namespace(found, spec.get("namespace")) if spec["kind"] in _NAMESPACED else found


def _queue(spec: Json) -> Json:
    found: Json = {name: spec[name] for name in ("weight", "parent", "reclaimable", "priority") if name in spec}
    for name in ("capability", "deserved"):
        if spec.get(name) is not None:
            found[name] = quantities(spec[name])
    if spec.get("guarantee") is not None:
        found["guarantee"] = {"resource": quantities(spec["guarantee"])}
    return manifest(
        VOLCANO_QUEUES.api_version,
        "Queue",
        spec["name"],
        created=spec.get("created", 0),
        annotations={
            f"volcano.sh/{key}": spec[name]
            for name, key in (("hierarchy", "hierarchy"), ("hierarchyWeights", "hierarchy-weights"))
            if spec.get(name)
        },
        spec=found,
        status={"state": spec.get("state") or "Open"},
    )


def _group(spec: Json) -> Json:
    found: Json = {name: spec[name] for name in _OF_GROUPS if name in spec}
    if spec.get("minResources") is not None:
        found["minResources"] = quantities(spec["minResources"])
    if "priority" in spec:
        found["priorityClassName"] = class_name(spec["priority"])
    return in_namespace(
        manifest(
            VOLCANO_PODGROUPS.api_version,
            "PodGroup",
            spec["name"],
            uid=f"{spec.get('namespace', NAMESPACE)}/{spec['name']}",
            created=spec.get("created", 0),
            annotations=spec.get("annotations"),
            spec=found,
            status={"phase": spec.get("phase", "")},
        ),
        spec.get("namespace"),
    )


def _pod(spec: Json, now: float) -> Json:
    annotations = {_GROUP_ANNOTATION: spec["group"]}
    if spec.get("preemptable") is not None:
        annotations[PREEMPTABLE] = str(spec["preemptable"]).lower()
    if spec.get("role"):
        annotations[TASK_SPEC] = spec["role"]
    found = pod(
        spec["name"],
        requests=spec.get("requests", {}),
        state=spec["state"],
        on=spec.get("node") or "",
        created=spec.get("created", 0),
        now=now,
        labels=spec.get("labels"),
        annotations=annotations,
        **{name: spec[name] for name in _OF_PODS if name in spec},
    )
    if spec.get("containerClaims"):
        found["spec"]["containers"][0]["resources"]["claims"] = spec["containerClaims"]
    return in_namespace(found, spec.get("namespace"))
