"""A cache of volumes and claims, with changes that are not yet written to the API server.

Without these changes, two pods could choose the same volume.
Source: kube-scheduler 1.36, `volumebinding/passive_assume_cache.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pyscheduler.api import KubeObject
from pyscheduler.framework import PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.framework import Lister

__all__ = ["AssumeCache", "OutOfSyncError"]

K = TypeVar("K", bound=KubeObject)


class OutOfSyncError(PySchedulerError):
    """Report an object that has changed since it was decided upon; the pod is tried again."""


class AssumeCache(Generic[K]):
    """The objects of one kind, those that were assumed in place of the cached ones."""

    def __init__(self, lister: Lister[K]) -> None:
        self._lister = lister
        self._assumed: dict[str, K] = {}
        lister.add_event_handler(on_update=lambda _, new: self._expire(new), on_delete=self._drop)

    def get(self, name: str, namespace: str = "") -> K | None:
        """Return an object as it is assumed to be, None where there is none."""
        stored = self._lister.get(name, namespace)
        if stored is None or not self._assumed:
            return stored
        return self.current(stored)

    def current(self, stored: K) -> K:
        """Return what a cached object is assumed to be."""
        assumed = self._assumed.get(stored.key)
        if assumed is None or assumed.resource_version != stored.resource_version:
            return stored
        return assumed

    def stored(self, name: str, namespace: str = "") -> K | None:
        """Return an object as the API server had it last, None where there is none."""
        return self._lister.get(name, namespace)

    def assume(self, decided: K, assumed: K) -> None:
        """Let `assumed` stand in for `decided`; raise `OutOfSyncError` where that is not what is known any more."""
        known = self.get(decided.name, decided.namespace)
        if known is None:
            raise OutOfSyncError(f'"{decided.key}" not found')
        # What members of a group assume in thought they assume in earnest again: equal, and no longer the same.
        if known is not decided and known != decided:
            raise OutOfSyncError(
                f'"{decided.key}" is out of sync (stored: {known.resource_version}, assume: {decided.resource_version})'
            )
        self._assumed[assumed.key] = assumed

    def restore(self, assumed: K) -> None:
        """Go back to the cached object, unless another one was assumed since or the API server has taken this one."""
        known = self._assumed.get(assumed.key)
        if known is not None and known.resource_version == assumed.resource_version:
            del self._assumed[assumed.key]

    def assume_again(self, assumed: K) -> None:
        """Undo `restore`, unless something else is known by now."""
        stored = self._lister.get(assumed.name, assumed.namespace)
        if stored is not None and stored.resource_version == assumed.resource_version:
            self._assumed.setdefault(assumed.key, assumed)

    @property
    def assumed(self) -> Mapping[str, K]:
        """Return all that is assumed, by `namespace/name`, also what the API server has overtaken by now."""
        return self._assumed

    def __len__(self) -> int:
        return len(self._assumed)

    def _drop(self, old: K) -> None:
        self._assumed.pop(old.key, None)

    def _expire(self, new: K) -> None:
        assumed = self._assumed.get(new.key)
        if assumed is not None and assumed.resource_version != new.resource_version:
            del self._assumed[new.key]
