"""Create and delete the ResourceClaim for the extended resources of a pod.

Before the pod is bound, the claim is created and named in the pod's status. If the pod is not bound after all, the
claim is deleted.

Differs from kube-scheduler: the claim is deallocated before it is deleted.

Source: kube-scheduler 1.36, `dynamicresources/extendeddynamicresources.go`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.api import ResourceClaim
from pyscheduler.framework import APIError, ConflictError, NotFoundError, TransportError
from pyscheduler.framework.errors import text_of
from pyscheduler.framework.recorder import scheduler_recorder
from pyscheduler.plugins.dynamic_resources.binding import ClaimWriteError
from pyscheduler.plugins.dynamic_resources.choice import PodClaim
from pyscheduler.plugins.dynamic_resources.claims import FINALIZER
from pyscheduler.plugins.dynamic_resources.extended_claims import status_patch

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import Handle
    from pyscheduler.plugins.dynamic_resources.binding import ClaimWriter
    from pyscheduler.plugins.dynamic_resources.extended_claims import ExtendedClaim
    from pyscheduler.plugins.dynamic_resources.ledger import ClaimLedger

__all__ = ["ExtendedClaimWriter"]

_log = logging.getLogger(__name__)

_TRIES: Final = 5
#: How long the watch may take to show a claim that was written, and how often that is looked at.
_UNSEEN_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 0.01
_LOOK_LIMIT_SECONDS: Final = 1.0


class ExtendedClaimWriter:
    """Makes and deletes claims for extended resources; `writer` allocates and reserves them."""

    def __init__(self, handle: Handle, ledger: ClaimLedger, writer: ClaimWriter) -> None:
        self._handle = handle
        self._ledger = ledger
        self._writer = writer
        #: By uid of a claim, deletions that are under way.
        self._discarding: dict[str, asyncio.Task[None]] = {}

    async def bind(self, pod: Pod, extended: ExtendedClaim) -> None:
        """Make the claim that was chosen, with its devices, for the pod, and name it there; raise `ClaimWriteError`.

        What was made is in `extended.written` from then on, whether or not the rest succeeds.
        """
        variant, promise = extended.chosen, extended.promise
        if variant is None or promise is None:
            return
        made = await self._make(variant.claim)
        extended.written = PodClaim(made)
        self._ledger.hand_over(promise, made)
        extended.promise = None
        extended.written.claim = await self._writer.bind(pod, made, promise, settle=self._wait_until_seen)
        try:
            await self._handle.client.patch_pod_status(pod, status_patch(variant, made.name))
        except (APIError, TransportError) as error:
            raise ClaimWriteError(f"update pod {pod.key} ExtendedResourceClaimStatus: {text_of(error)}") from error

    async def _make(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim.metadata
        body = {
            "apiVersion": ResourceClaim.api_version,
            "kind": ResourceClaim.kind,
            "metadata": {
                "generateName": metadata.generate_name,
                "namespace": metadata.namespace,
                "annotations": dict(metadata.annotations),
                "ownerReferences": msgspec.to_builtins(metadata.owner_references),
                "finalizers": [FINALIZER],
            },
            "spec": msgspec.to_builtins(claim.spec),
        }
        is_made = False
        try:
            made = await self._handle.client.create(ResourceClaim, body, metadata.namespace)
            is_made = True
        except (APIError, TransportError) as error:
            raise ClaimWriteError(
                f"create claim for extended resources {metadata.namespace}/: {text_of(error)}"
            ) from error
        finally:
            status = "success" if is_made else "failure"
            scheduler_recorder(self._handle).count("scheduler_resourceclaim_creates_total", status)
        return made

    async def _wait_until_seen(self, claim: ResourceClaim) -> None:
        """Wait until the watch has shown a claim, so that its devices count for as long as it is there."""
        clock = self._handle.clock
        deadline = clock.now() + _UNSEEN_SECONDS
        pause = _LOOK_SECONDS
        while self._ledger.get(claim.name, claim.namespace) is None and clock.now() < deadline:
            await clock.sleep(pause)
            pause = min(2 * pause, _LOOK_LIMIT_SECONDS)

    # Taking back

    def take_back(self, claim: ResourceClaim) -> None:
        """Give the devices of a claim back and delete it, in the background; what is under way is not begun again."""
        if claim.uid in self._discarding:
            return
        work = self._take_back(claim)
        try:
            task = self._handle.spawn(work, name=f"claim {claim.key}")
        except RuntimeError:  # the scheduler has stopped
            work.close()
            return
        self._discarding[claim.uid] = task
        task.add_done_callback(lambda _: self._discarding.pop(claim.uid, None))

    async def discard(self, claim: ResourceClaim) -> None:
        """Give the devices of a claim back and delete it; raise `APIError` or `TransportError` where that fails."""
        task = self._discarding.get(claim.uid)
        if task is not None:
            await asyncio.wait([task])
        await self._discard(claim)

    async def _discard(self, claim: ResourceClaim) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                await self._try_to_discard(claim)
            except NotFoundError:
                return
            except ConflictError:
                if attempt == _TRIES:
                    raise
                try:
                    found = await self._handle.client.get(ResourceClaim, claim.name, claim.namespace)
                except NotFoundError:
                    return
                if found.uid != claim.uid:
                    return
                claim = found
            else:
                return

    async def _take_back(self, claim: ResourceClaim) -> None:
        try:
            await self._discard(claim)
        except (APIError, TransportError) as error:
            _log.warning("Claim for extended resources was not deleted claim=%s err=%s", claim.key, text_of(error))

    async def _try_to_discard(self, claim: ResourceClaim) -> None:
        client = self._handle.client
        if claim.status.allocation is not None or claim.status.reserved_for:
            claim = await self._writer.deallocate(claim)
        left = [each for each in claim.metadata.finalizers if each != FINALIZER]
        if len(left) < len(claim.metadata.finalizers):
            patch = {"metadata": {"resourceVersion": claim.resource_version, "finalizers": left or None}}
            await client.patch(ResourceClaim, claim.name, claim.namespace, patch=patch)
        await client.delete(ResourceClaim, claim.name, claim.namespace, uid=claim.uid)
