"""Create, update and delete objects in the store, and apply the rules for writes.

A write reads the stored object, builds the next one from it, and replaces it. No other write happens in between. A
request is refused as a conflict if it names another version or uid than the stored object has.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.meta import KubeObject
from kube_objects.times import format_time
from kube_testserver import errors
from kube_testserver.rules import deletion, validation
from kube_testserver.rules.admission import Admission
from kube_testserver.rules.admission_requests import AdmissionRequest
from kube_testserver.rules.custom_resources import apply_schema, check_schema
from kube_testserver.rules.defaults import apply_defaults, prepare_creation, prepare_update
from kube_testserver.rules.quotas.enforcement import Quotas
from kube_testserver.schema.managed_fields import Manager, track_update
from kube_testserver.schema.unknown_fields import FieldCheck
from kube_testserver.store import encode
from kube_testserver.wire import name_ending, new_uid, tidy_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube_testserver.resources.table import Resource, ResourceTable
    from kube_testserver.rules.admission_requests import Webhooks
    from kube_testserver.rules.deletion import DeleteOptions
    from kube_testserver.store import Collection, Object, Record, Store

__all__ = ["Registry"]

_MAX_GENERATED_BASE: Final = 58
_GENERATE_ATTEMPTS: Final = 8
_KEPT_METADATA: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_IDENTITY: Final = frozenset({"kind", "apiVersion", "metadata"})
_STATUS_METADATA: Final = ("labels", "annotations")


class Registry:
    """The writes of the API server.

    `wall` tells seconds since the epoch, `rng` makes uids and generated names.
    """

    def __init__(self, store: Store, table: ResourceTable, *, wall: Callable[[], float], rng: random.Random) -> None:
        self.store = store
        self.table = table
        self.wall = wall
        #: By collection, what is called after a write with this registry, the record and whether it is `deleted`.
        self.reactions: dict[str, Callable[..., None]] = {}
        #: Called before every write with the resource, the object before (or None) and the new one; raises to refuse.
        self.guard: Callable[[Resource, Object | None, Object], None] | None = None
        #: Asked about the writes of the request that is being answered; None where nobody configured a webhook.
        self.webhooks: Webhooks | None = None
        #: Whether a garbage collector runs, so that a deletion may wait for dependents.
        self.collects_garbage = False
        self._rng = rng
        for resource in table:  # all from the beginning, so that every log reaches back to it
            self.collection(resource)
        self._admission = Admission(store)
        self._quotas = Quotas(store, table)

    # --- reading ---------------------------------------------------------------------------------

    def collection(self, resource: Resource) -> Collection:
        """Return the collection behind a resource."""
        return self.store.collection(resource.collection, resource.read_fields)

    def get(self, resource: Resource, namespace: str, name: str) -> Record:
        """Return the present record, or refuse (404)."""
        record = self.collection(resource).get(resource.key(namespace, name))
        if record is None:
            raise errors.not_found(resource.storage_group, resource.plural, name)
        return record

    def render(self, resource: Resource, record: Record) -> bytes:
        """Return a record as clients of that resource see it: with kind and apiVersion, in that view."""
        return resource.head + self.render_bare(resource, record)[1:]

    def render_bare(self, resource: Resource, record: Record) -> bytes:
        """Return a record in that view, without kind and apiVersion: as an item of a list."""
        if resource.from_stored is None:
            return record.body
        return encode(resource.from_stored(record.decode()))

    # --- taking in -------------------------------------------------------------------------------

    def take_in(self, resource: Resource, namespace: str, obj: Object, fields: FieldCheck | None = None) -> Object:
        """Return what a client sent in the form it is stored in; refuse (400) what is not of this kind or namespace."""
        kind, api_version = obj.get("kind"), obj.get("apiVersion")
        if kind not in (None, "", resource.kind):
            raise errors.bad_request(
                f'{kind} in version "{api_version}" cannot be handled as a {resource.kind}: no kind "{kind}" is '
                f'registered for the resource "{resource.plural}"'
            )
        if api_version not in (None, "", resource.api_version):
            raise errors.bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({resource.api_version})"
            )
        obj = validation.fit(resource, obj, fields)
        metadata = dict(obj.get("metadata") or {})
        metadata.pop("managedFields", None)
        given = metadata.get("namespace") or ""
        if resource.namespaced:
            if given not in ("", namespace):
                raise errors.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        taken = {"metadata": metadata}
        taken |= {name: value for name, value in obj.items() if name not in _IDENTITY and value is not None}
        return taken if resource.to_stored is None else resource.to_stored(taken)

    # --- writing ---------------------------------------------------------------------------------

    def create(
        self,
        resource: Resource,
        namespace: str,
        obj: Object,
        *,
        dry_run: bool = False,
        fields: FieldCheck | None = None,
        uid: str = "",
    ) -> Record:
        """Store a new object; `obj` is as the client sent it. With `dry_run`, do everything but store it.

        `fields` says what is to be done about fields that the kind does not have; `uid` is drawn where none is given.
        """
        new = self.take_in(resource, namespace, obj, fields)
        metadata = new["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.StatusError("resourceVersion should not be set on objects to be created", code=500, reason="")
        if self.webhooks is not None:
            asked = AdmissionRequest("CREATE", resource, namespace, metadata.get("name") or "", None, dry_run=dry_run)
            new = self._mutated(asked, new) or new
            metadata = new["metadata"]
        if fields is not None and fields.managed:
            metadata["managedFields"] = fields.managed
        collection = self.collection(resource)
        now = format_time(self.wall())
        generated = self._name(resource, collection, namespace, metadata)
        for name in _KEPT_METADATA:
            metadata.pop(name, None)
        metadata["uid"] = uid or new_uid(self._rng)
        metadata["creationTimestamp"] = now
        if resource.has_generation:
            metadata["generation"] = 1
        if resource.has_status and not resource.status_at_creation:
            new.pop("status", None)
        if resource.schema is not None:
            check_schema(resource, new)
        validation.check_creation(resource, new)
        apply_defaults(resource.collection, new)
        self._admission.admit_creation(resource, new)
        prepare_creation(resource.collection, new, now)
        if self.webhooks is not None:
            asked = AdmissionRequest("CREATE", resource, namespace, metadata["name"], None, dry_run=dry_run)
            self.webhooks.validate(_with_object(asked, new))
        self._quotas.check(resource, metadata.get("namespace", ""), None, new)
        key = resource.key(namespace, metadata["name"])
        if collection.get(key) is not None:
            raise errors.already_exists(resource.storage_group, resource.plural, metadata["name"], generated=generated)
        self._finish_metadata(new)
        if self.guard is not None:
            self.guard(resource, None, new)
        if dry_run:
            return collection.draft(key, new)
        record = collection.insert(key, new)
        self._react(resource, record, deleted=False)
        return record

    def _name(self, resource: Resource, collection: Collection, namespace: str, metadata: Object) -> bool:
        """Make up a name where only its beginning was given; tell whether one was made up."""
        if metadata.get("name") or not metadata.get("generateName"):
            return False
        base = metadata["generateName"][:_MAX_GENERATED_BASE]
        for _ in range(_GENERATE_ATTEMPTS):
            metadata["name"] = base + name_ending(self._rng)
            if collection.get(resource.key(namespace, metadata["name"])) is None:
                break
        return True

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        obj: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        fields: FieldCheck | None = None,
    ) -> tuple[Record, bool]:
        """Put `obj`, as the client sent it, in the place of the object of that name; return whether it was created."""
        validation.check_fits(obj, (KubeObject,), resource.kind, resource.version)
        given = (obj.get("metadata") or {}).get("name") or ""
        if given != name:
            if given:
                raise errors.bad_request(
                    f"the name of the object ({given}) does not match the name on the URL ({name})"
                )
            obj = {**obj, "metadata": {**(obj.get("metadata") or {}), "name": name}}
        old = self.collection(resource).get(resource.key(namespace, name))
        if old is None:
            if resource.create_on_update and not subresource:
                metadata = dict(obj["metadata"])
                if metadata.get("uid"):  # that one is gone; only a new one could be made
                    raise _other_object(resource, namespace, name, metadata["uid"], "")
                metadata.pop("resourceVersion", None)
                obj = {**obj, "metadata": metadata}
                return self.create(resource, namespace, obj, dry_run=dry_run, fields=fields), True
            raise errors.not_found(resource.storage_group, resource.plural, name)
        new = self.take_in(resource, namespace, obj, fields)
        if (obj.get("metadata") or {}).get("managedFields") in ([], [{}]):
            fields = FieldCheck(managed=[])  # the client asked to drop all owners
        return self.change(resource, old, new, subresource=subresource, dry_run=dry_run, fields=fields), False

    def change(
        self,
        resource: Resource,
        old: Record,
        new: Object,
        *,
        subresource: str = "",
        dry_run: bool = False,
        fields: FieldCheck | None = None,
    ) -> Record:
        """Store `new`, in stored form but with the client's metadata, over `old`: what the subresource lets change."""
        self._check_versions(resource, old, new["metadata"])
        before = old.decode()
        new = self._next_object(resource, before, new, subresource)
        asked = None
        if self.webhooks is not None:
            asked = AdmissionRequest(
                "UPDATE", resource, old.namespace, old.name, None, resource.view(before), subresource, dry_run
            )
            changed = self._mutated(asked, new, version=old.version)
            if changed is not None:
                new = self._next_object(resource, before, changed, subresource)
        metadata = new["metadata"]
        prepare_update(resource.collection, new, before, self.wall)
        if resource.schema is not None:
            check_schema(resource, new, before, warnings=None if fields is None else fields.warnings)
        validation.check_update(resource, before, new, resizing=subresource == "resize")
        self._admission.admit_change(resource, before, new)
        if resource.has_generation and subresource != "status" and _owners_part(before) != _owners_part(new):
            metadata["generation"] = metadata.get("generation", 0) + 1
        if self.webhooks is not None and asked is not None:
            self.webhooks.validate(_with_object(asked, new, version=old.version))
        self._quotas.check(resource, old.namespace, before, new, subresource)
        if self.guard is not None:
            self.guard(resource, before, new)
        self._note_manager(resource, before, new, subresource, fields)
        return self.put(resource, old, new, before=before, dry_run=dry_run)

    def put(
        self,
        resource: Resource,
        old: Record,
        new: Object,
        *,
        before: Object | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Store the complete object `new` over `old`; skip equal writes; delete it once its finalizers are gone."""
        self._finish_metadata(new)
        metadata = new["metadata"]
        metadata["resourceVersion"] = str(old.version)
        if new == (old.decode() if before is None else before):
            return old
        collection = self.collection(resource)
        if dry_run:
            return collection.draft(old.key, new)
        released = (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
            and resource.collection != "namespaces"
        )
        record = collection.remove(old, new) if released else collection.replace(old, new)
        self._react(resource, record, deleted=released)
        return record

    def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> tuple[Record, bool]:
        """Delete, or mark for deletion; return the last state and whether it is gone."""
        old = self.get(resource, namespace, name)
        deletion.check_preconditions(resource, old, options)
        obj = old.decode()
        if self.collects_garbage:
            deletion.propagate(obj, options)
        marked, gone = deletion.mark_deleted(resource, obj, options, self.wall())
        collection = self.collection(resource)
        if options.dry_run:
            return (collection.draft(old.key, obj) if marked else old), gone
        record = old
        if marked:
            self._finish_metadata(obj)
            record = collection.replace(old, obj)
        if gone:
            record = collection.remove(record)
        self._react(resource, record, deleted=gone)
        return record, gone

    # --- webhooks --------------------------------------------------------------------------------

    @contextmanager
    def reviewed_by(self, webhooks: Webhooks | None, *, now: float, seed: int) -> Iterator[None]:
        """Ask `webhooks` about the writes of a request that is answered meanwhile, at one time and with one `seed`.

        A request that waits for a webhook is answered again from its beginning. Time, uids and generated names are the
        same then, so the object that is stored is the one that webhooks saw.
        """
        before = self.webhooks, self.wall, self._rng
        self.webhooks, self.wall, self._rng = webhooks, lambda: now, random.Random(seed)
        try:
            yield
        finally:
            self.webhooks, self.wall, self._rng = before

    @contextmanager
    def unreviewed(self) -> Iterator[None]:
        """Ask no webhooks meanwhile."""
        webhooks, self.webhooks = self.webhooks, None
        try:
            yield
        finally:
            self.webhooks = webhooks

    def draw_seed(self) -> int:
        """Return a seed for `reviewed_by`."""
        return self._rng.getrandbits(64)

    def review(self, request: AdmissionRequest) -> Object | None:
        """Return what a client sent to a subresource as webhooks want it; refuse it if they refuse it."""
        if self.webhooks is None:
            return request.new
        changed = self.webhooks.mutate(request)
        self.webhooks.validate(msgspec.structs.replace(request, new=changed))
        return changed

    def review_deletion(self, resource: Resource, record: Record, *, dry_run: bool) -> None:
        """Refuse the deletion of an object if webhooks refuse it."""
        if self.webhooks is not None:
            old = resource.view(record.decode())
            self.review(AdmissionRequest("DELETE", resource, record.namespace, record.name, None, old, "", dry_run))

    def _mutated(self, asked: AdmissionRequest, new: Object, *, version: int = 0) -> Object | None:
        """Return an object, which webhooks see with its defaults, as they want it; None if none changes it."""
        resource = asked.resource
        new["metadata"].setdefault("name", "")
        apply_defaults(resource.collection, new)
        if resource.schema is not None:
            apply_schema(resource.schema, new)
        shown = _with_object(asked, new, version=version)
        changed = self.webhooks.mutate(shown) if self.webhooks is not None else None
        if changed is None or changed is shown.new:
            return None
        try:
            return self.take_in(resource, asked.namespace, changed)
        except errors.StatusError as error:  # the webhook's fault, not the client's
            raise errors.internal_error(str(error).rpartition(f"handled as a {resource.kind}: ")[2]) from error

    # --- helpers ---------------------------------------------------------------------------------

    @staticmethod
    def _next_object(resource: Resource, before: Object, new: Object, subresource: str) -> Object:
        """Return what a write may change, with the metadata that no client changes, and with defaults."""
        new = _within_rights(resource, before, new, subresource)
        metadata = new["metadata"]
        for name in _KEPT_METADATA:
            if name in before["metadata"]:
                metadata[name] = before["metadata"][name]
            else:
                metadata.pop(name, None)
        metadata["name"] = before["metadata"]["name"]
        apply_defaults(resource.collection, new)
        return new

    def _check_versions(self, resource: Resource, old: Record, metadata: Object) -> None:
        uid = metadata.get("uid")
        if uid and uid != old.uid:
            raise _other_object(resource, old.namespace, old.name, uid, old.uid)
        version = metadata.get("resourceVersion")
        if version:
            if version != str(old.version):
                raise errors.conflict(resource.storage_group, resource.plural, old.name)
        elif not resource.unconditional_update:
            problem = errors.FieldProblem.invalid("metadata.resourceVersion", 0, "must be specified for an update")
            # The real server puts the resource where the kind belongs.
            raise errors.invalid(resource.storage_group, resource.plural, old.name, [problem])

    def _note_manager(
        self, resource: Resource, before: Object, new: Object, subresource: str, fields: FieldCheck | None
    ) -> None:
        """Update the managed fields of an object that has any."""
        managed = fields.managed if fields is not None else None
        if managed is None and "managedFields" in before["metadata"]:
            name = (fields.manager if fields is not None else "") or "unknown"
            managed = track_update(
                before,
                new,
                resource.fields or {},
                manager=Manager(name, "Update", resource.api_version, subresource),
                has_status=resource.has_status,
                now=format_time(self.wall()),
            )
        if managed:
            new["metadata"]["managedFields"] = managed
        else:
            new["metadata"].pop("managedFields", None)

    @staticmethod
    def _finish_metadata(obj: Object) -> None:
        obj["metadata"].setdefault("resourceVersion", "0")  # keeps its place; the store writes the number
        obj["metadata"] = tidy_metadata(obj["metadata"])

    def _react(self, resource: Resource, record: Record, *, deleted: bool) -> None:
        self._quotas.follow(resource, record)
        reaction = self.reactions.get(resource.collection)
        if reaction is None:
            return
        if self.webhooks is None:
            reaction(self, record, deleted=deleted)
        else:
            with self.unreviewed():  # what a controller writes is not the client's
                reaction(self, record, deleted=deleted)


def _with_object(request: AdmissionRequest, obj: Object, *, version: int = 0) -> AdmissionRequest:
    """Return a request about an object in stored form; `version` is that of the object it replaces."""
    metadata = {**obj["metadata"], "resourceVersion": str(version) if version else ""}
    shown = request.resource.view({**obj, "metadata": tidy_metadata(metadata)})
    return msgspec.structs.replace(request, new=shown)


def _other_object(resource: Resource, namespace: str, name: str, wanted: str, present: str) -> errors.StatusError:
    """Return the refusal of a write that means another object than the `present` one (empty: one that is gone)."""
    key = f"{resource.registry_path}/{resource.key(namespace, name)}"
    why = f"UID in precondition: {wanted}, UID in object meta: {present}"
    return errors.precondition_failed(resource.storage_group, resource.plural, name, key, why)


def _within_rights(resource: Resource, before: Object, new: Object, subresource: str) -> Object:
    """Return `new` reduced to what a write of this subresource may change."""
    if not subresource:
        if resource.has_status:
            new = {name: value for name, value in new.items() if name != "status"}
            if "status" in before:
                new["status"] = before["status"]
        return new
    allowed = dict(before)
    metadata = dict(before["metadata"])
    if subresource == "status":
        allowed["status"] = new.get("status") or {}
        if not resource.custom:  # custom resources keep all their metadata, the others let labels through
            for name in _STATUS_METADATA:
                metadata[name] = new["metadata"].get(name)
        if resource.collection == "pods" and "qosClass" in (before.get("status") or {}):
            allowed["status"].setdefault("qosClass", before["status"]["qosClass"])
    elif subresource == "resize":
        allowed["spec"] = _with_resources(before.get("spec") or {}, new.get("spec") or {})
    elif subresource == "finalize":
        allowed["spec"] = {**(before.get("spec") or {}), "finalizers": (new.get("spec") or {}).get("finalizers") or []}
    allowed["metadata"] = metadata
    return allowed


def _with_resources(before: Object, new: Object) -> Object:
    """Return the old spec with the new one's resources: what an in-place resize may change."""
    spec = dict(before)
    for name in ("containers", "initContainers"):
        asked: dict[Any, Object] = {one.get("name"): one for one in new.get(name) or ()}
        if name in spec:
            spec[name] = [
                {**one, "resources": asked[one.get("name")].get("resources") or {}} if one.get("name") in asked else one
                for one in spec[name]
            ]
    return spec


def _owners_part(obj: Object) -> Object:
    """Return what the object's owner asks for: everything but metadata and status."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}
