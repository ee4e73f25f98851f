"""RBAC: the roles and bindings in the store decide which requests are allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver import errors
from kube_testserver.access.rules import Rule, compile_rule
from kube_testserver.access.usage import RoleName, RuleSource, Usage
from kube_testserver.access.users import MASTERS, User, account_user_name
from kube_testserver.resources import rbac

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_testserver.access.attributes import Attributes
    from kube_testserver.store import Record, Store

__all__ = ["AlwaysAllow", "Authorizer", "Decision", "RbacAuthorizer"]


@attrs.frozen
class Decision:
    """A yes or no, with the reason as reviews and refusals quote it."""

    allowed: bool
    reason: str = ""


@attrs.frozen
class _Grant:
    """The grant of one binding to one user: the rules of its role and their names, or `error` without such a role."""

    description: str
    role: RoleName
    rules: tuple[Rule, ...]
    sources: tuple[RuleSource, ...]
    error: str


@attrs.frozen
class _Binding:
    """A binding as the look-up needs it."""

    kind: str
    namespace: str
    name: str
    role: RoleName
    subjects: tuple[dict[str, Any], ...]

    def subject_for(self, user: User) -> str | None:
        """Return how the first subject that is this user is described, None where none is."""
        for subject in self.subjects:
            kind, name = subject.get("kind"), subject.get("name") or ""
            if kind == "ServiceAccount":
                namespace = subject.get("namespace") or self.namespace
                if namespace and user.name == account_user_name(namespace, name):
                    return f'ServiceAccount "{name}/{namespace}"'
            elif (kind == "User" and user.name == name) or (kind == "Group" and name in user.groups):
                return f'{kind} "{name}"'
        return None


_YES: Final = Decision(allowed=True)
_ANYTHING: Final = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_ANY_PATH: Final = {"verbs": ["*"], "nonResourceURLs": ["*"]}


class AlwaysAllow:
    """Says yes to everybody."""

    def authorize(self, user: User, asked: Attributes, *, note: bool = False) -> Decision:
        """Allow it."""
        del user, asked, note
        return _YES

    def rules_for(self, user: User, namespace: str) -> tuple[list[dict[str, Any]], str]:
        """Return the rules that apply to a user in a namespace, and what went wrong in finding them."""
        del user, namespace
        return [_ANYTHING, _ANY_PATH], ""


class RbacAuthorizer:
    """Decides by the roles and bindings in a store, and records in `usage` which rule it was."""

    def __init__(self, store: Store) -> None:
        self.usage = Usage()
        self._roles = store.collection(rbac.ROLES.collection)
        self._cluster_roles = store.collection(rbac.CLUSTER_ROLES.collection)
        self._bindings = store.collection(rbac.ROLE_BINDINGS.collection)
        self._cluster_bindings = store.collection(rbac.CLUSTER_ROLE_BINDINGS.collection)
        self._compiled: dict[RoleName, tuple[Rule, ...] | None] = {}
        self._read: dict[str, tuple[_Binding, ...]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], tuple[_Grant, ...]] = {}
        for collection in (self._roles, self._cluster_roles, self._bindings, self._cluster_bindings):
            collection.listen(self._forget)

    def authorize(self, user: User, asked: Attributes, *, note: bool = False) -> Decision:
        """Decide; with `note`, record the rule that allowed it."""
        if MASTERS in user.groups:
            return _YES
        for grant in self._grants_of(user, asked.namespace):
            for index, rule in enumerate(grant.rules):
                if rule.allows(asked):
                    if note:
                        self.usage.allowed(user.name, grant.sources[index], rule.cell_of(asked))
                    return Decision(allowed=True, reason=f"RBAC: allowed by {grant.description}")
        found = self._errors(user, asked.namespace)
        return Decision(allowed=False, reason=f"RBAC: {found}" if found else "")

    def rules_for(self, user: User, namespace: str) -> tuple[list[dict[str, Any]], str]:
        """Return the rules that apply to a user in a namespace, as roles have them, and what went wrong."""
        rules = [rule for grant in self._grants_of(user, namespace) for rule in self._role_rules(grant.role) or ()]
        return rules, self._errors(user, namespace)

    def compiled_rules_for(self, user: User, namespace: str) -> list[Rule]:
        """Return the rules that apply to a user in a namespace."""
        return [rule for grant in self._grants_of(user, namespace) for rule in grant.rules]

    def role_rules(self, role: RoleName) -> tuple[Rule, ...] | None:
        """Return the rules of a role, None where there is no such role."""
        if role not in self._compiled:
            found = self._role_rules(role)
            self._compiled[role] = None if found is None else tuple(compile_rule(rule) for rule in found)
        return self._compiled[role]

    def unused(self, role: RoleName) -> list[str]:
        """Return the parts of a role's rules that have allowed nothing yet, as ``rule 2: watch nodes``; 404 without."""
        rules = self.role_rules(role)
        if rules is None:
            raise errors.not_found(rbac.RBAC_GROUP, f"{role.kind.lower()}s", role.name)
        return [f"rule {index}: {cell}" for index, cell in self.usage.unused(role, rules)]

    def as_document(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return what was used and refused, as JSON; with `clusterrole` or `role` in the query, what of it was not.

        A role is written ``namespace/name``.
        """
        document = self.usage.as_document()
        if query.get("clusterrole"):
            document["unused"] = self.unused(RoleName("ClusterRole", "", query["clusterrole"]))
        elif query.get("role"):
            namespace, _, name = query["role"].partition("/")
            document["unused"] = self.unused(RoleName("Role", namespace, name))
        return document

    # --- looking up ------------------------------------------------------------------------------

    def _grants_of(self, user: User, namespace: str) -> tuple[_Grant, ...]:
        key = (user.name, user.groups, namespace if namespace and self._bindings_in(namespace) else "")
        found = self._grants.get(key)
        if found is None:
            bindings = self._bindings_in("") + (self._bindings_in(namespace) if namespace else ())
            found = self._grants[key] = tuple(self._granted(user, bindings))
        return found

    def _granted(self, user: User, bindings: tuple[_Binding, ...]) -> Iterator[_Grant]:
        for one in bindings:
            subject = one.subject_for(user)
            if subject is None:
                continue
            place = f"{one.name}/{one.namespace}" if one.namespace else one.name
            rules, binding = self.role_rules(one.role), RoleName(one.kind, one.namespace, one.name)
            missing = f'{one.role.kind.lower()}.{rbac.RBAC_GROUP} "{one.role.name}" not found'
            yield _Grant(
                f'{one.kind} "{place}" of {one.role.kind} "{one.role.name}" to {subject}',
                one.role,
                rules or (),
                tuple(RuleSource(binding, one.role, index) for index in range(len(rules or ()))),
                missing if rules is None else "",
            )

    def _errors(self, user: User, namespace: str) -> str:
        found = list(dict.fromkeys(one.error for one in self._grants_of(user, namespace) if one.error))
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""

    def _bindings_in(self, namespace: str) -> tuple[_Binding, ...]:
        """Return the bindings of a namespace, those of the whole cluster for the empty one."""
        found = self._read.get(namespace)
        if found is None:
            collection = self._bindings if namespace else self._cluster_bindings
            records = collection.page(prefix=f"{namespace}/" if namespace else "").records
            found = self._read[namespace] = tuple(_binding(record) for record in records)
        return found

    def _role_rules(self, role: RoleName) -> list[dict[str, Any]] | None:
        collection = self._cluster_roles if role.kind == "ClusterRole" else self._roles
        record = collection.get(f"{role.namespace}/{role.name}" if role.namespace else role.name)
        return None if record is None else record.decode().get("rules") or []

    def _forget(self) -> None:
        self._compiled.clear()
        self._read.clear()
        self._grants.clear()


Authorizer = AlwaysAllow | RbacAuthorizer


def _binding(record: Record) -> _Binding:
    obj = record.decode()
    ref = obj.get("roleRef") or {}
    kind = ref.get("kind") or ""
    namespace = record.namespace if kind == "Role" else ""
    return _Binding(
        "RoleBinding" if record.namespace else "ClusterRoleBinding",
        record.namespace,
        record.name,
        RoleName(kind, namespace, ref.get("name") or ""),
        tuple(obj.get("subjects") or ()),
    )
