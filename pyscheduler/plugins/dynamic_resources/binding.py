"""Before a pod is bound, write `allocation` and `reservedFor` into the status of its ResourceClaims.

Differs from kube-scheduler: if a write gets no answer, the claim is read before other pods may get its devices.

Source: kube-scheduler 1.36, `dynamicresources`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.api import ResourceClaim, format_time
from pyscheduler.framework import APIError, ConflictError, NotFoundError, PySchedulerError, TransportError
from pyscheduler.framework.errors import text_of
from pyscheduler.plugins.dynamic_resources.claims import FINALIZER, consumer, is_reserved_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from pyscheduler.api import AllocationResult, Pod
    from pyscheduler.framework import Handle
    from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger, Promise

__all__ = ["ClaimWriteError", "ClaimWriter"]

#: So often a write is tried that meets a newer version, and so long it is waited in between; as client-go.
_TRIES: Final = 5
_PAUSE_SECONDS: Final = 0.01
#: How long it is waited before a claim is read again, where the API server does not answer: at first, and at most.
_READ_AGAIN_SECONDS: Final = 1.0
_READ_AGAIN_LIMIT_SECONDS: Final = 30.0


class ClaimWriteError(PySchedulerError):
    """Report a claim that could not be written; the pod is tried again."""


class ClaimWriter:
    """Writes claims through the client of `handle`, and tells the ledger."""

    def __init__(self, handle: Handle, ledger: ClaimLedger) -> None:
        self._handle = handle
        self._ledger = ledger
        #: By uids of claim and pod, reservations that are being taken back.
        self._leaving: dict[tuple[str, str], asyncio.Task[None]] = {}

    # Giving

    async def bind(
        self,
        pod: Pod,
        claim: ResourceClaim,
        promise: Promise | None,
        *,
        settle: Callable[[ResourceClaim], Awaitable[None]] | None = None,
    ) -> ResourceClaim:
        """Write what was promised, if anything, and that the pod may use it; return the claim as written.

        The promise ends, kept or not; if kept, after `settle`, called with the claim as written. Raises
        `ClaimWriteError`.
        """
        is_known = False
        try:
            written = await self._bind(pod, claim, promise.allocation if promise is not None else None)
            if settle is not None:
                await settle(written)
            self._ledger.note_written(written)
            is_known = True
        except ClaimWriteError as error:
            is_known = not _leaves_open(error.__cause__)
            raise
        else:
            if promise is not None:
                self._ledger.release(promise, entirely=True)
            return written
        finally:
            if promise is not None and (is_known or self._spawn(self._find_out(promise, pod), claim) is None):
                self._ledger.release(promise)

    async def _bind(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        uid = claim.uid
        for attempt in range(1, _TRIES + 1):
            try:
                return await self._try_to_bind(pod, claim, allocation)
            except ClaimWriteError as error:
                if attempt == _TRIES or not isinstance(error.__cause__, ConflictError):
                    raise
            await self._handle.clock.sleep(_PAUSE_SECONDS)
            try:
                claim = await self._handle.client.get(ResourceClaim, claim.name, claim.namespace)
            except (APIError, TransportError) as error:
                raise ClaimWriteError(f"get updated claim {claim.key} after conflict: {text_of(error)}") from error
            if claim.uid != uid:
                raise ClaimWriteError(f"claim {claim.key} got deleted in the meantime")
            if is_reserved_for(claim, pod) and (allocation is None or _is_same(claim, allocation)):
                return claim  # it was our own write, whose answer was lost
        raise AssertionError("unreachable: the last try returns or raises")

    async def _try_to_bind(self, pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        key = claim.key
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimWriteError(f"claim {key} got deleted in the meantime")
        status: dict[str, object] = {}
        if allocation is not None and not _is_same(claim, allocation):
            if claim.status.allocation is not None:
                raise ClaimWriteError(f"claim {key} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                finalizers = [*claim.metadata.finalizers, FINALIZER]
                claim = await self._patch(claim, f"add finalizer to claim {key}", finalizers=finalizers)
            stamped = msgspec.structs.replace(allocation, allocation_timestamp=self._timestamp())
            status["allocation"] = msgspec.to_builtins(stamped)
        elif claim.status.allocation is None:
            raise ClaimWriteError(f"claim {key} got deallocated elsewhere in the meantime")
        users = (*claim.status.reserved_for, consumer(pod))
        status["reservedFor"] = msgspec.to_builtins(users)
        what = "allocation and reservation" if allocation is not None else "reservation"
        return await self._patch(claim, f"add {what} to claim {key}", status=status)

    def _timestamp(self) -> str | None:
        gates = self._handle.feature_gates
        if gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]:
            return format_time(self._handle.clock.wall())
        return None

    # Taking back

    async def deallocate(self, claim: ResourceClaim) -> ResourceClaim:
        """Take the devices of a claim away, and return it; raise `APIError` or `TransportError` where that fails."""
        nothing = {"allocation": None, "reservedFor": None, "devices": None}
        patch = {"metadata": {"resourceVersion": claim.resource_version}, "status": nothing}
        client = self._handle.client
        written = await client.patch(ResourceClaim, claim.name, claim.namespace, patch=patch, status=True)
        self._ledger.note_written(written)
        return written

    def take_back(self, pod: Pod, claim: ResourceClaim) -> None:
        """Take the pod from among those that may use a claim, in the background."""
        key = (claim.uid, pod.uid)
        if key in self._leaving:
            return
        task = self._spawn(self._take_back(pod, claim), claim)
        if task is not None:
            self._leaving[key] = task
            task.add_done_callback(lambda _: self._leaving.pop(key, None))

    async def wait_until_taken_back(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Wait until an earlier attempt of the pod has nothing more to take back of a claim; False where it had not."""
        task = self._leaving.get((claim.uid, pod.uid))
        if task is None:
            return False
        await asyncio.wait([task])
        return True

    async def _take_back(self, pod: Pod, claim: ResourceClaim) -> None:
        client = self._handle.client
        for _ in range(_TRIES):
            left = [reference for reference in claim.status.reserved_for if reference.uid != pod.uid]
            if len(left) == len(claim.status.reserved_for):
                return
            patch = {
                "metadata": {"resourceVersion": claim.resource_version, "uid": claim.uid},
                "status": {"reservedFor": msgspec.to_builtins(left) or None},
            }
            try:
                written = await client.patch(ResourceClaim, claim.name, claim.namespace, patch=patch, status=True)
            except ConflictError:
                try:
                    claim = await client.get(ResourceClaim, claim.name, claim.namespace)
                except NotFoundError:
                    return
                continue
            except NotFoundError:
                return
            self._ledger.note_written(written)
            return

    async def _find_out(self, promise: Promise, pod: Pod) -> None:
        """Read a claim of which nobody knows whether it was written, however long it takes; then end the promise.

        The pod may have been tried meanwhile, and is tried again, as no event comes where nothing was written.
        """
        pause, claim = _READ_AGAIN_SECONDS, promise.claim
        while True:
            try:
                found = await self._handle.client.get(ResourceClaim, claim.name, claim.namespace)
                self._ledger.note_written(found)
                break
            except NotFoundError:
                break
            except (APIError, TransportError):
                await self._handle.clock.sleep(pause)
                pause = min(2 * pause, _READ_AGAIN_LIMIT_SECONDS)
        self._ledger.release(promise)
        self._handle.activate([pod])

    def _spawn(self, work: Coroutine[object, object, None], claim: ResourceClaim) -> asyncio.Task[None] | None:
        """Do something about a claim in the background; None where the scheduler has stopped."""
        try:
            return self._handle.spawn(work, name=f"claim {claim.key}")
        except RuntimeError:
            return None

    async def _patch(
        self,
        claim: ResourceClaim,
        what: str,
        *,
        finalizers: Sequence[str] | None = None,
        status: Mapping[str, object] | None = None,
    ) -> ResourceClaim:
        """Change finalizers or status, unless the claim is not any more what it was; raise `ClaimWriteError`."""
        metadata: dict[str, object] = {"resourceVersion": claim.resource_version}
        patch: dict[str, object] = {"metadata": metadata}
        if finalizers is not None:
            metadata["finalizers"] = finalizers
        if status is not None:
            patch["status"] = status
        client = self._handle.client
        try:
            return await client.patch(
                ResourceClaim, claim.name, claim.namespace, patch=patch, status=status is not None
            )
        except (APIError, TransportError) as error:
            raise ClaimWriteError(f"{what}: {text_of(error)}") from error


def _is_same(claim: ResourceClaim, allocation: AllocationResult) -> bool:
    """Return whether a claim was given just these devices, whenever that was; the API server rewrites quantities."""
    found = claim.status.allocation
    return found is not None and _devices(found) == _devices(allocation)


def _devices(allocation: AllocationResult) -> list[tuple[str, str, str, str, str | None]]:
    results = allocation.devices.results
    return [(each.request, each.driver, each.pool, each.device, each.share_id) for each in results]


def _leaves_open(error: BaseException | None) -> bool:
    """Return whether a write that ended like this may have been carried out."""
    return isinstance(error, TransportError) or (isinstance(error, APIError) and error.status >= 500)
