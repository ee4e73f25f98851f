"""Map the attributes of a class to the keys of a configuration file, for reading and for printing."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Mapping

import attrs
import msgspec

from pyscheduler.framework.plugin_args import Duration

__all__ = ["Field", "camel", "fields_of", "is_record"]


@attrs.frozen(kw_only=True)
class Field:
    """One attribute: its key in the file, its constructor argument, its type, and the meaning of an empty value."""

    key: str
    attribute: str
    argument: str
    type: object
    required: bool
    optional: bool
    duration: bool
    zero_is_unset: bool
    omit_empty: bool


def is_record(kind: object) -> bool:
    """Return True if `kind` is a class whose attributes are keys of a mapping."""
    return isinstance(kind, type) and (attrs.has(kind) or issubclass(kind, msgspec.Struct))


@functools.cache
def fields_of(kind: type) -> Mapping[str, Field]:
    """Return the fields of a record by key, in order; raise `NameError` if an annotation cannot be resolved."""
    found = _attrs_fields(kind) if attrs.has(kind) else _struct_fields(kind)
    return {field.key: field for field in found}


def camel(name: str) -> str:
    """Return the key for an attribute: `pod_max_backoff_seconds` becomes `podMaxBackoffSeconds`."""
    first, *rest = name.strip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _attrs_fields(kind: type[attrs.AttrsInstance]) -> list[Field]:
    attrs.resolve_types(kind)
    fields = []
    for attribute in attrs.fields(kind):
        metadata = attribute.metadata
        if not attribute.init or metadata.get("internal"):
            continue
        arms = _arms(attribute.type)
        duration = Duration in arms
        name = attribute.alias.removesuffix("_seconds") if duration else attribute.alias
        fields.append(
            Field(
                key=metadata.get("key") or camel(name),
                attribute=attribute.name,
                argument=attribute.alias,
                type=attribute.type,
                required=attribute.default is attrs.NOTHING,
                optional=type(None) in arms,
                duration=duration,
                zero_is_unset=bool(metadata.get("zero_is_unset")),
                omit_empty=bool(metadata.get("omit_empty")),
            )
        )
    return fields


def _struct_fields(kind: type[msgspec.Struct]) -> list[Field]:
    return [
        Field(
            key=field.encode_name,
            attribute=field.name,
            argument=field.name,
            type=field.type,
            required=field.required,
            optional=type(None) in _arms(field.type),
            duration=False,
            zero_is_unset=False,
            omit_empty=True,
        )
        for field in msgspec.structs.fields(kind)
    ]


def _arms(kind: object) -> tuple[object, ...]:
    """Return the members of a union; another type is its only member."""
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return typing.get_args(kind)
    return (kind,)
