"""The test server's resources for roles, role bindings and reviews, such as TokenReview."""

from __future__ import annotations

from typing import Final

from kube_testserver.resources.table import Resource

__all__ = [
    "CLUSTER_ROLES",
    "CLUSTER_ROLE_BINDINGS",
    "RBAC_GROUP",
    "RBAC_RESOURCES",
    "REVIEW_RESOURCES",
    "ROLES",
    "ROLE_BINDINGS",
]

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"


def _rbac(plural: str, kind: str, *, namespaced: bool) -> Resource:
    return Resource(RBAC_GROUP, "v1", plural, kind, namespaced=namespaced, has_generation=False, create_on_update=True)


def _review(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False, verbs=("create",))


ROLES: Final = _rbac("roles", "Role", namespaced=True)
ROLE_BINDINGS: Final = _rbac("rolebindings", "RoleBinding", namespaced=True)
CLUSTER_ROLES: Final = _rbac("clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = _rbac("clusterrolebindings", "ClusterRoleBinding", namespaced=False)

RBAC_RESOURCES: Final = (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES)
REVIEW_RESOURCES: Final = (
    _review(_AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview"),
    _review(_AUTHENTICATION, "tokenreviews", "TokenReview"),
    _review(_AUTHORIZATION, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review(_AUTHORIZATION, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review(_AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview"),
)
