"""Checks of roles and bindings, and the defaults that the server fills in.

Source: Kubernetes, `pkg/apis/rbac/validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.errors import FieldProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["default_binding", "rbac_problems"]

_GROUP: Final = "rbac.authorization.k8s.io"


def default_binding(binding: Object) -> None:
    """Fill in the groups that a role reference and subjects may leave out."""
    ref = binding.get("roleRef")
    if ref is not None and not ref.get("apiGroup"):
        binding["roleRef"] = {"apiGroup": _GROUP, **{name: value for name, value in ref.items() if name != "apiGroup"}}
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = _GROUP


def rbac_problems(kind: str, old: Object | None, new: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with a role or binding, and with its change from `old`."""
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        yield from _binding_problems(new, namespaced=kind == "RoleBinding")
        if old is not None and old.get("roleRef") != new.get("roleRef"):
            yield FieldProblem.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")
        return
    for index, rule in enumerate(new.get("rules") or ()):
        yield from _rule_problems(rule, f"rules[{index}]", namespaced=kind == "Role")
    aggregation = new.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        yield FieldProblem.required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        )


def _rule_problems(rule: dict[str, Any], path: str, *, namespaced: bool) -> Iterator[FieldProblem]:
    if not rule.get("verbs"):
        yield FieldProblem.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            why = "namespaced rules cannot apply to non-resource URLs"
            yield FieldProblem.invalid(f"{path}.nonResourceURLs", urls, why)
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield FieldProblem.invalid(f"{path}.nonResourceURLs", urls, why)
        return
    if not rule.get("apiGroups"):
        yield FieldProblem.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield FieldProblem.required(f"{path}.resources", "resource rules must supply at least one resource")


def _binding_problems(binding: Object, *, namespaced: bool) -> Iterator[FieldProblem]:
    ref = binding.get("roleRef") or {}
    if ref.get("apiGroup") not in (None, "", _GROUP):  # an empty one is yet to be filled in
        yield FieldProblem.unsupported("roleRef.apiGroup", ref["apiGroup"], [_GROUP])
    known = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if ref.get("kind") not in known:
        yield FieldProblem.unsupported("roleRef.kind", ref.get("kind") or "", known)
    if not ref.get("name"):
        yield FieldProblem.required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _subject_problems(subject, f"subjects[{index}]", namespaced=namespaced)


def _subject_problems(subject: dict[str, Any], path: str, *, namespaced: bool) -> Iterator[FieldProblem]:
    kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
    if not subject.get("name"):
        yield FieldProblem.required(f"{path}.name")
    if kind == "ServiceAccount":
        if group:
            yield FieldProblem.unsupported(f"{path}.apiGroup", group, [""])
        if not namespaced and not subject.get("namespace"):
            yield FieldProblem.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group not in ("", _GROUP):
            yield FieldProblem.unsupported(f"{path}.apiGroup", group, [_GROUP])
    else:
        yield FieldProblem.unsupported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"])
