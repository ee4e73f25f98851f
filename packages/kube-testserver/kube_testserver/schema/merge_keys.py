"""Merge keys: for each kind, the lists that a strategic merge patch merges, and the field that identifies an item."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kube_testserver.schema.kinds import resolved, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kube_testserver.schema.kinds import Node

__all__ = ["merge_lists"]


@functools.cache
def merge_lists(group: str, version: str, kind: str) -> Mapping[str, str]:
    """Return the path of each list that merges, and its merge key; an empty key marks a list of plain values."""
    schema = schema_of(group, version, kind)
    return {} if schema is None else dict(_marked(schema, "", ()))


def _marked(node: Node, path: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    name = node.get("$ref")
    if name in above:
        return  # a schema within itself: no list in there is marked
    above = (*above, name) if name else above
    for field, inner in resolved(node).get("properties", {}).items():
        here = f"{path}.{field}" if path else field
        is_list = inner.get("type") == "array"
        if is_list and "merge" in inner.get("x-kubernetes-patch-strategy", ""):
            yield here, inner.get("x-kubernetes-patch-merge-key", "")
        below = inner.get("items") if is_list else inner
        if isinstance(below, dict):
            yield from _marked(below, here, above)
