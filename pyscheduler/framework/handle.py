"""`Handle`: what the scheduler offers to a plugin.

Use it on the event loop. The methods of its `client` call the API server; await them in `pre_bind`, `bind`, `run()` or
a task started with `spawn`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from kube_objects.clock import Clock
    from pyscheduler.api import KubeObject, Pod, Wire
    from pyscheduler.framework.changed_keys import ChangedKeys
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.framework.interfaces import NominatingInfo
    from pyscheduler.framework.node_info import NodeInfo
    from pyscheduler.framework.node_statuses import NodeStatuses
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.plugin_metrics import PluginMetrics
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.preemption import PreemptionRules, Preemptor
    from pyscheduler.framework.recorder import MetricRecorder
    from pyscheduler.framework.snapshot import Snapshot
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.waiting import WaitingIndex, WaitingPod, WaitVerdict
    from pyscheduler.framework.watches import Lister
    from pyscheduler.framework.what_if import WhatIf

__all__ = ["Client", "EventRecorder", "Handle", "Nominator"]

F = TypeVar("F", bound="Wire")
K = TypeVar("K", bound="KubeObject")
S = TypeVar("S")


class EventRecorder(Protocol):
    """Writes events.k8s.io/v1 events, in the background, aggregated like kube-scheduler's; never ahead of bindings."""

    def event(
        self,
        regarding: object,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: object | None = None,
    ) -> None:
        """Record an event about an API object. `type` is `Normal` or `Warning`; `note` is cut at 1,024 characters."""
        ...


class Nominator(Protocol):
    """Pods that were promised a node for which room is still being made."""

    def add(self, info: PodInfo, nominating: NominatingInfo | None = None) -> None:
        """Nominate the pod to the node in `nominating`, or to the one in its status."""
        ...

    def delete(self, pod: Pod) -> None:
        """Drop the pod's nomination, if any."""
        ...

    def update(self, old: Pod, new: PodInfo) -> None:
        """Carry a nomination over to a new version of the pod."""
        ...

    def pods_on(self, node_name: str) -> Sequence[PodInfo]:
        """Return the pods nominated to a node."""
        ...

    def node_of(self, uid: str) -> str:
        """Return the node a pod is nominated to, or ""."""
        ...

    @property
    def nodes(self) -> Collection[str]:
        """Return the names of the nodes that some pod is nominated to."""
        ...

    @property
    def changed(self) -> ChangedKeys[str]:
        """Return the names of nodes as their nominations change, for those who keep something by node."""
        ...


class Client(Protocol):
    """Reads and writes past the caches; with retries and conflict handling. Raises `APIError`, `TransportError`.

    Kinds are named by their type, which must be built in or declared in some plugin's `watches`. What is written is a
    plain mapping in wire form, because decoded objects carry the fields that scheduling reads and no others.
    """

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """Read one object from the API server; raise `NotFoundError` where it is not there."""
        ...

    async def list(self, kind: type[K], namespace: str = "", *, label_selector: str = "") -> Sequence[K]:
        """Read all objects, page by page."""
        ...

    async def patch(
        self,
        kind: type[K],
        name: str,
        namespace: str = "",
        *,
        patch: Mapping[str, object],
        status: bool = False,
    ) -> K:
        """Apply a JSON merge patch, to the `status` subresource where asked."""
        ...

    async def create(self, kind: type[K], body: Mapping[str, object], namespace: str = "") -> K:
        """Create an object."""
        ...

    async def delete(self, kind: type[K], name: str, namespace: str = "", *, uid: str = "") -> None:
        """Delete an object, only if it has that `uid` where one is given."""
        ...

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the pod's binding; raise `ConflictError` where it is bound already."""
        ...

    async def evict(self, pod: Pod, *, grace_seconds: int | None = None) -> None:
        """Let a pod be deleted if its disruption budgets allow that; the plugin's `rbac` names `pods/eviction`.

        Raises `TooManyRequestsError` at once where they do not, `NotFoundError` where this very pod is gone.
        `grace_seconds`: how long it may take to end, instead of what the pod says.
        """
        ...

    async def patch_pod_status(self, pod: Pod, patch: Mapping[str, object]) -> None:
        """Apply a strategic merge patch to the pod's status (conditions merge by type)."""
        ...


