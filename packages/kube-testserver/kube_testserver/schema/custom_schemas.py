"""Functions on the OpenAPI v3 schemas of custom resources: list the parts of a schema, and look for CEL rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["RULES", "children_of", "has_rules"]

RULES: Final = "x-kubernetes-validations"


def has_rules(schema: Object) -> bool:
    """Return True if a schema has rules, at any depth."""
    return bool(schema.get(RULES)) or any(has_rules(inner) for _, inner in children_of(schema))


def children_of(schema: Object) -> Iterator[tuple[str, Object]]:
    """Yield the schemas inside a schema, with their places in it."""
    items, values = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield "items", items
    if isinstance(values, dict):
        yield "additionalProperties", values
    properties: dict[str, Any] = schema.get("properties") or {}
    for name, inner in properties.items():
        yield f"properties[{name}]", inner
