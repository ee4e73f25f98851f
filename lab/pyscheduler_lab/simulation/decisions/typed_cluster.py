"""The objects of a cluster, decoded and in memory, without an API server.

A `TypedCluster` fills in defaults, sets the priority from a pod's PriorityClass, binds pods, and applies patches.

Differs from an API server: there is no validation, and there are no quotas, webhooks or permissions.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import attrs
import msgspec
from msgspec.structs import replace

from kube_objects.codec import ADDED, DELETED, MODIFIED
from kube_objects.kinds import NODES, PODS
from kube_objects.times import format_time
from kube_testserver.patching.json_patches import apply_merge_patch
from kube_testserver.patching.strategic_merge import apply_strategic_patch
from kube_testserver.resources.builtin import BUILTIN_RESOURCES
from kube_testserver.rules.defaults import apply_defaults, prepare_creation
from kube_testserver.schema.merge_keys import merge_lists
from kube_testserver.wire import name_ending, new_uid
from pyscheduler.api import (
    BUILT_IN_KINDS,
    DecodeError,
    KubeObject,
    Namespace,
    ObjectMeta,
    Pod,
    PodCondition,
    PriorityClass,
    decode,
    encode,
)
from pyscheduler.framework.errors import AlreadyExistsError, ConfigError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import PodSpec, PodStatus, ResourceKind

__all__ = ["WAITS", "Binding", "Collection", "TypedCluster"]

K = TypeVar("K", bound=KubeObject)

Manifest = dict[str, Any]

#: The condition that says why a pod waits.
WAITS: Final = "PodScheduled"

_DEFINITION: Final = "CustomResourceDefinition"
_DEFAULT_NAMESPACE: Final = "default"
_TOPOLOGY_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
#: Fields of a spec in which the server merges values of the pod's labels.
_READS_LABELS: Final = ("affinity", "topologySpreadConstraints")
_SERVED: Final = frozenset((each.api_version, each.kind) for each in BUILTIN_RESOURCES)
#: When so many specs are known, all are forgotten.
_SPECS: Final = 1 << 14


class Binding(NamedTuple):
    """A pod that was bound: when, in seconds; the pod's key or name; the name of the node."""

    time: float
    pod: str
    node: str


@attrs.define(eq=False, kw_only=True)
class Collection:
    """The objects of one kind by key (`namespace/name`, or the bare name)."""

    #: None until a plugin names the type of the kind.
    kind: ResourceKind | None
    is_served: bool
    items: dict[str, KubeObject] = attrs.Factory(dict)
    #: The objects of a kind whose type is not known yet.
    manifests: dict[str, Manifest] = attrs.Factory(dict)
    #: What the objects of types with few fields were decoded from.
    sources: dict[str, Manifest] = attrs.Factory(dict)
    #: Called with each change (`ADDED`, `MODIFIED`, `DELETED`) and the object; must not write.
    listeners: list[Callable[[str, KubeObject], object]] = attrs.Factory(list)
    #: Called for each change that an API server announces and this cluster does not.
    on_omitted: list[Callable[[], object]] = attrs.Factory(list)
    #: Called when the kind is served from now on.
    on_served: list[Callable[[], object]] = attrs.Factory(list)

    def forget(self, *callbacks: object) -> None:
        """Call none of these any more."""
        self.listeners = [each for each in self.listeners if each not in callbacks]
        self.on_omitted = [each for each in self.on_omitted if each not in callbacks]
        self.on_served = [each for each in self.on_served if each not in callbacks]

    def announce(self, change: str, item: KubeObject) -> None:
        """Call the listeners with a change."""
        for listener in self.listeners:
            listener(change, item)

    def omit(self) -> None:
        """Announce that a change is not announced."""
        for call in self.on_omitted:
            call()

    def in_order(self) -> Iterator[KubeObject]:
        """Yield the objects in the order of their keys, in which an API server lists them."""
        for key in sorted(self.items):
            yield self.items[key]