class Handle(Protocol):
    """The scheduler, as far as a plugin is concerned."""

    @property
    def profile_name(self) -> str:
        """Return the `schedulerName` of the profile this plugin belongs to."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """Return the snapshot of the current cycle; outside cycles, of the last one."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock; use nothing else for time."""
        ...

    @property
    def recorder(self) -> MetricRecorder:
        """Return the sink of the scheduler's own metrics; a plugin makes its metrics with `metrics`."""
        ...

    @property
    def metrics(self) -> PluginMetrics:
        """Return what makes the plugin's own metrics; call its methods when the plugin is made."""
        ...

    @property
    def event_recorder(self) -> EventRecorder:
        """Return the writer of events."""
        ...

    @property
    def nominator(self) -> Nominator:
        """Return the nominated pods."""
        ...

    @property
    def client(self) -> Client:
        """Return the way to the API server."""
        ...

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Return every known feature gate and whether it is on."""
        ...

    def lister(self, kind: type[K]) -> Lister[K]:
        """Return the cached objects of a kind that some plugin's `watches` name, or of Pod or Node.

        Call it when the plugin is made, or later; raises `PluginError` for a kind that is not watched.
        """
        ...

    def fields(self, item: KubeObject, cls: type[F], /) -> F:
        """Return the fields of a pod or node that the plugin declares with the type in its `pod_fields`, `node_fields`.

        They are those of the newest version, which may be newer than `item`. Raises `PluginError` for a type that no
        plugin declares, and `DecodeError` for fields that cannot be read.
        """
        ...

    def run_filters(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses:
        """Run the profile's filters on some nodes of the snapshot as it is now, nominated pods taken into account."""
        ...

    def run_add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> Status | None:
        """Notify all PreFilter plugins that `to_add` was put on `node` in a what-if."""
        ...

    def run_remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> Status | None:
        """Notify all PreFilter plugins that `to_remove` was taken off `node` in a what-if."""
        ...

    def get_waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return the pod waiting at Permit under that uid, of whatever profile."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Return all pods waiting at Permit, of all profiles; safe against changes while you iterate."""
        ...

    def index_waiting_pods(self, key: Callable[[Pod], Hashable | None]) -> WaitingIndex:
        """Return an index of the waiting pods of all profiles by `key(pod)`, kept up from now on.

        Call it when the plugin is made. A pod's key is asked once, when it begins to wait; None leaves the pod out.
        """
        ...

    def reject_waiting_pod(self, uid: str, *, plugin: str = "", reason: str = "removed") -> bool:
        """Reject a waiting pod; return False when there is none under that uid.

        Raises `ValueError` if `plugin` is a name that no plugin has.
        """
        ...

    def wait_verdict(self, uid: str) -> WaitVerdict | None:
        """Return how the pod's wait at Permit ended; None where it did not wait, or waits still.

        Kept until the pod's binding cycle is over, so that `unreserve` can tell a timeout from a rejection.
        """
        ...

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods that are unschedulable or in backoff to activeQ at once; others are left alone.

        PreEnqueue may keep a gated pod where it is. Pods that are unknown, bound, in activeQ or have their place (they
        wait at Permit, or are being bound) are passed over in silence. One whose cycle is under way is tried again if
        that fails.
        """
        ...

    def resort(self, pods: Iterable[Pod]) -> None:
        """Sort these pods anew, wherever they queue, because the QueueSort plugin's keys for them have changed.

        Nothing else looks at the keys of pods that are in the queue; pods that are not are passed over.
        """
        ...

    def forget_answers(self, nodes: Iterable[str]) -> None:
        """Drop the kept answers with `Reuse.UNTIL_FORGOTTEN` about the nodes of these names.

        Call it when an answer about a node may have changed though neither the node nor its pods did. It retries no
        pod: call `activate`, or register the event of the change.
        """
        ...

    def queue_place(self, uid: str) -> str:
        """Return where a pod waits: `active`, `backoff`, `unschedulable`, `held`, or `in_flight` while it is tried.

        `held` is for the pods of profiles whose pods are taken by name and not in queue order. Returns "in_flight" also
        for a pod that waits at Permit, and "" for a pod that the queue does not know.
        """
        ...

    def what_if(self) -> AbstractAsyncContextManager[WhatIf]:
        """Return what to ask with whether pods would fit: `async with handle.what_if() as trial`.

        Waits until no scheduling cycle is under way, and none begins before it is over; so do not await anything else
        meanwhile, and never ask from within a cycle.
        """
        ...

    def preemptor(self, plugin: str, rules: PreemptionRules) -> Preemptor:
        """Return what makes room in the name of `plugin`, by its rules; call it once, when the plugin is made.

        The plugin then watches PodDisruptionBudgets, because those of victims count, and `pyscheduler config --rbac`
        grants the deletion of pods and the patch of their status.
        """
        ...

    def spawn(self, work: Coroutine[object, object, None], *, name: str = "") -> asyncio.Task[None]:
        """Run a coroutine beside the scheduler; its exception is logged and counted, it is cancelled at stop."""
        ...

    def shared(self, key: str, make: Callable[[], S]) -> S:
        """Return the one object that plugins of all profiles share under `key`; whoever asks first makes it.

        Begin the key with the name of your distribution. The object lives as long as the scheduler.
        """
        ...

    def add_route(self, path: str, handler: Callable[[Mapping[str, str]], object]) -> None:
        """Answer GET `path` beside the metrics with what `handler(query)` returns: text, or data shown as JSON.

        A segment `{name}` stands for any text, which the handler finds in its query. Where it raises `NotFoundError`,
        the answer is 404 with that text.
        """
        ...
