"""Find the resource claims of pods, and count the GPUs that the claims request.

Source: KAI-Scheduler, `pkg/common/resources/dra.go`, `plugins/dynamicresources`, `cache/cluster_info`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import Pod, ResourceClaim, ResourceSlice
from pyscheduler.framework import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework import Handle
    from pyscheduler_batch.model.node_table import NodeTable

__all__ = ["CLAIMED_GPUS", "ClaimedGpus", "follow_devices", "named_claims"]

#: The column of amounts with the GPUs that the claims of pods request. No node limits them: the filters do.
CLAIMED_GPUS: Final = "resource.k8s.io/gpus"
_GPU: Final = "gpu"
_NOTHING: Final = (None, np.zeros(0, dtype=np.int64), np.zeros(0))


def named_claims(pod: Pod, find: Callable[[str, str], ResourceClaim | None]) -> Iterator[tuple[bool, ResourceClaim]]:
    """Yield the claims of a pod that exist, and whether the pod names the claim itself, not a template.

    `find` returns a claim by name and namespace.
    """
    for name, is_direct in claim_names(pod).items():
        claim = find(name, pod.namespace)
        if claim is not None:
            yield is_direct, claim


def claim_names(pod: Pod) -> Mapping[str, bool]:
    """Return the names of a pod's claims that are known, and whether the pod itself says the name."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    named = ((each.resource_claim_name, made.get(each.name)) for each in pod.spec.resource_claims)
    return {name: direct is not None for direct, other in named if (name := direct or other)}


def follow_devices(handle: Handle, tell: Callable[[str | None], object]) -> None:
    """Make a pass due when devices may have become available: a claim gives some back, or a slice lists others.

    `tell` is called with a key that no job has. So this is no change from outside for the commitments: often the
    scheduler's own evictions free the devices.
    """

    def on_news() -> None:
        tell("devices")

    def claim_updated(old: ResourceClaim, new: ResourceClaim) -> None:
        is_freed = old.status.allocation is not None and new.status.allocation is None
        if is_freed or len(new.status.reserved_for) < len(old.status.reserved_for):
            on_news()

    def slice_updated(old: ResourceSlice, new: ResourceSlice) -> None:
        if old.spec != new.spec:
            on_news()

    def claim_gone(old: ResourceClaim) -> None:
        if old.status.allocation is not None:
            on_news()

    def added(_: ResourceClaim | ResourceSlice) -> None:
        on_news()

    try:
        claims, slices = handle.lister(ResourceClaim), handle.lister(ResourceSlice)
    except PluginError:
        return  # no profile has the plugin DynamicResources
    claims.add_event_handler(on_add=added, on_update=claim_updated, on_delete=claim_gone)
    slices.add_event_handler(on_add=added, on_update=slice_updated)


