"""The table of built-in resources."""

from __future__ import annotations

import functools
from typing import Final

from kube_testserver.resources import event_views
from kube_testserver.resources.devices import DEVICE_RESOURCES
from kube_testserver.resources.rbac import RBAC_RESOURCES, REVIEW_RESOURCES
from kube_testserver.resources.secrets import merge_string_data
from kube_testserver.resources.table import CHANGE_VERBS, WORKLOAD, Resource, Subresource
from kube_testserver.resources.webhooks import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS

__all__ = [
    "BUILTIN_RESOURCES",
    "CUSTOM_RESOURCE_DEFINITIONS",
    "DISRUPTION_BUDGETS",
    "EVENTS",
    "EVENTS_V1",
    "NAMESPACES",
    "NODES",
    "PODS",
    "PRIORITY_CLASSES",
    "RESOURCE_QUOTAS",
    "SERVICE_ACCOUNTS",
]


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, CHANGE_VERBS)


_SCALE: Final = Subresource("scale", "Scale", CHANGE_VERBS, "autoscaling", "v1")


def _workload(group: str, plural: str, kind: str, short: str, *, scaled: bool = True) -> Resource:
    """Return the row of a workload kind; no controller here makes its pods."""
    return Resource(
        group,
        "v1",
        plural,
        kind,
        short_names=(short,) if short else (),
        categories=("all",),
        subresources=(_SCALE, _status(kind)) if scaled else (_status(kind),),
        registry_path="/registry/controllers" if plural == "replicationcontrollers" else f"/registry/{plural}",
        scale=WORKLOAD if scaled else None,
    )


_core: Final = functools.partial(Resource, "", "v1", has_generation=False)
_networking: Final = functools.partial(Resource, "networking.k8s.io", "v1")
_storage: Final = functools.partial(
    Resource, "storage.k8s.io", "v1", namespaced=False, has_generation=False, returns_deleted=True
)


def _fields(names: str) -> dict[str, tuple[str, ...]]:
    """Return the paths of selectable fields that have the names of their paths."""
    return {name: tuple(name.split(".")) for name in names.split()}


_POD_FIELDS: Final = _fields(
    "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork "
    "status.phase status.podIP status.nominatedNodeName"
)
_EVENT_FIELDS: Final = {
    **_fields(
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion "
        "involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent type"
    ),
    "source": ("source", "component"),
}

NAMESPACES: Final = _core(
    "namespaces",
    "Namespace",
    namespaced=False,
    short_names=("ns",),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
    subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
    returns_deleted=True,
    field_paths={"status.phase": ("status", "phase")},
)
NODES: Final = _core(
    "nodes",
    "Node",
    namespaced=False,
    short_names=("no",),
    subresources=(_status("Node"),),
    registry_path="/registry/minions",
    status_at_creation=True,
    field_paths={"spec.unschedulable": ("spec", "unschedulable")},
)
PODS: Final = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("binding", "Binding", ("create",)),
        Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
        Subresource("resize", "Pod", CHANGE_VERBS),
        _status("Pod"),
    ),
    returns_deleted=True,
    field_paths=_POD_FIELDS,
    bookmark_tail=b',"spec":{"containers":null},"status":{}',
)
EVENTS: Final = _core(
    "events",
    "Event",
    short_names=("ev",),
    create_on_update=True,
    field_paths=_EVENT_FIELDS,
)
EVENTS_V1: Final = Resource(
    "events.k8s.io",
    "v1",
    "events",
    "Event",
    short_names=("ev",),
    collection="events",
    storage_group="",
    has_generation=False,
    create_on_update=True,
    field_paths=_EVENT_FIELDS,
    field_aliases={
        **{name.replace("involvedObject", "regarding"): name for name in _EVENT_FIELDS if "." in name},
        "reportingController": "reportingComponent",
    },
    to_stored=event_views.to_core,
    from_stored=event_views.to_events_v1,
)
SERVICE_ACCOUNTS: Final = _core(
    "serviceaccounts",
    "ServiceAccount",
    short_names=("sa",),
    subresources=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
    returns_deleted=True,
)
RESOURCE_QUOTAS: Final = _core(
    "resourcequotas",
    "ResourceQuota",
    short_names=("quota",),
    subresources=(_status("ResourceQuota"),),
    returns_deleted=True,
)
PRIORITY_CLASSES: Final = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short_names=("pc",)
)
DISRUPTION_BUDGETS: Final = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    short_names=("pdb",),
    subresources=(_status("PodDisruptionBudget"),),
)
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=(_status("CustomResourceDefinition"),),
    registry_path="/registry/apiextensions.k8s.io/customresourcedefinitions",
)

BUILTIN_RESOURCES: Final = (
    Resource("", "v1", "bindings", "Binding", verbs=("create",)),
    _core("configmaps", "ConfigMap", short_names=("cm",)),
    _core("endpoints", "Endpoints", short_names=("ep",), registry_path="/registry/services/endpoints"),
    EVENTS,
    _core("limitranges", "LimitRange", short_names=("limits",)),
    NAMESPACES,
    NODES,
    _core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        short_names=("pvc",),
        subresources=(_status("PersistentVolumeClaim"),),
        returns_deleted=True,
    ),
    _core(
        "persistentvolumes",
        "PersistentVolume",
        namespaced=False,
        short_names=("pv",),
        subresources=(_status("PersistentVolume"),),
        returns_deleted=True,
    ),
    PODS,
    _workload("", "replicationcontrollers", "ReplicationController", "rc"),
    RESOURCE_QUOTAS,
    _core("secrets", "Secret", to_stored=merge_string_data),
    SERVICE_ACCOUNTS,
    _core(
        "services",
        "Service",
        short_names=("svc",),
        categories=("all",),
        subresources=(_status("Service"),),
        registry_path="/registry/services/specs",
        returns_deleted=True,
    ),
    _workload("apps", "daemonsets", "DaemonSet", "ds", scaled=False),
    _workload("apps", "deployments", "Deployment", "deploy"),
    _workload("apps", "replicasets", "ReplicaSet", "rs"),
    _workload("apps", "statefulsets", "StatefulSet", "sts"),
    *REVIEW_RESOURCES,
    Resource(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        subresources=(_status("HorizontalPodAutoscaler"),),
        has_generation=False,
    ),
    _workload("batch", "cronjobs", "CronJob", "cj", scaled=False),
    _workload("batch", "jobs", "Job", "", scaled=False),
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    CUSTOM_RESOURCE_DEFINITIONS,
    Resource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        has_generation=False,
        unconditional_update=False,
        create_on_update=True,
    ),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    EVENTS_V1,
    _networking("ingressclasses", "IngressClass", namespaced=False),
    _networking(
        "ingresses",
        "Ingress",
        short_names=("ing",),
        subresources=(_status("Ingress"),),
        registry_path="/registry/ingress",
    ),
    _networking("networkpolicies", "NetworkPolicy", short_names=("netpol",)),
    DISRUPTION_BUDGETS,
    *RBAC_RESOURCES,
    *DEVICE_RESOURCES,
    PRIORITY_CLASSES,
    _storage("csidrivers", "CSIDriver"),
    _storage("csinodes", "CSINode"),
    _storage("csistoragecapacities", "CSIStorageCapacity", namespaced=True, returns_deleted=False),
    _storage("storageclasses", "StorageClass", short_names=("sc",)),
    _storage("volumeattachments", "VolumeAttachment", subresources=(_status("VolumeAttachment"),)),
)
"""Every built-in resource, in the order discovery lists them."""
