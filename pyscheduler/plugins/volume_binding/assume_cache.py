"""Volumes and claims as they will be once the API server has what was decided here.

Reserve decides, and the writes follow only in PreBind; the pods scheduled in between must not take the same volume. So
an assumed object stands in for the cached one, as long as the cached one is still the version that was decided upon:
whatever comes from the API server later is right.
Source: kube-scheduler 1.36, `volumebinding/passive_assume_cache.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pyscheduler.api import KubeObject, PersistentVolume
from pyscheduler.api.claims import volume_class
from pyscheduler.framework import PySchedulerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler.framework import Lister

__all__ = ["AssumeCache", "OutOfSyncError", "VolumeIndex"]

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
        if known is not decided:
            raise OutOfSyncError(
                f'"{decided.key}" is out of sync (stored: {known.resource_version}, assume: {decided.resource_version})'
            )
        self._assumed[assumed.key] = assumed

    def restore(self, assumed: K) -> None:
        """Go back to the cached object, unless another one was assumed since or the API server has taken this one."""
        known = self._assumed.get(assumed.key)
        if known is not None and known.resource_version == assumed.resource_version:
            del self._assumed[assumed.key]

    def __len__(self) -> int:
        """Return how many objects are assumed."""
        return len(self._assumed)

    def _drop(self, old: K) -> None:
        self._assumed.pop(old.key, None)

    def _expire(self, new: K) -> None:
        assumed = self._assumed.get(new.key)
        if assumed is not None and assumed.resource_version != new.resource_version:
            del self._assumed[new.key]


class VolumeIndex:
    """Persistent volumes that a claim may take: the free ones of a class, and those that name the claim.

    A cluster's volumes are bound for the most part, and those need not be looked at.
    """

    def __init__(self, lister: Lister[PersistentVolume]) -> None:
        self._free: dict[str, dict[str, PersistentVolume]] = {}
        self._promised: dict[str, dict[str, PersistentVolume]] = {}
        lister.add_event_handler(on_add=self._add, on_update=self._update, on_delete=self._remove)

    def free(self, class_name: str) -> Iterator[PersistentVolume]:
        """Yield the volumes of a class that are available and that no claim was promised."""
        return iter(self._free.get(class_name, {}).values())

    def promised(self, claim_key: str) -> Iterator[PersistentVolume]:
        """Yield the volumes that name the claim `namespace/name`."""
        return iter(self._promised.get(claim_key, {}).values())

    def _place(self, volume: PersistentVolume) -> tuple[dict[str, dict[str, PersistentVolume]], str] | None:
        claim = volume.spec.claim_ref
        if claim is not None:
            return self._promised, f"{claim.namespace}/{claim.name}"
        return (self._free, volume_class(volume)) if volume.status.phase == "Available" else None

    def _add(self, volume: PersistentVolume) -> None:
        place = self._place(volume)
        if place is not None:
            index, key = place
            index.setdefault(key, {})[volume.name] = volume

    def _update(self, old: PersistentVolume, new: PersistentVolume) -> None:
        self._remove(old)
        self._add(new)

    def _remove(self, volume: PersistentVolume) -> None:
        place = self._place(volume)
        if place is None:
            return
        index, key = place
        there = index.get(key, {})
        there.pop(volume.name, None)
        if not there:
            index.pop(key, None)
