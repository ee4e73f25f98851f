"""Record the owners of an object's fields in ``metadata.managedFields``.

Differs from kube-apiserver: an object without a server-side apply has no managed fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_testserver.schema.field_paths import MEMBER, Path, fields_of, from_trie, to_trie

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kube_testserver.schema.kinds import Node
    from kube_testserver.store import Object

__all__ = [
    "BEFORE_FIRST_APPLY",
    "Manager",
    "Owners",
    "changed_fields",
    "containers_of",
    "managed_fields_of",
    "own_fields",
    "track_update",
]

BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""The manager of all fields that an object had before its first apply."""

_KIND: Final = "FieldsV1"
_GREAT_PARTS: Final = frozenset({("f:metadata",), ("f:spec",), ("f:status",)})
#: Nobody's: what the server keeps itself, and what names the object.
_UNOWNED: Final = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    }
)


@attrs.frozen
class Manager:
    """An owner of fields: a name, how it wrote (``Apply`` or ``Update``), through which version and subresource."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        """Return how messages about conflicts name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return text


@attrs.define
class Owners:
    """The owners of the fields of one object, and since when."""

    fields: dict[Manager, set[Path]] = attrs.Factory(dict)
    times: dict[Manager, str] = attrs.Factory(dict)

    @classmethod
    def read(cls, entries: Iterable[Any]) -> Owners:
        """Return the owners that managed fields tell of."""
        made = cls()
        for entry in entries:
            manager = Manager(
                entry.get("manager") or "",
                entry.get("operation") or "",
                entry.get("apiVersion") or "",
                entry.get("subresource") or "",
            )
            made.fields[manager] = from_trie(entry.get("fieldsV1"))
            made.times[manager] = entry.get("time") or ""
        return made

    def written(self, before: Owners, now: str) -> list[Object]:
        """Return the entries for metadata; who owns what it owned `before` keeps its time."""
        entries = []
        for manager, paths in self.fields.items():
            if not paths:
                continue
            same = before.fields.get(manager) == paths
            entry: Object = {
                "manager": manager.name,
                "operation": manager.operation,
                "apiVersion": manager.api_version,
                "time": (before.times.get(manager) if same else None) or now,
                "fieldsType": _KIND,
                "fieldsV1": to_trie(paths),
            }
            if manager.subresource:
                entry["subresource"] = manager.subresource
            entries.append(entry)
        return sorted(entries, key=lambda entry: (entry["operation"] != "Apply", entry["time"], entry["manager"]))

    def copy(self) -> Owners:
        """Return owners of their own."""
        return Owners({manager: set(paths) for manager, paths in self.fields.items()}, dict(self.times))


def managed_fields_of(obj: Object) -> list[Any]:
    """Return the entries of an object's managed fields; empty if it has none."""
    entries = (obj.get("metadata") or {}).get("managedFields")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def own_fields(obj: Object, node: Node, *, subresource: str, has_status: bool) -> dict[Path, Any]:
    """Return the fields that a manager may own by writing through this subresource."""
    foreign = {"f:status"} if has_status and not subresource else {"f:spec"} if subresource == "status" else set()
    return {
        path: value
        for path, value in fields_of(obj, node).items()
        if path not in _UNOWNED and path[0] not in foreign and path[:2] != ("f:metadata", "f:managedFields")
    }


def containers_of(fields: Iterable[Path]) -> set[Path]:
    """Return the maps and lists that hold these fields; who brings one owns it, an object's great parts apart."""
    found = {path[:length] for path in fields for length in range(1, len(path))}
    return found - _GREAT_PARTS


def changed_fields(before: Mapping[Path, Any], after: Mapping[Path, Any]) -> tuple[set[Path], set[Path]]:
    """Return the fields that were set to something new, and those that are gone."""
    changed = {path for path, value in after.items() if path not in before or not _same(before[path], value)}
    return changed, before.keys() - after.keys()


def _same(left: Any, right: Any) -> bool:
    if left is MEMBER or right is MEMBER:
        return left is right
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)


def track_update(
    before: Object, after: Object, node: Node, *, manager: Manager, has_status: bool, now: str
) -> list[Object]:
    """Return the managed fields after an update: what the manager changed is its own, and no one else's."""
    owners = Owners.read(managed_fields_of(before))
    kept = owners.copy()
    before_fields = own_fields(before, node, subresource=manager.subresource, has_status=has_status)
    after_fields = own_fields(after, node, subresource=manager.subresource, has_status=has_status)
    changed, gone = changed_fields(before_fields, after_fields)
    if changed or gone:
        changed |= containers_of(after_fields) - containers_of(before_fields)
        alive = after_fields.keys() | containers_of(after_fields)
        for other, paths in kept.fields.items():
            if other.subresource == manager.subresource:
                paths &= alive
        for other, paths in kept.fields.items():
            if other != manager:
                paths -= changed
        kept.fields.setdefault(manager, set()).update(changed)
    return kept.written(owners, now)
