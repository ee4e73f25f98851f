"""The default values that the server fills in before it stores an object."""

from __future__ import annotations

import functools
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from kube_objects.quantity import parse_quantity
from kube_objects.times import format_time
from kube_testserver.resources import definitions
from kube_testserver.resources.event_views import complete_core
from kube_testserver.rules.devices.claims import (
    default_claim,
    default_slice,
    default_template,
    keep_status_of_allocated,
)
from kube_testserver.rules.rbac import default_binding
from kube_testserver.rules.webhooks import default_mutating, default_validating
from kube_testserver.rules.workload_defaults import (
    WORKLOAD_DEFAULTS,
    WORKLOAD_STATUS,
    fill,
    service_defaults,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_testserver.store import Object

__all__ = ["apply_defaults", "prepare_creation", "prepare_update"]

_POD_SPEC_DEFAULTS: Final[dict[str, Any]] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "securityContext": {},
}
_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
_KEPT_BY_ADMISSION: Final = ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount")
_LOST_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LOST_NODE_SECONDS: Final = 300
_QOS_RESOURCES: Final = ("cpu", "memory")


def apply_defaults(collection: str, obj: Object) -> None:
    """Fill in the fields that an object of this collection always has."""
    for name, value in _FIELDS.get(collection, {}).items():
        if isinstance(value, dict):
            fill(obj.setdefault(name, {}), value)
        else:
            obj.setdefault(name, value)
    rule = _DEFAULTS.get(collection)
    if rule is not None:
        rule(obj)


def prepare_creation(collection: str, obj: Object, now: str) -> None:
    """Give a new object its first status and whatever else is decided at birth; `now` is a wire timestamp."""
    first = _FIRST.get(collection)
    if first is not None:
        obj.update(deepcopy(first))
    rule = _CREATION.get(collection)
    if rule is not None:
        rule(obj, now)


def prepare_update(collection: str, obj: Object, before: Object, wall: Callable[[], float]) -> None:
    """Complete a changed object by what it was `before`, where admission does: a pod keeps its priority.

    `wall` tells seconds since the epoch.
    """
    if collection == "resourceclaims.resource.k8s.io":
        keep_status_of_allocated(obj, before)
    elif collection == "resourceslices.resource.k8s.io":
        default_slice(obj, format_time(wall()))
    if collection != "pods":
        return
    spec, old = obj["spec"], before.get("spec") or {}
    for name in _KEPT_BY_ADMISSION:
        if spec.get(name) is None and name in old:
            spec[name] = old[name]
    _tolerate_lost_nodes(spec)


# --- pods ----------------------------------------------------------------------------------------


def _default_pod(pod: Object) -> None:
    spec = pod.setdefault("spec", {})
    fill(spec, _POD_SPEC_DEFAULTS)
    host_network = bool(spec.get("hostNetwork"))
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or ():
            _default_container(container, host_network=host_network)
    if "resources" in spec:
        _requests_from_limits(spec["resources"])
    _default_conditions(pod.get("status") or {}, "lastProbeTime")


def _default_container(container: Object, *, host_network: bool) -> None:
    image = container.get("image") or ""
    if not container.get("imagePullPolicy"):
        tag = image.rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if container.get("resources") is None:
        container["resources"] = {}
    else:
        _requests_from_limits(container["resources"])
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)


def _requests_from_limits(resources: Object) -> None:
    limits = resources.get("limits")
    if limits:
        requests = resources.get("requests") or {}
        resources["requests"] = {**{name: limits[name] for name in limits if name not in requests}, **requests}


