"""The objects of the embedded API server, and logs of their latest changes.

One counter numbers all writes, like etcd's revision. The objects of one resource are a *collection*. Each collection
has a *log*, from which watches read. A request for a version that the log no longer covers gets the error 410.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Change", "Collection", "ExpiredVersionError", "Page", "Record", "StaleRecordError", "Store"]

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

encode: Final = msgspec.json.Encoder().encode
decode: Final[Callable[[bytes], Any]] = msgspec.json.Decoder().decode

_change_version: Final = attrgetter("version")


class Record(msgspec.Struct, frozen=True, gc=False):
    """One version of one object.

    `body` is its JSON without kind and apiVersion, and always begins with the metadata. `labels` and `fields` hold what
    selectors may ask for; they are read-only.
    """

    key: str
    version: int
    namespace: str
    name: str
    uid: str
    body: bytes
    labels: dict[str, str]
    fields: dict[str, str]

    def decode(self) -> Object:
        """Return the object (without kind and apiVersion) as a copy of the caller's own."""
        decoded: Object = decode(self.body)
        return decoded


class Change(msgspec.Struct, frozen=True, gc=False):
    """One write: the record it made (of a deletion: the last state, under its version) and the one before."""

    version: int
    type: ChangeType
    record: Record
    old: Record | None


class Page(msgspec.Struct, frozen=True):
    """A part of a list, all of it as of `version`; `remaining` counts the keys behind it, whether they match or not."""

    records: list[Record]
    version: int
    remaining: int = 0


class ExpiredVersionError(Exception):
    """The log no longer reaches back to the version asked for; `oldest` is the oldest that can still be asked for."""

    def __init__(self, version: int, oldest: int) -> None:
        self.version = version
        self.oldest = oldest
        super().__init__(f"version {version} is older than {oldest}")


class StaleRecordError(Exception):
    """The record a write was derived from is not the present one (`current`, None when the object is gone)."""

    def __init__(self, current: Record | None) -> None:
        self.current = current
        super().__init__("the object changed since it was read")


