"""Find out which pods the batch scheduler evicted, by which action (such as reclaim), and for which job.

The scheduler writes the action and the job into the pod's condition ``DisruptionTarget``, and into an event with the
reason ``Evict``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PREEMPTING",
    "RECLAIMING",
    "STALE",
    "EvictionRecord",
    "announced_in",
    "promised_in",
    "record_in",
    "record_of_event",
    "record_of_pod",
]

STALE: Final = "stalegangeviction"
RECLAIMING: Final = frozenset({"reclaim", "gangreclaim"})
PREEMPTING: Final = frozenset({"preempt", "gangpreempt"})
#: Reason of an event about a pod that waits for the room of others, and the first word about it in other events.
_PIPELINED: Final = "Pipelined"
#: Reasons of events about pods that wait.
_WAITING: Final = frozenset({"FailedScheduling", "Unschedulable"})

#: The pods that an event about evictions names.
_NAMES: Final = re.compile(r"[a-z0-9.-]+/[a-z0-9.-]+")
_TEXT: Final = re.compile(
    r"\baction=(?P<action>[a-z-]+)(?:\s+by=(?P<by>[^\s,;]+))?(?:\s+to=(?P<to>[^\s,;]+))?(?P<moved>\s+moved=true)?"
)


@attrs.frozen(kw_only=True)
class EvictionRecord:
    """One eviction. `by` is ``namespace/name`` of the job in whose plan it is; "" for broken gangs.

    `heir`: the job that gets the room, if a later plan took it.

    `moved`: the scheduler found another place for the victim in the same decision.
    """

    pod_uid: str
    action: str
    by: str = ""
    heir: str = ""
    moved: bool = False


def record_in(text: str, pod_uid: str) -> EvictionRecord | None:
    """Return the record that a message names with ``action=<action> by=<namespace/name>``, or None.

    ``to=<namespace/name>`` may follow.
    """
    found = _TEXT.search(text)
    if found is None:
        return None
    return EvictionRecord(
        pod_uid=pod_uid,
        action=found["action"],
        by=found["by"] or "",
        heir=found["to"] or "",
        moved=found["moved"] is not None,
    )


def record_of_pod(pod: Mapping[str, Any]) -> EvictionRecord | None:
    """Return the record in the condition ``DisruptionTarget`` of a pod, or None."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            return record_in(one.get("message") or "", pod["metadata"]["uid"])
    return None


def announced_in(event: Mapping[str, Any]) -> tuple[EvictionRecord, list[str]] | None:
    """Return the record in an event ``Evict``, without a uid, and the keys of the pods that it names; or None."""
    note = event.get("note") or event.get("message") or ""
    record = record_in(note, "") if event.get("reason") == "Evict" else None
    return None if record is None else (record, _NAMES.findall(note.partition(" preempted ")[0]))


def promised_in(event: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the uid of the pod that an event regards, and whether the event says that the pod was promised a node.

    The uid is "" if the event says nothing about promises.
    """
    subject = event.get("regarding") or event.get("involvedObject") or {}
    uid, reason = str(subject.get("uid") or ""), event.get("reason")
    if subject.get("kind") != "Pod" or reason not in {_PIPELINED, *_WAITING}:
        return "", False
    note = event.get("note") or event.get("message") or ""
    return uid, reason == _PIPELINED or note.startswith(_PIPELINED)


def record_of_event(event: Mapping[str, Any]) -> EvictionRecord | None:
    """Return the record in an event ``Evict`` that regards a pod or has it as its related object, or None."""
    if event.get("reason") != "Evict":
        return None
    for key in ("regarding", "involvedObject", "related"):
        subject = event.get(key) or {}
        if subject.get("kind") == "Pod" and subject.get("uid"):
            return record_in(event.get("note") or event.get("message") or "", subject["uid"])
    return None
