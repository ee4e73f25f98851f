"""Server-side apply: merge a manager's configuration into an object.

The manager owns the fields in its configuration. If its next configuration lacks one of these fields, the server
removes the field, unless another manager owns it. A change of another manager's field is refused as a conflict, unless
the request sets `force`.

Source: structured-merge-diff, ``merge/update.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver import errors
from kube_testserver.schema.field_paths import (
    Path,
    element_of,
    fields_of,
    is_atomic,
    path_text,
)
from kube_testserver.schema.kinds import item_of, resolved, value_of
from kube_testserver.schema.managed_fields import (
    BEFORE_FIRST_APPLY,
    Manager,
    Owners,
    changed_fields,
    containers_of,
    managed_fields_of,
    own_fields,
)
from kube_testserver.schema.unknown_fields import prune
from kube_testserver.store import decode

if TYPE_CHECKING:
    from kube_testserver.resources.table import Resource
    from kube_testserver.schema.kinds import Node
    from kube_testserver.store import Object

__all__ = ["apply_configuration"]

_ANYTHING: Final[Node] = {}
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL: Final = "kubectl"


def apply_configuration(
    resource: Resource,
    live: Object,
    config: Object,
    *,
    manager: str,
    subresource: str = "",
    force: bool = False,
    now: str,
) -> Object:
    """Return `live` (empty where there is no object yet) after an apply, with its managed fields.

    Refuse what is of another version (400), has fields that the kind does not (500, as the real server) and what
    conflicts with other managers (409).
    """
    node = resource.fields if resource.fields is not None else _ANYTHING
    _check_configuration(resource, config, node)
    config = prune(config, node, custom=resource.custom)[0]
    who = Manager(manager, "Apply", resource.api_version, subresource)
    before = own_fields(live, node, subresource=subresource, has_status=resource.has_status)
    owners = Owners.read(managed_fields_of(live))
    had = owners.copy()
    if live and not owners.fields:
        owners.fields[Manager(BEFORE_FIRST_APPLY, "Update", resource.api_version)] = set(before) | containers_of(before)
    wanted = own_fields(config, node, subresource=subresource, has_status=resource.has_status)
    last, others = owners.fields.pop(who, set()), owners.fields
    kept = set(wanted).union(*others.values())
    merged: Object = _without(_merged(live, config, node), node, last - kept, kept)
    after = own_fields(merged, node, subresource=subresource, has_status=resource.has_status)
    changed, gone = changed_fields(before, after)
    conflicts = {other: paths & changed for other, paths in others.items() if paths & changed}
    if conflicts and not force:
        conflicts = _not_given_up(conflicts, live, node) if manager == _KUBECTL else conflicts
        if conflicts:
            raise _conflict(conflicts, owners)
    for paths in others.values():
        paths -= changed | gone
    owners.fields[who] = set(wanted)
    merged["metadata"] = {**(merged.get("metadata") or {}), "managedFields": owners.written(had, now)}
    return merged


def _check_configuration(resource: Resource, config: Object, node: Node) -> None:
    if config.get("apiVersion") != resource.api_version:
        raise errors.bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: {config.get('apiVersion') or ''}, "
            f"expected: {resource.api_version}"
        )
    metadata = config.get("metadata") or {}
    if metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    unknown = [text.split('"')[1] for text in prune(config, node, custom=resource.custom)[1]]
    if unknown:
        lines = [f".{path}: field not declared in schema" for path in unknown]
        problems = lines[0] if len(lines) == 1 else "errors:\n  " + "\n  ".join(lines)
        group = f"{resource.group}/{resource.version}" if resource.group else f"/{resource.version}"
        which = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {group}, Kind={resource.kind}"
        text = f"failed to create typed patch object ({which}): {problems}"
        raise errors.StatusError(text, code=500, reason="")


# --- merging -----------------------------------------------------------------------------------------


def _merged(live: Any, config: Any, node: Node) -> Any:
    """Return `live` with `config` merged in, by the schema's idea of maps and lists."""
    if type(live) is not type(config) or not isinstance(config, dict | list) or is_atomic(config, node):
        return config
    node = resolved(node)
    if isinstance(config, dict):
        merged = dict(live)
        for name, value in config.items():
            inner = node.get("properties", {}).get(name) or value_of(node) or _ANYTHING
            merged[name] = _merged(merged[name], value, inner) if name in merged else value
        return merged
    return _merged_list(live, config, node)


