"""Check the resource claims of a bound pod before the pod starts, as kubelets and drivers do.

A pod waits while one of its devices is in use for another claim. So a test notices if a device was allocated twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kube_testserver.controllers.follower import Follower
from kube_testserver.resources.devices import CLAIMS
from kube_testserver.rules.devices.claims import named_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kube_objects.clock import Clock
    from kube_testserver.registry import Registry
    from kube_testserver.store import Change, Object, Record

__all__ = ["DeviceTakenError", "NotPreparedError", "Preparing"]

_Device = tuple[str, str, str]
"""Driver, pool and name."""


class NotPreparedError(Exception):
    """A pod's claims cannot be prepared now; the text is the kubelet's."""


class DeviceTakenError(NotPreparedError):
    """A device was given to two claims."""


class Preparing:
    """Remembers which pods use which devices; `ready` is called with key and uid of pods that may try again."""

    def __init__(self, registry: Registry, *, clock: Clock, ready: Callable[[str, str], None]) -> None:
        self._claims = registry.collection(CLAIMS)
        self._ready = ready
        #: By uid, the keys of pods that could not be prepared.
        self._waiting: dict[str, str] = {}
        #: By device that a claim in use has to itself, uid and name of the claim.
        self._owners: dict[_Device, tuple[str, str]] = {}
        #: By uid of a claim in use, those devices and the pods that use it; by uid of a pod, its claims.
        self._given: dict[str, tuple[list[_Device], set[str]]] = {}
        self._used: dict[str, list[str]] = {}
        self._follower = Follower(self._claims, clock=clock, listed=self._look_again, changed=self._claim_changed)

    def start(self) -> None:
        """Follow claims."""
        self._follower.start()

    def stop(self) -> None:
        """Follow them no more; idempotent."""
        self._follower.stop()

    def prepare(self, record: Record, pod: Object) -> None:
        """Let a pod use the devices of its claims; raise `NotPreparedError` where it may not, and call `ready` later.

        Asked again for a pod that uses them already, it does nothing.
        """
        self._waiting[record.uid] = record.key
        claims = [self._checked(record, name) for _, name, _ in named_claims(pod) if name]
        wanted = {one.get("name") for one in (pod.get("spec") or {}).get("resourceClaims") or ()}
        missing = wanted - {wanted_name for wanted_name, _, _ in named_claims(pod)}
        if missing:
            raise NotPreparedError(f"prepare dynamic resources: pod claim {min(map(str, missing))}: not created yet")
        for claim in claims:
            uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
            for device in _exclusive_devices(claim):
                owner = self._owners.get(device)
                if owner is not None and owner[0] != uid:
                    raise DeviceTakenError(
                        f"prepare dynamic resources: NodePrepareResources failed for ResourceClaim {name}: device "
                        f"{'/'.join(device)} is in use for ResourceClaim {owner[1]}"
                    )
        for claim in claims:
            uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
            devices, users = self._given.setdefault(uid, (list(_exclusive_devices(claim)), set()))
            users.add(record.uid)
            self._owners.update((device, (uid, name)) for device in devices)
        self._used[record.uid] = [claim["metadata"]["uid"] for claim in claims]
        del self._waiting[record.uid]

    def release(self, pod_uid: str) -> None:
        """Take a pod's devices back; it runs no more."""
        self._waiting.pop(pod_uid, None)
        freed = False
        for uid in self._used.pop(pod_uid, ()):
            devices, users = self._given[uid]
            users.discard(pod_uid)
            if not users:
                del self._given[uid]
                for device in devices:
                    self._owners.pop(device, None)
                freed = True
        if freed:
            self._look_again(())

    def _checked(self, record: Record, name: str) -> Object:
        """Return a claim that a pod may use; raise `NotPreparedError`."""
        present = self._claims.get(f"{record.namespace}/{name}")
        if present is None:
            why = f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
            raise NotPreparedError(f"prepare dynamic resources: {why}")
        claim = present.decode()
        status = claim.get("status") or {}
        if not any(user.get("uid") == record.uid for user in status.get("reservedFor") or ()):
            why = f"pod {record.name} ({record.uid}) is not allowed to use ResourceClaim {name} ({present.uid})"
            raise NotPreparedError(f"prepare dynamic resources: {why}")
        return claim

    def _look_again(self, _records: Sequence[Record]) -> None:
        for uid, key in list(self._waiting.items()):
            self._ready(key, uid)

    def _claim_changed(self, change: Change) -> None:
        for uid, key in list(self._waiting.items()):
            if key.startswith(f"{change.record.namespace}/"):
                self._ready(key, uid)


def _exclusive_devices(claim: Object) -> Iterator[_Device]:
    """Yield the devices that a claim was given to itself."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    for one in (allocation.get("devices") or {}).get("results") or ():
        if not one.get("shareID") and not one.get("adminAccess"):
            yield one.get("driver") or "", one.get("pool") or "", one.get("device") or ""
