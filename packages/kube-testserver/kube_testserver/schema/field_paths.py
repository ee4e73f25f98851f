"""The fields of an object as paths, in the form of `metadata.managedFields`.

An element of a path is ``f:<name>`` for a field or a key of a map, ``k:<keys>`` for an item of a list by its keys, or
``v:<value>`` for an item of a set.

Source of the rules: structured-merge-diff, on which server-side apply is built.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_testserver.schema.kinds import item_of, resolved, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube_testserver.schema.kinds import Node

__all__ = ["MEMBER", "Path", "element_of", "fields_of", "from_trie", "is_atomic", "path_text", "to_trie"]

Path = tuple[str, ...]
"""The way to a field, from the object down."""

MEMBER: Final = object()
"""Stands for the value of an item or key that is there and has fields of its own."""

_ANYTHING: Final[Node] = {}
_SELF: Final = "."


def fields_of(value: Any, node: Node) -> dict[Path, Any]:
    """Return every field that a value holds, with what it is set to."""
    found: dict[Path, Any] = {}
    _collect(value, node, (), found)
    return found


def _collect(value: Any, node: Node, path: Path, found: dict[Path, Any]) -> None:
    marked, node = node, resolved(node)
    if not isinstance(value, dict | list) or is_atomic(value, marked):
        found[path] = value
    elif isinstance(value, dict):
        properties = node.get("properties", {})
        for name, inner in value.items():
            here = (*path, f"f:{name}")
            _collect(inner, properties.get(name) or value_of(node) or _ANYTHING, here, found)
            if inner is None or inner == {}:
                found[here] = inner
            elif name not in properties:
                found.setdefault(here, MEMBER)
    else:
        items = item_of(node)
        for item in value:
            here = (*path, element_of(item, node))
            _collect(item, items, here, found)
            found.setdefault(here, MEMBER)


def is_atomic(value: Any, node: Node) -> bool:
    """Return True if a map or list is one field as a whole; where a schema does not say, maps are not and lists are."""
    target = resolved(node)
    if isinstance(value, dict):
        return "atomic" in (node.get("x-kubernetes-map-type"), target.get("x-kubernetes-map-type"))
    return target.get("x-kubernetes-list-type") not in ("map", "set")


def element_of(item: Any, node: Node) -> str:
    """Return the element of a path that names an item of a list that is not atomic."""
    if node.get("x-kubernetes-list-type") != "map" or not isinstance(item, dict):
        return f"v:{_text(item)}"
    fields = resolved(item_of(node)).get("properties", {})
    keys = {}
    for name in sorted(node.get("x-kubernetes-list-map-keys") or ()):
        value = item.get(name, fields.get(name, {}).get("default"))
        if value is not None:
            keys[name] = value
    return f"k:{_text(keys)}"


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def to_trie(paths: Iterable[Path]) -> dict[str, Any]:
    """Return a set of paths as ``fieldsV1`` has it: a tree, in which ``.`` marks an inner node as a member."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        place[_SELF] = {}
    return _without_lone_marks(tree)


def _without_lone_marks(tree: dict[str, Any]) -> dict[str, Any]:
    return {name: {} if inner.keys() == {_SELF} else _without_lone_marks(inner) for name, inner in tree.items()}


def from_trie(tree: Any, path: Path = ()) -> set[Path]:
    """Return the paths of a ``fieldsV1`` tree; what is no tree holds none."""
    if not isinstance(tree, dict):
        return set()
    found: set[Path] = set()
    for element, inner in tree.items():
        if element == _SELF:
            found.add(path)
        elif not inner:
            found.add((*path, element))
        else:
            found |= from_trie(inner, (*path, element))
    return found


def path_text(path: Path) -> str:
    """Return a path as messages show it: ``.spec.containers[name="c"].image``."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = ",".join(f"{name}={_text(value)}" for name, value in json.loads(rest).items())
            text += f"[{keys}]"
        else:
            text += f"[={rest}]"
    return text