class TypedCluster:
    """A cluster of typed objects; `clock` gives its time, `rng` its uids and names.

    With `serves_all`, every kind that a plugin reads exists. Without it, a kind that is not built in exists once its
    CustomResourceDefinition was added.
    """

    def __init__(self, *, clock: Clock, rng: random.Random | None = None, serves_all: bool = True) -> None:
        self.clock = clock
        self._rng = rng if rng is not None else random.Random()
        self._serves_all = serves_all
        self._collections: dict[tuple[str, str], Collection] = {}
        self._version = 0
        self._specs: dict[bytes, tuple[PodSpec, PodStatus, Manifest]] = {}
        for kind in BUILT_IN_KINDS:
            self.collection(kind)
        self._pods = self.collection(PODS)
        self._nodes = self.collection(NODES)
        self._classes = self._named("scheduling.k8s.io/v1", "PriorityClass")
        self._namespaces = self._named("v1", "Namespace")
        # The priority of a spec depends on the classes.
        self._classes.listeners.append(lambda _change, _item: self._specs.clear())
        #: All bindings so far, in order.
        self.bindings: list[Binding] = []

    # --- kinds -----------------------------------------------------------------------------------

    def collection(self, kind: ResourceKind) -> Collection:
        """Return the objects of a kind; decode those that were added before its type was known."""
        found = self._named(kind.api_version, kind.kind)
        if found.kind is None:
            found.kind = kind
            for manifest in found.manifests.values():
                item = self._decoded(kind.type, manifest)
                found.items[item.key] = item
            found.manifests.clear()
        return found

    def collection_of(self, type_: type[KubeObject]) -> Collection:
        """Return the objects of a type."""
        return self._named(type_.api_version, type_.kind)

    def _named(self, api_version: str, kind: str) -> Collection:
        found = self._collections.get((api_version, kind))
        if found is None:
            served = self._serves_all or (api_version, kind) in _SERVED
            found = self._collections[api_version, kind] = Collection(kind=None, is_served=served)
        return found

    def _serve(self, definition: Manifest) -> None:
        spec = definition["spec"]
        for version in spec["versions"]:
            collection = self._named(f"{spec['group']}/{version['name']}", spec["names"]["kind"])
            collection.is_served = True
            for call in collection.on_served:
                call()

    # --- reading ---------------------------------------------------------------------------------

    def get(self, kind: type[K], name: str, namespace: str = "") -> K | None:
        """Return one object, or None."""
        return cast("K | None", self.collection_of(kind).items.get(_key(namespace, name)))

    def existing(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Return one object; raise `NotFoundError` if it does not exist."""
        found = self.get(kind, name, namespace)
        if found is None:
            raise _not_found(kind.kind, name)
        return found

    def objects(self, kind: type[K], namespace: str = "") -> list[K]:
        """Return the objects of a kind in the order of their keys."""
        found = self.collection_of(kind).in_order()
        return [cast("K", each) for each in found if not namespace or each.namespace == namespace]

    def pods(self, namespace: str = "") -> list[Pod]:
        """Return all pods in the order of their keys."""
        return self.objects(Pod, namespace)

    @staticmethod
    def reason_of(pod: Pod) -> str:
        """Return why a pod waits, as its condition says it; "" if it does not, or was not tried."""
        return next((each.message for each in pod.status.conditions if each.type == WAITS and not pod.node_name), "")

    def text_of(self, item: KubeObject) -> bytes:
        """Return an object as JSON, with the fields that its type does not have."""
        source = self._named(item.api_version, item.kind).sources.get(item.key, {})
        typed = msgspec.to_builtins(item)
        spec = {**typed.get("spec", {}), **source.get("spec", {})}
        if isinstance(item, Pod) and item.node_name:
            spec["nodeName"] = item.node_name
        status = {**source.get("status", {}), **typed.get("status", {})}
        return msgspec.json.encode({**source, **typed, "spec": spec, "status": status})

    # --- creating --------------------------------------------------------------------------------

    def add(self, *objects: Manifest | KubeObject, uid: Callable[[], str] | None = None) -> None:
        """Create objects, in order: manifests, or typed objects, which are not completed.

        `uid` makes the uids of objects that have none. Raises `ConfigError` for an object that cannot be read, and
        `AlreadyExistsError`.
        """
        for each in objects:
            if isinstance(each, KubeObject):
                self._add_typed(each, uid)
            elif each.get("kind") == _DEFINITION:
                self._serve(each)
            else:
                self.create(each, uid=uid)

    def create(self, manifest: Manifest, *, uid: Callable[[], str] | None = None) -> KubeObject | None:
        """Create an object from its manifest; return it, or None if the type of its kind is not known yet."""
        api_version, kind_name = manifest.get("apiVersion") or "", manifest.get("kind") or ""
        collection = self._named(api_version, kind_name)
        kind = collection.kind
        metadata: Manifest = {**(manifest.get("metadata") or {})}
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + name_ending(self._rng)
        if kind is not None and kind.namespaced:
            metadata["namespace"] = metadata.get("namespace") or _DEFAULT_NAMESPACE
        if metadata.get("namespace"):
            self._ensure_namespace(metadata["namespace"])
        key = _key(metadata.get("namespace", ""), metadata["name"])
        self._check_free(collection, key, kind_name)
        metadata["uid"] = metadata.get("uid") or self._next_uid(uid)
        metadata.setdefault("creationTimestamp", self._now())
        metadata.setdefault("generation", 1)
        metadata["resourceVersion"] = self._next_version()
        if kind is None:
            collection.manifests[key] = {**manifest, "metadata": metadata}
            return None
        item = self._pod(manifest, metadata) if kind is PODS else self._other(collection, kind, manifest, metadata)
        self._insert(collection, key, item)
        return item

    def _add_typed(self, item: KubeObject, uid: Callable[[], str] | None) -> None:
        collection = self._named(item.api_version, item.kind)
        if item.namespace:
            self._ensure_namespace(item.namespace)
        self._check_free(collection, item.key, item.kind)
        metadata = replace(
            item.metadata,
            uid=item.uid or self._next_uid(uid),
            resource_version=self._next_version(),
            creation_timestamp=item.metadata.creation_timestamp or self._now(),
        )
        self._insert(collection, item.key, replace(item, metadata=metadata))

    def _insert(self, collection: Collection, key: str, item: KubeObject) -> None:
        collection.items[key] = item
        collection.announce(ADDED, item)

    def _check_free(self, collection: Collection, key: str, kind: str) -> None:
        if key in collection.items or key in collection.manifests:
            raise AlreadyExistsError(f"{kind} {key} already exists", status=409, reason="AlreadyExists")

    def _ensure_namespace(self, name: str) -> None:
        if name not in self._namespaces.items:
            labels = {"kubernetes.io/metadata.name": name}
            self._add_typed(Namespace(metadata=ObjectMeta(name=name, labels=labels)), None)

    def _pod(self, manifest: Manifest, metadata: Manifest) -> Pod:
        """Return a new pod: with defaults, the priority of its class, and a first status."""
        spec = manifest.get("spec") or {}
        labels = metadata.get("labels") if any(name in spec for name in _READS_LABELS) else None
        same = msgspec.json.encode((spec, labels))
        known = self._specs.get(same)
        if known is None:
            if len(self._specs) >= _SPECS:
                self._specs.clear()
            whole: Manifest = msgspec.json.decode(msgspec.json.encode({"metadata": metadata, "spec": spec}))
            apply_defaults(PODS.plural, whole)
            self._give_priority(whole["spec"])
            prepare_creation(PODS.plural, whole, self._now())
            pod = self._decoded(Pod, whole)
            known = self._specs[same] = pod.spec, pod.status, {"spec": whole["spec"]}
        of_spec, status, source = known
        if manifest.get("status"):
            whole = apply_merge_patch(msgspec.to_builtins(status), manifest["status"])
            status = self._decoded(Pod, {"metadata": metadata, "status": whole}).status
        pod = Pod(metadata=self._metadata(metadata), spec=of_spec, status=status)
        self._pods.sources[pod.key] = source
        return pod

    def _give_priority(self, spec: Manifest) -> None:
        classes = [each for each in self._classes.items.values() if isinstance(each, PriorityClass)]
        name = spec.get("priorityClassName")
        if name or spec.get("priority") is not None:
            chosen = next((each for each in classes if each.name == name), None)
        else:
            chosen = min((each for each in classes if each.global_default), key=lambda each: each.value, default=None)
        if chosen is not None:
            spec["priorityClassName"], spec["priority"] = chosen.name, chosen.value
        spec["priority"] = spec.get("priority") or 0
        policy = chosen.preemption_policy if chosen is not None else ""
        spec["preemptionPolicy"] = spec.get("preemptionPolicy") or policy or "PreemptLowerPriority"

    def _other(self, collection: Collection, kind: ResourceKind, manifest: Manifest, metadata: Manifest) -> KubeObject:
        whole: Manifest = {**manifest, "metadata": metadata}
        if (kind.api_version, kind.kind) in _SERVED:
            whole = msgspec.json.decode(msgspec.json.encode(whole))
            apply_defaults(kind.plural if not kind.group else f"{kind.plural}.{kind.group}", whole)
        item = self._decoded(kind.type, whole)
        if kind is NODES:
            collection.sources[item.key] = whole
        return item

    def _decoded(self, type_: type[K], manifest: Manifest) -> K:
        try:
            return decode(type_, msgspec.json.encode(manifest))
        except DecodeError as error:
            raise ConfigError(f"{type_.kind} {(manifest.get('metadata') or {}).get('name')}: {error}") from error

    def _metadata(self, metadata: Manifest) -> ObjectMeta:
        try:
            return msgspec.convert({name: each for name, each in metadata.items() if each is not None}, ObjectMeta)
        except msgspec.ValidationError as error:
            raise ConfigError(f"metadata of {metadata.get('name')}: {error}") from error

    def _next_uid(self, uid: Callable[[], str] | None) -> str:
        return uid() if uid is not None else new_uid(self._rng)

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def _now(self) -> str:
        return format_time(self.clock.wall())

    # --- changing --------------------------------------------------------------------------------

    def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod; raise `NotFoundError` if this very pod is gone, `ConflictError` if it may not be bound."""
        found = self._present(pod)
        why = _refusal(found)
        if why:
            message = f'Operation cannot be fulfilled on pods/binding "{pod.name}": {why}'
            raise ConflictError(message, status=409, reason="Conflict")
        node = self._nodes.items.get(node_name)
        labels = {name: node.labels[name] for name in _TOPOLOGY_LABELS if name in node.labels} if node else {}
        metadata = replace(found.metadata, labels={**found.labels, **labels}) if labels else found.metadata
        self.bindings.append(Binding(self.clock.now(), found.key, node_name))
        spec = replace(found.spec, node_name=node_name)
        status = found.status
        if status.conditions or status.nominated_node_name:
            status = replace(status, nominated_node_name="", conditions=_without_wait(status))
        self.put(found, replace(found, metadata=metadata, spec=spec, status=status))

    def put(self, old: K, new: K) -> K:
        """Store `new` in the place of `old`, which is the present state; return it with its version."""
        collection = self._named(old.api_version, old.kind)
        metadata = replace(new.metadata, resource_version=self._next_version())
        new = replace(new, metadata=metadata)
        is_released = not metadata.finalizers and not metadata.deletion_grace_period_seconds
        if metadata.deletion_timestamp and is_released:
            self._drop(collection, new)
            return new
        collection.items[new.key] = new
        collection.announce(MODIFIED, new)
        return new

    def patch(
        self, kind: type[K], name: str, namespace: str = "", *, patch: Mapping[str, Any], status: bool = False
    ) -> K:
        """Apply a JSON merge patch, to the status if asked, and to everything else if not; return the new state.

        Raises `NotFoundError`, and `ConflictError` if the patch names another version or uid than the present one.
        """
        old = self.existing(kind, name, namespace)
        _check_preconditions(old, patch.get("metadata") or {})
        wanted = {"status": patch.get("status")} if status else {key: patch[key] for key in patch if key != "status"}
        before = _manifest(old)
        whole = apply_merge_patch(before, wanted)
        metadata = whole["metadata"]
        for field in ("name", "namespace", "uid", "resourceVersion"):
            if field in before["metadata"]:
                metadata[field] = before["metadata"][field]
        if whole == before:
            return old
        if not status and metadata.get("generation") and (wanted.keys() - {"metadata"}):
            metadata["generation"] += 1
        return self.put(old, self._decoded(kind, whole))

    def patch_pod_status(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Apply a strategic merge patch to a pod's status, in which conditions merge by type."""
        found = self._present(pod)
        lists = merge_lists("", "v1", "Pod")
        before = _manifest(found)
        whole = apply_strategic_patch(lists, before, {"status": patch.get("status") or {}})
        if whole != before:
            self.put(found, self._decoded(Pod, whole))

    def note_wait(self, pod: Pod, condition: Mapping[str, Any]) -> None:
        """Write why a pod waits; raise `NotFoundError` if the pod is gone.

        The change is announced only if the pod is nominated: each update of such a pod counts as a new nomination.
        """
        found = self._present(pod)
        if found.node_name:
            return
        noted = msgspec.convert(condition, PodCondition)
        status = replace(found.status, conditions=(noted, *_without_wait(found.status)))
        new = replace(found, status=status)
        if status.nominated_node_name:
            self.put(found, new)
        else:
            self._pods.items[found.key] = new
            self._pods.omit()

    def _present(self, pod: Pod) -> Pod:
        """Return the present state of a pod; raise `NotFoundError` if the pod is gone, or was created again."""
        found = self.existing(Pod, pod.name, pod.namespace)
        if found.uid != pod.uid:
            raise NotFoundError(f"pod {pod.key} was deleted and made anew", status=404, reason="NotFound")
        return found

    # --- deleting --------------------------------------------------------------------------------

    def remove(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object at once; raise `NotFoundError` if it does not exist."""
        collection = self._named(api_version, kind)
        key = _key(namespace, name)
        item = collection.items.get(key)
        if item is not None:
            self._drop(collection, item)
        elif collection.manifests.pop(key, None) is None:
            raise _not_found(kind, name)

    def delete(self, kind: type[KubeObject], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object as a client does: a pod on a node gets its grace period, finalizers are waited for.

        Raises `NotFoundError`, and `ConflictError` if the object has another uid.
        """
        item = self.existing(kind, name, namespace)
        _check_preconditions(item, {"uid": uid})
        period = _grace_seconds(item) if isinstance(item, Pod) else 0
        if not period and not item.metadata.finalizers:
            self._drop(self.collection_of(kind), item)
        elif item.metadata.deletion_timestamp is None:
            end = format_time(self.clock.wall() + period)
            metadata = replace(
                item.metadata,
                deletion_timestamp=end,
                deletion_grace_period_seconds=period,
                generation=item.metadata.generation + bool(item.metadata.generation),
            )
            self.put(item, replace(item, metadata=metadata))

    def _drop(self, collection: Collection, item: KubeObject) -> None:
        del collection.items[item.key]
        collection.sources.pop(item.key, None)
        if collection is self._pods:
            collection.omit()  # a pod is marked first, even if it is deleted at once
        gone = replace(item, metadata=replace(item.metadata, resource_version=self._next_version()))
        collection.announce(DELETED, gone)


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _manifest(item: KubeObject) -> Manifest:
    manifest: Manifest = msgspec.json.decode(encode(item))  # has lists, where `to_builtins` has tuples
    return manifest


def _not_found(kind: str, name: str) -> NotFoundError:
    return NotFoundError(f'{kind} "{name}" not found', status=404, reason="NotFound")


def _without_wait(status: PodStatus) -> tuple[PodCondition, ...]:
    return tuple(each for each in status.conditions if each.type != WAITS)


def _refusal(pod: Pod) -> str:
    """Return why a pod may not be bound, as the API server says it; "" if it may."""
    if pod.is_terminating:
        return f"pod {pod.name} is being deleted, cannot be assigned to a host"
    if pod.node_name:
        return f'pod {pod.name} is already assigned to node "{pod.node_name}"'
    if pod.spec.scheduling_gates:
        return f"pod {pod.name} has non-empty .spec.schedulingGates"
    return ""


def _check_preconditions(item: KubeObject, wanted: Mapping[str, Any]) -> None:
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != item.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {item.uid}"
    elif version and version != item.resource_version:
        why = "the object has been modified; please apply your changes to the latest version and try again"
    else:
        return
    raise ConflictError(f"{item.kind} {item.key}: {why}", status=409, reason="Conflict")


def _grace_seconds(pod: Pod) -> int:
    """Return the grace period of a pod that is to be deleted: none if it runs nowhere."""
    if not pod.node_name or pod.is_terminal:
        return 0
    period = pod.spec.termination_grace_period_seconds or 0
    return period if period >= 0 else 1