def _create_pod(pod: Object, now: str) -> None:
    spec = pod["spec"]
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = _qos_class(spec)
    pod["status"] = status
    _tolerate_lost_nodes(spec)
    labels = pod["metadata"].get("labels") or {}
    if spec.get("affinity"):
        _merge_affinity_label_keys(spec["affinity"], labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_label_keys(constraint, "matchLabelKeys", "In", labels)


def _tolerate_lost_nodes(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    for taint in _LOST_NODE_TAINTS:
        if not any(
            toleration.get("key", "") in (taint, "") and toleration.get("effect", "") in ("NoExecute", "")
            for toleration in tolerations
        ):
            tolerations = [
                *tolerations,
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _LOST_NODE_SECONDS,
                },
            ]
    spec["tolerations"] = tolerations


def _qos_class(spec: Object) -> str:
    """Return the quality-of-service class: pod-level resources where they are set, else all containers'."""
    of_pod = spec.get("resources")
    if of_pod and (of_pod.get("requests") or of_pod.get("limits")):
        parts = [of_pod]
    else:
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        parts = [container.get("resources") or {} for container in containers]
    asked = False
    guaranteed = True
    for part in parts:
        requests, limits = part.get("requests") or {}, part.get("limits") or {}
        for name in _QOS_RESOURCES:
            request = parse_quantity(requests[name]) if name in requests else 0
            limit = parse_quantity(limits[name]) if name in limits else 0
            asked = asked or request > 0 or limit > 0
            guaranteed = guaranteed and limit > 0 and request == limit
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _merge_affinity_label_keys(affinity: Object, labels: dict[str, str]) -> None:
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        terms = [
            *(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(
                weighted.get("podAffinityTerm") or {}
                for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
            ),
        ]
        for term in terms:
            _merge_label_keys(term, "matchLabelKeys", "In", labels)
            _merge_label_keys(term, "mismatchLabelKeys", "NotIn", labels)


def _merge_label_keys(term: Object, source: str, operator: str, labels: dict[str, str]) -> None:
    keys, selector = term.get(source), term.get("labelSelector")
    if not keys or selector is None:  # without a selector nothing matches, and nothing is to be narrowed
        return
    expressions = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys if key in labels]
    if expressions:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or ()), *expressions]


def _default_conditions(status: Object, *times: str) -> None:
    """Write the times of conditions even where they are not known, and leave out empty texts, as Go does."""
    for condition in status.get("conditions") or ():
        for name in (*times, "lastTransitionTime"):
            condition.setdefault(name, None)
        for name in ("reason", "message"):
            if condition.get(name) == "":
                del condition[name]


# --- other kinds ---------------------------------------------------------------------------------


def _default_node(node: Object) -> None:
    fill(node, {"spec": {}, "status": {}})
    status = node["status"]
    if status.get("capacity") and status.get("allocatable") is None:
        status["allocatable"] = dict(status["capacity"])
    _default_conditions(status, "lastHeartbeatTime")
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


def _default_namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}


def _create_definition(definition: Object, _now: str) -> None:
    definition["status"] = definitions.first_status(definition)


_DEFAULTS: Final[dict[str, Callable[[Object], None]]] = {
    "pods": _default_pod,
    "nodes": _default_node,
    "namespaces": _default_namespace,
    "events": complete_core,
    "customresourcedefinitions.apiextensions.k8s.io": definitions.complete_definition,
    "services": service_defaults,
    **{collection: functools.partial(rule, as_pod=_default_pod) for collection, rule in WORKLOAD_DEFAULTS.items()},
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": default_mutating,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": default_validating,
    "rolebindings.rbac.authorization.k8s.io": default_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": default_binding,
    "resourceclaims.resource.k8s.io": default_claim,
    "resourceclaimtemplates.resource.k8s.io": default_template,
}
_FIELDS: Final[dict[str, Object]] = {
    "priorityclasses.scheduling.k8s.io": {"value": 0, "preemptionPolicy": "PreemptLowerPriority"},
    "persistentvolumes": {"spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}},
    "persistentvolumeclaims": {"spec": {"volumeMode": "Filesystem"}},
    "storageclasses.storage.k8s.io": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "secrets": {"type": "Opaque"},
    "horizontalpodautoscalers.autoscaling": {"spec": {"minReplicas": 1}},
}
"""By collection: the values of fields that an object may leave out."""

_CREATION: Final[dict[str, Callable[[Object, str], None]]] = {
    "pods": _create_pod,
    "customresourcedefinitions.apiextensions.k8s.io": _create_definition,
    "resourceslices.resource.k8s.io": default_slice,
}
_FIRST: Final[dict[str, Object]] = {
    "namespaces": {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    "persistentvolumes": {"status": {"phase": "Pending"}},
    "persistentvolumeclaims": {"status": {"phase": "Pending"}},
    "poddisruptionbudgets.policy": {
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    },
    "services": {"status": {"loadBalancer": {}}},
    "ingresses.networking.k8s.io": {"status": {"loadBalancer": {}}},
    "resourceclaims.resource.k8s.io": {"status": {}},
    **{collection: {"status": status} for collection, status in WORKLOAD_STATUS.items()},
}
"""By collection: fields of every new object, whatever the client sent."""
