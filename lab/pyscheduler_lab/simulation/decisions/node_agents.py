"""Simulate the kubelets of a `TypedCluster`, a cluster in memory without an API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from kube_objects.codec import DELETED
from kube_objects.kinds import NODES, PODS
from kube_objects.times import format_time
from pyscheduler.api import Pod, PodCondition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects.clock import Clock, Timer
    from pyscheduler.api import KubeObject
    from pyscheduler_lab.simulation.decisions.typed_cluster import Collection, TypedCluster

__all__ = ["Feed", "NodeAgents"]

_BATCH: Final = 256
_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_PENDING: Final = "Pending"


class Feed:
    """Hands over the changes of a collection in batches, a moment after they happened; `changed` may write.

    `wanted` drops changes that are of no interest, so that they set no timer.
    """

    __slots__ = ("_changed", "_clock", "_collection", "_pending", "_timer", "_wanted")

    def __init__(
        self,
        collection: Collection,
        *,
        clock: Clock,
        changed: Callable[[str, KubeObject], object],
        wanted: Callable[[str, KubeObject], bool],
    ) -> None:
        self._collection = collection
        self._clock = clock
        self._changed = changed
        self._wanted = wanted
        self._pending: list[tuple[str, KubeObject]] = []
        self._timer: Timer | None = None

    def start(self) -> None:
        """Follow all changes from now on."""
        self._collection.listeners.append(self._news)

    def catch_up(self) -> None:
        """Hand over all pending changes now."""
        while self._timer is not None:
            self._timer.cancel()
            self._read()

    def stop(self) -> None:
        """Follow no more; idempotent."""
        self._collection.forget(self._news)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pending.clear()

    def _news(self, change: str, item: KubeObject) -> None:
        if not self._wanted(change, item):
            return
        self._pending.append((change, item))
        if self._timer is None:
            self._timer = self._clock.call_later(0.0, self._read)

    def _read(self) -> None:
        self._timer = None
        batch = self._pending[:_BATCH]
        del self._pending[:_BATCH]
        if self._pending:
            self._timer = self._clock.call_later(0.0, self._read)
        for change, item in batch:
            self._changed(change, item)


class NodeAgents:
    """Makes bound pods Running at once, and lets pods that are being deleted go at once.

    Differs from a kubelet: every pod is admitted. A pod that is bound to a node that does not exist stays Pending.
    """

    def __init__(self, cluster: TypedCluster) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._pods = cluster.collection(PODS)
        self._nodes = cluster.collection(NODES)
        self._timers: dict[tuple[str, str], Timer] = {}
        self._conditions: tuple[str, tuple[PodCondition, ...]] = ("", ())
        self._feed = Feed(self._pods, clock=self._clock, changed=self._look_at, wanted=self._is_wanted)

    def start(self) -> None:
        """Take up the pods that are there, then follow every change."""
        self._feed.start()
        for pod in [*self._pods.in_order()]:
            self._look_at("", pod)

    def stop(self) -> None:
        """Leave all pods as they are; idempotent."""
        self._feed.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _is_wanted(self, change: str, item: KubeObject) -> bool:
        assert isinstance(item, Pod), "the feed is of pods"
        if change == DELETED:
            return bool(self._timers)
        return bool(item.metadata.deletion_grace_period_seconds) or (
            bool(item.spec.node_name) and item.status.phase == _PENDING
        )

    def _look_at(self, change: str, item: KubeObject) -> None:
        assert isinstance(item, Pod), "the feed is of pods"
        if change == DELETED:
            for what in ("start", "stop"):
                timer = self._timers.pop((what, item.uid), None)
                if timer is not None:
                    timer.cancel()
        elif item is self._pods.items.get(item.key):  # otherwise, a newer state comes later
            if item.metadata.deletion_grace_period_seconds:
                self._later("stop", item, self._let_go)
            elif item.status.phase == _PENDING and item.node_name in self._nodes.items:
                self._later("start", item, self._run)

    def _later(self, what: str, pod: Pod, step: Callable[[Pod], object]) -> None:
        timer = what, pod.uid
        if timer in self._timers:
            return

        def fire() -> None:
            self._timers.pop(timer, None)
            present = self._pods.items.get(pod.key)
            if isinstance(present, Pod) and present.uid == pod.uid:
                step(present)

        self._timers[timer] = self._clock.call_later(0.0, fire)

    def _run(self, pod: Pod) -> None:
        if pod.is_terminating or pod.status.phase != _PENDING:
            return
        now = format_time(self._clock.wall())
        if self._conditions[0] != now:
            made = (PodCondition(type=each, status="True", last_transition_time=now) for each in _CONDITIONS)
            self._conditions = now, tuple(made)
        others = tuple(each for each in pod.status.conditions if each.type not in _CONDITIONS)
        status = replace(pod.status, phase="Running", start_time=now, conditions=others + self._conditions[1])
        self._cluster.put(pod, replace(pod, status=status))

    def _let_go(self, pod: Pod) -> None:
        if not pod.metadata.finalizers:
            self._cluster.remove(pod.api_version, pod.kind, pod.name, namespace=pod.namespace)
