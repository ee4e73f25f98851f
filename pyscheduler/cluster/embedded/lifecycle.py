"""A kubelet in miniature: bound pods begin to run, and pods on their way out go.

The API server alone only stores what it is told: a bound pod stays Pending, and a pod deleted with a period of grace
stays Terminating, until somebody on its node says otherwise. Where a test, a simulation or somebody with `kubectl`
wants a cluster that moves, a `Lifecycle` plays that part for all nodes. It reads the log like any watch and writes
through the registry like any client, so schedulers see the same events as from a real node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler.api.times import format_time
from pyscheduler.cluster.embedded.builtin import PODS
from pyscheduler.cluster.embedded.conditions import set_condition
from pyscheduler.cluster.embedded.deletion import DeleteOptions
from pyscheduler.cluster.embedded.store import ExpiredVersionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.cluster.embedded.registry import Registry
    from pyscheduler.cluster.embedded.store import Object, Record
    from pyscheduler.framework.clock import Clock, Timer

__all__ = ["Lifecycle"]

_ALL: Final = 1 << 62
_RUNNING_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


class Lifecycle:
    """Makes bound pods Running after `start_seconds`, and lets deleted ones go after `stop_seconds`.

    A period of grace shorter than `stop_seconds` is kept.
    """

    def __init__(
        self, registry: Registry, *, clock: Clock, start_seconds: float = 0.0, stop_seconds: float = 0.0
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._pods = registry.collection(PODS)
        self._position = 0
        self._timers: dict[tuple[str, str], Timer] = {}
        self._reading: Timer | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        """Take up the pods that are there, then follow every change."""
        self._stop_listening = self._pods.listen(self._news)
        self._take_up()

    def _take_up(self) -> None:
        self._position = self._pods.position_after(self._registry.store.version)
        for record in self._pods.page().records:
            self._consider(record)

    def stop(self) -> None:
        """Leave all pods as they are; idempotent."""
        if self._stop_listening is not None:
            self._stop_listening()
        for timer in (*self._timers.values(), *((self._reading,) if self._reading is not None else ())):
            timer.cancel()
        self._timers.clear()
        self._reading = None

    def _news(self) -> None:
        # The store is in the middle of a write: look at it when it is done.
        if self._reading is None:
            self._reading = self._clock.call_later(0.0, self._read)

    def _read(self) -> None:
        self._reading = None
        try:
            changes = self._pods.read(self._position, _ALL)
        except ExpiredVersionError:  # more was written than the log remembers
            self._take_up()
            return
        self._position += len(changes)
        for change in changes:
            if change.type == "DELETED":
                self._forget(change.record.uid)
            else:
                self._consider(change.record)

    def _consider(self, record: Record) -> None:
        fields = record.fields
        pod = record.decode()
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in pod["metadata"]:
            if grace:
                self._later("stop", record, min(self._stop_seconds, grace), self._let_go)
        elif fields.get("spec.nodeName") and fields.get("status.phase") == "Pending":
            self._later("start", record, self._start_seconds, self._run)

    def _later(self, what: str, record: Record, delay_seconds: float, step: Callable[[str, str], None]) -> None:
        timer = (what, record.uid)
        if timer in self._timers:
            return

        def fire() -> None:
            self._timers.pop(timer, None)
            step(record.key, record.uid)

        self._timers[timer] = self._clock.call_later(delay_seconds, fire)

    def _forget(self, uid: str) -> None:
        for what in ("start", "stop"):
            timer = self._timers.pop((what, uid), None)
            if timer is not None:
                timer.cancel()

    def _present(self, key: str, uid: str) -> Record | None:
        record = self._pods.get(key)
        return record if record is not None and record.uid == uid else None

    def _run(self, key: str, uid: str) -> None:
        record = self._present(key, uid)
        if record is None:
            return
        pod = record.decode()
        status = pod.setdefault("status", {})
        if "deletionTimestamp" in pod["metadata"] or status.get("phase") != "Pending":
            return
        now = format_time(self._registry.wall())
        status["phase"] = "Running"
        status["startTime"] = now
        for kind in _RUNNING_CONDITIONS:
            set_condition(status, {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now})
        status["containerStatuses"] = [_started(one, now) for one in (pod.get("spec") or {}).get("containers") or ()]
        self._registry.put(PODS, record, pod)

    def _let_go(self, key: str, uid: str) -> None:
        record = self._present(key, uid)
        if record is not None:
            self._registry.delete(PODS, record.namespace, record.name, DeleteOptions(grace_seconds=0))


def _started(container: Object, now: str) -> Object:
    return {
        "name": container.get("name") or "",
        "image": container.get("image") or "",
        "imageID": "",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
        "lastState": {},
    }
