"""Create, update and delete the objects of workloads, such as their pods, whenever a workload or its objects change."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from kube_objects.errors import ConfigError
from kube_objects.times import format_time
from kube_testserver.controllers.follower import Follower
from kube_testserver.controllers.garbage_collection import controller_of, owners_of
from kube_testserver.controllers.warnings import record_warning
from kube_testserver.errors import StatusError
from kube_testserver.patching.json_patches import apply_merge_patch
from kube_testserver.resources.builtin import PRIORITY_CLASSES
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.rules.deletion import DeleteOptions
from kube_testserver.workloads.objects import as_int, is_active, name_of, phase_of, uid_of
from kube_testserver.workloads.problems import NotExpandedError, creation_problem, with_replica_failure
from kube_testserver.workloads.table import WORKLOAD_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kube_objects.clock import Timer
    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Change, Record
    from kube_testserver.workloads.contract import Child, Object, WorkloadKind

__all__ = ["WorkloadControllers"]

#: How long changes are collected.
_PAUSE_SECONDS: Final = 0.01
#: The least pause after a run, in times that the run took.
_REST: Final = 4.0
#: When a workload is looked at again that could not be expanded; each time that it fails again doubles the time.
_RETRY_SECONDS: Final = 1.0
_RETRY_SECONDS_AT_MOST: Final = 60.0
#: Fields of the spec of a present object that follow its workload; pods do not change.
_FOLLOWED: Final = ("replicas", "suspend", "parallelism", "minMember", "minTaskMember", "minResources", "queue")

#: Kinds whose changes concern all workloads of another kind.
_READERS: Final = {"Node": "DaemonSet", "StorageClass": "PersistentVolumeClaim"}

_Place = tuple[str, str]
"""A collection and a key."""

_log = logging.getLogger(__name__)


@attrs.define
class _Failure:
    """A workload that cannot be expanded: the times that it failed in a row, its next attempt, and its event."""

    times: int = 0
    timer: Timer | None = None
    event: Record | None = None


class WorkloadControllers:
    """The controllers of all kinds of the table, on one embedded cluster. Run a garbage collector beside them."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._rows: dict[str, tuple[Resource, WorkloadKind]] = {}
        self._followers: list[Follower] = []
        #: By uid of the controller, the places of its objects, in the order of their creation.
        self._children: dict[str, dict[_Place, Resource]] = {}
        #: Decoded objects with controllers, which nobody changes.
        self._decoded: dict[_Place, tuple[Record, Object]] = {}
        self._due: dict[_Place, None] = {}
        self._pause = _PAUSE_SECONDS
        self._timer: Timer | None = None
        #: Workloads that could not be expanded.
        self._failures: dict[_Place, _Failure] = {}

    def start(self) -> None:
        """Define the kinds that the server does not know, then follow all workloads and their objects."""
        cluster = self._cluster
        for row in WORKLOAD_KINDS:
            if cluster.table.find_kind(_api_version(row), row.kind) is None:
                cluster.add(open_definition(row.group, row.kind, row.plural, [row.version]))
            resource = cluster.resource(_api_version(row), row.kind)
            self._rows[resource.collection] = (resource, row)
        others = (("v1", "Pod"), ("v1", "Node"), ("storage.k8s.io/v1", "StorageClass"))
        for resource in (
            *(resource for resource, _ in self._rows.values()),
            *(cluster.resource(*one) for one in others),
        ):
            follower = Follower(
                cluster.registry.collection(resource),
                clock=cluster.clock,
                listed=partial(self._list, resource),
                changed=partial(self._change, resource),
            )
            self._followers.append(follower)
            follower.start()

    def stop(self) -> None:
        """Leave all workloads as they are; idempotent."""
        for follower in self._followers:
            follower.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for place in list(self._failures):
            self._end_failure(place)

    # --- what changed ----------------------------------------------------------------------------

    def _list(self, resource: Resource, records: Sequence[Record]) -> None:
        for record in records:
            self._note(resource, record, is_deleted=False)

    def _change(self, resource: Resource, change: Change) -> None:
        self._note(resource, change.record, is_deleted=change.type == "DELETED")

    def _note(self, resource: Resource, record: Record, *, is_deleted: bool) -> None:
        place = (resource.collection, record.key)
        for owner in owners_of(record):
            if owner.controller:
                places = self._children.setdefault(owner.uid, {})
                if is_deleted:
                    places.pop(place, None)
                else:
                    places[place] = resource
        if is_deleted:
            self._decoded.pop(place, None)
            self._children.pop(record.uid, None)
            self._end_failure(place)
        if resource.kind in _READERS:
            self._schedule(
                (collection, one.key)
                for collection, (kind, _) in self._rows.items()
                if kind.kind == _READERS[resource.kind]
                for one in self._cluster.registry.collection(kind).page().records
            )
        else:
            self._schedule(self._line_of(place, record))

    def _line_of(self, place: _Place, record: Record | None) -> Iterable[_Place]:
        """Yield an object and the controllers above it."""
        while record is not None:
            yield place
            owner = controller_of(record)
            kind = owner and self._cluster.table.find_kind(owner.api_version, owner.kind)
            if owner is None or not kind:
                return
            place = (kind.collection, kind.key(record.namespace, owner.name))
            record = self._cluster.registry.collection(kind).get(place[1])

    def _schedule(self, places: Iterable[_Place]) -> None:
        self._due.update((place, None) for place in places if place[0] in self._rows)
        if self._due and self._timer is None:
            self._timer = self._cluster.clock.call_later(self._pause, self._run)

    # --- what is done ----------------------------------------------------------------------------

    def _run(self) -> None:
        """Look at all workloads that are due. The next pause is long enough to leave most of the time to others."""
        begun = self._cluster.clock.now()
        for follower in self._followers:
            follower.catch_up()
        due, self._due = self._due, {}
        self._timer = None
        for place in due:
            try:
                self._reconcile(place)
            except (
                NotExpandedError,
                ConfigError,
                StatusError,
                LookupError,
                TypeError,
                ValueError,
                AttributeError,
            ) as error:
                # A manifest may have anything where a number or a template belongs.
                self._note_failure(place, error)
            else:
                self._end_failure(place)
        self._pause = max(_PAUSE_SECONDS, _REST * (self._cluster.clock.now() - begun))

    def _note_failure(self, place: _Place, error: Exception) -> None:
        """Report that a workload could not be expanded, and look at it again later: what it needs may exist then."""
        failure = self._failures.setdefault(place, _Failure())
        if not failure.times:
            text = error if isinstance(error, NotExpandedError) else f"{type(error).__name__}: {error}"
            _log.warning("workload=%s/%s was not expanded: %s", *place, text)
        if isinstance(error, NotExpandedError):
            resource, row = self._rows[place[0]]
            record = self._cluster.registry.collection(resource).get(place[1])
            if record is not None:
                failure.event = record_warning(
                    self._cluster.registry,
                    resource,
                    record,
                    error.reason,
                    error.message,
                    component=row.component,
                    last=failure.event,
                )
        if failure.timer is not None:
            failure.timer.cancel()
        pause = min(_RETRY_SECONDS * 2.0 ** min(failure.times, 16), _RETRY_SECONDS_AT_MOST)
        failure.timer = self._cluster.clock.call_later(pause, partial(self._schedule, [place]))
        failure.times += 1

    def _end_failure(self, place: _Place) -> None:
        """Forget that a workload could not be expanded."""
        failure = self._failures.pop(place, None)
        if failure is not None and failure.timer is not None:
            failure.timer.cancel()

    def _reconcile(self, place: _Place) -> None:
        resource, row = self._rows[place[0]]
        record = self._cluster.registry.collection(resource).get(place[1])
        if record is None:
            return
        obj = resource.view(record.decode())
        if "deletionTimestamp" in obj["metadata"] or not isinstance(obj.get("spec"), dict):
            return
        plan = row.rule(obj, self)
        wanted = Counter[tuple[str, str, str]]()
        for child in plan.children:
            owner = child.owner or obj
            wanted[_slot(uid_of(owner), child.obj)] += child.count
        problem = None
        try:
            for child in plan.children:
                self._ensure(child, obj, wanted)
        except NotExpandedError as error:
            # As in kube-controller-manager, no more is created now, but the rest is done.
            problem = error
        for present in self.children(obj):
            if present["kind"] in row.makes and _slot(uid_of(obj), present) not in wanted and is_active(present):
                self._delete(present)
        status = plan.status
        if plan.reports_failure:
            conditions = (obj.get("status") or {}).get("conditions") or ()
            status = {**status, "conditions": with_replica_failure(conditions, problem, self.now())}
        # A claim is bound only to a volume that exists.
        if problem is None or not plan.change:
            self._update(resource, record, plan.change, status)
        if problem is not None:
            raise problem

    def _ensure(self, child: Child, workload: Object, wanted: Counter[tuple[str, str, str]]) -> None:
        """Create what is missing of a child, delete what is too much, and update the fields that follow."""
        owner = child.owner or workload
        slot = _slot(uid_of(owner), child.obj)
        if "name" in child.obj["metadata"]:
            present = self._find(child, owner)
            if present is None:
                self._create(child, workload)
            elif child.replace_failed and phase_of(present) == "Failed":
                self._delete(present)
            elif present["kind"] != "Pod" and child.owned:
                self._follow(present, child.obj)
            return
        present_ones = [one for one in self.children(owner) if _slot(uid_of(owner), one) == slot]
        if child.replace_failed:
            for failed in (one for one in present_ones if phase_of(one) == "Failed"):
                self._delete(failed)
        alive = [one for one in present_ones if is_active(one)]
        # Pods without a node are deleted first, then the youngest.
        alive.sort(key=lambda one: not (one.get("spec") or {}).get("nodeName"))
        for surplus in alive[wanted[slot] :]:
            self._delete(surplus)
        for _ in range(wanted[slot] - len(alive)):
            self._create(child, workload)

    def _find(self, child: Child, owner: Object) -> Object | None:
        """Return the object that has the name of a child."""
        resource = self._cluster.resource_of(child.obj)
        key = resource.key(_namespace(owner), name_of(child.obj))
        record = self._cluster.registry.collection(resource).get(key)
        return None if record is None else resource.view(record.decode())

    def _create(self, child: Child, workload: Object) -> None:
        owner = child.owner or workload
        resource = self._cluster.resource_of(child.obj)
        namespace = _namespace(owner) if resource.namespaced else ""
        metadata = dict(child.obj["metadata"])
        if child.owned:
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
            reference |= {"name": name_of(owner), "uid": uid_of(owner)}
            metadata["ownerReferences"] = [{**reference, "controller": True, "blockOwnerDeletion": True}]
        try:
            record = self._cluster.registry.create(resource, namespace, {**child.obj, "metadata": metadata})
        except StatusError as error:
            raise creation_problem(workload, child.obj, str(error)) from error
        if child.owned:
            self._children.setdefault(uid_of(owner), {})[resource.collection, record.key] = resource
        if "status" in child.obj:
            self._update(resource, record, {}, child.obj["status"])

    def _delete(self, obj: Object) -> None:
        resource = self._cluster.resource_of(obj)
        self._cluster.registry.delete(resource, _namespace(obj), name_of(obj), DeleteOptions())

    def _follow(self, present: Object, wanted: Object) -> None:
        """Update the fields of an object that follow its workload."""
        changed = {
            field: wanted["spec"][field]
            for field in _FOLLOWED
            if field in wanted["spec"] and present["spec"].get(field) != wanted["spec"][field]
        }
        if changed:
            resource = self._cluster.resource_of(present)
            record = self._cluster.registry.get(resource, _namespace(present), name_of(present))
            self._update(resource, record, {"spec": changed}, {})

    def _update(self, resource: Resource, record: Record, change: Object, status: Object) -> None:
        """Write fields of an object, and of its status; without a change nothing is written."""
        registry = self._cluster.registry
        if change:
            record = registry.change(resource, record, apply_merge_patch(record.decode(), change))
        if status:
            subresource = "status" if resource.has_status else ""
            registry.change(
                resource, record, apply_merge_patch(record.decode(), {"status": status}), subresource=subresource
            )

    # --- what rules read -------------------------------------------------------------------------

    def children(self, owner: Object) -> Sequence[Object]:
        """Return the objects whose controller is `owner`, oldest first."""
        found = []
        for (_, key), resource in list(self._children.get(uid_of(owner), {}).items()):
            record = self._cluster.registry.collection(resource).get(key)
            if record is not None:
                found.append(self._decode(resource, record))
        return found

    def _decode(self, resource: Resource, record: Record) -> Object:
        """Return an object as the rules read it; decode it only if it changed."""
        known = self._decoded.get((resource.collection, record.key))
        if known is None or known[0] is not record:
            known = self._decoded[resource.collection, record.key] = (record, resource.view(record.decode()))
        return known[1]

    def nodes(self) -> Sequence[Object]:
        """Return all nodes."""
        return self._cluster.nodes()

    def priority_of(self, name: str) -> int:
        """Return the value of a PriorityClass; 0 if there is none of that name."""
        record = self._cluster.registry.collection(PRIORITY_CLASSES).get(name)
        return 0 if record is None else as_int(record.decode().get("value"), 0)

    def storage_class(self, name: str) -> Object | None:
        """Return the StorageClass of that name."""
        resource = self._cluster.resource("storage.k8s.io/v1", "StorageClass")
        record = self._cluster.registry.collection(resource).get(name)
        return None if record is None else self._decode(resource, record)

    def now(self) -> str:
        """Return the present time, as timestamps of objects have it."""
        return format_time(self._cluster.clock.wall())


def _slot(owner: str, obj: Object) -> tuple[str, str, str]:
    """Return what is counted: objects of one controller and kind with one name, or one beginning of it, and node."""
    metadata = obj["metadata"]
    spec: Any = obj.get("spec") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {} if isinstance(spec, dict) else {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [field for term in required.get("nodeSelectorTerms") or () for field in term.get("matchFields") or ()]
    node = fields[0]["values"][0] if fields else ""
    return owner, obj["kind"], f"{metadata.get('generateName') or metadata['name']}@{node}"


def _namespace(obj: Object) -> str:
    namespace: str = obj["metadata"].get("namespace") or ""
    return namespace


def _api_version(row: WorkloadKind) -> str:
    return f"{row.group}/{row.version}" if row.group else row.version
