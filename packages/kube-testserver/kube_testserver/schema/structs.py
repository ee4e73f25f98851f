"""Make Python types from schemas, to find unknown fields and wrong types in an object.

To check an object, the server converts it to such a type with msgspec, and throws the result away.
"""

from __future__ import annotations

import functools
import keyword
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_testserver.schema.kinds import definitions, item_of, references, schema_of, value_of

if TYPE_CHECKING:
    from kube_testserver.schema.kinds import Node

__all__ = ["struct_of"]

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_PLAIN: Final[dict[str, Any]] = {"string": str, "integer": int, "boolean": bool, "number": int | float}


@functools.cache
def struct_of(group: str, version: str, kind: str) -> type | None:
    """Return the type of a built-in kind, which forbids unknown fields; None where the kind is not known."""
    schema = schema_of(group, version, kind)
    return None if schema is None else _struct(kind, schema)


@functools.cache
def _named(name: str) -> Any:
    if name == _QUANTITY:
        return str | int | float
    if _refers_to_itself(name):
        return dict[str, Any]
    return _type(definitions()[name], name.rpartition(".")[2])


def _type(node: Node, name: str) -> Any:
    if "$ref" in node:
        return _named(node["$ref"])
    if node.get("format") == "date-time":
        return str | None
    if node.get("format") == "int-or-string":
        return int | str
    kind = node.get("type")
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "array":
        return list[_type(item_of(node), name)]  # type: ignore[misc]  # made at run time
    values = value_of(node)
    if kind == "object" and values is not None:
        return dict[str, _type(values, name)]  # type: ignore[misc]  # made at run time
    return _struct(name, node) if "properties" in node else Any


def _struct(name: str, node: Node) -> type:
    wire = list(node.get("properties", {}))
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for index, field in enumerate(wire):
        attribute = field if field.isidentifier() and not keyword.iskeyword(field) else f"field_{index}"
        names[attribute] = field
        fields.append((attribute, _type(node["properties"][field], name), msgspec.UNSET))
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, rename=names, gc=False)


@functools.cache
def _refers_to_itself(name: str) -> bool:
    seen: set[str] = set()
    todo = [name]
    while todo:
        for other in references(definitions()[todo.pop()]):
            if other == name:
                return True
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return False
