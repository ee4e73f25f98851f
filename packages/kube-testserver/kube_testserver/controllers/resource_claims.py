"""A small resource claim controller: it creates claims from templates, and releases claims that no pod uses any more.

Differs from kube-controller-manager: a failed operation is retried only after its pod, claim or template changes.
Source: Kubernetes, `pkg/controller/resourceclaim/controller.go` with the default feature gates.
"""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Final

from kube_testserver.controllers.follower import Follower
from kube_testserver.controllers.garbage_collection import controller_of
from kube_testserver.controllers.warnings import record_warning
from kube_testserver.errors import StatusError
from kube_testserver.resources.builtin import PODS
from kube_testserver.resources.devices import CLAIM_TEMPLATES, CLAIMS, FINALIZER
from kube_testserver.rules.deletion import DeleteOptions
from kube_testserver.rules.devices.claims import named_claims
from kube_testserver.store import StaleRecordError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube_objects.clock import Clock, Timer
    from kube_testserver.registry import Registry
    from kube_testserver.store import Change, Object, Record

__all__ = ["ClaimController"]

_ANNOTATION: Final = "resource.kubernetes.io/pod-claim-name"
_BATCH: Final = 64
_LONGEST_BASE: Final = 57
_MOST_USERS: Final = 256
_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_CLAIMS: Final = b'"resourceClaims"'
_EXTENDED: Final = b'"extendedResourceClaimStatus"'

_log = logging.getLogger(__name__)


class _NotMadeError(Exception):
    """A claim cannot be made; the text says why."""


