"""Typed classes for the kinds of objects, with which the server checks the types of an object's fields."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kube_objects.kinds import BUILT_IN_KINDS
from kube_objects.meta import KubeObject, Wire
from kube_testserver.schema.structs import struct_of

__all__ = ["shapes_of"]


class _Schema(Wire):
    open_api_v3_schema: _JSONSchema | None = msgspec.field(name="openAPIV3Schema", default=None)


class _JSONSchema(Wire):
    """A schema, all the way down: what is allowed in a definition decides what is done to every object of its kind."""

    type: str = ""
    properties: Mapping[str, _JSONSchema] = {}
    items: _JSONSchema | None = None
    additional_properties: _JSONSchema | bool | None = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    pattern: str = ""
    nullable: bool = False
    default: Any = None


class _PrinterColumn(Wire):
    name: str


class _SelectableField(Wire):
    json_path: str


class _Version(Wire):
    name: str
    schema: _Schema = _Schema()
    additional_printer_columns: tuple[_PrinterColumn, ...] = ()
    selectable_fields: tuple[_SelectableField, ...] = ()


class _DefinitionSpec(Wire):
    versions: tuple[_Version, ...] = ()


class _Definition(Wire):
    """A definition beside the table of fields: required names, and schemas all the way down.

    `structs` does not look into these schemas, because their type, JSONSchemaProps, contains itself.
    """

    spec: _DefinitionSpec = _DefinitionSpec()


_WIRE_TYPES: Final = {(kind.group, kind.version, kind.kind): kind.type for kind in BUILT_IN_KINDS}
_DEFINITIONS: Final = "CustomResourceDefinition"


@functools.cache
def shapes_of(group: str, version: str, kind: str, *, custom: bool) -> tuple[type, ...]:
    """Return the types that an object of a kind has to fit; the first knows every field, where the kind is built in."""
    wire = _WIRE_TYPES.get((group, version, kind), KubeObject)
    known = None if custom else struct_of(group, version, kind)
    if known is None:
        return (wire,)
    return (known, wire, _Definition) if kind == _DEFINITIONS else (known, wire)