class Collection:
    """The objects of one resource. Made by `Store.collection`; written through its three methods only."""

    __slots__ = (
        "_base",
        "_extract",
        "_keys",
        "_last_term",
        "_listeners",
        "_log",
        "_records",
        "name",
        "store",
        "term",
        "trimmed",
    )

    def __init__(self, store: Store, name: str, extract: Callable[[Object], dict[str, str]] | None) -> None:
        self.name = name
        #: The version of the newest change that the log has forgotten.
        self.trimmed = store.version
        self.store = store
        #: Counts how often what is kept here came to an end; a watch lasts for one term.
        self.term = 0
        #: What the log of the last term held at its end, and the position of its first entry.
        self._last_term: tuple[int, list[Change]] = (0, [])
        self._extract = extract
        self._records: dict[str, Record] = {}
        self._keys: list[str] = []
        self._log: list[Change] = []
        #: How many changes were forgotten: the position of the log's first entry.
        self._base = 0
        self._listeners: dict[object, Callable[[], None]] = {}

    def __len__(self) -> int:
        return len(self._records)

    # --- writing ---------------------------------------------------------------------------------

    def insert(self, key: str, obj: Object) -> Record:
        """Add an object under a key that is free; `StaleRecordError` when it is not. Takes over `obj`."""
        present = self._records.get(key)
        if present is not None:
            raise StaleRecordError(present)
        record = self._next_record(key, obj)
        self._records[key] = record
        if self._keys and key < self._keys[-1]:
            insort(self._keys, key)
        else:
            self._keys.append(key)
        self._append(Change(record.version, "ADDED", record, None))
        return record

    def replace(self, old: Record, obj: Object) -> Record:
        """Put `obj` in the place of `old`, which must be the present record. Takes over `obj`."""
        self._require_present(old)
        record = self._next_record(old.key, obj)
        self._records[old.key] = record
        self._append(Change(record.version, "MODIFIED", record, old))
        return record

    def remove(self, old: Record, obj: Object | None = None) -> Record:
        """Delete the object whose present record is `old`; its last state, shown to watchers, is `obj` or as it was."""
        self._require_present(old)
        record = self._next_record(old.key, old.decode() if obj is None else obj)
        del self._records[old.key]
        del self._keys[bisect_left(self._keys, old.key)]
        self._append(Change(record.version, "DELETED", record, old))
        return record

    def draft(self, key: str, obj: Object) -> Record:
        """Return the record that storing `obj` would make, without storing it or counting a version.

        It has the version of the record in whose place it would be put, and none where there is none.
        """
        present = self._records.get(key)
        record = self._record(key, obj, present.version if present is not None else 0)
        if present is None:
            del obj["metadata"]["resourceVersion"]
            record = msgspec.structs.replace(record, body=encode(obj))
        return record

    def end_term(self, extract: Callable[[Object], dict[str, str]] | None) -> None:
        """End all watches, after what there is to tell; from now on, selectors know the fields `extract` reads."""
        self.term += 1
        self._last_term = (self._base, list(self._log))
        self._extract = extract
        if extract is not None:
            for key, record in self._records.items():
                self._records[key] = msgspec.structs.replace(record, fields=extract(record.decode()))
        self._forget(len(self._log))
        self.trimmed = self.store.version
        for listener in tuple(self._listeners.values()):
            listener()

    def _require_present(self, record: Record) -> None:
        present = self._records.get(record.key)
        if present is not record:
            raise StaleRecordError(present)

    def _next_record(self, key: str, obj: Object) -> Record:
        self.store.version += 1
        return self._record(key, obj, self.store.version)

    def _record(self, key: str, obj: Object, version: int) -> Record:
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(version)
        labels = metadata.get("labels")
        return Record(
            key=key,
            version=version,
            namespace=metadata.get("namespace", ""),
            name=metadata["name"],
            uid=metadata.get("uid", ""),
            body=encode(obj),
            labels=dict(labels) if isinstance(labels, dict) else {},
            fields=self._extract(obj) if self._extract is not None else {},
        )

    def _append(self, change: Change) -> None:
        log = self._log
        log.append(change)
        limit = self.store.history_limit
        if len(log) > limit + limit // 4:  # cut in slices: cutting one by one would move the whole list each time
            self._forget(len(log) - limit)
        for listener in tuple(self._listeners.values()):
            listener()

    def _forget(self, count: int) -> None:
        if count > 0:
            self.trimmed = self._log[count - 1].version
            self._base += count
            del self._log[:count]

    # --- reading ---------------------------------------------------------------------------------

    def get(self, key: str) -> Record | None:
        """Return the present record of a key."""
        return self._records.get(key)

    def page(
        self,
        *,
        prefix: str = "",
        start: str = "",
        limit: int = 0,
        version: int = 0,
        matches: Callable[[Record], bool] | None = None,
    ) -> Page:
        """List in key order: keys that begin with `prefix`, from `start` on, at most `limit` (0: all) that match.

        `version` 0 is the present; an older one is restored from the log, or `ExpiredVersionError`.
        """
        at = version or self.store.version
        keys, records = self._keys, self._records
        changed = self._changed_after(at) if version else {}
        if changed:
            # Deleted keys come back, newer ones go: the sort is nearly free, as the present keys are in order.
            records = {key: record for key, record in (self._records | changed).items() if record is not None}
            keys = sorted(records)
        low = bisect_left(keys, max(prefix, start))
        high = bisect_left(keys, prefix + "\U0010ffff") if prefix else len(keys)
        found: list[Record] = []
        for index in range(low, high):
            record = records[keys[index]]
            if matches is not None and not matches(record):
                continue
            if limit and len(found) == limit:
                return Page(found, at, high - index)
            found.append(record)
        return Page(found, at)

    def _changed_after(self, version: int) -> dict[str, Record | None]:
        """Return, for each key written after `version`, the record it had at that version."""
        if version < self.trimmed:
            raise ExpiredVersionError(version, self.trimmed)
        before: dict[str, Record | None] = {}
        for change in self._log[bisect_right(self._log, version, key=_change_version) :]:
            before.setdefault(change.record.key, change.old)
        return before

    def position_after(self, version: int) -> int:
        """Return the place in the log from which `read` continues after `version`."""
        if version < self.trimmed:
            raise ExpiredVersionError(version, self.trimmed)
        return self._base + bisect_right(self._log, version, key=_change_version)

    def read(self, position: int, limit: int, *, term: int | None = None) -> list[Change]:
        """Return up to `limit` changes from a position on; the next position is the old one plus their number.

        Of a `term` that has ended only those of its own can be read, and only until the next one ends.
        """
        if term is not None and term != self.term:
            base, log = self._last_term if term == self.term - 1 else (position, [])
            return log[max(position - base, 0) :][:limit]
        first = position - self._base
        if first < 0:
            raise ExpiredVersionError(self.trimmed + first, self.trimmed)
        return self._log[first : first + limit]

    def listen(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after every write, until the returned function is called. It must not write."""
        token = object()
        self._listeners[token] = callback

        def stop() -> None:
            self._listeners.pop(token, None)

        return stop

    def compact(self, version: int) -> None:
        """Forget the changes up to `version`, as etcd's compaction does."""
        self._forget(bisect_right(self._log, version, key=_change_version))
        self.trimmed = max(self.trimmed, version)

    def check_invariants(self) -> None:
        """Raise `AssertionError` when keys, records and log tell different stories."""
        assert self._keys == sorted(self._records), f"{self.name}: keys are out of order or out of step"
        for key, record in self._records.items():
            obj = record.decode()
            metadata = obj["metadata"]
            assert record.key == key, f"{self.name}: {key} is filed under another key"
            assert metadata["resourceVersion"] == str(record.version), f"{self.name}: {key} has two versions"
            assert (metadata.get("namespace", ""), metadata["name"]) == (record.namespace, record.name)
            assert record.labels == (metadata.get("labels") or {}), f"{self.name}: {key} has stale labels"
            assert self._extract is None or record.fields == self._extract(obj), f"{self.name}: {key} stale fields"
        versions = [change.version for change in self._log]
        assert versions == sorted(set(versions)), f"{self.name}: the log is not in order"
        assert not versions or self.trimmed < versions[0] <= versions[-1] <= self.store.version
        logged = {change.record.version for change in self._log}
        for record in self._records.values():
            assert record.version <= self.trimmed or record.version in logged, f"{self.name}: {record.key} not logged"
        state = {record.key: record for record in self.page(version=max(self.trimmed, 1)).records}
        for change in self._log:
            assert state.get(change.record.key) is change.old, f"{self.name}: version {change.version} skips one"
            if change.type == "DELETED":
                del state[change.record.key]
            else:
                state[change.record.key] = change.record
        assert state == self._records, f"{self.name}: the log does not lead to the present"


class Store:
    """Collections under one version counter.

    `history_limit` is how many changes each collection remembers at least; the first version is `first_version`.
    """

    __slots__ = ("_collections", "history_limit", "version")

    def __init__(self, *, history_limit: int = 20_000, first_version: int = 1) -> None:
        self.history_limit = history_limit
        #: The version of the latest write.
        self.version = first_version
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str, extract: Callable[[Object], dict[str, str]] | None = None) -> Collection:
        """Return the collection of that name, made on first use; `extract` reads the fields that selectors know."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(self, name, extract)
        return found

    def compact(self, version: int | None = None) -> None:
        """Forget the changes up to `version` (by default all) in every collection."""
        for collection in self._collections.values():
            collection.compact(self.version if version is None else version)

    def check_invariants(self) -> None:
        """Raise `AssertionError` when any collection contradicts itself."""
        for collection in self._collections.values():
            collection.check_invariants()
