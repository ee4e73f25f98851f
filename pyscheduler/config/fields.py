"""How the attributes of a class stand in a file: the one table that reading and showing share.

Two kinds of classes appear in configurations: attrs classes, which follow the rules told in `framework.plugin_args`,
and wire objects of `api` (node affinity, spread constraints), which know their own keys.
"""

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
    """One attribute: its key in the file, its name in the constructor, its type, and what emptiness means."""

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
    """Tell whether `kind` is a class whose attributes are keys of a mapping."""
    return isinstance(kind, type) and (attrs.has(kind) or issubclass(kind, msgspec.Struct))


@functools.cache
def fields_of(kind: type) -> Mapping[str, Field]:
    """Return the fields of a record by key, in order; raise `NameError` where its annotations cannot be resolved."""
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
    """Return what a union consists of; a type that is none consists of itself."""
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return typing.get_args(kind)
    return (kind,)
