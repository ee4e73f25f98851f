"""The two simulated clusters for traces of jobs: one has an API server, the other only keeps objects in memory.

The cluster without an API server is faster. Both clusters lead to the same decisions at the same virtual times.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import attrs
import msgspec

from kube_objects.codec import DELETED
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.controllers.follower import Follower
from kube_testserver.patching.requests import PatchOptions, apply_patch
from kube_testserver.resources.builtin import NODES, PODS
from kube_testserver.schema.unknown_fields import FieldCheck
from pyscheduler.api import KubeObject, Node, Pod, decode
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler_lab.simulation.decisions.node_agents import Feed, NodeAgents
from pyscheduler_lab.simulation.decisions.typed_client import TypedTransport
from pyscheduler_lab.simulation.decisions.typed_cluster import TypedCluster

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kube_objects.clock import Clock
    from kube_objects.taints import Toleration
    from kube_testserver.store import Change, Record
    from pyscheduler.cluster.real.client import RealClient
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.ports import ClientSettings, Stream, Transport

__all__ = ["FIDELITIES", "DecisionCluster", "Fidelity", "PodFeed", "PodObserver", "ReplayCluster", "ServedCluster"]

Manifest: TypeAlias = dict[str, Any]
Fidelity: TypeAlias = Literal["full", "decisions"]
FIDELITIES: Final[tuple[Fidelity, ...]] = ("full", "decisions")
"""`full` runs an API server; `decisions` keeps typed objects."""

#: Number of changes that the server keeps for watches; no watch is behind by more than a few.
_HISTORY: Final = 4096
#: Requested duration of a watch, in seconds.
_FOR_EVER: Final = str(100 * 365 * 86400)


class PodObserver(Protocol):
    """Receives the changes of pods by name, a moment after each change."""

    def listed(self, names: Collection[str]) -> None:
        """Note that only these pods exist."""
        ...

    def bound(self, name: str, node: str) -> None:
        """Note that a pod has a node; it may have been noted before."""
        ...

    def lost(self, name: str) -> None:
        """Note that a pod is gone."""
        ...


class PodFeed(Protocol):
    """Hands the changes of pods to an observer."""

    def start(self) -> None:
        """Hand over the present pods, then every change."""
        ...

    def catch_up(self) -> None:
        """Hand over all pending changes now."""
        ...

    def stop(self) -> None:
        """Hand over no more changes; idempotent."""
        ...


class ReplayCluster(Protocol):
    """A cluster in virtual time, as far as replays use it."""

    def transport(self) -> Transport:
        """Return the scheduler's connection to the cluster."""
        ...

    def follow(self, observer: PodObserver) -> PodFeed:
        """Return a feed of pods for an observer, not started."""
        ...

    def start(self) -> None:
        """Start to run bound pods, and to end deleted ones."""
        ...

    def stop(self) -> None:
        """Leave all pods as they are; idempotent."""
        ...

    def add(self, *manifests: Manifest) -> None:
        """Create objects, in order."""
        ...

    def remove(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object at once; raise `APIError` (404) if it does not exist."""
        ...

    def waiting(self, namespace: str) -> Mapping[str, str]:
        """Return by name, in order, why the pods without a node wait; without pods that were not tried."""
        ...

    def tolerations(self, namespace: str, pod: str) -> Sequence[Toleration]:
        """Return the tolerations of a pod; none if it does not exist."""
        ...

    def change_node(self, name: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Apply JSON merge patches to a node; raise `APIError` (404) if it does not exist."""
        ...


class _LastingTransport(InProcessTransport):
    """Opens watches that never end and send no bookmarks, which would be most of the work over months of time."""

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, timeout_seconds: float | None = None
    ) -> AbstractAsyncContextManager[Stream]:
        lasting = {**(query or {}), "timeoutSeconds": _FOR_EVER, "allowWatchBookmarks": "false"}
        return super().stream(path, query=lasting, timeout_seconds=timeout_seconds)

    def connect(self, settings: ClientSettings, *, clock: Clock, rng: random.Random, recorder: Recorder) -> RealClient:
        silent = attrs.evolve(settings, silence_seconds=float("inf"))
        return super().connect(silent, clock=clock, rng=rng, recorder=recorder)


