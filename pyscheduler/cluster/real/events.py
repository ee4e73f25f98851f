"""Make the Events that the scheduler records about objects: events.k8s.io/v1, with kube-scheduler's fields.

Source: client-go `tools/events`.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Final

from kube_objects.times import format_micro_time
from pyscheduler.api import Event, KubeObject, ObjectMeta, ObjectReference

if TYPE_CHECKING:
    import random

    from pyscheduler.cluster.real.event_writer import EventWriter

__all__ = ["EventNames", "NamedEventRecorder"]

#: The API server takes notes of so many bytes.
_NOTE_BYTES: Final = 1024
_CUT: Final = " ..."
_TYPES: Final = frozenset({"Normal", "Warning"})
#: Where events about objects without a namespace are kept.
_DEFAULT_NAMESPACE: Final = "default"
_NAME_LENGTH: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class EventNames:
    """Names for new events: those of their objects with the nanosecond, or random ones where that would be no name."""

    __slots__ = ("_last", "_rng")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._last = 0

    def next(self, subject: str, wall: float) -> str:
        """Return the name of an event about `subject`; no two are equal."""
        # Two in one nanosecond would collide, and clocks do not tell single nanoseconds apart.
        self._last = max(self._last + 1, int(wall * 1e9))
        name = f"{subject}.{self._last:x}"
        if len(name) > _NAME_LENGTH or _SUBDOMAIN.fullmatch(name) is None:
            return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        return name


class NamedEventRecorder:
    """Records events in the name of one controller; see `framework.handle.EventRecorder`."""

    __slots__ = ("_controller", "_instance", "_names", "_writer")

    def __init__(self, writer: EventWriter, names: EventNames, controller: str, *, host_name: str) -> None:
        self._writer = writer
        self._names = names
        self._controller = controller
        self._instance = f"{controller}-{host_name}" if host_name else controller

    def event(
        self, regarding: object, *, type: str, reason: str, action: str, note: str, related: object | None = None
    ) -> None:
        """Record an event about an API object; raise `TypeError` or `ValueError` for what can be no event."""
        if type not in _TYPES:
            raise ValueError(f"an event is of type Normal or Warning, not {type!r}")
        subject = _reference(regarding)
        other = None if related is None else _reference(related)

        def make(wall: float) -> Event:
            return Event(
                metadata=ObjectMeta(
                    name=self._names.next(subject.name, wall), namespace=subject.namespace or _DEFAULT_NAMESPACE
                ),
                event_time=format_micro_time(wall),
                reporting_controller=self._controller,
                reporting_instance=self._instance,
                action=action,
                reason=reason,
                regarding=subject,
                related=other,
                note=_cut(note),
                type=type,
            )

        # With its version, the uid says as much as the whole reference, and is kept with less memory.
        about = (subject.uid, subject.resource_version) if subject.uid else subject
        self._writer.record(type, (self._controller, reason, action, about, other), make)


def _reference(subject: object) -> ObjectReference:
    if not isinstance(subject, KubeObject):
        raise TypeError(f"an event is about an API object, not about {subject!r:.80}")
    metadata = subject.metadata
    return ObjectReference(
        api_version=subject.api_version,
        kind=subject.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def _cut(note: str) -> str:
    if len(note) <= _NOTE_BYTES // 4:  # no character takes more than four bytes
        return note
    encoded = note.encode()
    if len(encoded) <= _NOTE_BYTES:
        return note
    return encoded[: _NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
