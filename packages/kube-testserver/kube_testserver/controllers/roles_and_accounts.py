"""Two controllers of access: one aggregates ClusterRoles, one gives each namespace its service account `default`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.errors import SelectorError
from kube_objects.meta import LabelSelector
from kube_objects.selectors import compile_label_selector
from kube_testserver.controllers import namespaces
from kube_testserver.resources.builtin import NAMESPACES, SERVICE_ACCOUNTS
from kube_testserver.resources.rbac import CLUSTER_ROLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube_testserver.registry import Registry
    from kube_testserver.store import Record

__all__ = ["DEFAULT_ACCOUNT", "aggregate_roles", "ensure_account", "restore_account"]

#: The service account that every namespace has.
DEFAULT_ACCOUNT: Final = "default"


def aggregate_roles(registry: Registry, record: Record, *, deleted: bool) -> None:
    """Give every cluster role with an aggregation rule the rules of those it selects, in order of their names."""
    del record, deleted
    collection = registry.collection(CLUSTER_ROLES)
    for one in collection.page().records:
        if b'"aggregationRule"' not in one.body:
            continue
        role = one.decode()
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        rules = _selected_rules(registry, one.name, selectors)
        if rules != (role.get("rules") or []):
            role["rules"] = rules
            registry.put(CLUSTER_ROLES, one, role)  # which comes back here, for those that aggregate this one
            return


def _selected_rules(registry: Registry, own: str, selectors: Iterable[Any]) -> list[Any]:
    rules: list[Any] = []
    records = registry.collection(CLUSTER_ROLES).page().records
    for selector in selectors:
        try:
            matches = compile_label_selector(msgspec.convert(selector, LabelSelector)).matches
        except SelectorError:
            continue
        for record in records:
            if record.name != own and matches(record.labels):
                rules += [rule for rule in record.decode().get("rules") or () if rule not in rules]
    return rules


def ensure_account(registry: Registry, record: Record, *, deleted: bool) -> None:
    """Give a new namespace its service account `default`, and end a namespace that is terminating."""
    if not deleted:
        _ensure(registry, record)
    namespaces.react(registry, record, deleted=deleted)


def restore_account(registry: Registry, record: Record, *, deleted: bool) -> None:
    """Create the service account `default` again after it was deleted."""
    namespace = registry.collection(NAMESPACES).get(record.namespace)
    if deleted and namespace is not None:
        _ensure(registry, namespace)


def _ensure(registry: Registry, namespace: Record) -> None:
    active = namespace.fields.get("status.phase") == "Active"
    if active and registry.collection(SERVICE_ACCOUNTS).get(f"{namespace.name}/{DEFAULT_ACCOUNT}") is None:
        # Not drawn: the uids and names that a seed gives to a client's objects do not depend on accounts.
        uid = uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace.uid}/{registry.store.version}")
        registry.create(SERVICE_ACCOUNTS, namespace.name, {"metadata": {"name": DEFAULT_ACCOUNT}}, uid=str(uid))
