"""The recorded versions of an API server's objects (nodes, pods, queues, ...), each with the time of its write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler_lab.audit.batch_objects import dialect_of
from pyscheduler_lab.audit.evictions import EvictionRecord, record_of_event, record_of_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["WATCHED", "Change", "History"]

#: Paths of the lists that a recording needs. A server that does not serve one of them answers 404; leave it out then.
WATCHED: Final = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/apis/events.k8s.io/v1/events",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/scheduling.run.ai/v2/queues",
    "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.incubator.k8s.io/v1alpha1/queues",
    "/apis/scheduling.incubator.k8s.io/v1alpha1/podgroups",
    "/apis/scheduling.sigs.dev/v1alpha2/queues",
    "/apis/scheduling.sigs.dev/v1alpha2/podgroups",
)
_CORE: Final = frozenset({"Event", "Node", "Pod", "PriorityClass"})


@attrs.frozen(kw_only=True)
class Change:
    """One write. `type` is ``ADDED``, ``MODIFIED`` or ``DELETED``; `at` is in seconds of any one clock."""

    at: float
    revision: int
    type: str
    obj: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Return the kind of the object."""
        return str(self.obj.get("kind", ""))


@attrs.define
class History:
    """The changes of one run, in order of their revisions. `end` is the time until which the log is complete."""

    changes: list[Change]
    end: float

    @classmethod
    def of(cls, changes: Iterable[Change], *, end: float | None = None) -> History:
        """Sort changes by revision, drop doubles and other kinds, and make the times monotonic.

        Lines of several watches arrive in any order. A time that lies before the one of an earlier revision is moved
        up to it. Without `end` the log ends with its last change.
        """
        kept: list[Change] = []
        seen: set[tuple[int, str]] = set()
        latest = float("-inf")
        for change in sorted(changes, key=lambda one: one.revision):
            batch = change.kind in {"Queue", "PodGroup"} and dialect_of(str(change.obj.get("apiVersion", "")))
            if not batch and change.kind not in _CORE:
                continue
            mark = (change.revision, str(change.obj["metadata"].get("uid", "")))
            if mark in seen:
                continue
            seen.add(mark)
            latest = max(latest, change.at)
            kept.append(change if change.at == latest else attrs.evolve(change, at=latest))
        last = kept[-1].at if kept else 0.0
        return cls(kept, last if end is None else max(end, last))

    def eviction_records(self) -> dict[str, EvictionRecord]:
        """Return the records of all evictions by UID of the pod.

        The whole log is read first, because the event about an eviction may be written after the deletion. The last
        condition of a pod counts: an eviction that failed may be decided again, for another job. A condition that was
        taken off before the deletion does not count.
        """
        found: dict[str, EvictionRecord] = {}
        of_events: dict[str, EvictionRecord] = {}
        for change in self.changes:
            if change.kind == "Pod":
                record = record_of_pod(change.obj)
                if record is not None:
                    found[record.pod_uid] = record
                elif not change.obj["metadata"].get("deletionTimestamp") and change.type != "DELETED":
                    found.pop(str(change.obj["metadata"].get("uid", "")), None)
            elif change.kind == "Event":
                record = record_of_event(change.obj)
                if record is not None:
                    of_events.setdefault(record.pod_uid, record)
        for uid, record in of_events.items():
            found.setdefault(uid, record)
        return found
