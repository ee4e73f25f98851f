"""`PodInfo` (a pod with values that are computed once) and `QueuedPodInfo` (a pod in the scheduling queue)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import msgspec
from msgspec import structs

from kube_objects.claims import uses_storage
from pyscheduler.api import Pod, host_ports, non_zero_requests, pod_requests
from pyscheduler.framework.affinity_terms import (
    AffinityTerm,
    WeightedAffinityTerm,
    preferred_terms,
    required_terms,
)
from pyscheduler.framework.resource import Resource

if TYPE_CHECKING:
    from pyscheduler.framework.cycle_state import AfterFailure
    from pyscheduler.framework.events import ClusterEvent

__all__ = ["PodInfo", "QueuedPodInfo"]


class PodInfo(msgspec.Struct, frozen=True, eq=False, gc=False, kw_only=True):
    """A pod and what was computed from it; shared freely. Made by `of`.

    `requests` are the pod's effective requests (sidecars, init containers, overhead, pod-level resources, in-place
    resize); `non_zero` is (milli-CPU, bytes) with kube-scheduler's defaults of 100m and 200Mi per silent container.
    `host_ports` are (ip, protocol, port). `has_storage`: it has claims, or disks of its own. Affinity terms are
    compiled; a selector that does not parse raises `SelectorError` from `PodInfo.of`.

    It is part of no cycle, so the garbage collector need not look at it: there is one for each pod of the cluster.
    """

    pod: Pod
    requests: Resource
    non_zero: tuple[int, int]
    host_ports: tuple[tuple[str, str, int], ...]
    pvc_keys: tuple[str, ...]
    has_storage: bool
    required_affinity_terms: tuple[AffinityTerm, ...]
    required_anti_affinity_terms: tuple[AffinityTerm, ...]
    preferred_affinity_terms: tuple[WeightedAffinityTerm, ...]
    preferred_anti_affinity_terms: tuple[WeightedAffinityTerm, ...]

    @classmethod
    def of(cls, pod: Pod) -> PodInfo:
        """Compute everything from `pod`."""
        affinity = pod.spec.affinity
        near, apart = (None, None) if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
        return cls(
            pod=pod,
            requests=Resource.from_amounts(pod_requests(pod)),
            non_zero=non_zero_requests(pod),
            host_ports=host_ports(pod),
            pvc_keys=tuple(
                f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
                for volume in pod.spec.volumes
                if volume.persistent_volume_claim is not None
            ),
            has_storage=uses_storage(pod),
            required_affinity_terms=required_terms(pod, near),
            required_anti_affinity_terms=required_terms(pod, apart),
            preferred_affinity_terms=preferred_terms(pod, near),
            preferred_anti_affinity_terms=preferred_terms(pod, apart),
        )

    def with_pod(self, pod: Pod) -> PodInfo:
        """Return the same facts about another object of the same pod (one with its node set, say)."""
        return structs.replace(self, pod=pod)

    def holds_for(self, pod: Pod) -> bool:
        """Return whether the facts surely hold for another object of the same pod, too: `with_pod` will do."""
        mine = self.pod
        if mine.spec != pod.spec or mine.namespace != pod.namespace:
            return False
        before, now = mine.status, pod.status
        if before == now:
            return True
        # What a node reports of amounts counts, and while it reports none, nothing in a status does.
        return not (
            before.container_statuses
            or before.init_container_statuses
            or before.resources
            or now.container_statuses
            or now.init_container_statuses
            or now.resources
        )

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.key})"


@attrs.define(kw_only=True, eq=False)
class QueuedPodInfo:
    """A pod in the queue, or popped from it, with the story of its attempts. Owned by the queue; times in clock s."""

    pod_info: PodInfo
    #: When it last entered the queue; the second key of PrioritySort.
    enqueued_at: float
    #: Scheduling attempts so far, the running one included unless `is_taken`.
    attempts: int = 0
    #: When it first entered activeQ (time spent gated does not count); None before that.
    first_attempt_at: float | None = None
    #: Its rank among all pods by when they first entered activeQ; 0 before that.
    first_attempt_rank: int = 0
    #: Moment after which it may leave backoffQ; None where no backoff was worked out yet.
    backoff_until: float | None = None
    #: Attempts that ended in a rejection, ever; drives the backoff.
    unschedulable_count: int = 0
    #: Errors (not rejections) in a row; they have a backoff of their own.
    consecutive_errors: int = 0
    #: The number of its last attempt among all attempts; 0 before the first.
    tried_in: int = attrs.field(default=0, init=False)
    #: The number of its last attempt if it took free room of a node then; None if it did not, or room was kept for it.
    taken_in: int | None = attrs.field(default=None, init=False)
    #: The event that moved it since that attempt, together with all pods that the same plugins rejected; "" if another
    #: reason moved it.
    moved_by: str = attrs.field(default="", init=False)
    #: What the scheduler knows of pods like it, and the facts about the pod from which that follows.
    kind: tuple[PodInfo, object] | None = attrs.field(default=None, init=False)
    #: Whether it was taken by name since it last left the queue: `attempts` counts that only if the attempt fails.
    is_taken: bool = False
    #: What plugins wanted of the failure of its last attempt; None before the first.
    after_failure: AfterFailure | None = None
    #: The event that brought it to activeQ before its backoff was over, to be tried if there is room; else "".
    woken_by: str = ""
    #: Attempts that such events brought and that failed, since there was last seen to be no room; and when the next may
    #: be made.
    early_failures: int = 0
    early_from: float = 0.0
    #: Whether only the time it had spent among the unschedulable pods brought it back to this attempt.
    was_flushed: bool = False
    #: Plugins that rejected the last attempt; only their hints are asked.
    unschedulable_plugins: set[str] = attrs.Factory(set)
    #: Plugins that answered PENDING: they wait for an event of their own and skip the backoff.
    pending_plugins: set[str] = attrs.Factory(set)
    #: While it is unschedulable: when it is retried without an event, and the plugin that gave this moment.
    retry_at: float | None = None
    retry_plugin: str = ""
    #: The PreEnqueue plugin that holds it, and why; or "".
    gating_plugin: str = ""
    gating_reason: str = attrs.field(default="", init=False)
    #: The events which that plugin registered; no other event makes PreEnqueue run again.
    gating_plugin_events: tuple[ClusterEvent, ...] = ()

    @property
    def pod(self) -> Pod:
        """Return the pod itself."""
        return self.pod_info.pod

    @property
    def rejectors(self) -> frozenset[str]:
        """Return the plugins that rejected the pod, those that wait for something among them."""
        return frozenset(self.unschedulable_plugins).union(self.pending_plugins)

    @property
    def is_gated(self) -> bool:
        """Return whether a PreEnqueue plugin holds the pod back."""
        return bool(self.gating_plugin)
