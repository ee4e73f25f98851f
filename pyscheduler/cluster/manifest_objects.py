"""Read objects from manifests (YAML or JSON), for commands such as `explain`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.kinds import PODS
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.errors import StatusError
from kube_testserver.manifests import load_manifests
from kube_testserver.rules.defaults import apply_defaults
from pyscheduler.api import DecodeError, Pod, decode, encode
from pyscheduler.cluster.object_sources import is_wanted
from pyscheduler.config.snapshot_file import OBJECTS, is_snapshot, members
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, PriorityClass, ResourceKind
    from pyscheduler.cluster.object_sources import Read

__all__ = ["admit", "manifest_objects", "read_manifests"]

Object = dict[str, Any]

_NAMESPACE: Final = "default"
#: What the classes are called that every API server has.
_BUILT_IN_CLASSES: Final = "system-"


def read_manifests(text: bytes, *, source: str) -> list[Object]:
    """Return the objects of a YAML or JSON text, those of a `List` one by one; `ConfigError` where there are none.

    A zip file is a snapshot of a scheduler; its objects are returned.
    """
    texts = members(text, OBJECTS, source=source) if is_snapshot(text) else [text]
    try:
        objects = [one for each in texts for one in load_manifests(each)]
    except StatusError as error:
        raise ConfigError(str(error), source=source) from error
    for position, one in enumerate(objects, 1):
        if not isinstance(one, dict) or not one.get("kind") or not _metadata(one).get("name"):
            raise ConfigError(f"object {position} has no kind or no metadata.name", source=source)
    if not objects:
        raise ConfigError("no object in it", source=source)
    return objects


def manifest_objects(
    manifests: Iterable[Object],
    *,
    source: str,
    namespace: str = _NAMESPACE,
    keep: Callable[[KubeObject, bytes], object] = lambda _item, _text: None,
) -> Read:
    """Return a `read` over manifests: fields that the API server would have filled in are, so that files may be short.

    `namespace` is that of objects that name none. `keep` is handed each object with its whole text. It raises
    `ConfigError` for an object that cannot be read.
    """
    by_kind: dict[tuple[str, str], list[Object]] = {}
    for one in manifests:
        by_kind.setdefault((str(one.get("apiVersion") or ""), one["kind"]), []).append(one)

    async def read(kind: ResourceKind) -> Iterable[KubeObject]:
        found = []
        for one in by_kind.get((kind.api_version, kind.kind), ()):
            try:
                text = msgspec.json.encode(_completed(kind, one, namespace))
                found.append(decode(kind.type, text))
                keep(found[-1], text)
            except (DecodeError, RecursionError) as error:
                raise ConfigError(f"{kind.kind} {_metadata(one).get('name')}: {error}", source=source) from error
        return [one for one in found if is_wanted(one)]

    return read


def admit(manifests: Iterable[Object], classes: Iterable[PriorityClass], *, clock: Clock) -> list[Pod]:
    """Return the pods as an API server would store them: checked, completed, with the priority of their class.

    A pod keeps the uid of its manifest. Raises `ConfigError` with the server's message for a pod that it would refuse.
    """
    server = EmbeddedCluster(clock=clock, rng=random.Random(0))
    pods = []
    try:
        for one in classes:
            if not one.name.startswith(_BUILT_IN_CLASSES):
                server.add(_unversioned(msgspec.json.decode(encode(one))))
        for manifest in manifests:
            (stored,) = server.add(_unversioned(manifest))
            stored["metadata"]["uid"] = _metadata(manifest).get("uid") or stored["metadata"]["uid"]
            pods.append(decode(Pod, msgspec.json.encode(stored)))
    except (StatusError, DecodeError) as error:
        raise ConfigError(str(error)) from error
    return pods


def _unversioned(one: Object) -> Object:
    """Return the object without the version that a server gave it; a creation must have none."""
    return {**one, "metadata": {key: value for key, value in _metadata(one).items() if key != "resourceVersion"}}


def _completed(kind: ResourceKind, one: Object, namespace: str) -> Object:
    """Return the object with what the API server gives every object of its kind."""
    metadata = dict(_metadata(one))
    if kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or namespace
    metadata["uid"] = metadata.get("uid") or f"{kind.plural}/{metadata.get('namespace', '')}/{metadata['name']}"
    complete = {**one, "metadata": metadata}
    if kind == PODS:
        complete = msgspec.json.decode(msgspec.json.encode(complete))
        try:
            apply_defaults(PODS.plural, complete)
        except (AttributeError, LookupError, TypeError, ValueError):
            # A field has a wrong type; the decoder says which.
            return {**one, "metadata": metadata}
    return complete


def _metadata(one: Object) -> Object:
    metadata = one.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
