"""The scheduler's client of a `TypedCluster` (a cluster in memory): informers, reads and writes without HTTP."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from kube_objects.codec import ADDED, DELETED, MODIFIED
from kube_objects.selector_text import parse_label_selector
from pyscheduler.api import BUILT_IN_KINDS, EndedPod, KindTable, KubeObject, Pod, decode, encode
from pyscheduler.cluster.real.local_copy import CopyLister
from pyscheduler.cluster.real.pacing import Slices
from pyscheduler.cluster.real.rate_limit import TokenBucket
from pyscheduler.framework.errors import TransportError
from pyscheduler.scheduler.ports import Transport
from pyscheduler_lab.simulation.decisions.typed_cluster import WAITS

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import Malformed, ResourceKind
    from pyscheduler.config.types import Extender
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, ExtenderConnection
    from pyscheduler_lab.simulation.decisions.typed_cluster import Collection, TypedCluster

__all__ = ["TypedClient", "TypedTransport"]

K = TypeVar("K", bound=KubeObject)


class TypedTransport(Transport):
    """Connects schedulers to a `TypedCluster`; it carries no bytes."""

    def __init__(self, cluster: TypedCluster) -> None:
        self._cluster = cluster

    async def request(self, method: str, path: str, **_options: object) -> NoReturn:
        """Refuse: `TransportError`."""
        raise TransportError(f"{method} {path}: this cluster has no API server")

    def stream(self, path: str, **_options: object) -> NoReturn:
        """Refuse: `TransportError`."""
        raise TransportError(f"watch {path}: this cluster has no API server")

    def connect(
        self,
        settings: ClientSettings,
        *,
        clock: Clock,
        rng: random.Random,  # noqa: ARG002 - the Protocol's
        recorder: Recorder,
    ) -> TypedClient:
        """Return the client of the cluster."""
        return TypedClient(self._cluster, settings, clock=clock, recorder=recorder)

    def extender(self, config: Extender) -> ExtenderConnection:
        """Return the connection to an extender, which is HTTP."""
        from pyscheduler.cluster.real.extender import HTTPExtenderConnection  # noqa: PLC0415 - few need to load it

        return HTTPExtenderConnection(config)

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class TypedInformer(CopyLister[KubeObject]):
    """Lists a collection, then hands every change to the handlers, one turn of the event loop after it."""

    def __init__(
        self, cluster: TypedCluster, kind: ResourceKind, collection: Collection, recorder: Recorder, *, is_live: bool
    ) -> None:
        super().__init__(kind.plural, recorder)
        self._cluster = cluster
        self._kind = kind
        self._collection = collection
        #: Pods that have ended are left out.
        self._is_live = is_live
        self._settled = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._news: deque[tuple[str, KubeObject | None]] = deque()
        self._is_scheduled = False
        self._slices = Slices(cluster.clock)
        #: The event loop turned for the next change.
        self._has_turned = False
        self._is_listed = False
        #: Some objects are left out.
        self._is_selective = is_live or kind.type is EndedPod

    @property
    def synced(self) -> bool:
        """Return True if the copy is complete."""
        return self._is_listed

    def start(self) -> None:
        """Begin to list and follow."""
        if self._task is None:
            self._task = asyncio.create_task(self._list(), name=f"informer {self._kind.plural}")

    async def wait_synced(self) -> None:
        """Return when the objects were listed, or the kind is known not to be served."""
        await self._settled.wait()

    async def catch_up(self) -> None:
        """Do nothing: the copy is never behind for more than a turn."""

    def add_unreadable_handler(self, callback: Callable[[Malformed, bool], None]) -> None:
        """Do nothing: objects that cannot be read are not in the cluster."""

    def stop(self) -> None:
        """Follow no more; idempotent."""
        if self._task is not None:
            self._task.cancel()
        self._collection.forget(self._changed, self._omitted, self._begin)
        self._news.clear()

    async def _list(self) -> None:
        await asyncio.sleep(0)
        if self._collection.is_served:
            self._begin()
        else:
            self._collection.on_served.append(self._begin)
        self._settled.set()

    def _begin(self) -> None:
        if not self._is_listed:
            self._is_listed = True
            self._collection.listeners.append(self._changed)
            if self._kind.type is not EndedPod:
                self._collection.on_omitted.append(self._omitted)
            for item in [*self._collection.in_order()]:
                self._apply(ADDED, item)

    def _changed(self, change: str, item: KubeObject | None = None) -> None:
        self._news.append((change, item))
        if not self._is_scheduled:
            self._schedule()

    def _omitted(self) -> None:
        """Take a turn for a change that is not announced, so that later changes arrive as with an API server."""
        self._changed("")

    def _deliver(self) -> None:
        """Pass the changes to the handlers in slices, as a watch does."""
        self._is_scheduled = False
        news = self._news
        while news:
            if not self._has_turned and self._slices.is_over():
                self._has_turned = True
                self._schedule()
                return
            self._has_turned = False
            change, item = news.popleft()
            if item is not None:
                self._apply(change, item)

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def _apply(self, change: str, item: KubeObject) -> None:
        """Pass a change to the handlers; for them, an object that is not selected any more is deleted."""
        if self._is_selective:
            assert isinstance(item, Pod), "only pods are selected by their fields"
            is_selected = item.is_terminal != self._is_live
            known = self._copy.get(item.key)
            if not is_selected or change == DELETED:
                if known is None:
                    return
                change = DELETED
            else:
                change = MODIFIED if known is not None else ADDED
            if self._kind.type is EndedPod:
                item = decode(EndedPod, encode(item))
        if self._keep is not None and change != DELETED:
            self._keep(item, self._cluster.text_of(item))
        self._copy.apply(change, item)


class _NoEvents:
    """Drops events."""

    def event(self, regarding: object, **fields: Any) -> None:
        """Drop the event."""


class TypedClient:
    """Reads and writes a `TypedCluster`; see `scheduler.ports.ClusterClient`."""

    def __init__(self, cluster: TypedCluster, settings: ClientSettings, *, clock: Clock, recorder: Recorder) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._kinds = KindTable(BUILT_IN_KINDS)
        self._limiter = TokenBucket(qps=settings.qps, burst=settings.burst, clock=clock)
        self._informers: dict[tuple[ResourceKind, bool], TypedInformer] = {}

    @property
    def idle(self) -> bool:
        """Return True: no event waits to be written."""
        return True

    def informer(self, kind: ResourceKind, *, field_selector: str = "", optional: bool = False) -> TypedInformer:  # noqa: ARG002 - the Protocol's
        """Return the one informer of that kind, not started; a field selector leaves out the pods that have ended."""
        self._kinds.register(kind)
        is_live = bool(field_selector) and not kind.field_selector
        found = self._informers.get((kind, is_live))
        if found is None:
            collection = self._cluster.collection(kind)
            found = TypedInformer(self._cluster, kind, collection, self._recorder, is_live=is_live)
            self._informers[kind, is_live] = found
        return found

    def event_recorder(self, reporting_controller: str) -> _NoEvents:  # noqa: ARG002 - the Protocol's
        """Return a recorder that drops events."""
        return _NoEvents()

    async def close(self) -> None:
        """Stop the informers."""
        for informer in self._informers.values():
            informer.stop()

    # Reads

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object; raise `NotFoundError` if it does not exist."""
        await self._turn()
        return self._cluster.existing(kind, name, namespace)

    async def list(self, kind: type[K], namespace: str = "", *, label_selector: str = "") -> Sequence[K]:
        """Read all objects."""
        await self._turn()
        found = self._cluster.objects(kind, namespace)
        if not label_selector:
            return found
        selector = parse_label_selector(label_selector)
        return [each for each in found if selector.matches(each.labels)]

    async def pages(
        self,
        kind: type[K],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        keep: Callable[[KubeObject, bytes], object] | None = None,
    ) -> AsyncIterator[Sequence[K]]:
        """Read all objects as one page; a field selector leaves out the pods that have ended."""
        found = await self.list(kind, namespace, label_selector=label_selector)
        page = [each for each in found if not (field_selector and isinstance(each, Pod) and each.is_terminal)]
        for each in page if keep is not None else ():
            cast("Callable[[KubeObject, bytes], object]", keep)(each, self._cluster.text_of(each))
        yield page

    # Writes

    async def patch(
        self, kind: type[K], name: str, namespace: str = "", *, patch: Mapping[str, object], status: bool = False
    ) -> K:
        """Apply a JSON merge patch, to the status if asked."""
        await self._turn()
        return self._cluster.patch(kind, name, namespace, patch=patch, status=status)

    async def create(self, kind: type[K], body: Mapping[str, object], namespace: str = "") -> K:
        """Create an object."""
        await self._turn()
        metadata = {**cast("Mapping[str, object]", body.get("metadata") or {})}
        if namespace:
            metadata["namespace"] = namespace
        manifest = {**body, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        return cast("K", self._cluster.create(manifest))

    async def delete(self, kind: type[K], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object, only if it has that `uid` where one is given."""
        await self._turn()
        self._cluster.delete(kind, name, namespace, uid=uid)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod; raise `NotFoundError` if it is gone, `ConflictError` if it may not be bound."""
        await self._turn()
        self._cluster.bind(pod, node_name)

    async def evict(self, pod: Pod, *, grace_seconds: int | None = None) -> None:  # noqa: ARG002 - the Protocol's
        """Delete a pod with its own grace period. Differs from an API server: disruption budgets are not considered."""
        await self._turn()
        self._cluster.delete(Pod, pod.name, pod.namespace, uid=pod.uid)

    async def patch_pod_status(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Apply a strategic merge patch to a pod's status; announce no condition that only says why the pod waits."""
        await self._turn()
        status = patch["status"]
        if status.keys() == {"conditions"} and [each["type"] for each in status["conditions"]] == [WAITS]:
            self._cluster.note_wait(pod, status["conditions"][0])
        else:
            self._cluster.patch_pod_status(pod, patch)

    async def _turn(self) -> None:
        if not self._limiter.unlimited:
            await self._limiter.acquire()
        await asyncio.sleep(0)
