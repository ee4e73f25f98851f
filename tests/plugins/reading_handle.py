"""As much of a handle as plugins need that read objects: listers that a test fills, and a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pyscheduler.api import KubeObject
from pyscheduler.cache.snapshot import Snapshot

__all__ = ["Objects", "ReadingHandle"]


def _silent(*_: object) -> None:
    """Take no notice of a change."""


class Objects:
    """A lister of one kind; handlers hear of what is there, and of what is added, changed or removed."""

    synced = True

    def __init__(self, objects: Iterable[KubeObject] = ()) -> None:
        self.objects = {(each.namespace, each.name): each for each in objects}
        self.handlers: list[dict[str, Callable[..., None]]] = []

    def get(self, name: str, namespace: str = "") -> KubeObject | None:
        """Return one object."""
        return self.objects.get((namespace, name))

    def __iter__(self) -> Iterator[KubeObject]:
        return iter(self.objects.values())

    def __len__(self) -> int:
        return len(self.objects)

    def add_event_handler(self, **handlers: Callable[..., None]) -> None:
        """Announce what is there, and remember the handlers."""
        self.handlers.append({"on_add": _silent, "on_update": _silent, "on_delete": _silent, **handlers})
        for each in self:
            self.handlers[-1]["on_add"](each)

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


class ReadingHandle:
    """A handle with a snapshot, feature gates and a lister of each kind."""

    def __init__(
        self, snapshot: Snapshot | None = None, objects: Iterable[KubeObject] = (), gates: Mapping[str, bool] = {}
    ) -> None:
        self.snapshot = snapshot
        self.feature_gates = dict(gates)
        self._listers: dict[type, Objects] = {}
        for each in objects:
            self.lister(type(each)).put(each)

    def lister(self, kind: type) -> Objects:
        """Return the lister of a kind."""
        return self._listers.setdefault(kind, Objects())