def _merged_list(live: list[Any], config: list[Any], node: Node) -> list[Any]:
    """Return the items of both; those applied stand in the order of the configuration, where they stood."""
    items = item_of(node)
    present = {element_of(item, node): item for item in live}
    named = {element_of(item, node): item for item in config}
    wanted = {key: _merged(present[key], item, items) if key in present else item for key, item in named.items()}
    in_order = iter([key for key in wanted if key in present])
    merged = []
    for key, item in present.items():
        merged.append(wanted[next(in_order)] if key in wanted else item)
    return merged + [item for key, item in wanted.items() if key not in present]


def _without(value: Any, node: Node, gone: set[Path], kept: set[Path]) -> Any:
    """Return a value without the fields in `gone`; an item or map of which something is in `kept` stays."""
    if not gone:
        return value
    held = {path[:length] for path in kept for length in range(1, len(path) + 1)}
    return _thinned(value, node, (), gone, held)


def _thinned(value: Any, node: Node, path: Path, gone: set[Path], held: set[Path]) -> Any:
    if not isinstance(value, dict | list) or (path and is_atomic(value, node)):
        return value
    node = resolved(node)
    if isinstance(value, list):
        thinned_list = []
        for item in value:
            here = (*path, element_of(item, node))
            if here not in gone or here in held:
                thinned_list.append(_thinned(item, item_of(node), here, gone, held))
        return thinned_list
    thinned = {}
    for name, inner in value.items():
        here = (*path, f"f:{name}")
        if here in gone and here not in held:
            continue
        left = _thinned(inner, node.get("properties", {}).get(name) or value_of(node) or _ANYTHING, here, gone, held)
        if left in ({}, []) and inner not in ({}, []) and here not in held:
            continue  # what is empty now was only there for what is gone
        thinned[name] = left
    return thinned


# --- conflicts ---------------------------------------------------------------------------------------


def _not_given_up(conflicts: dict[Manager, set[Path]], live: Object, node: Node) -> dict[Manager, set[Path]]:
    """Leave out the fields that kubectl applied from the client's side and that have not changed since."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED)
    try:
        applied = decode(text.encode()) if text else None
    except ValueError:
        applied = None
    if not isinstance(applied, dict):
        return conflicts
    now = fields_of(live, node)
    untouched = {path for path, value in fields_of(applied, node).items() if path in now and now[path] == value}
    left = {manager: paths - untouched for manager, paths in conflicts.items()}
    return {manager: paths for manager, paths in left.items() if paths}


def _conflict(conflicts: dict[Manager, set[Path]], owners: Owners) -> errors.StatusError:
    named = []
    for manager in sorted(conflicts, key=lambda one: one.name):
        text = str(manager)
        if manager.operation == "Update":
            text += f" using {manager.api_version}"
            text += f" at {owners.times[manager]}" if owners.times.get(manager) else ""
        named += [(text, path_text(path)) for path in sorted(conflicts[manager])]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path} for who, path in named
    ]
    if len(named) == 1:
        message = f"Apply failed with 1 conflict: conflict with {named[0][0]}: {named[0][1]}"
    else:
        lines = []
        for who in dict.fromkeys(who for who, _ in named):
            lines += [f"conflicts with {who}:", *(f"- {path}" for other, path in named if other == who)]
        message = f"Apply failed with {len(named)} conflicts: " + "\n".join(lines)
    return errors.StatusError(message, code=409, reason="Conflict", details={"causes": causes})
