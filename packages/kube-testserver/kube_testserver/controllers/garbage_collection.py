"""Garbage collection: objects are deleted once all their owners are gone.

Source: kube-controller-manager, `garbagecollector`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from kube_testserver.controllers.follower import Follower
from kube_testserver.resources.builtin import CUSTOM_RESOURCE_DEFINITIONS, EVENTS
from kube_testserver.rules.deletion import FOREGROUND, ORPHAN, DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kube_objects.clock import Clock, Timer
    from kube_testserver.registry import Registry
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Change, Record

__all__ = ["GarbageCollector", "OwnerReference", "controller_of", "owners_of"]

_HAS_OWNERS: Final = b'"ownerReferences"'
_LEAVING: Final = b'"deletionTimestamp"'


class OwnerReference(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    deletion_timestamp: str | None = None


class _Head(msgspec.Struct, frozen=True):
    metadata: _Metadata


_decode: Final[Callable[[bytes], _Head]] = msgspec.json.Decoder(_Head).decode


def owners_of(record: Record) -> tuple[OwnerReference, ...]:
    """Return the owner references of an object."""
    return (_metadata_of(record).owner_references or ()) if _HAS_OWNERS in record.body else ()


def controller_of(record: Record) -> OwnerReference | None:
    """Return the owner reference to the controller of an object."""
    return next((owner for owner in owners_of(record) if owner.controller), None)


def _metadata_of(record: Record) -> _Metadata:
    try:
        return _decode(record.body).metadata
    except msgspec.ValidationError:  # an object that was stored unchecked
        return _Metadata()


class GarbageCollector:
    """Follows all collections but events; deletes dependents without owners, and runs the finalizers of deletions."""

    def __init__(self, registry: Registry, *, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._followers: dict[str, Follower] = {}
        #: By uid of the owner, the places of its dependents.
        self._dependents: dict[str, dict[tuple[str, str], Resource]] = {}
        #: The objects to look at, by collection and key.
        self._due: dict[tuple[str, str], Resource] = {}
        self._timer: Timer | None = None
        self._definitions = Follower(
            registry.collection(CUSTOM_RESOURCE_DEFINITIONS),
            clock=clock,
            listed=lambda _: self._follow_new(),
            changed=lambda _: self._follow_new(),
        )

    def start(self) -> None:
        """Collect what has no owner now, then follow every change."""
        self._registry.collects_garbage = True
        self._definitions.start()

    def stop(self) -> None:
        """Collect no more; idempotent."""
        self._registry.collects_garbage = False
        for follower in (self._definitions, *self._followers.values()):
            follower.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _follow_new(self) -> None:
        """Follow the collections of kinds that were not served before."""
        for resource in list(self._registry.table):
            if "list" not in resource.verbs or resource.collection in {EVENTS.collection, *self._followers}:
                continue
            follower = self._followers[resource.collection] = Follower(
                self._registry.collection(resource),
                clock=self._clock,
                listed=partial(self._list, resource),
                changed=partial(self._change, resource),
            )
            follower.start()

    def _list(self, resource: Resource, records: Sequence[Record]) -> None:
        for record in records:
            self._note(resource, record)

    def _change(self, resource: Resource, change: Change) -> None:
        if change.type != "DELETED":
            self._note(resource, change.record)
            return
        record = change.record
        owners = owners_of(record)
        for owner in owners:
            self._dependents.get(owner.uid, {}).pop((resource.collection, record.key), None)
        self._schedule([(one, present.key) for one, present in self._dependents_of(record.uid)])
        self._dependents.pop(record.uid, None)
        # An owner may wait for this dependent.
        found = [self._find(resource, record, owner) for owner in owners]
        self._schedule([(one[0], one[1].key) for one in found if one is not None and one[1] is not None])

    def _note(self, resource: Resource, record: Record) -> None:
        """Remember whose dependent an object is; look at the object later if it may have something to do."""
        for owner in owners_of(record):
            self._dependents.setdefault(owner.uid, {})[resource.collection, record.key] = resource
        if _LEAVING in record.body or _HAS_OWNERS in record.body:
            self._schedule([(resource, record.key)])

    def _schedule(self, places: Iterable[tuple[Resource, str]]) -> None:
        self._due.update({(resource.collection, key): resource for resource, key in places})
        if self._due and self._timer is None:
            self._timer = self._clock.call_later(0.0, self._run)

    def _run(self) -> None:
        """Look at what is due, once all dependents that exist by now are known."""
        for follower in list(self._followers.values()):
            follower.catch_up()
        due, self._due, self._timer = self._due, {}, None
        for (_, key), resource in due.items():
            record = self._registry.collection(resource).get(key)
            if record is None:
                continue
            if _LEAVING in record.body:
                self._run_finalizers(resource, record)
            elif _HAS_OWNERS in record.body:
                self._collect(resource, record)

    # --- dependents ------------------------------------------------------------------------------

    def _dependents_of(self, uid: str) -> Iterable[tuple[Resource, Record]]:
        for (_, key), resource in list(self._dependents.get(uid, {}).items()):
            record = self._registry.collection(resource).get(key)
            if record is not None and any(owner.uid == uid for owner in owners_of(record)):
                yield resource, record

    def _find(self, resource: Resource, record: Record, owner: OwnerReference) -> tuple[Resource, Record | None] | None:
        """Return the owner's resource and its record, None if it is gone; None if nobody can tell."""
        kind = self._registry.table.find_kind(owner.api_version, owner.kind)
        if kind is None or (kind.namespaced and not resource.namespaced):
            return None
        found = self._registry.collection(kind).get(kind.key(record.namespace, owner.name))
        return kind, found if found is not None and found.uid == owner.uid else None

    def _collect(self, resource: Resource, record: Record) -> None:
        """Delete an object whose owners are all gone; remove references to owners that are gone."""
        owners = owners_of(record)
        gone = set()
        for owner in owners:
            found = self._find(resource, record, owner)
            if found is not None and found[1] is None:
                gone.add(owner.uid)
        if not gone:
            return
        if len(gone) == len({owner.uid for owner in owners}):
            self._registry.delete(resource, record.namespace, record.name, DeleteOptions())
        else:
            self._drop_references(resource, record, gone)

    def _drop_references(self, resource: Resource, record: Record, uids: set[str]) -> None:
        obj = record.decode()
        metadata = obj["metadata"]
        metadata["ownerReferences"] = [one for one in metadata["ownerReferences"] if one.get("uid") not in uids]
        if not metadata["ownerReferences"]:
            del metadata["ownerReferences"]
        for uid in uids:
            self._dependents.get(uid, {}).pop((resource.collection, record.key), None)
        self._registry.put(resource, record, obj)

    # --- finalizers ------------------------------------------------------------------------------

    def _run_finalizers(self, resource: Resource, record: Record) -> None:
        metadata = _metadata_of(record)
        finalizers = metadata.finalizers or ()
        if metadata.deletion_timestamp is None:
            return
        if ORPHAN in finalizers:
            for dependent, present in list(self._dependents_of(record.uid)):
                self._drop_references(dependent, present, {record.uid})
            self._finish(resource, record, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = 0
            for dependent, present in list(self._dependents_of(record.uid)):
                blocking += any(
                    owner.uid == record.uid and owner.block_owner_deletion is True for owner in owners_of(present)
                )
                if _LEAVING not in present.body:
                    options = DeleteOptions(propagation="Foreground")
                    _, gone = self._registry.delete(dependent, present.namespace, present.name, options)
                    blocking -= gone
            if blocking <= 0:
                self._finish(resource, record, FOREGROUND)

    def _finish(self, resource: Resource, record: Record, finalizer: str) -> None:
        obj = record.decode()
        metadata = obj["metadata"]
        metadata["finalizers"] = [one for one in metadata["finalizers"] if one != finalizer]
        self._registry.put(resource, record, obj)
