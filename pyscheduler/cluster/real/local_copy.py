"""Keep the informer's local copy of the objects of one kind, and call the handlers when an object changes."""

from __future__ import annotations

import inspect
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from kube_objects.codec import ADDED, DELETED, both
from kube_objects.meta import is_older
from pyscheduler.api import KubeObject
from pyscheduler.cluster.real.interning import SharedParts
from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.plugin_failures import EVENT_HANDLER, PluginFailures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set as AbstractSet

    from pyscheduler.api import Malformed
    from pyscheduler.framework.recorder import Recorder

__all__ = ["CopyLister", "LocalCopy", "UnannouncedError"]

T = TypeVar("T", bound=KubeObject)

_ASYNC: Final = (
    "an event handler is a plain function, and this one is `async def`; write `def`, and start what awaits with "
    "handle.spawn(self.work(pod))"
)


@attrs.define(kw_only=True)
class _Handler(Generic[T]):
    on_add: Callable[[T], None] | None
    on_update: Callable[[T, T], None] | None
    on_delete: Callable[[T], None] | None
    late: bool
    #: Whether it is measured, because it is a plugin's from outside of this distribution.
    foreign: bool


class UnannouncedError(Exception):
    """A change to an object that is not there: events must have been left out, and only a list can tell which."""


