"""Write changed statuses and annotations of queues and pod groups, each object about once a second at most."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from pyscheduler.framework import APIError, ConflictError, NotFoundError, TransportError

if TYPE_CHECKING:
    from kube_objects.clock import Timer
    from pyscheduler.api import KubeObject
    from pyscheduler.framework import Handle

__all__ = ["PacedWriter", "Patch", "StatusWish", "Wish", "changed_fields", "status_of"]

_log = logging.getLogger(__name__)

_WRITERS: Final = 4
#: The least time between two rounds of writes to one object, in seconds.
_SPACING_SECONDS: Final = 1.0
#: The pause after a failed write, doubled with each failure in a row; shorter if another writer was faster.
_RETRY_SECONDS: Final = 1.0
_CONFLICT_SECONDS: Final = 0.1
_RETRY_SECONDS_AT_MOST: Final = 300.0


@attrs.frozen
class Patch:
    """A JSON merge patch; `is_status`: of the status subresource."""

    body: Mapping[str, object]
    is_status: bool = True


Wish: TypeAlias = Callable[["KubeObject"], Sequence[Patch]]
"""Returns the patches that make an object what it should be; none if it is."""


def changed_fields(before: Mapping[str, object], after: Mapping[str, object]) -> dict[str, object]:
    """Return the merge patch from one map to the fields of another; fields that only `before` has stay.

    Keys that a nested map of `after` lacks are removed.
    """
    patch: dict[str, object] = {}
    for name, value in after.items():
        old = before.get(name)
        if old == value or (old is None and not value and isinstance(value, (Mapping, list))):
            continue
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            gone = {key: None for key in old if key not in value}
            patch[name] = {**gone, **{key: each for key, each in value.items() if old.get(key) != each}}
        else:
            patch[name] = value
    return patch


def status_of(item: KubeObject) -> Mapping[str, object]:
    """Return the status of an object as it was written; {} if it is no map."""
    stored = getattr(item, "status", None)
    return stored if isinstance(stored, Mapping) else {}


@attrs.frozen
class StatusWish:
    """The wish that the status of an object has these fields."""

    status: Mapping[str, object]

    def __call__(self, item: KubeObject) -> Sequence[Patch]:
        """Return what the status lacks."""
        changed = changed_fields(status_of(item), self.status)
        return [Patch({"status": changed})] if changed else []


@attrs.define(eq=False)
class _Target:
    """The state of the writes to one object; `item` is the object as it was last put."""

    item: KubeObject
    wish: Wish | None = None
    #: The object as written last, and the versions that it replaced; the watch is behind while it shows one of those.
    written: KubeObject | None = None
    superseded: set[str] = attrs.Factory(set)
    #: Clock seconds before which nothing is written.
    until: float = 0.0
    failures: int = 0
    timer: Timer | None = None
    is_queued: bool = False

    def latest(self, seen: KubeObject) -> KubeObject:
        """Return the newest known version of the object; `seen` is the version of the watch."""
        if self.written is not None and seen.resource_version in self.superseded:
            return self.written
        self.written = None
        self.superseded.clear()
        return seen


class PacedWriter:
    """Writes to objects of any kinds that the scheduler watches. `warning` counts failed writes."""

    def __init__(self, handle: Handle, *, warning: str) -> None:
        self._handle = handle
        self._clock = handle.clock
        self._warning = warning
        self._targets: dict[tuple[type[KubeObject], str, str], _Target] = {}
        #: Targets that may be written now; None while the writer does not run.
        self._queue: asyncio.Queue[_Target] | None = None

    async def run(self) -> None:
        """Write until cancelled; return if it runs already. Call it while this scheduler leads."""
        if self._queue is not None:
            return
        self._queue = asyncio.Queue()
        try:
            for target in self._targets.values():
                self._schedule(target)
            async with asyncio.TaskGroup() as writers:
                for number in range(_WRITERS):
                    writers.create_task(self._work(self._queue), name=f"status writer {number}")
        finally:
            self._queue = None
            for target in self._targets.values():
                target.is_queued = False
                _stop(target)

    def put(self, item: KubeObject, wish: Wish) -> None:
        """Bring an object to what `wish` says as soon as its pace allows; a later wish replaces it."""
        key = (type(item), item.namespace, item.name)
        target = self._targets.get(key)
        if target is None or target.item.uid != item.uid:
            if target is not None:
                _stop(target)
            target = self._targets[key] = _Target(item)
        target.item, target.wish = item, wish
        self._schedule(target)

    def forget(self, item: KubeObject) -> None:
        """Forget a deleted object."""
        key = (type(item), item.namespace, item.name)
        target = self._targets.get(key)
        if target is not None and target.item.uid == item.uid:
            _stop(self._targets.pop(key))

    def _schedule(self, target: _Target) -> None:
        """Queue a target, or wait until its pace allows."""
        if self._queue is None or target.is_queued or target.timer is not None or target.wish is None:
            return
        wait = target.until - self._clock.now()
        if wait <= 0:
            target.is_queued = True
            self._queue.put_nowait(target)
            return

        def ring() -> None:
            target.timer = None
            self._schedule(target)

        target.timer = self._clock.call_later(wait, ring)

    async def _work(self, queue: asyncio.Queue[_Target]) -> None:
        while True:
            target = await queue.get()
            try:
                # Most wishes are fulfilled and await nothing: let the event loop run in between.
                await asyncio.sleep(0)
                await self._step(target)
            except Exception:  # a bug in one object's status must not stop the others  # noqa: BLE001
                self._handle.recorder.warning(self._warning)
                _log.exception("Status cannot be computed kind=%s name=%s", target.item.kind, target.item.name)
            finally:
                target.is_queued = False
            self._schedule(target)

    async def _step(self, target: _Target) -> None:
        """Write what an object lacks."""
        wish, target.wish = target.wish, None
        kind, name, namespace = type(target.item), target.item.name, target.item.namespace
        seen = self._handle.lister(kind).get(name, namespace)
        if wish is None or seen is None or seen.uid != target.item.uid:
            return
        item = target.latest(seen)
        target.until = self._clock.now() + _SPACING_SECONDS
        for patch in wish(item):
            body = {**patch.body}
            metadata = body.get("metadata")
            more = metadata if isinstance(metadata, Mapping) else {}
            body["metadata"] = {**more, "resourceVersion": item.resource_version}
            try:
                stored = await self._handle.client.patch(kind, name, namespace, patch=body, status=patch.is_status)
            except (APIError, TransportError) as error:
                if target.wish is None:
                    target.wish = wish
                self._failed(target, error)
                return
            target.superseded.add(item.resource_version)
            target.written = item = stored
        target.failures = 0

    def _failed(self, target: _Target, error: APIError | TransportError) -> None:
        """Record that a write failed, and retry it after a pause. One conflict or deletion is normal."""
        target.failures += 1
        is_race = isinstance(error, ConflictError | NotFoundError)
        seconds = _CONFLICT_SECONDS if isinstance(error, ConflictError) else _RETRY_SECONDS
        pause = min(seconds * 2.0 ** min(target.failures - 1, 16), _RETRY_SECONDS_AT_MOST)
        target.until = self._clock.now() + pause
        if not is_race or target.failures > 1:
            self._handle.recorder.warning(self._warning)
            if target.failures == (2 if is_race else 1):
                _log.warning("Status is not written kind=%s name=%s err=%s", target.item.kind, target.item.name, error)


def _stop(target: _Target) -> None:
    target.wish = None
    if target.timer is not None:
        target.timer.cancel()
        target.timer = None
