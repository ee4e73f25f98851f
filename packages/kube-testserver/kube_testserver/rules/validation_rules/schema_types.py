"""Convert OpenAPI schemas to CEL types, and JSON that fits a schema to CEL values."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_cel.errors import CelError
from kube_cel.times import duration_of, parse_duration, parse_timestamp
from kube_cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Type, TypePool
from kube_cel.values import Map, from_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_testserver.store import Object

__all__ = ["POOL", "BadFormatError", "aligned", "as_resource", "cel_type", "cel_value", "identity"]

POOL: Final = TypePool()
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_TEXT: Final = {"type": "string"}
#: What rules at the root of a resource can always read.
_OF_RESOURCES: Final = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}
_SCALARS: Final = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_FORMATS: Final = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_RESERVED: Final = re.compile(
    "true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package|namespace|return|var|void|"
    "while"
)
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_LONG_UNITS: Final = {"d": 86_400, "day": 86_400, "days": 86_400, "w": 604_800, "week": 604_800, "weeks": 604_800}
_LONG_DURATION: Final = re.compile(r"(\d+)\s*([a-z]+)")


class BadFormatError(Exception):
    """A text does not have the `format` that its schema asks for."""

    def __init__(self, path: str, text: str, expected: str) -> None:
        self.path = path
        self.text = text
        self.expected = expected
        super().__init__(f"{path} in body must be of type {expected}")


def as_resource(schema: Object) -> Object:
    """Return the schema of a resource with what every resource has."""
    return {**schema, "type": "object", "properties": {**(schema.get("properties") or {}), **_OF_RESOURCES}}


def cel_type(schema: Object, name: str) -> Type | None:
    """Return the type of what a schema describes; None where it does not say. `name` is that of an object's type."""
    if schema.get(_INT_OR_STRING):
        return DYN
    if schema.get(_EMBEDDED):
        schema = as_resource(schema)
    kind = schema.get("type")
    if kind == "array":
        item = cel_type(schema.get("items") or {}, f"{name}.@idx")
        return None if item is None else POOL.list_of(item)
    if kind == "object":
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            value = cel_type(values, f"{name}.@elem")
            return None if value is None else POOL.map_of(STRING, value)
        return Type("struct", name, fields=_fields(schema, name))
    if kind == "string":
        return _FORMATS.get(schema.get("format") or "", STRING)
    return _SCALARS.get(kind or "")


def _fields(schema: Object, name: str) -> dict[str, Type]:
    fields = {}
    for given, inner in (schema.get("properties") or {}).items():
        escaped, type_ = _escaped(given), cel_type(inner, f"{name}.{given}")
        if escaped and type_ is not None:
            fields[escaped] = type_
    return fields


def _escaped(name: str) -> str:
    """Return the name of a field in an expression; empty if it cannot have one."""
    if _NAME.fullmatch(name) is None:
        return ""
    if _RESERVED.fullmatch(name):
        return f"__{name}__"
    return re.sub(r"__|[./-]", lambda found: _ESCAPED[found[0]], name)


def cel_value(value: Any, schema: Object, path: str = "") -> Any:
    """Return the value of CEL for JSON that fits a schema; `BadFormatError` for a text that is not what it should be.

    `path` is where the value is, for the error.
    """
    if value is None or schema.get(_INT_OR_STRING):
        return from_json(value)
    kind = schema.get("type")
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [cel_value(one, items, f"{path}[{index}]") for index, one in enumerate(value)]
    if isinstance(value, dict):
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            return Map({key: cel_value(one, values, f"{path}.{key}") for key, one in value.items()})
        if schema.get(_EMBEDDED):
            schema = as_resource(schema)
        known = schema.get("properties") or {}
        before = f"{path}." if path else ""
        present = [name for name, one in value.items() if name in known and one is not None]
        return Map({_escaped(name): cel_value(value[name], known[name], f"{before}{name}") for name in present})
    if kind == "number":
        return float(value)
    if kind == "integer":
        return int(value)
    return _formatted(value, schema.get("format") or "", path) if isinstance(value, str) else value


def aligned(old: Any, new: Any, schema: Object) -> Any:
    """Return an old value whose lists of the types ``set`` and ``map`` follow the order of a new one.

    Order means nothing there; so it does not make two lists unequal.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        properties, values = schema.get("properties") or {}, schema.get("additionalProperties")
        otherwise = values if isinstance(values, dict) else {}
        return {
            name: aligned(one, new[name], properties.get(name) or otherwise) if name in new else one
            for name, one in old.items()
        }
    if isinstance(old, list) and isinstance(new, list):
        if schema.get("x-kubernetes-list-type") in ("set", "map"):
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            places = {identity(one, keys): place for place, one in enumerate(new)}
            old = sorted(old, key=lambda one: places.get(identity(one, keys), len(new)))
        items = schema.get("items") or {}
        return [aligned(one, other, items) for one, other in zip(old, new, strict=False)] + old[len(new) :]
    return old


def identity(item: Any, keys: Sequence[str]) -> bytes:
    """Return what tells an item of a list from the others: the values of its `keys`, or without any all of it."""
    if keys and isinstance(item, dict):
        item = [item.get(key) for key in keys]
    return msgspec.json.encode(item)


def _formatted(text: str, kind: str, path: str) -> Any:
    try:
        if kind == "byte":
            return base64.b64decode(text)
        if kind == "date-time":
            return parse_timestamp(text)
        if kind == "date":
            return parse_timestamp(f"{text}T00:00:00Z")
        if kind == "duration":
            return _duration(text)
    except (CelError, binascii.Error) as error:
        raise BadFormatError(path, text, kind) from error
    return text


def _duration(text: str) -> Any:
    long = _LONG_DURATION.fullmatch(text)
    if long is not None and long[2] in _LONG_UNITS:
        return duration_of(int(long[1]) * _LONG_UNITS[long[2]] * 10**9)
    return parse_duration(text)