class ServedCluster:
    """An embedded API server with its kubelets. `uid` makes the uids of objects in namespaces.

    The uids that the server makes depend on all its writes, those of events included, and thus on the fidelity.
    """

    def __init__(self, *, clock: Clock, rng: random.Random, uid: Callable[[], str]) -> None:
        #: The API server, for inspection by the caller.
        self.server = EmbeddedCluster(clock=clock, rng=rng, history_limit=_HISTORY)
        self._lifecycle = self.server.lifecycle()
        self._uid = uid

    def transport(self) -> Transport:
        """Return the scheduler's connection to the cluster."""
        return _LastingTransport(self.server.router)

    def follow(self, observer: PodObserver) -> PodFeed:
        """Return a feed of pods for an observer, not started."""

        def listed(records: Sequence[Record]) -> None:
            observer.listed({record.name for record in records})
            for record in records:
                note(record)

        def changed(change: Change) -> None:
            if change.type == DELETED:
                observer.lost(change.record.name)
            else:
                note(change.record)

        def note(record: Record) -> None:
            if node := record.fields.get("spec.nodeName"):
                observer.bound(record.name, node)

        pods = self.server.registry.collection(PODS)
        return Follower(pods, clock=self.server.clock, listed=listed, changed=changed)

    def start(self) -> None:
        """Start to run bound pods, and to end deleted ones."""
        self._lifecycle.start()

    def stop(self) -> None:
        """Leave all pods as they are; idempotent."""
        self._lifecycle.stop()

    def add(self, *manifests: Manifest) -> None:
        """Create objects, in order."""
        for each in manifests:
            uid = self._uid()
            if "status" in each or "namespace" not in each["metadata"]:
                self.server.add(each)
            else:
                copy = msgspec.json.decode(msgspec.json.encode(each))
                namespace = each["metadata"]["namespace"]
                self.server.registry.create(self.server.resource_of(each), namespace, copy, uid=uid)

    def remove(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object at once; raise `APIError` (404) if it does not exist."""
        self.server.remove(api_version, kind, name, namespace=namespace)

    def waiting(self, namespace: str) -> Mapping[str, str]:
        """Return by name, in order, why the pods without a node wait, as their conditions say it."""
        return {
            pod["metadata"]["name"]: condition.get("message", "")
            for pod in self.server.pods(namespace=namespace)
            for condition in pod.get("status", {}).get("conditions", ())
            if condition["type"] == "PodScheduled" and condition["status"] == "False"
        }

    def tolerations(self, namespace: str, pod: str) -> Sequence[Toleration]:
        """Return the tolerations of a pod; none if it does not exist."""
        record = self.server.registry.collection(PODS).get(f"{namespace}/{pod}")
        return () if record is None else decode(Pod, record.body).spec.tolerations

    def change_node(self, name: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Apply JSON merge patches to a node; raise `APIError` (404) if it does not exist."""
        for part, subresource in (({"spec": spec}, ""), ({"status": status}, "status")):
            options = PatchOptions("application/merge-patch+json", FieldCheck(), subresource)
            apply_patch(self.server.registry, NODES, "", name, msgspec.json.encode(part), options)


class DecisionCluster:
    """A cluster of typed objects. `uid` makes the uids of added objects."""

    def __init__(self, *, clock: Clock, rng: random.Random, uid: Callable[[], str]) -> None:
        #: The objects, for inspection by the caller.
        self.objects = TypedCluster(clock=clock, rng=rng, serves_all=False)
        self._agents = NodeAgents(self.objects)
        self._uid = uid

    def transport(self) -> Transport:
        """Return the scheduler's connection to the cluster."""
        return TypedTransport(self.objects)

    def follow(self, observer: PodObserver) -> PodFeed:
        """Return a feed of pods for an observer, not started."""

        def changed(change: str, item: KubeObject) -> None:
            if change == DELETED:
                observer.lost(item.name)
            elif isinstance(item, Pod):
                observer.bound(item.name, item.node_name)

        def is_wanted(change: str, item: KubeObject) -> bool:
            # A pod is bound before it runs.
            return change == DELETED or (
                isinstance(item, Pod) and bool(item.node_name) and item.status.phase == "Pending"
            )

        pods = self.objects.collection_of(Pod)
        return Feed(pods, clock=self.objects.clock, changed=changed, wanted=is_wanted)

    def start(self) -> None:
        """Start to run bound pods, and to end deleted ones."""
        self._agents.start()

    def stop(self) -> None:
        """Leave all pods as they are; idempotent."""
        self._agents.stop()

    def add(self, *manifests: Manifest) -> None:
        """Create objects, in order."""
        for each in manifests:
            # Every object takes a uid, as with a server; a definition has no use for it here.
            self.objects.add(each, uid=partial(str, self._uid()))

    def remove(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> None:
        """Delete an object at once; raise `APIError` (404) if it does not exist."""
        self.objects.remove(api_version, kind, name, namespace=namespace)

    def waiting(self, namespace: str) -> Mapping[str, str]:
        """Return by name, in order, why the pods without a node wait."""
        return {pod.name: why for pod in self.objects.pods(namespace) if (why := self.objects.reason_of(pod))}

    def tolerations(self, namespace: str, pod: str) -> Sequence[Toleration]:
        """Return the tolerations of a pod; none if it does not exist."""
        found = self.objects.get(Pod, pod, namespace)
        return () if found is None else found.spec.tolerations

    def change_node(self, name: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Apply JSON merge patches to a node; raise `APIError` (404) if it does not exist."""
        self.objects.patch(Node, name, patch={"spec": spec})
        self.objects.patch(Node, name, patch={"status": status}, status=True)