class ClaimedGpus:
    """The GPUs of resource claims, as the queues of KAI count them.

    A class or driver is one of GPUs if its name contains "gpu", as in KAI. Without the plugin DynamicResources in any
    profile, there are none.
    """

    def __init__(self, handle: Handle, queue_label: str) -> None:
        self._handle = handle
        self._queue_label = queue_label
        #: By claim that does not exist yet, by uid of each pod that names it, the key of the pod's job.
        self._awaited: dict[str, dict[str, str]] = {}
        #: By slice, its node and the number of GPUs.
        self._slices: dict[str, tuple[str, int]] = {}
        #: Whether there was any claim of GPUs.
        self.is_used = False
        #: The names of nodes for which the rows and numbers of GPUs were found; None if slices have changed.
        self._found: tuple[Sequence[str] | None, NDArray[np.int64], NDArray[np.float64]] = _NOTHING

    def subscribe(self, tell: Callable[[str | None], object]) -> None:
        """Follow claims and slices; call `tell` with the key of a job that changed, with None for all of them."""

        def claim_added(claim: ResourceClaim) -> None:
            if not self.is_used and _gpus_of(claim):
                self.is_used = True
                tell(None)
            for key in {*self._awaited.pop(claim.key, {}).values()}:
                tell(key)

        def claim_updated(old: ResourceClaim, new: ResourceClaim) -> None:
            if old.labels.get(self._queue_label) != new.labels.get(self._queue_label):
                tell(None)

        def slice_changed(item: ResourceSlice, *, is_there: bool = True) -> None:
            is_ours = bool(item.spec.node_name) and _is_gpu(item.spec.driver)
            found = (item.spec.node_name or "", len(item.spec.devices)) if is_ours and is_there else None
            if self._slices.get(item.name) != found:
                self._found = _NOTHING
                self._slices.pop(item.name, None)
                if found is not None:
                    self._slices[item.name] = found

        try:
            claims, slices = self._handle.lister(ResourceClaim), self._handle.lister(ResourceSlice)
        except PluginError:
            return
        claims.add_event_handler(on_add=claim_added, on_update=claim_updated)
        self._handle.lister(Pod).add_event_handler(on_delete=self._pod_gone)
        slices.add_event_handler(
            on_add=slice_changed,
            on_update=lambda _, new: slice_changed(new),
            on_delete=lambda old: slice_changed(old, is_there=False),
        )

    def _pod_gone(self, pod: Pod) -> None:
        # Pods of tenants may name claims that never exist.
        for name in claim_names(pod) if pod.spec.resource_claims else ():
            pods = self._awaited.get(f"{pod.namespace}/{name}", {})
            pods.pop(pod.uid, None)
            if not pods:
                self._awaited.pop(f"{pod.namespace}/{name}", None)

    def _find(self, name: str, namespace: str) -> ResourceClaim | None:
        return self._handle.lister(ResourceClaim).get(name, namespace)

    def requested(self, pod: Pod, job_key: str) -> int:
        """Return how many GPUs the claims of a pod request, each claim for each of its pods."""
        try:
            found = {claim.key: claim for _, claim in named_claims(pod, self._find)}
        except PluginError:
            return 0
        for name in claim_names(pod):
            if f"{pod.namespace}/{name}" not in found:
                self._awaited.setdefault(f"{pod.namespace}/{name}", {})[pod.uid] = job_key
        return sum(map(_gpus_of, found.values()))

    def offered(self, nodes: NodeTable) -> float:
        """Return how many GPUs the slices of the nodes list that take tasks."""
        names, rows, counts = self._found
        if names is not nodes.names:
            known = [(nodes.index[name], count) for name, count in self._slices.values() if name in nodes.index]
            rows = np.array([row for row, _ in known], dtype=np.int64)
            counts = np.array([count for _, count in known], dtype=np.float64)
            self._found = nodes.names, rows, counts
        return float((counts if nodes.ready is None else counts[nodes.ready[rows]]).sum())

    def queue_problem(self, pod: Pod, queue: str) -> str:
        """Return what is wrong with the queue in the label of a claim that several pods may use; "" for nothing."""
        for is_shared, claim in named_claims(pod, self._find):
            named = claim.labels.get(self._queue_label, "")
            if not is_shared or named == queue or not _gpus_of(claim):
                continue
            text = f"DRA claim {claim.name} is a shared GPU claim"
            if not named:
                return f"{text} but does not have a queue label ({self._queue_label})"
            return f"{text} with wrong queue label (expected queue: {queue}, claim queue label: {named})"
        return ""


def _gpus_of(claim: ResourceClaim) -> int:
    """Return how many GPUs a claim requests. A request for all devices of a node counts as one, as in KAI."""
    return sum(
        1 if each.exactly.allocation_mode == "All" else each.exactly.count or 1
        for each in claim.spec.devices.requests
        if each.exactly is not None and _is_gpu(each.exactly.device_class_name)
    )


def _is_gpu(name: str) -> bool:
    return _GPU in name.lower()
