"""The allocations of all claims: those in the API server, and those that the scheduler has chosen or just written.

Reserve chooses the devices of a claim, PreBind writes the allocation to the API server, and the watch shows it later.
Meanwhile, other pods must not get the same devices. So from Reserve on, the ledger has the allocation.
Source: kube-scheduler 1.36, `dynamicresources/dra_manager.go` and `allocateddevices.go`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from kube_objects.meta import is_older
from pyscheduler.api import AllocationResult, ResourceClaim
from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState, DeviceId
from pyscheduler.plugins.dynamic_resources.claims import MOST_CONSUMERS, ClaimError, find_claims, is_reserved_for
from pyscheduler.plugins.dynamic_resources.extended_claims import owner_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import Lister

__all__ = ["ClaimLedger", "Promise"]


@attrs.define(eq=False)
class Promise:
    """An allocation that is not written yet, and how many pods of a group rely on it."""

    claim: ResourceClaim
    allocation: AllocationResult
    sharers: int = 1
    #: The pods that may share it are scheduled together; None: no other pod may.
    joint: object | None = None


class ClaimLedger:
    """The claims of the cluster, and the devices that they have; follows the lister."""

    def __init__(self, lister: Lister[ResourceClaim]) -> None:
        self._lister = lister
        #: By key, what the API server answered to a write that the watch has not told of yet.
        self._written: dict[str, ResourceClaim] = {}
        #: By uid of the claim.
        self._promises: dict[str, Promise] = {}
        #: By uid of the claim, what is counted in `allocated`.
        self._counted: dict[str, AllocationResult] = {}
        #: By uid of a pod, the keys of claims that were made for its extended resources.
        self._made: dict[str, dict[str, None]] = {}
        #: The uids of pods that were refused while something was promised to others.
        self._refused: set[str] = set()
        #: By uid of a claim, the uids of pods that are evicted in a trial; and the claims that nobody else uses.
        self._evicted: dict[str, set[str]] = {}
        self._freed: set[str] = set()
        self.allocated = AllocatedState()
        lister.add_event_handler(on_add=self._add, on_update=self._update, on_delete=self._drop)

    def __len__(self) -> int:
        """Return how many allocations are promised."""
        return len(self._promises)

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        """Return a claim in its latest known state, None where there is none."""
        stored = self._lister.get(name, namespace)
        if stored is None or not self._written:
            return stored
        written = self._written.get(stored.key)
        return stored if written is None or written.uid != stored.uid else written

    def made_for(self, pod: Pod) -> ResourceClaim | None:
        """Return a claim that was made for the pod's extended resources, None where there is none."""
        for key in self._made.get(pod.uid, ()):
            namespace, _, name = key.partition("/")
            return self.get(name, namespace)
        return None

    # Writes

    def note_written(self, claim: ResourceClaim) -> None:
        """Let what the API server answered stand in for what the watch has told so far, unless that is newer."""
        stored = self._lister.get(claim.name, claim.namespace)
        if stored is None or stored.uid != claim.uid:
            return
        if not is_older(claim.resource_version, stored.resource_version):
            self._written[claim.key] = claim
        self._count(self.get(claim.name, claim.namespace) or stored)

    # Promises

    def promised(self, uid: str) -> AllocationResult | None:
        """Return what is promised to a claim and not written yet."""
        promise = self._promises.get(uid)
        return None if promise is None else promise.allocation

    def has_room(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Return whether a pod may use a claim beside those that use it, or to which it is promised.

        Differs from kube-scheduler, which binds such pods until the API server refuses the reservation.
        """
        promise, evicted = self._promises.get(claim.uid), self._evicted.get(claim.uid, ())
        users = sum(each.uid not in evicted for each in claim.status.reserved_for)
        users += promise.sharers if promise is not None else 0
        return users < MOST_CONSUMERS or is_reserved_for(claim, pod)

    def promise(self, claim: ResourceClaim, allocation: AllocationResult, joint: object | None = None) -> Promise:
        """Promise devices to a claim, or share the existing promise; pods scheduled in `joint` may share it, too."""
        promise = self._promises.get(claim.uid)
        if promise is None:
            promise = self._promises[claim.uid] = Promise(claim, allocation, joint=joint)
            self._count(self._current(promise))
        else:
            promise.sharers += 1
        return promise

    def is_shared_in(self, joint: object, uid: str) -> bool:
        """Return True if what is promised to a claim was promised to a pod that is scheduled in `joint`."""
        promise = self._promises.get(uid)
        return promise is not None and promise.joint is joint

    def release(self, promise: Promise, *, entirely: bool = False) -> None:
        """End a share in a promise, or the promise altogether, because it is kept; does nothing where it has ended."""
        uid = promise.claim.uid
        if self._promises.get(uid) is not promise:
            return
        promise.sharers -= 1
        if promise.sharers and not entirely:
            return
        del self._promises[uid]
        if not self._promises and entirely:
            self._refused.clear()
        self._count(self._current(promise))

    def hand_over(self, promise: Promise, claim: ResourceClaim) -> None:
        """Let a promise that was made to a claim in memory be for the one that was written in its place."""
        uid = promise.claim.uid
        if self._promises.pop(uid, None) is not promise:
            return
        promise.claim = claim
        self._promises[claim.uid] = promise
        self._settle(uid, None)
        self._count(self._current(promise))

    # Evictions in a trial

    def free(self, pod: Pod) -> Callable[[], None] | None:
        """Count devices as free that no pod has once `pod` is evicted; return what counts them again, or None.

        A claim keeps its devices while another pod uses it. Where the pod is the only one, they count as free for other
        claims: the claim itself is not changed.
        """
        claims = [claim for claim in self._claims_held_by(pod) if pod.uid not in self._evicted.get(claim.uid, ())]
        for claim in claims:
            self._evicted.setdefault(claim.uid, set()).add(pod.uid)
            self._settle_freed(claim)
        return partial(self._hold_again, pod, claims) if claims else None

    def is_given_away(self, claim: ResourceClaim) -> bool:
        """Return whether devices of a claim whose users are all evicted in a trial were given to others there."""
        allocation = claim.status.allocation
        if claim.uid not in self._freed or allocation is None:
            return False
        results = (each for each in allocation.devices.results if each.share_id is None and not each.admin_access)
        return any(DeviceId(each.driver, each.pool, each.device) in self.allocated.devices for each in results)

    def _hold_again(self, pod: Pod, claims: Sequence[ResourceClaim]) -> None:
        for claim in claims:
            evicted = self._evicted[claim.uid]
            evicted.discard(pod.uid)
            if not evicted:
                del self._evicted[claim.uid]
            self._settle_freed(claim)

    def _claims_held_by(self, pod: Pod) -> Sequence[ResourceClaim]:
        """Return the claims that are reserved for a pod, or promised to it."""
        promised = [each.claim for each in self._promises.values() if owner_of(each.claim) == pod.uid]
        made = self.made_for(pod)
        if made is not None:
            promised.append(made)
        if pod.spec.resource_claims:
            try:
                promised += find_claims(pod, self.get)
            except ClaimError:
                return promised
        found = {claim.uid: claim for claim in promised}
        return [claim for uid, claim in found.items() if uid in self._promises or is_reserved_for(claim, pod)]

    def _settle_freed(self, claim: ResourceClaim) -> None:
        """Count a claim's devices, or count them as free if all pods that use it are evicted."""
        known = self.get(claim.name, claim.namespace)
        claim = known if known is not None and known.uid == claim.uid else claim
        evicted, promise = self._evicted.get(claim.uid, set()), self._promises.get(claim.uid)
        users = {each.uid for each in claim.status.reserved_for}
        sharers = promise.sharers if promise is not None else 0
        if evicted and users <= evicted and len(evicted) >= sharers:
            self._freed.add(claim.uid)
        else:
            self._freed.discard(claim.uid)
        if known is None and promise is None:
            self._settle(claim.uid, None)
        else:
            self._count(claim)

    def note_refused(self, pod: Pod) -> None:
        """Remember a pod that was refused, if something is promised to others, which they may give back."""
        if self._promises:
            self._refused.add(pod.uid)

    def take_refused(self, pod: Pod) -> bool:
        """Return True, once, if a pod was refused while something was promised to others."""
        if pod.uid not in self._refused:
            return False
        self._refused.discard(pod.uid)
        return True

    def _current(self, promise: Promise) -> ResourceClaim:
        claim = promise.claim
        known = self.get(claim.name, claim.namespace)
        return known if known is not None and known.uid == claim.uid else claim

    # Counting

    def _add(self, new: ResourceClaim) -> None:
        pod = owner_of(new)
        if pod:
            self._made.setdefault(pod, {})[new.key] = None
        self._count(new)

    def _update(self, _: ResourceClaim, new: ResourceClaim) -> None:
        written = self._written.get(new.key)
        if written is not None and (
            written.uid != new.uid or not is_older(new.resource_version, written.resource_version)
        ):
            del self._written[new.key]
            written = None
        self._count(new if written is None else written)

    def _drop(self, old: ResourceClaim) -> None:
        pod = owner_of(old)
        made = self._made.get(pod)
        if made is not None:
            made.pop(old.key, None)
            if not made:
                del self._made[pod]
        written = self._written.get(old.key)
        if written is not None and written.uid == old.uid:
            del self._written[old.key]
        self._settle(old.uid, self.promised(old.uid))

    def _count(self, claim: ResourceClaim) -> None:
        allocation = claim.status.allocation
        self._settle(claim.uid, self.promised(claim.uid) if allocation is None else allocation)

    def _settle(self, uid: str, allocation: AllocationResult | None) -> None:
        """Count what a claim has now instead of what it had."""
        if uid in self._freed:
            allocation = None
        before = self._counted.get(uid)
        if before is allocation:
            return
        if before is not None:
            self.allocated.remove(before)
            del self._counted[uid]
        if allocation is not None:
            self.allocated.add(allocation)
            self._counted[uid] = allocation
