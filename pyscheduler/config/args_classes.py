"""Find mistakes in the class of a plugin's args: wrong defaults, and types that a YAML file cannot express."""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs

from kube_objects.quantity import Quantity
from pyscheduler.config.fields import Field, fields_of
from pyscheduler.framework.plugin_args import Duration

__all__ = ["unsupported_type", "wrong_defaults"]

_ARGS_TYPES: Final = (
    "bool, int, float, str, Duration, Quantity, Literal, an Enum, an attrs class, or a list, mapping or union of these"
)


def unsupported_type(kind: type, field: Field, found: object) -> str:
    """Return a sentence about a field of `kind` whose type is, or contains, `found`, which cannot be read."""
    remedy = "write Duration" if found is dt.timedelta else f"write {_ARGS_TYPES}"
    return f"{kind.__name__}.{field.attribute} cannot be read from a file: {_name(found)} is no type of args; {remedy}"


def wrong_defaults(kind: type) -> Sequence[str]:
    """Return a sentence about each default of an attrs class that its type does not allow.

    Defaults of factories, and of attributes with a converter, are not checked.
    """
    if not attrs.has(kind):
        return ()
    attributes: Mapping[str, Any] = attrs.fields_dict(kind)
    problems = []
    for field in fields_of(kind).values():
        attribute = attributes[field.attribute]
        default: object = attribute.default
        is_plain = default is not attrs.NOTHING and not isinstance(default, attrs.Factory)  # type: ignore[arg-type]  # a class, which its stub hides
        if is_plain and attribute.converter is None and not _is_a(default, field.type):
            where = f"the default of {kind.__name__}.{field.attribute}"
            problems.append(f"{where} is {default!r}; {_remedy(default, field)}")
    return problems


def _remedy(default: object, field: Field) -> str:
    if field.duration and default is not None:
        return "write the seconds as a number"
    if field.type is Quantity and isinstance(default, str | int | float):
        return f"write Quantity({default!r})"
    if default is None:
        return f"write {_name(field.type)} | None as its type"
    return f"its type is {_name(field.type)}"


def _is_a(value: object, kind: Any) -> bool:
    """Return False if `value` is not of type `kind`; a list may have the type of another collection."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _is_a(value, arguments[0])
    if origin in {typing.Union, types.UnionType}:
        return any(_is_a(value, arm) for arm in arguments)
    if origin is typing.Literal:
        return value in arguments
    container = origin or kind
    if container is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if container is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if container is Any or not isinstance(container, type):
        return True
    if issubclass(container, Mapping):
        items = arguments[1] if arguments else object
        return isinstance(value, Mapping) and all(_is_a(item, items) for item in value.values())
    if issubclass(container, Collection) and not issubclass(container, str | bytes):
        items = arguments[0] if arguments and arguments[1:] in {(), (...,)} else object
        is_list = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
        return is_list and all(_is_a(item, items) for item in typing.cast("Collection[object]", value))
    return isinstance(value, container)


def _name(kind: object) -> str:
    if kind == Duration:
        return "Duration"
    return kind.__qualname__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
