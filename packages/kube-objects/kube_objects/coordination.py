"""The types Lease and Event, which the scheduler writes."""

from __future__ import annotations

from typing import ClassVar

from kube_objects.meta import KubeObject, ObjectReference, Wire


class LeaseSpec(Wire):
    """The holder of a lease and the times of holding it; times are wire strings with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(KubeObject):
    """A lock with an expiry, by which replicas agree on a leader."""

    api_version: ClassVar[str] = "coordination.k8s.io/v1"
    kind: ClassVar[str] = "Lease"

    spec: LeaseSpec = LeaseSpec()


class EventSeries(Wire):
    """The number of times that the same event happened, and the time of the last."""

    count: int = 0
    last_observed_time: str | None = None


class Event(KubeObject):
    """Something that happened to `regarding`, told to people.

    Not the `ClusterEvent` that wakes pods in a scheduler's queue.
    """

    api_version: ClassVar[str] = "events.k8s.io/v1"
    kind: ClassVar[str] = "Event"

    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
