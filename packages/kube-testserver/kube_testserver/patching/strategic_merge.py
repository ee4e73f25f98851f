"""Strategic merge patch: a merge patch that merges some lists item by item.

Most lists of a patch replace the object's list. Some lists are merged by a key, such as containers by name, and a few
lists of strings are merged as sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver.patching.json_patches import PatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["apply_strategic_patch"]

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"


def apply_strategic_patch(lists: Mapping[str, str], target: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return `target` with `patch` merged in; changes neither.

    `lists` names the lists that merge, by path, with their merge keys (see `kube_testserver.schema.merge_keys`).
    """
    if not isinstance(patch, dict):
        raise PatchError("a strategic merge patch is an object", malformed=True)
    try:
        return _merge_objects(target, patch, "", lists)
    except TypeError as error:  # a merge key that is itself an object cannot be looked up
        raise PatchError(f"a merge key is not a plain value: {error}", malformed=True) from error


def _merge_objects(
    target: dict[str, Any], patch: dict[str, Any], path: str, lists: Mapping[str, str]
) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _PATCH}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise PatchError(f"unknown patch type: {directive}", malformed=True)
    merged = dict(target)
    if _RETAIN in patch:
        kept = patch[_RETAIN]
        if not isinstance(kept, list):
            raise PatchError(f"{_RETAIN} is a list", malformed=True)
        merged = {name: value for name, value in merged.items() if name in kept}
    for name, value in patch.items():
        if name in (_PATCH, _RETAIN):
            continue
        if name.startswith(_ORDER):
            _order(merged, name.removeprefix(_ORDER), value, patch, path, lists)
        elif name.startswith(_DELETE_PRIMITIVES):
            name = name.removeprefix(_DELETE_PRIMITIVES)
            if isinstance(merged.get(name), list):
                merged[name] = [item for item in merged[name] if item not in value]
        elif value is None:
            merged.pop(name, None)
        else:
            here = f"{path}.{name}" if path else name
            merged[name] = _merge_values(merged.get(name), value, here, lists, order=patch.get(_ORDER + name))
    return merged


def _merge_values(target: Any, value: Any, path: str, lists: Mapping[str, str], *, order: Any) -> Any:
    if isinstance(value, dict):
        return _merge_objects(target if isinstance(target, dict) else {}, value, path, lists)
    if not isinstance(value, list):
        return value
    if path not in lists:
        return [_without_directives(item) for item in value]
    key = lists[path]
    present = target if isinstance(target, list) else []
    if key:
        return _merge_items(present, value, key, path, lists, order=order)
    united = [*present, *(item for item in value if item not in present)]
    return _ordered(united, order if isinstance(order, list) else value, present, _plain)


def _merge_items(
    present: list[Any], patch: list[Any], key: str, path: str, lists: Mapping[str, str], *, order: Any
) -> list[Any]:
    items = [item for item in present if isinstance(item, dict)]
    named: list[dict[str, Any]] = []
    replace = False
    for entry in patch:
        if not isinstance(entry, dict):
            raise PatchError(f"the items of {path} are objects", malformed=True)
        directive = entry.get(_PATCH)
        if directive == "replace":
            replace = True
            continue
        if key not in entry:
            raise PatchError(f"map: {entry} does not contain declared merge key: {key}", malformed=True)
        if directive == "delete":
            items = [item for item in items if item.get(key) != entry[key]]
        else:
            named.append(entry)
    if replace:
        return [_without_directives(entry) for entry in named]
    before = list(items)
    for entry in named:
        for position, item in enumerate(items):
            if item.get(key) == entry[key]:
                items[position] = _merge_objects(item, entry, path, lists)
                break
        else:
            items.append(_merge_objects({}, entry, path, lists))
    wanted = order if isinstance(order, list) else named
    return _ordered(items, wanted, before, lambda item: item.get(key) if isinstance(item, dict) else item)


def _order(
    merged: dict[str, Any], name: str, order: Any, patch: dict[str, Any], path: str, lists: Mapping[str, str]
) -> None:
    """Apply an order to a list that the patch does not otherwise touch."""
    here = f"{path}.{name}" if path else name
    if name in patch or here not in lists or not isinstance(order, list) or not isinstance(merged.get(name), list):
        return
    key = lists[here]
    merged[name] = _ordered(
        merged[name],
        order,
        merged[name],
        (lambda item: item.get(key) if isinstance(item, dict) else item) if key else _plain,
    )


def _plain(item: Any) -> Any:
    return item


def _ordered(items: list[Any], wanted: list[Any], before: list[Any], identity: Any) -> list[Any]:
    """Put the items that `wanted` names into its order, and weave the others in where they stood `before`.

    An unnamed item goes before the next named one only if it stood before it already: so a condition that a patch adds
    comes first, and known ones keep their sequence.
    """
    rank = {identity(item): position for position, item in enumerate(wanted)}
    place = {identity(item): position for position, item in enumerate(before)}
    named = sorted((item for item in items if identity(item) in rank), key=lambda item: rank[identity(item)])
    others = sorted(
        (item for item in items if identity(item) not in rank), key=lambda item: place.get(identity(item), len(place))
    )
    woven: list[Any] = []
    for item in named:
        position = place.get(identity(item))
        while position is not None and others and place.get(identity(others[0]), len(place)) < position:
            woven.append(others.pop(0))
        woven.append(item)
    return woven + others


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_directives(inner)
            for name, inner in value.items()
            if not name.startswith((_ORDER, _DELETE_PRIMITIVES)) and name not in (_PATCH, _RETAIN)
        }
    if isinstance(value, list):
        return [_without_directives(inner) for inner in value]
    return value