class ClaimController:
    """Makes and gives up the claims of pods."""

    def __init__(self, registry: Registry, *, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._pods = registry.collection(PODS)
        self._claims = registry.collection(CLAIMS)
        self._templates = registry.collection(CLAIM_TEMPLATES)
        #: By key of a template, the keys of pods that wait for it.
        self._waiting: dict[str, set[str]] = {}
        #: By uid of a pod that is there and has claims, its key and theirs.
        self._used: dict[str, tuple[str, set[str]]] = {}
        #: By key of a claim, the keys of pods that name it.
        self._users: dict[str, set[str]] = {}
        self._dirty_pods: dict[str, None] = {}
        self._dirty_claims: dict[str, None] = {}
        self._syncing: Timer | None = None
        self._followers = (
            Follower(self._claims, clock=clock, listed=self._list_claims, changed=self._claim_changed),
            Follower(self._templates, clock=clock, listed=self._list_templates, changed=self._template_changed),
            Follower(self._pods, clock=clock, listed=self._list_pods, changed=self._pod_changed),
        )

    def start(self) -> None:
        """Look at all pods and claims, then follow every change."""
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """Leave every claim as it is; idempotent."""
        for follower in self._followers:
            follower.stop()
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None

    # --- following -------------------------------------------------------------------------------

    def _list_pods(self, records: Sequence[Record]) -> None:
        present = {record.uid for record in records}
        for uid in [uid for uid in self._used if uid not in present]:
            self._forget(uid)
        for record in records:
            self._look_at_pod(record)

    def _pod_changed(self, change: Change) -> None:
        record = change.record
        if change.type == "DELETED":
            if _has_claims(record):
                self._note(record)
                self._forget(record.uid)
        elif record is self._pods.get(record.key):
            self._look_at_pod(record)

    def _look_at_pod(self, record: Record) -> None:
        if not _has_claims(record):  # most pods have none, and are not read
            return
        self._note(record)
        self._mark(pod=record.key)
        if _is_done(record.decode()):
            for key in self._used[record.uid][1]:
                self._mark(claim=key)

    def _note(self, record: Record) -> None:
        """Remember which claims a pod names."""
        named = self._used.setdefault(record.uid, (record.key, set()))[1]
        pod = record.decode()
        extended = ((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
        for name in (*(name for _, name, _ in named_claims(pod)), *([extended] if extended else [])):
            key = f"{record.namespace}/{name}"
            named.add(key)
            self._users.setdefault(key, set()).add(record.key)

    def _forget(self, uid: str) -> None:
        pod, named = self._used.pop(uid, ("", set()))
        for key in named:
            self._mark(claim=key)
            users = self._users.get(key, set())
            users.discard(pod)
            if not users:
                self._users.pop(key, None)

    def _list_claims(self, records: Sequence[Record]) -> None:
        for record in records:
            self._mark(claim=record.key)

    def _claim_changed(self, change: Change) -> None:
        key = change.record.key
        self._mark(claim=key)
        for pod in self._users.get(key, ()):
            self._mark(pod=pod)

    def _list_templates(self, _records: Sequence[Record]) -> None:
        for pods in self._waiting.values():
            for pod in pods:
                self._mark(pod=pod)

    def _template_changed(self, change: Change) -> None:
        for pod in self._waiting.pop(change.record.key, ()):
            self._mark(pod=pod)

    # --- doing -----------------------------------------------------------------------------------

    def _mark(self, *, pod: str = "", claim: str = "") -> None:
        if pod:
            self._dirty_pods[pod] = None
        if claim:
            self._dirty_claims[claim] = None
        self._wake()

    def _wake(self) -> None:
        if self._syncing is None:
            self._syncing = self._clock.call_later(0.0, self._sync_all)

    def _sync_all(self) -> None:
        self._syncing = None
        for marked, collection, sync in (
            (self._dirty_pods, self._pods, self._sync_pod),
            (self._dirty_claims, self._claims, self._sync_claim),
        ):
            for key in list(islice(marked, _BATCH)):
                del marked[key]
                record = collection.get(key)
                if record is not None:
                    self._try(sync, record)
        if self._dirty_pods or self._dirty_claims:
            self._wake()

    def _try(self, sync: Callable[[Record], None], record: Record) -> None:
        try:
            sync(record)
        except StaleRecordError:  # its own change comes, and this is done again
            _log.debug("object=%s changed meanwhile", record.key)
        except StatusError as error:
            _log.warning("object=%s resource claims are not brought up to date: %s", record.key, error)

    # --- pods ------------------------------------------------------------------------------------

    def _sync_pod(self, record: Record) -> None:
        pod = record.decode()
        if "deletionTimestamp" in pod["metadata"] or _is_done(pod):
            return
        made: dict[str, str] = {}
        for podclaim in (pod.get("spec") or {}).get("resourceClaims") or ():
            try:
                name = self._ensure(record, pod, podclaim)
            except (_NotMadeError, StatusError) as error:
                self._announce(record, f"PodResourceClaim {podclaim.get('name', '')}: {error}")
                return
            if name:
                made[podclaim["name"]] = name
        if made:
            record = self._name_claims(record, pod, made)
            pod = record.decode()
        if (pod.get("spec") or {}).get("nodeName"):
            self._reserve(record, pod)

    def _ensure(self, record: Record, pod: Object, podclaim: Object) -> str:
        """Return the name of a claim that was made, or found, for a pod that does not name it yet; else empty."""
        wanted, template = podclaim.get("name") or "", podclaim.get("resourceClaimTemplateName")
        if not template:
            return ""
        known = next((one for one in named_claims(pod) if one[0] == wanted), None)
        if known is not None:
            if not known[1]:
                return ""  # it was decided that none is needed
            present = self._claims.get(f"{record.namespace}/{known[1]}")
            if present is not None and _owner(present) == (record.name, record.uid):
                return ""
        return self._find(record, wanted) or self._make(record, wanted, template)

    def _find(self, record: Record, wanted: str) -> str:
        """Return the claim that was made for a pod, which could not be told of it."""
        if not self._claims:
            return ""
        base = _base_of(record.name, wanted)
        for present in self._claims.page(prefix=f"{record.namespace}/{base}").records:
            claim = present.decode()
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(_ANNOTATION) == wanted and _owner(present) == (record.name, record.uid):
                return present.name
        return ""

    def _make(self, record: Record, wanted: str, name: str) -> str:
        key = f"{record.namespace}/{name}"
        template = self._templates.get(key)
        if template is None:
            self._waiting.setdefault(key, set()).add(record.key)
            missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            raise _NotMadeError(f'resource claim template "{name}": {missing}')
        spec = template.decode().get("spec") or {}
        metadata = spec.get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": record.name, "uid": record.uid, "controller": True}
        claim: Object = {
            "metadata": {
                "generateName": _base_of(record.name, wanted),
                "ownerReferences": [owner],
                "annotations": {**(metadata.get("annotations") or {}), _ANNOTATION: wanted},
                **({"labels": metadata["labels"]} if metadata.get("labels") else {}),
            },
            "spec": spec.get("spec") or {},
        }
        try:
            return self._registry.create(CLAIMS, record.namespace, claim).name
        except StatusError as error:
            raise _NotMadeError(f"create ResourceClaim : {error}") from error

    def _name_claims(self, record: Record, pod: Object, made: dict[str, str]) -> Record:
        """Write into a pod's status which claims were made for it."""
        status = pod.setdefault("status", {})
        others = [one for one in status.get("resourceClaimStatuses") or () if one.get("name") not in made]
        named = [{"name": wanted, "resourceClaimName": name} for wanted, name in made.items()]
        status["resourceClaimStatuses"] = [*others, *named]
        return self._registry.put(PODS, record, pod)

    def _reserve(self, record: Record, pod: Object) -> None:
        """Reserve allocated claims for a pod that was bound past the scheduler."""
        for _, name, of_template in named_claims(pod):
            present = self._claims.get(f"{record.namespace}/{name}")
            if present is None:
                continue
            claim = present.decode()
            status = claim.get("status") or {}
            users = status.get("reservedFor") or []
            foreign = of_template and _owner(present) != (record.name, record.uid)
            reserved = any(user.get("uid") == record.uid for user in users)
            if foreign or status.get("allocation") is None or reserved or len(users) >= _MOST_USERS:
                continue
            user = {"resource": "pods", "name": record.name, "uid": record.uid}
            self._put_status(present, claim, {**status, "reservedFor": [*users, user]})

    # --- claims ----------------------------------------------------------------------------------

    def _sync_claim(self, record: Record) -> None:
        claim = record.decode()
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        kept = [user for user in users if self._is_in_use(record.namespace, user)]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        leaving = "deletionTimestamp" in claim["metadata"]
        present: Record | None = record
        if len(kept) < len(users):
            given = {"allocation": None} if not kept and protected else {}
            present = self._put_status(record, claim, {**status, "reservedFor": kept, **given})
            if protected:
                present = self._release(present)
        elif protected and leaving and not kept:
            present = self._put_status(record, claim, {**status, "allocation": None})
            present = self._release(present)
        if present is not None and not leaving and self._is_left(present, used=bool(kept)):
            self._registry.delete(CLAIMS, present.namespace, present.name, DeleteOptions())

    def _is_in_use(self, namespace: str, user: Object) -> bool:
        """Return True if an entry of `reservedFor` is in use; an entry that is no pod counts as in use."""
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        pod = self._pods.get(f"{namespace}/{user.get('name', '')}")
        return pod is not None and pod.uid == user.get("uid") and not _is_done(pod.decode())

    def _is_left(self, record: Record, *, used: bool) -> bool:
        """Return True if the pod that a claim was made for is gone, or has ended and the claim has no other user."""
        name, uid = _owner(record)
        if not name:
            return False
        pod = self._pods.get(f"{record.namespace}/{name}")
        return pod is None or pod.uid != uid or (not used and _is_done(pod.decode()))

    def _release(self, record: Record) -> Record | None:
        """Protect a claim no longer that is allocated no longer; return it, or None when it went."""
        claim = record.decode()
        if (claim.get("status") or {}).get("allocation") is not None:
            return record
        metadata = claim["metadata"]
        metadata["finalizers"] = [one for one in metadata.get("finalizers") or () if one != FINALIZER]
        self._registry.put(CLAIMS, record, claim)
        return self._claims.get(record.key)

    def _put_status(self, record: Record, claim: Object, status: Object) -> Record:
        filled = {name: value for name, value in status.items() if value}
        return self._registry.change(CLAIMS, record, {**claim, "status": filled}, subresource="status")

    # --- events ----------------------------------------------------------------------------------

    def _announce(self, record: Record, message: str) -> None:
        _log.warning("pod=%s FailedResourceClaimCreation: %s", record.key, message)
        reason = "FailedResourceClaimCreation"
        record_warning(self._registry, PODS, record, reason, message, component="resource_claim")


def _base_of(pod: str, wanted: str) -> str:
    """Return the beginning of the name of a claim; of long names each gives up its share."""
    base = f"{pod}-{wanted}-"
    if len(base) <= _LONGEST_BASE:
        return base
    share = len(base)
    return pod[: len(pod) * _LONGEST_BASE // share] + "-" + wanted[: len(wanted) * _LONGEST_BASE // share]


def _owner(record: Record) -> tuple[str, str]:
    """Return name and uid of the pod that a claim was made for; empty where it was made for none."""
    owner = controller_of(record)
    is_pod = owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod")
    return (owner.name, owner.uid) if owner is not None and is_pod else ("", "")


def _has_claims(record: Record) -> bool:
    """Return True if a pod has claims, of its own or for its extended resources."""
    return _CLAIMS in record.body or _EXTENDED in record.body


def _is_done(pod: Object) -> bool:
    """Return True if no container of a pod runs, or ever will."""
    ended = (pod.get("status") or {}).get("phase") in _TERMINAL
    return ended or ("deletionTimestamp" in pod["metadata"] and not (pod.get("spec") or {}).get("nodeName"))
