"""The schema of each built-in kind, and functions that follow references from one schema to another.

A schema is a part of an OpenAPI v3 document, as decoded JSON. Schemas are shared and must not be changed.
"""

from __future__ import annotations

import functools
import gzip
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["METADATA", "Node", "definitions", "item_of", "references", "resolved", "schema_of", "value_of"]

Node = dict[str, Any]
"""One node of a schema."""

METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
"""The name of the schema of every object's metadata."""

_DELETE_OPTIONS: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"


@functools.cache
def definitions() -> dict[str, Node]:
    """Return every schema by name."""
    packed = resources.files(__package__).joinpath("kinds.json.gz").read_bytes()
    table: dict[str, Node] = msgspec.json.decode(gzip.decompress(packed))
    return table


@functools.cache
def _by_kind() -> dict[tuple[str, str, str], str]:
    named = {
        (one["group"], one["version"], one["kind"]): name
        for name, schema in definitions().items()
        for one in schema.get("x-kubernetes-group-version-kind", ())
    }
    return {**named, ("", "v1", "DeleteOptions"): _DELETE_OPTIONS}  # of every group, so it names none


def schema_of(group: str, version: str, kind: str) -> Node | None:
    """Return the schema of a built-in kind, or None where it is not known."""
    name = _by_kind().get((group, version, kind))
    return None if name is None else definitions()[name]


def resolved(node: Node) -> Node:
    """Return the schema behind a node, following a reference."""
    name = node.get("$ref")
    return node if name is None else definitions()[name]


def value_of(node: Node) -> Node | None:
    """Return the schema of a map's values, or None where the node is no map."""
    inner = node.get("additionalProperties")
    if inner is True:
        return {_PRESERVE: True}
    return inner if isinstance(inner, dict) else None


def item_of(node: Node) -> Node:
    """Return the schema of a list's items."""
    inner = node.get("items")
    return inner if isinstance(inner, dict) else {_PRESERVE: True}


def references(node: Node) -> Iterator[str]:
    """Yield the name of every schema that a node refers to, not looking into those."""
    if "$ref" in node:
        yield node["$ref"]
    parts = [*node.get("properties", {}).values(), node.get("items"), node.get("additionalProperties")]
    for inner in parts:
        if isinstance(inner, dict):
            yield from references(inner)
