"""Checks against privilege escalation: normally, users can grant only permissions that they have.

For example, a user who writes a role needs all permissions in the role, or the verb `escalate` on it.

Source: kube-apiserver, `pkg/registry/rbac`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kube_testserver import errors
from kube_testserver.access.attributes import Attributes, not_authorized
from kube_testserver.access.rules import Cell, compile_rule, uncovered
from kube_testserver.access.usage import RoleName
from kube_testserver.access.users import MASTERS, User
from kube_testserver.resources.devices import CLAIMS
from kube_testserver.resources.rbac import RBAC_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kube_testserver.access.authorizer import RbacAuthorizer
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object

__all__ = ["EscalationGuard"]

_BOUND: Final = ("allocation", "reservedFor")
_EVERYTHING: Final = (
    compile_rule({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}),
    compile_rule({"verbs": ["*"], "nonResourceURLs": ["*"]}),
)


class EscalationGuard:
    """Checks writes of roles and bindings, and allocations of devices, while a user is `acting`."""

    def __init__(self, authorizer: RbacAuthorizer) -> None:
        self._authorizer = authorizer
        self._acting: tuple[User, Attributes] | None = None

    @contextmanager
    def acting(self, user: User, asked: Attributes) -> Iterator[None]:
        """Check what is written meanwhile against the rights of `user`, who asked for it."""
        self._acting = (user, asked)
        try:
            yield
        finally:
            self._acting = None

    def check(self, resource: Resource, before: Object | None, new: Object) -> None:
        """Refuse (403, 404, 422) a write by which the acting user would give away what they do not hold."""
        if self._acting is None:
            return
        user, asked = self._acting
        if resource is CLAIMS and before is not None:
            _check_binding(self._authorizer, user, asked.verb, before, new)
        if resource.group != RBAC_GROUP:
            return
        if MASTERS in user.groups or (before is not None and _same_but_for_collection(before, new)):
            return
        name, namespace = new["metadata"]["name"], new["metadata"].get("namespace") or ""
        if "roleRef" in new:
            missing = self._missing_to_bind(user, new["roleRef"], namespace)
        elif self._may(user, "escalate", resource.plural, namespace, asked.name):
            return
        else:
            held = self._authorizer.compiled_rules_for(user, namespace)
            missing = list(uncovered(held, map(compile_rule, new.get("rules") or ())))
            aggregated = _aggregates(new) or (before is not None and _aggregates(before))
            if not missing and aggregated and any(uncovered(held, _EVERYTHING)):
                why = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(RBAC_GROUP, resource.plural, name, why)
        if missing:
            groups = "[" + " ".join(f'"{group}"' for group in user.groups) + "]"
            why = (
                f'user "{user.name}" (groups={groups}) is attempting to grant RBAC permissions not currently held:\n'
                + "\n".join(sorted(_compact(missing)))
            )
            raise errors.forbidden(RBAC_GROUP, resource.plural, name, why)

    def _missing_to_bind(self, user: User, ref: dict[str, Any], namespace: str) -> list[Cell]:
        kind, name = ref.get("kind") or "", ref.get("name") or ""
        plural = "clusterroles" if kind == "ClusterRole" else "roles"
        if self._may(user, "bind", plural, namespace, name):
            return []
        role = RoleName(kind, namespace if kind == "Role" else "", name)
        rules = self._authorizer.role_rules(role)
        if rules is None:
            raise errors.not_found(RBAC_GROUP, kind.lower(), name)
        return list(uncovered(self._authorizer.compiled_rules_for(user, namespace), rules))

    def _may(self, user: User, verb: str, plural: str, namespace: str, name: str) -> bool:
        asked = Attributes(verb, group=RBAC_GROUP, resource=plural, namespace=namespace, name=name)
        return self._authorizer.authorize(user, asked, note=True).allowed


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _same_but_for_collection(before: Object, new: Object) -> bool:
    """Return True if only owners and finalizers change, which needs no further permission."""
    loose = ("ownerReferences", "finalizers", "resourceVersion")

    def fixed(obj: Object) -> Object:
        metadata = {name: value for name, value in obj["metadata"].items() if name not in loose and value}
        return {**obj, "metadata": metadata}

    return fixed(before) == fixed(new)


def _compact(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield the missing rights as the real server words them, verbs of one resource together."""
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        if cell.path:
            yield f'{{NonResourceURLs:["{cell.path}"], Verbs:["{cell.verb}"]}}'
        else:
            verbs.setdefault((cell.group, cell.resource, cell.name), []).append(cell.verb)
    for (group, resource, name), of_resource in verbs.items():
        names = f', ResourceNames:["{name}"]' if name else ""
        listed = " ".join(f'"{verb}"' for verb in of_resource)
        yield f'{{APIGroups:["{group}"], Resources:["{resource}"]{names}, Verbs:[{listed}]}}'


def _check_binding(authorizer: RbacAuthorizer, user: User, verb: str, before: Object, new: Object) -> None:
    """Refuse (422) a change of allocation or reservations by a user without the permission to bind claims.

    Drivers write into the status of claims, too, and must not be able to hand out devices. So such a change takes the
    verb of the request on ``resourceclaims/binding``, in all namespaces. Source: Kubernetes 1.36, feature gate
    DRAResourceClaimGranularStatusAuthorization. Differs from the real server: `status.devices` takes nothing beside,
    where it asks for ``resourceclaims/driver``.
    """
    old, status = before.get("status") or {}, new.get("status") or {}
    if all(old.get(name) == status.get(name) for name in _BOUND):
        return
    asked = Attributes(verb, group=CLAIMS.group, resource=CLAIMS.plural, subresource="binding")
    decision = authorizer.authorize(user, asked, note=True)
    if decision.allowed:
        return
    refusal = not_authorized(user.name, asked, decision.reason)
    authorizer.usage.refused(user.name, str(refusal))
    why = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{verb}" permission: {refusal}'
    )
    problem = errors.FieldProblem.forbidden("status.allocation", why)
    raise errors.invalid(CLAIMS.group, CLAIMS.kind, new["metadata"]["name"], [problem])
