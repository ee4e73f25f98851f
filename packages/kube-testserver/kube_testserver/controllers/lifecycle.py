"""A simulated kubelet for all nodes: it admits and runs bound pods, and ends pods that are being deleted.

The annotation `pyscheduler.io/run-duration` says how long a pod runs until it succeeds.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Final

import msgspec

from kube_objects.durations import parse_duration
from kube_objects.times import format_time
from kube_testserver.controllers import pod_status
from kube_testserver.controllers.device_preparation import DeviceTakenError, NotPreparedError, Preparing
from kube_testserver.controllers.disruption import DisruptionBudgets
from kube_testserver.controllers.follower import Follower
from kube_testserver.controllers.node_admission import NodeRoom, Rejection, demand_of
from kube_testserver.controllers.resource_claims import ClaimController
from kube_testserver.controllers.warnings import record_warning
from kube_testserver.resources.builtin import NODES, PODS
from kube_testserver.rules.deletion import DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kube_objects.clock import Clock, Timer
    from kube_testserver.registry import Registry
    from kube_testserver.store import Change, Object, Record

__all__ = ["RUN_DURATION", "Lifecycle"]

RUN_DURATION: Final = "pyscheduler.io/run-duration"
"""Annotation of a pod: how long it runs before it succeeds, as in ``90s`` or ``1h30m``."""

_TERMINAL: Final = frozenset({"Succeeded", "Failed"})
_HAS_CLAIMS: Final = b'"resourceClaims"'
_LEAVING: Final = b'"deletionTimestamp"'
_FIRST_ADDRESS: Final = int(IPv4Address("10.0.0.1"))
_ADDRESSES: Final = 1 << 24

_log = logging.getLogger(__name__)


class Lifecycle:
    """Makes bound pods Running after `start_seconds`, and lets deleted ones go after `stop_seconds`.

    A period of grace shorter than `stop_seconds` is kept. Without `run_pods` the nodes only take pods in or reject
    them: the alarm for overcommitted nodes alone.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        clock: Clock,
        start_seconds: float = 0.0,
        stop_seconds: float = 0.0,
        run_pods: bool = True,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._run_pods = run_pods
        self._pods = registry.collection(PODS)
        self._nodes = registry.collection(NODES)
        self._rooms: dict[str, NodeRoom] = {}
        #: By node, the pods (uid to key) that are bound to it and wait for it to appear.
        self._early: dict[str, dict[str, str]] = {}
        #: By uid, the node of each pod that was looked at, and how far its spec had changed by then.
        self._known: dict[str, tuple[str, int]] = {}
        self._timers: dict[tuple[str, str], Timer] = {}
        #: The versions written here, which need no second look.
        self._own: set[int] = set()
        self._addresses = 0
        self._preparing = Preparing(registry, clock=clock, ready=self._run) if run_pods else None
        #: By uid, the last message about a pod with claims that cannot be prepared.
        self._unprepared: dict[str, str] = {}
        self._node_news = Follower(self._nodes, clock=clock, listed=self._list_nodes, changed=self._node_changed)
        self._parts: list[Follower | DisruptionBudgets | ClaimController | Preparing] = [
            self._node_news,
            Follower(self._pods, clock=clock, listed=self._list_pods, changed=self._pod_changed),
        ]
        if self._preparing is not None:
            budgets, claims = DisruptionBudgets(registry, clock=clock), ClaimController(registry, clock=clock)
            self._parts += [budgets, claims, self._preparing]
        #: How many pods were not taken in by their node, or were given a device that another pod has.
        self.rejections = 0

    def start(self) -> None:
        """Take up the pods that are there, then follow every change."""
        for part in self._parts:
            part.start()

    def stop(self) -> None:
        """Leave all pods as they are; idempotent."""
        for part in self._parts:
            part.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._own.clear()

    def check_invariants(self) -> None:
        """Raise `AssertionError` when a node's sums are not those of its pods."""
        for room in self._rooms.values():
            room.check_invariants()

    # --- nodes -----------------------------------------------------------------------------------

    def _list_nodes(self, records: Sequence[Record]) -> None:
        for record in records:
            self._look_at_node(record)

    def _node_changed(self, change: Change) -> None:
        # A node that is gone keeps its pods, as in a real cluster; if it comes back, they are still there.
        if change.type != "DELETED":
            self._look_at_node(change.record)

    def _look_at_node(self, record: Record) -> None:
        room = self._rooms.get(record.name)
        try:
            if room is None:
                self._rooms[record.name] = NodeRoom(record.decode())
            else:
                room.update(record.decode())
        except msgspec.ValidationError as error:
            _log.warning("node=%s cannot take in pods: %s", record.name, error)
            return
        for uid, key in self._early.pop(record.name, {}).items():
            present = self._present(key, uid)
            if present is not None:
                self._look_at_pod(present)

    # --- pods ------------------------------------------------------------------------------------

    def _list_pods(self, records: Sequence[Record]) -> None:
        self._own.clear()
        present = {record.uid for record in records}
        for uid in [uid for uid in self._known if uid not in present]:
            self._forget(uid)
        # Those that run have their place already; who comes later must fit beside them.
        for record in sorted(records, key=lambda one: (one.fields.get("status.phase") == "Pending", one.version)):
            self._look_at_pod(record)

    def _pod_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._forget(change.record.uid)
        elif change.version in self._own:
            self._own.discard(change.version)
        elif change.record is self._pods.get(change.record.key):  # else a newer state of it comes later in the log
            self._look_at_pod(change.record)

    def _look_at_pod(self, record: Record) -> None:
        node = record.fields.get("spec.nodeName")
        if not node:
            if _LEAVING in record.body:
                self._consider_leaving(record, record.decode())
            return
        pod = record.decode()
        if _LEAVING in record.body:
            self._consider_leaving(record, pod)
        if record.fields.get("status.phase") in _TERMINAL:
            self._release(record.uid)
            return
        generation = pod["metadata"].get("generation") or 0
        known = self._known.get(record.uid)
        if known is None:
            self._arrive(record, pod, node, generation)
        elif known[1] != generation:
            self._known[record.uid] = (node, generation)
            self._rooms[node].hold(record.uid, demand_of(pod))  # a resize changes what it has of the node

    def _arrive(self, record: Record, pod: Object, node: str, generation: int) -> None:
        """Let a node take in a pod it has not seen, or reject it."""
        self._node_news.catch_up()
        room = self._rooms.get(node)
        if room is None or self._nodes.get(node) is None:
            self._early.setdefault(node, {})[record.uid] = record.key
            return
        if record.fields.get("status.phase") != "Pending":
            self._known[record.uid] = (node, generation)
            room.hold(record.uid, demand_of(pod))
            self._hold_devices(record, pod)
            self._plan_end(record, pod)
            return
        try:
            rejection = room.admit(record.uid, pod)
        except msgspec.ValidationError as error:
            rejection = Rejection("UnexpectedAdmissionError", f"Unexpected error while admitting the pod: {error}")
        if rejection is not None:
            self._reject(record, pod, node, rejection)
            return
        self._known[record.uid] = (node, generation)
        if self._run_pods and _LEAVING not in record.body:
            self._later("start", record, self._start_seconds, self._run)

    def _reject(self, record: Record, pod: Object, node: str, rejection: Rejection) -> None:
        self.rejections += 1
        _log.warning("pod=%s node=%s %s: %s", record.key, node, rejection.reason, rejection.message)
        self._announce(record, node, rejection.reason, rejection.message)
        pod_status.reject(pod, rejection)
        self._write(record, pod)

    def _consider_leaving(self, record: Record, pod: Object) -> None:
        grace = pod["metadata"].get("deletionGracePeriodSeconds")
        if grace and self._run_pods:
            self._later("stop", record, min(self._stop_seconds, grace), self._let_go)

    def _forget(self, uid: str) -> None:
        self._release(uid)
        for what in ("start", "end", "stop"):
            timer = self._timers.pop((what, uid), None)
            if timer is not None:
                timer.cancel()

    def _release(self, uid: str) -> None:
        """Give a pod's room back to its node."""
        node, _ = self._known.pop(uid, ("", 0))
        room = self._rooms.get(node)
        if room is not None:
            room.release(uid)
        if self._preparing is not None:
            self._unprepared.pop(uid, None)
            self._preparing.release(uid)

    # --- what happens in time --------------------------------------------------------------------

    def _later(self, what: str, record: Record, delay_seconds: float, step: Callable[[str, str], None]) -> None:
        timer = (what, record.uid)
        if timer in self._timers:
            return

        def fire() -> None:
            self._timers.pop(timer, None)
            step(record.key, record.uid)

        self._timers[timer] = self._clock.call_later(delay_seconds, fire)

    def _present(self, key: str, uid: str) -> Record | None:
        record = self._pods.get(key)
        return record if record is not None and record.uid == uid else None

    def _run(self, key: str, uid: str) -> None:
        record = self._present(key, uid)
        if record is None or _LEAVING in record.body:
            return
        pod = record.decode()
        if record.fields.get("status.phase") != "Pending":
            self._hold_devices(record, pod)
            return
        if not self._prepare(record, pod):
            return
        host = self._nodes.get(record.fields["spec.nodeName"])
        now = format_time(self._registry.wall())
        self._addresses += 1
        address = str(IPv4Address(_FIRST_ADDRESS + self._addresses % _ADDRESSES))
        node = host.decode() if host is not None else None
        pod_status.run(pod, now, host=pod_status.host_address(node), address=address)
        self._plan_end(self._write(record, pod), pod)

    def _prepare(self, record: Record, pod: Object) -> bool:
        """Return True if a pod has its devices; where it has not, say so, and try again when that may change."""
        if self._preparing is None or _HAS_CLAIMS not in record.body:
            return True
        try:
            self._preparing.prepare(record, pod)
        except NotPreparedError as error:
            why = f"Failed to prepare dynamic resources: {error}"
            if self._unprepared.get(record.uid) != why:
                self._unprepared[record.uid] = why
                self.rejections += isinstance(error, DeviceTakenError)
                _log.warning("pod=%s node=%s %s", record.key, record.fields["spec.nodeName"], why)
                self._announce(record, record.fields["spec.nodeName"], "FailedPrepareDynamicResources", why)
            return False
        return True

    def _hold_devices(self, record: Record, pod: Object) -> None:
        """Note the devices of a pod that runs already; its claims may come after it."""
        if self._preparing is not None and _HAS_CLAIMS in record.body and record.uid in self._known:
            with suppress(NotPreparedError):
                self._preparing.prepare(record, pod)

    def _plan_end(self, record: Record, pod: Object) -> None:
        text = (pod["metadata"].get("annotations") or {}).get(RUN_DURATION)
        if text is None or not self._run_pods:
            return
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            why = f"the pod runs until it is deleted: annotation {RUN_DURATION}: {error}; write it like 90s or 1h30m"
            _log.warning("pod=%s %s", record.key, why)
            self._announce(record, record.fields["spec.nodeName"], "InvalidRunDuration", why)
            return
        self._later("end", record, max(seconds, 0.0), self._complete)

    def _complete(self, key: str, uid: str) -> None:
        record = self._present(key, uid)
        if record is None or record.fields.get("status.phase") != "Running":
            return
        pod = record.decode()
        self._release(uid)
        pod_status.complete(pod, format_time(self._registry.wall()))
        self._write(record, pod)

    def _write(self, record: Record, pod: Object) -> Record:
        """Store a new state of a pod, and skip the event that this write causes."""
        written = self._registry.put(PODS, record, pod)
        if written is not record:
            self._own.add(written.version)
        return written

    def _let_go(self, key: str, uid: str) -> None:
        record = self._present(key, uid)
        if record is not None:
            self._registry.delete(PODS, record.namespace, record.name, DeleteOptions(grace_seconds=0))

    def _announce(self, record: Record, node: str, reason: str, message: str) -> None:
        """Record an event of the node about a pod."""
        record_warning(self._registry, PODS, record, reason, message, component="kubelet", node=node)
