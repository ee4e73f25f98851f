"""Read the objects of a cluster, or changes of objects, from a file.

`kubectl get pods,nodes -A -o yaml` prints a *dump*. Files of kube-scheduler-simulator are also read: an *export* has
the objects of a cluster, and a *recording* has their changes.

Source: kubernetes-sigs/kube-scheduler-simulator, `simulator/recorder` and `simulator/snapshot`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.errors import APIError
from kube_objects.times import parse_time
from kube_testserver.manifests import load_manifests
from pyscheduler.framework.errors import ConfigError
from pyscheduler_lab.data.tables import PARQUET

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Object", "changes_in", "is_objects", "key_of", "objects_in", "time_of"]

Object = dict[str, Any]
"""A JSON object."""

#: The keys of an export that hold objects without kinds, and the kinds.
_EXPORTED: Final = {"pods": "Pod", "nodes": "Node"}


def is_objects(content: bytes) -> bool:
    """Return True for JSON and for YAML with a kind of objects."""
    if content.startswith(PARQUET):
        return False
    head = content[:4096].lstrip()
    return (
        head.startswith((b"{", b"[")) or re.search(rb"^(kind|apiVersion|- apiVersion):", head, re.MULTILINE) is not None
    )


def objects_in(content: bytes, source: str) -> list[Object]:
    """Return the objects of a dump, an export or a recording; of a recording, in their first state."""
    changes = changes_in(content, source)
    if changes is not None:
        first: dict[tuple[str, ...], Object] = {}
        for change in changes:
            first.setdefault(key_of(change["resource"]), change["resource"])
        return [*first.values()]
    try:
        found = load_manifests(content)
    except APIError as error:
        raise ConfigError(str(error), source=source) from error
    if len(found) == 1 and "kind" not in found[0] and _EXPORTED.keys() & found[0].keys():
        return [{"kind": kind, **each} for key, kind in _EXPORTED.items() for each in found[0].get(key) or ()]
    odd = next(
        (each for each in found if not isinstance(each, dict) or not isinstance(each.get("metadata"), dict)), None
    )
    if odd is not None:
        raise ConfigError("an object has no metadata; give what kubectl get -o yaml prints", source=source)
    return found


def changes_in(content: bytes, source: str) -> list[Object] | None:
    """Return the changes of a recording in order of time; None for another form."""
    text = content.lstrip()
    if text.startswith(b"["):
        changes = _decoded(text, source)
    else:
        line, _, _ = text.partition(b"\n")
        if b'"resource"' not in line or b'"event"' not in line:
            return None
        lines = enumerate(content.splitlines(), start=1)
        changes = [_decoded(each, source, number) for number, each in lines if each.strip()]
    for number, change in enumerate(changes, start=1):
        if not isinstance(change, dict) or not isinstance(change.get("resource"), dict) or "event" not in change:
            raise ConfigError(f"change {number} of the recording has no event and resource", source=source)
        if not isinstance(change["resource"].get("metadata"), dict):
            raise ConfigError(f"change {number} of the recording has a resource without metadata", source=source)
    return sorted(changes, key=lambda change: time_of(change.get("time"), "time of a change", source))


def _decoded(text: bytes, source: str, line: int = 1) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"line {line}: cannot be read: {error}", source=source) from error


def key_of(resource: Mapping[str, Any]) -> tuple[str, ...]:
    """Return kind, namespace and name of an object."""
    metadata = resource["metadata"]
    return (str(resource.get("kind")), str(metadata.get("namespace")), str(metadata.get("name")))


def time_of(text: object, where: str, source: str) -> float:
    """Return a time in seconds; if it cannot be read, the error names `where`."""
    try:
        return parse_time(str(text))
    except ValueError as error:
        raise ConfigError(
            f"{where} is {text!r}; it must be a time such as 2026-01-31T12:00:00Z", source=source
        ) from error
