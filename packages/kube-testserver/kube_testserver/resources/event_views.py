"""Convert events from core/v1, the stored version, to events.k8s.io/v1, and back.

Some fields have different names in the two versions, for example `count` and `deprecatedCount`.

Source: Kubernetes, `pkg/apis/events/v1/conversion.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["complete_core", "to_core", "to_events_v1"]

_CORE_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENTS_V1_NAMES: Final = {core: newer for newer, core in _CORE_NAMES.items()}

# What Go writes whether it is set or not.
_CORE_ALWAYS: Final[dict[str, Any]] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_EVENTS_V1_ALWAYS: Final[dict[str, Any]] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def to_core(event: Object) -> Object:
    """Return an events.k8s.io/v1 event as the core/v1 event that is stored."""
    return {_CORE_NAMES.get(name, name): value for name, value in event.items() if name not in _EVENTS_V1_NAMES}


def to_events_v1(event: Object) -> Object:
    """Return a stored event as events.k8s.io/v1 shows it."""
    view = {_EVENTS_V1_NAMES.get(name, name): value for name, value in event.items() if name not in _CORE_NAMES}
    for name, value in _EVENTS_V1_ALWAYS.items():
        view.setdefault(name, value)
    # The newer kind leaves these two out when they are empty, the older never does.
    for name in ("reportingController", "reportingInstance"):
        if not view.get(name, True):
            del view[name]
    return view


def complete_core(event: Object) -> None:
    """Fill in what a stored event always carries."""
    for name, value in _CORE_ALWAYS.items():
        if name not in event:
            event[name] = {} if value == {} else value
