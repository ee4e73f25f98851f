"""The rules of DELETE, as in kube-apiserver.

If an object has finalizers, is a namespace, or is a pod that its kubelet must end first, DELETE only sets
`deletionTimestamp`. The object is removed later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.times import format_time, parse_time
from kube_testserver import errors
from kube_testserver.rules.validation import check_body
from kube_testserver.wire import decode_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object, Record

__all__ = [
    "FOREGROUND",
    "ORPHAN",
    "DeleteOptions",
    "check_preconditions",
    "mark_deleted",
    "options_of",
    "propagate",
    "read_options",
]

#: The finalizers of a deletion that waits for the garbage collector.
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_PROPAGATION: Final = {"Foreground": FOREGROUND, "Orphan": ORPHAN}

#: Namespaces that admission protects from deletion.
_IMMORTAL: Final = frozenset({"default", "kube-public", "kube-system"})
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})

#: The largest time of RFC 3339; a grace period may be longer.
_LAST_TIME: Final = "9999-12-31T23:59:59Z"


class DeleteOptions(msgspec.Struct, frozen=True):
    """The options of a DELETE; `grace_seconds` None leaves the period to the object."""

    grace_seconds: int | None = None
    uid: str = ""
    version: str = ""
    dry_run: bool = False
    #: ``Background``, ``Foreground`` or ``Orphan``; empty means background.
    propagation: str = ""


def read_options(query: Mapping[str, str], body: bytes) -> DeleteOptions:
    """Read delete options from the body, or from the query if the body is empty."""
    options: Object = decode_body(body, "DeleteOptions") if body else {}
    check_body(options, "", "v1", "DeleteOptions")
    asked = query.get("gracePeriodSeconds", "")
    if options.get("gracePeriodSeconds") is None and asked:
        try:
            options["gracePeriodSeconds"] = int(asked)
        except ValueError as error:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{asked}": invalid syntax') from error
    options.setdefault("propagationPolicy", query.get("propagationPolicy") or None)
    return options_of(options, dry_run=bool(query.get("dryRun")))


def options_of(options: Object, *, dry_run: bool = False) -> DeleteOptions:
    """Return the options that a DeleteOptions object holds."""
    preconditions = options.get("preconditions") or {}
    return DeleteOptions(
        grace_seconds=options.get("gracePeriodSeconds"),
        uid=preconditions.get("uid") or "",
        version=preconditions.get("resourceVersion") or "",
        dry_run=dry_run or bool(options.get("dryRun")),
        propagation=options.get("propagationPolicy") or ("Orphan" if options.get("orphanDependents") else ""),
    )


def check_preconditions(resource: Resource, record: Record, options: DeleteOptions) -> None:
    """Refuse (409) to delete another object than the one that was meant."""
    if options.uid and options.uid != record.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({record.uid}). "
            "The object might have been deleted and then recreated"
        )
    elif options.version and options.version != str(record.version):
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the ResourceVersion in record "
            f"({record.version}). The object might have been modified"
        )
    else:
        return
    raise errors.conflict(resource.storage_group, resource.plural, record.name, why)


def propagate(obj: Object, options: DeleteOptions) -> None:
    """Add the finalizer with which the garbage collector keeps or deletes the dependents of `obj` first."""
    wanted = _PROPAGATION.get(options.propagation)
    metadata = obj["metadata"]
    present = metadata.get("finalizers") or []
    if wanted is not None and wanted not in present and "deletionTimestamp" not in metadata:
        metadata["finalizers"] = [*(one for one in present if one not in _PROPAGATION.values()), wanted]


def mark_deleted(resource: Resource, obj: Object, options: DeleteOptions, now: float) -> tuple[bool, bool]:
    """Decide a deletion; return whether `obj` was marked (and must be stored), and whether it is to be removed now.

    `now` is in seconds since the epoch.
    """
    metadata = obj["metadata"]
    if resource.collection == "namespaces":
        if metadata["name"] in _IMMORTAL:
            raise errors.forbidden("", "namespaces", metadata["name"], "this namespace may not be deleted")
        if "deletionTimestamp" in metadata:
            return False, False
        metadata["deletionTimestamp"] = format_time(now)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        return True, False
    finalizers = bool(metadata.get("finalizers"))
    if resource.collection == "pods":
        return _mark_pod(obj, options, now, finalizers=finalizers)
    if not finalizers:
        return False, True
    if "deletionTimestamp" in metadata:
        return False, False
    _mark(metadata, now, 0)
    return True, False


def _mark_pod(pod: Object, options: DeleteOptions, now: float, *, finalizers: bool) -> tuple[bool, bool]:
    metadata = pod["metadata"]
    if "deletionTimestamp" in metadata:
        granted = metadata.get("deletionGracePeriodSeconds") or 0
        if granted == 0:
            return False, not finalizers
        if options.grace_seconds is None or options.grace_seconds >= granted:
            return False, False  # the period may only be shortened
        period = max(options.grace_seconds, 0)
        end = metadata["deletionTimestamp"]
        # A period beyond the last time says nothing about its start.
        started = now if end == _LAST_TIME else parse_time(end) - granted
        metadata["deletionTimestamp"] = _time_of(started + period)
        metadata["deletionGracePeriodSeconds"] = period
    else:
        period = _grace_seconds(pod, options)
        _mark(metadata, now, period)
    return True, period == 0 and not finalizers


def _mark(metadata: Object, now: float, period: int) -> None:
    metadata["deletionTimestamp"] = _time_of(now + period)
    metadata["deletionGracePeriodSeconds"] = period
    if metadata.get("generation"):
        metadata["generation"] += 1


def _time_of(seconds: float) -> str:
    """Return a time as text; the last one that can be written if the time is beyond it."""
    return format_time(min(seconds, parse_time(_LAST_TIME)))


def _grace_seconds(pod: Object, options: DeleteOptions) -> int:
    """Return the period of grace: none for a pod that runs nowhere, else what was asked for, else the pod's own."""
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _TERMINAL:
        return 0
    if options.grace_seconds is not None:
        period = options.grace_seconds
    else:
        period = spec.get("terminationGracePeriodSeconds") or 0
    return int(period) if period >= 0 else 1
