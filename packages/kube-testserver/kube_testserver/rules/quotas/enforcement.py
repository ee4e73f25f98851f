"""Enforce ResourceQuotas: refuse writes that exceed a quota, and update `status.hard` and `status.used`.

Source of rules and texts: Kubernetes 1.36, `staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver import errors
from kube_testserver.resources.builtin import RESOURCE_QUOTAS
from kube_testserver.rules.quotas.amounts import ZERO, Amounts, added, read, subtracted
from kube_testserver.rules.quotas.usage import Scope, counts_changes, in_scopes, matching, missing, usage
from kube_testserver.store import ExpiredVersionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kube_testserver.resources.table import Resource, ResourceTable
    from kube_testserver.store import Object, Record, Store

__all__ = ["Quotas"]

_ALL: Final = 1 << 30


class _Account:
    """The limits and scopes of one quota, and the amounts that are used of it."""

    __slots__ = ("counted", "hard", "record", "scopes", "used", "versions")

    def __init__(self, record: Record) -> None:
        spec = record.decode().get("spec") or {}
        self.record = record
        self.hard: Amounts = {name: read(raw) for name, raw in (spec.get("hard") or {}).items()}
        selector = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
        self.scopes: tuple[Scope, ...] = (
            *((name, "Exists", ()) for name in spec.get("scopes") or ()),
            *((one["scopeName"], one["operator"], tuple(one.get("values") or ())) for one in selector),
        )
        self.used: Amounts = {}
        #: By collection, the version up to which it is counted.
        self.versions: dict[str, int] = {}
        #: The resources whose objects the quota limits, and the revision of the table for which this holds.
        self.counted: tuple[int, Sequence[Resource]] = (-1, ())

    def usage_of(self, resource: Resource, obj: Object) -> Amounts:
        """Return what an object uses of this quota: nothing if its scopes exclude the object."""
        names = matching(resource, self.hard)
        if not names or not in_scopes(resource, obj, self.scopes):
            return {}
        used = usage(resource, obj)
        return {name: used[name] for name in names if name in used}


class Quotas:
    """The quotas of all namespaces of a store."""

    __slots__ = ("_accounts", "_quotas", "_store", "_table")

    def __init__(self, store: Store, table: ResourceTable) -> None:
        self._store = store
        self._table = table
        self._quotas = store.collection(RESOURCE_QUOTAS.collection)
        #: By key of the quota.
        self._accounts: dict[str, _Account] = {}

    def check(self, resource: Resource, namespace: str, old: Object | None, new: Object, subresource: str = "") -> None:
        """Refuse (403) an object that exceeds a quota, or that does not name an amount that a quota limits."""
        if not namespace or not len(self._quotas):
            return
        if old is not None and not counts_changes(resource, old, new, subresource):
            return
        covering = []
        for account in self._accounts_of(namespace):
            names = matching(resource, account.hard)
            if not names or not in_scopes(resource, new, account.scopes):
                continue
            if resource.collection == "pods" and (silent := missing(names, new)):
                raise _forbidden(resource, new, f"failed quota: {account.record.name}: must specify {silent}")
            covering.append(account)
        for account in covering:
            asked = account.usage_of(resource, new)
            if old is not None:
                asked = subtracted(asked, account.usage_of(resource, old))
            asked = {name: amount for name, amount in asked.items() if amount.nanos > 0}
            together = added({name: account.used.get(name, ZERO) for name in asked}, asked)
            over = [name for name, amount in together.items() if amount.nanos > account.hard[name].nanos]
            if over:
                parts = (("requested", asked), ("used", account.used), ("limited", account.hard))
                listed = ", ".join(f"{what}: {_listed(over, amounts)}" for what, amounts in parts)
                raise _forbidden(resource, new, f"exceeded quota: {account.record.name}, {listed}")

    def follow(self, resource: Resource, record: Record) -> None:
        """Bring the quotas of a namespace up to date after a write of an object in it."""
        if not record.namespace or not len(self._quotas):
            return
        for account in self._accounts_of(record.namespace):
            if resource is RESOURCE_QUOTAS or matching(resource, account.hard):
                self._write(account)

    # --- accounts --------------------------------------------------------------------------------

    def _accounts_of(self, namespace: str) -> list[_Account]:
        """Return the accounts of the quotas with limits in a namespace, up to date, by name."""
        accounts = []
        for record in self._quotas.page(prefix=f"{namespace}/").records:
            account = self._accounts.get(record.key)
            if account is None or account.record is not record:
                account = self._accounts[record.key] = _Account(record)
            if account.hard:
                self._catch_up(account)
                accounts.append(account)
        return accounts

    def _catch_up(self, account: _Account) -> None:
        """Count what changed in the collections that a quota limits."""
        for resource in self._counted_by(account):
            collection = self._store.collection(resource.collection)
            since = account.versions.get(resource.collection)
            account.versions[resource.collection] = self._store.version
            if since == self._store.version:
                continue
            try:
                changes = [] if since is None else collection.read(collection.position_after(since), _ALL)
            except ExpiredVersionError:  # more was written than the log remembers
                since = None
            if since is None:
                names = matching(resource, account.hard)
                account.used |= dict.fromkeys(names, ZERO)
                for record in collection.page(prefix=f"{account.record.namespace}/").records:
                    account.used = added(account.used, account.usage_of(resource, record.decode()))
                continue
            for change in changes:
                if change.record.namespace != account.record.namespace:
                    continue
                if change.old is not None:
                    account.used = subtracted(account.used, account.usage_of(resource, change.old.decode()))
                if change.type != "DELETED":
                    account.used = added(account.used, account.usage_of(resource, change.record.decode()))

    def _counted_by(self, account: _Account) -> Sequence[Resource]:
        """Return the resources whose objects a quota limits; of several versions of one, the first."""
        if account.counted[0] != self._table.revision:
            found: dict[str, Resource] = {}
            for resource in self._table:
                if resource.namespaced and "list" in resource.verbs and matching(resource, account.hard):
                    found.setdefault(resource.collection, resource)
            account.counted = (self._table.revision, tuple(found.values()))
        return account.counted[1]

    def _write(self, account: _Account) -> None:
        """Store the status of a quota if it is not what the account says."""
        obj = account.record.decode()
        status = {
            "hard": {name: str(amount) for name, amount in sorted(account.hard.items())},
            "used": {name: str(amount) for name, amount in sorted(account.used.items())},
        }
        present = self._quotas.get(account.record.key)
        if present is account.record and obj.get("status") != status:
            account.record = self._quotas.replace(present, {**obj, "status": status})


def _forbidden(resource: Resource, obj: Object, why: str) -> errors.StatusError:
    return errors.forbidden(resource.storage_group, resource.plural, obj["metadata"].get("name") or "", why)


def _listed(names: Iterable[str], amounts: Amounts) -> str:
    return ",".join(f"{name}={amounts.get(name, ZERO)}" for name in sorted(names))
