"""What tests of spreading share: a handle with owners to look up, and short ways to write spread pods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from pyscheduler.api import KubeObject, Pod
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.testing.builders import make_pod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


class Owners:
    """A lister of one kind; what is added, changed or removed is told to whoever listens."""

    synced = True

    def __init__(self, objects: Iterable[KubeObject]) -> None:
        self.objects = {(each.namespace, each.name): each for each in objects}
        self.handlers: list[dict[str, Callable[..., None] | None]] = []

    def get(self, name: str, namespace: str = "") -> KubeObject | None:
        """Return one object."""
        return self.objects.get((namespace, name))

    def __iter__(self) -> Iterator[KubeObject]:
        return iter(self.objects.values())

    def __len__(self) -> int:
        return len(self.objects)

    def add_event_handler(self, **handlers: Callable[..., None] | None) -> None:
        """Tell of what is there, and remember the handlers."""
        self.handlers.append(handlers)
        for each in self:
            handlers["on_add"](each)

    def put(self, new: KubeObject) -> None:
        """Add or replace an object."""
        old = self.objects.get((new.namespace, new.name))
        self.objects[new.namespace, new.name] = new
        for each in self.handlers:
            if old is None:
                each["on_add"](new)
            else:
                each["on_update"](old, new)

    def drop(self, name: str, namespace: str = "default") -> None:
        """Remove an object."""
        old = self.objects.pop((namespace, name))
        for each in self.handlers:
            each["on_delete"](old)


class SpreadHandle:
    """As much of a handle as the plugin uses."""

    def __init__(self, snapshot: Snapshot | None = None, owners: Iterable[KubeObject] = ()) -> None:
        self.feature_gates: dict[str, bool] = {}
        self.snapshot = snapshot
        self._objects = list(owners)
        self._listers: dict[type, Owners] = {}

    def lister(self, kind: type[KubeObject]) -> Owners:
        """Return the lister of a kind."""
        if kind not in self._listers:
            self._listers[kind] = Owners(each for each in self._objects if isinstance(each, kind))
        return self._listers[kind]


def constraint_of(**fields: Any) -> dict[str, Any]:
    """Write a hard constraint over zones on pods of `app: a`, but for what `fields` say."""
    return {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        **fields,
    }


def spread_pod(name: str = "p", *constraints: dict[str, Any], **keywords: Any) -> Pod:
    """Make a pod of `app: a` with constraints."""
    spec = {"topologySpreadConstraints": list(constraints), **keywords.pop("spec", {})}
    return make_pod(name, **{"labels": {"app": "a"}, **keywords}, spec=spec)


def terminating(pod: Pod) -> Pod:
    """Return the pod while it is being deleted."""
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)
