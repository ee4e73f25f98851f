"""The roles and role bindings that a new cluster with RBAC has.

Source: Kubernetes 1.36, `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.resources import rbac

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object

__all__ = ["AUTHENTICATION_CONFIG", "bootstrap_objects"]

#: The ConfigMap in kube-system by which servers beside the API server learn how to authenticate their clients.
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"

_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_SCHEDULER: Final = {"kind": "User", "name": "system:kube-scheduler"}
_READ: Final = "get list watch"
_WRITE: Final = "create update patch delete deletecollection"
_READ_WRITE: Final = f"{_READ} {_WRITE}"
_READ_UPDATE: Final = f"{_READ} update patch"
_HEALTH: Final = "/livez /readyz /healthz"

_CORE: Final = "core"  # the group without a name, which cannot be written in a list of words


def _on(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, Any]:
    """Return a rule; each argument is a list of words."""
    rule: dict[str, Any] = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == _CORE else group for group in groups.split()],
        "resources": resources.split(),
    }
    return {**rule, "resourceNames": names.split()} if names else rule


def _urls(verbs: str, urls: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}


_EVENTS: Final = _on("create update patch", "core events.k8s.io", "events")
_TOKEN_REVIEW: Final = _on("create", "authentication.k8s.io", "tokenreviews")
_ACCESS_REVIEW: Final = _on("create", "authorization.k8s.io", "subjectaccessreviews")

_VIEW: Final = (
    _on(
        _READ,
        _CORE,
        "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status endpoints "
        "persistentvolumeclaims persistentvolumeclaims/status configmaps",
    ),
    _on(
        _READ,
        _CORE,
        "limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status "
        "replicationcontrollers/status pods/log",
    ),
    _on(_READ, _CORE, "namespaces"),
    _on(_READ, "core events.k8s.io", "events"),
    _on(_READ, "discovery.k8s.io", "endpointslices"),
    _on(
        _READ,
        "apps",
        "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status "
        "deployments deployments/status deployments/scale replicasets replicasets/status replicasets/scale",
    ),
    _on(_READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    _on(_READ, "batch", "jobs cronjobs cronjobs/status jobs/status"),
    _on(_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    _on(_READ, "networking.k8s.io", "networkpolicies ingresses ingresses/status"),
    _on(_READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
)
_EDIT: Final = (
    _on(_READ, _CORE, "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
    _on("impersonate", _CORE, "serviceaccounts"),
    _on(_WRITE, _CORE, "pods pods/attach pods/proxy pods/exec pods/portforward"),
    _on("create", _CORE, "pods/eviction"),
    _on(
        _WRITE,
        _CORE,
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy "
        "persistentvolumeclaims configmaps secrets",
    ),
    _on("create", _CORE, "serviceaccounts/token"),
    _on(_WRITE, "core events.k8s.io", "events"),
    _on(
        _WRITE,
        "apps",
        "statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback replicasets "
        "replicasets/scale",
    ),
    _on(_WRITE, "autoscaling", "horizontalpodautoscalers"),
    _on(_WRITE, "batch", "jobs cronjobs"),
    _on(_WRITE, "policy", "poddisruptionbudgets"),
    _on(_WRITE, "networking.k8s.io", "networkpolicies ingresses"),
    _on(_READ_WRITE, "coordination.k8s.io", "leases"),
    _on(_WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
)
_KUBE_SCHEDULER: Final = (
    _EVENTS,
    _on("create", "coordination.k8s.io", "leases"),
    _on("get update list watch", "coordination.k8s.io", "leases", "kube-scheduler"),
    _on(_READ_WRITE, "coordination.k8s.io", "leasecandidates"),
    _on(_READ, _CORE, "nodes"),
    _on("get list watch delete", _CORE, "pods"),
    _on("create", _CORE, "pods/binding bindings"),
    _on("patch update", _CORE, "pods/status"),
    _on(_READ, _CORE, "services replicationcontrollers"),
    _on(_READ, "apps extensions", "replicasets"),
    _on(_READ, "apps", "statefulsets"),
    _on(_READ, "policy", "poddisruptionbudgets"),
    _on(_READ, _CORE, "persistentvolumeclaims persistentvolumes"),
    _TOKEN_REVIEW,
    _ACCESS_REVIEW,
    _on(_READ, "storage.k8s.io", "csinodes"),
    _on(_READ, "storage.k8s.io", "volumeattachments"),
    _on(_READ, _CORE, "namespaces"),
    _on(_READ, "storage.k8s.io", "csidrivers"),
    _on(_READ, "storage.k8s.io", "csistoragecapacities"),
    _on(_READ, "resource.k8s.io", "deviceclasses"),
    _on(_READ_UPDATE, "resource.k8s.io", "resourceclaims"),
    _on(_READ_UPDATE, "resource.k8s.io", "resourceclaims/status"),
    _on("update", _CORE, "pods/finalizers"),
    _on(_READ, "resource.k8s.io", "resourceslices"),
    _on("create delete", "resource.k8s.io", "resourceclaims"),
    _on("update patch", "resource.k8s.io", "resourceclaims/binding"),
)
_RULES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "cluster-admin": (_on("*", "*", "*"), _urls("*", "*")),
    "system:discovery": (_urls("get", f"{_HEALTH} /version /version/ /openapi /openapi/* /api /api/* /apis /apis/*"),),
    "system:monitoring": (
        _urls("get", f"/metrics /metrics/slis {_HEALTH} /livez/* /readyz/* /healthz/*"),
        _on("get", _CORE, "nodes/metrics"),
    ),
    "system:basic-user": (
        _on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
        _on("create", "authentication.k8s.io", "selfsubjectreviews"),
    ),
    "system:public-info-viewer": (_urls("get", f"{_HEALTH} /version /version/"),),
    "system:aggregate-to-admin": (
        _on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
        _on(_READ_WRITE, "rbac.authorization.k8s.io", "roles rolebindings"),
    ),
    "system:aggregate-to-edit": _EDIT,
    "system:aggregate-to-view": _VIEW,
    "system:auth-delegator": (_TOKEN_REVIEW, _ACCESS_REVIEW),
    "system:volume-scheduler": (
        _on(_READ_UPDATE, _CORE, "persistentvolumes"),
        _on(_READ, "storage.k8s.io", "storageclasses"),
        _on(_READ_UPDATE, _CORE, "persistentvolumeclaims"),
    ),
    "system:kube-scheduler": _KUBE_SCHEDULER,
}
#: Roles that gather others: those labelled as to be aggregated to them.
_GATHERING: Final = ("admin", "edit", "view")
#: What is aggregated to what.
_LABELS: Final = {
    "edit": "admin",
    "view": "edit",
    "system:aggregate-to-admin": "admin",
    "system:aggregate-to-edit": "edit",
    "system:aggregate-to-view": "view",
}
_ALL: Final = {"kind": "Group", "name": "system:authenticated"}
_BOUND: Final[dict[str, tuple[dict[str, str], ...]]] = {
    "cluster-admin": ({"kind": "Group", "name": "system:masters"},),
    "system:monitoring": ({"kind": "Group", "name": "system:monitoring"},),
    "system:discovery": (_ALL,),
    "system:basic-user": (_ALL,),
    "system:public-info-viewer": (_ALL, {"kind": "Group", "name": "system:unauthenticated"}),
    "system:kube-scheduler": (_SCHEDULER,),
    "system:volume-scheduler": (_SCHEDULER,),
}
_LEADERS: Final = (
    _on("get watch list create update", "coordination.k8s.io", "leases"),
    _on("get watch list create update", "coordination.k8s.io", "leasecandidates"),
)
_READER: Final = "extension-apiserver-authentication-reader"
_SYSTEM_ROLES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    _READER: (_on(_READ, _CORE, "configmaps", AUTHENTICATION_CONFIG),),
    "system::leader-locking-kube-scheduler": _LEADERS,
}
_SYSTEM_BOUND: Final[tuple[tuple[str, str, tuple[dict[str, str], ...]], ...]] = (
    (f"system::{_READER}", _READER, (_SCHEDULER,)),
    (
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        (_SCHEDULER, {"kind": "ServiceAccount", "name": "kube-scheduler", "namespace": "kube-system"}),
    ),
)


def bootstrap_objects() -> Iterator[tuple[Resource, str, Object]]:
    """Yield what is to be created: the resource, the namespace, the object."""
    for name, rules in _RULES.items():
        yield rbac.CLUSTER_ROLES, "", {**_named(name, _aggregation_labels(name)), "rules": list(rules)}
    for name in _GATHERING:
        selector = {"matchLabels": {f"{_AGGREGATE}{name}": "true"}}
        role = _named(name, _aggregation_labels(name))
        yield rbac.CLUSTER_ROLES, "", {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}
    for name, subjects in _BOUND.items():
        yield rbac.CLUSTER_ROLE_BINDINGS, "", _bind(name, "ClusterRole", name, subjects)
    for name, rules in _SYSTEM_ROLES.items():
        yield rbac.ROLES, "kube-system", {**_named(name), "rules": list(rules)}
    for name, role_name, subjects in _SYSTEM_BOUND:
        yield rbac.ROLE_BINDINGS, "kube-system", _bind(name, "Role", role_name, subjects)


def _aggregation_labels(name: str) -> dict[str, str]:
    return {f"{_AGGREGATE}{_LABELS[name]}": "true"} if name in _LABELS else {}


def _named(name: str, labels: dict[str, str] | None = None) -> Object:
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        }
    }


def _bind(name: str, role_kind: str, role_name: str, subjects: tuple[dict[str, str], ...]) -> Object:
    ref = {"apiGroup": rbac.RBAC_GROUP, "kind": role_kind, "name": role_name}
    return {**_named(name), "roleRef": ref, "subjects": [dict(subject) for subject in subjects]}
