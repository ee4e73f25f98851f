"""CEL's types, as the type checker uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Type",
    "TypePool",
    "format_type",
    "is_dynamic",
    "name_type",
]

_LONGEST: Final = 4096


@attrs.frozen(eq=False)
class Type:
    """A type. `kind` is its name for simple types, else ``list``, ``map``, ``struct``, ``opaque``, ``param`` ..."""

    kind: str
    name: str
    params: tuple[Type, ...] = ()
    #: Whether type parameters occur in it.
    is_open: bool = False
    #: Of a struct, by field.
    fields: Mapping[str, Type] = attrs.field(factory=dict, repr=False)


BOOL: Final = Type("bool", "bool")
BYTES: Final = Type("bytes", "bytes")
DOUBLE: Final = Type("double", "double")
INT: Final = Type("int", "int")
STRING: Final = Type("string", "string")
UINT: Final = Type("uint", "uint")
NULL: Final = Type("null", "null_type")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
DYN: Final = Type("dyn", "dyn")
ANY: Final = Type("any", "google.protobuf.Any")
ERROR: Final = Type("error", "error")
TYPE: Final = Type("type", "type")

#: How messages of the checker name types whose own name is another.
_SHOWN: Final = {
    "any": "any",
    "duration": "duration",
    "timestamp": "timestamp",
    "null": "null",
    "error": "!error!",
}


def is_dynamic(type_: Type) -> bool:
    """Return True for types of which nothing is known before an evaluation."""
    return type_ is DYN or type_ is ANY


class TypePool:
    """Makes types, the same object for the same type."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Type] = {}

    def make(self, kind: str, name: str, params: tuple[Type, ...]) -> Type:
        """Return the type of this kind and name with these parameters."""
        key = (kind, name, params)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Type(kind, name, params, any(param.is_open for param in params))
        return found

    def list_of(self, element: Type) -> Type:
        """Return the type of lists."""
        return self.make("list", "list", (element,))

    def map_of(self, key: Type, value: Type) -> Type:
        """Return the type of maps."""
        return self.make("map", "map", (key, value))

    def optional_of(self, value: Type) -> Type:
        """Return the type of optional values."""
        return self.make("opaque", "optional_type", (value,))

    def type_of(self, type_: Type) -> Type:
        """Return the type of a type."""
        return self.make("type", "type", (type_,))

    def param(self, name: str) -> Type:
        """Return a type parameter."""
        key = ("param", name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Type("param", name, (), is_open=True)
        return found


def _text(type_: Type, shown: Mapping[str, str], param: str, left: list[int]) -> str:
    if left[0] <= 0:
        return "..."
    left[0] -= len(type_.name)
    if type_.kind in shown:
        return shown[type_.kind]
    if type_.kind == "param":
        return param % type_.name
    if not type_.params:
        return type_.name
    return f"{type_.name}({', '.join(_text(each, shown, param, left) for each in type_.params)})"


def format_type(type_: Type) -> str:
    """Return a type as messages of the checker show it."""
    return _text(type_, _SHOWN, "%s", [_LONGEST])


def name_type(type_: Type) -> str:
    """Return a type as the message about the type of a whole expression shows it."""
    return _text(type_, {}, "<%s>", [_LONGEST])