class LocalCopy(Generic[T]):
    """Objects by key, as last told to the handlers. Handlers run at once, in order of registration, late ones last.

    `what` names the kind in messages.
    """

    __slots__ = ("_ghosts", "_handlers", "_objects", "_shared", "_unreadable", "_what", "failures", "primed")

    def __init__(self, what: str, recorder: Recorder) -> None:
        self._what = what
        #: Where failures of handlers are reported.
        self.failures = PluginFailures(recorder)
        self._objects: dict[str, T] = {}
        self._shared = SharedParts()
        self._handlers: tuple[_Handler[T], ...] = ()
        #: Keys of objects whose latest state could not be decoded.
        self._unreadable: set[str] = set()
        #: Uids that `prime` told gone, of which a watch may still have old news.
        self._ghosts: set[str] = set()
        #: How often `prime` was called.
        self.primed = 0

    # Reading

    def get(self, key: str) -> T | None:
        """Return the object under `namespace/name`, or the bare name."""
        return self._objects.get(key)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def add_handler(
        self,
        *,
        on_add: Callable[[T], None] | None,
        on_update: Callable[[T, T], None] | None,
        on_delete: Callable[[T], None] | None,
        late: bool = False,
    ) -> None:
        """Call a new handler for all objects that are there, and from now on for every change."""
        # A new tuple, so that a call of the handlers that is under way does not include the new one.
        foreign = any(map(is_foreign, (on_add, on_update, on_delete)))
        handler = _Handler(on_add=on_add, on_update=on_update, on_delete=on_delete, late=late, foreign=foreign)
        self._handlers = tuple(sorted((*self._handlers, handler), key=attrgetter("late")))
        if on_add is not None:
            for item in list(self._objects.values()):
                self._call(handler, on_add, item)

    # A list

    def put(self, item: T) -> None:
        """Take over an object's state from a list; what is there stays where nothing changed."""
        key = item.key
        old = self._objects.get(key)
        if old is not None and old.uid != item.uid:
            self._remove(key)
            old = None
        if old is None:
            self._shared.share(item)
            self._objects[key] = item
            for handler in self._handlers:
                if handler.on_add is not None:
                    self._call(handler, handler.on_add, item)
        # Objects without a version come from builders and traces, not from a server.
        elif old.resource_version != item.resource_version or (not item.resource_version and old != item):
            self._shared.share(item)
            self._objects[key] = item
            for handler in self._handlers:
                if handler.on_update is not None:
                    self._call(handler, handler.on_update, old, item)

    def finish_list(self, seen: AbstractSet[str], unreadable: AbstractSet[str]) -> Iterator[None]:
        """Drop what a complete list did not name, one object per turn of the iterator.

        What the list named but could not be read is not gone: what was known of it stays. Ends where `prime` comes in
        between, because the list is old news then.
        """
        primed = self.primed
        for key in [key for key in self._objects if key not in seen and key not in unreadable]:
            self._remove(key)
            yield
            if self.primed != primed:
                return
        self._unreadable = set(unreadable)
        self._ghosts.clear()

    # A watch

    def apply(self, change: str, item: T) -> None:
        """Take over an event (`ADDED`, `MODIFIED`, `DELETED`); raise `UnannouncedError` where others are missing.

        Old news, of states that `prime` was ahead of, changes nothing.
        """
        if item.uid in self._ghosts:
            if change == DELETED:
                self._ghosts.discard(item.uid)
            return
        key = item.key
        known = self._objects.get(key)
        if known is not None and is_older(item.resource_version, known.resource_version):
            return
        if known is None and change != ADDED and key not in self._unreadable:
            raise UnannouncedError(f"{key} was {change} without having been announced")
        self._unreadable.discard(key)
        if change == DELETED:
            self._remove(key)
        else:
            self.put(item)

    def apply_unreadable(self, change: str, item: Malformed) -> None:
        """Take over an event about an object that cannot be decoded: only its deletion means anything."""
        if change == DELETED:
            self._unreadable.discard(item.key)
            self._remove(item.key)
        else:
            self._unreadable.add(item.key)

    # Everything at once

    def prime(self, items: Iterable[T], *, watched: bool) -> None:
        """Become equal to `items`. `watched`: a watch is under way, and may be behind what is known here then."""
        self.primed += 1
        seen: set[str] = set()
        for item in items:
            seen.add(item.key)
            self._ghosts.discard(item.uid)
            self.put(item)
        for key in [key for key in self._objects if key not in seen]:
            gone = self._objects[key]
            if watched and gone.uid:
                self._ghosts.add(gone.uid)
            self._remove(key)

    def _remove(self, key: str) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            # Handlers get the state they know: a deletion may carry one that was never announced.
            for handler in self._handlers:
                if handler.on_delete is not None:
                    self._call(handler, handler.on_delete, old)

    def _call(self, handler: _Handler[T], call: Callable[..., object], *objects: T) -> None:
        """Run a function of a handler; its failure is reported and stops neither the others nor the watch."""
        try:
            if handler.foreign and (watch := self.failures.steps) is not None:
                about = f"resource={self._what} object={objects[-1].key}"
                answer = watch.run(call, *objects, plugin="", point=EVENT_HANDLER, about=about)
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError(_ASYNC)
            else:
                call(*objects)
        except PLUGIN_FAILURES as error:  # plugins add handlers, too
            about = f"resource={self._what} object={objects[-1].key}"
            self.failures.report(
                error,
                plugin="",
                point=EVENT_HANDLER,
                about=about,
                call=call,
                warning="handler_failed",
            )


class CopyLister(Generic[T]):
    """A lister that reads a copy of its own: what all informers have in common."""

    def __init__(self, what: str, recorder: Recorder) -> None:
        self._copy: LocalCopy[T] = LocalCopy(what, recorder)
        self._keep: Callable[[KubeObject, bytes], object] | None = None

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return one object, or None."""
        return self._copy.get(f"{namespace}/{name}" if namespace else name)

    def __iter__(self) -> Iterator[T]:
        return iter(self._copy)

    def __len__(self) -> int:
        return len(self._copy)

    def add_event_handler(
        self,
        *,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
        late: bool = False,
    ) -> None:
        """Call back on every change from now on, and `on_add` at once for what is already there."""
        self._copy.add_handler(on_add=on_add, on_update=on_update, on_delete=on_delete, late=late)

    def report_to(self, failures: PluginFailures) -> None:
        """Report the failures of event handlers there."""
        self._copy.failures = failures

    def keep_texts(self, callback: Callable[[KubeObject, bytes], object]) -> None:
        """Call back with each object that is read, and its whole text, before the event handlers; not in `prime`."""
        self._keep = both(self._keep, callback)
