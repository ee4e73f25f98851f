"""The pods that wait at Permit, of all profiles of the process.

Each plugin that makes a pod wait sets a time limit. The wait ends when all these plugins have allowed the pod. A
rejection, a timeout, a deletion, a preemption or the stop of the scheduler ends the wait earlier.

Differs from kube-scheduler: a call that allows or rejects a pod for an unknown plugin is an error.
Source: kube-scheduler 1.36, `waiting_pods_map.go`.
"""

from __future__ import annotations

import asyncio
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Final

from kube_objects.durations import format_duration
from pyscheduler.framework.plugin_failures import PluginFailures
from pyscheduler.framework.status import Code, Status
from pyscheduler.framework.waiting import WaitVerdict
from pyscheduler.runtime.extension_points.plugin_calls import error_status
from pyscheduler.runtime.permit.release import PermitReleases
from pyscheduler.runtime.permit.waiting_index import WaitingPodIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from kube_objects.clock import Clock, Timer
    from pyscheduler.api import Pod
    from pyscheduler.framework.recorder import Recorder

__all__ = ["HeldPod", "WaitingPodMap"]

_ALLOWED: Final = "allowed"
_REJECTED: Final = "rejected"
_TIMEOUT: Final = "timeout"
_DELETED: Final = "deleted"
_PREEMPTED: Final = "preempted"
_STOPPED: Final = "stopped"


class HeldPod:
    """One waiting pod; the `WaitingPod` that plugins see."""

    __slots__ = (
        "_check",
        "_future",
        "_on_verdict",
        "_timers",
        "node_name",
        "pod",
        "profile_name",
        "verdict",
        "waiting_since",
    )

    def __init__(
        self,
        pod: Pod,
        *,
        node_name: str,
        profile_name: str,
        waiting_since: float,
        on_verdict: Callable[[HeldPod, asyncio.Future[None] | None], object],
        check: Callable[[str], object],
    ) -> None:
        #: Raises for a name that no plugin has.
        self._check = check
        self.pod = pod
        self.node_name = node_name
        self.profile_name = profile_name
        self.waiting_since = waiting_since
        self.verdict: WaitVerdict | None = None
        #: Called once, with the future of who awaits the verdict, if it is awaited already.
        self._on_verdict = on_verdict
        self._timers: dict[str, Timer] = {}
        self._future: asyncio.Future[None] | None = None

    @property
    def pending_plugins(self) -> Collection[str]:
        """Return the plugins that have not allowed the pod yet."""
        return tuple(self._timers)

    def hold(self, plugin: str, seconds: float, clock: Clock) -> None:
        """Let `plugin` hold the pod for at most `seconds`."""
        self._timers[plugin] = clock.call_later(seconds, partial(self._expire, plugin, seconds))

    def allow(self, plugin: str) -> None:
        """Withdraw the hold of `plugin`; the last one lets the pod go on to be bound.

        Raises `ValueError` for a name that no plugin has.
        """
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        elif plugin:
            self._check(plugin)
        if not self._timers:
            self._end(WaitVerdict(cause=_ALLOWED, plugin=plugin))

    def reject(self, plugin: str, reason: str) -> bool:
        """End the wait with a rejection by `plugin`; return False when the verdict was already there.

        Raises `ValueError` for a name that no plugin has.
        """
        self._check(plugin)
        return self.refuse(plugin, reason)

    def refuse(self, plugin: str, reason: str) -> bool:
        """Do the same for the scheduler, which may reject in the name of its own groups."""
        return self._refuse(_REJECTED, plugin, Status(Code.UNSCHEDULABLE, reason, plugin=plugin))

    def preempt(self, plugin: str, reason: str) -> bool:
        """End the wait because the pod was chosen as a victim; return False when the verdict was already there."""
        return self._refuse(_PREEMPTED, plugin, Status(Code.ERROR, reason, plugin=plugin))

    def delete(self) -> bool:
        """End the wait because the pod is gone; return False when the verdict was already there."""
        return self._refuse(_DELETED, "", Status(Code.UNSCHEDULABLE, "removed"))

    def stop(self) -> bool:
        """End the wait because nobody is there any more to bind the pod; return False when the verdict was there."""
        return self._refuse(_STOPPED, "", Status(Code.ERROR, "the scheduler has stopped"))

    def _expire(self, plugin: str, seconds: float) -> None:
        reason = f"rejected due to timeout after waiting {format_duration(seconds)} at plugin {plugin}"
        self._refuse(_TIMEOUT, plugin, Status(Code.UNSCHEDULABLE, reason, plugin=plugin))

    def _refuse(self, cause: str, plugin: str, status: Status) -> bool:
        self.stop_timers()
        return self._end(WaitVerdict(cause=cause, plugin=plugin, status=status))

    def _end(self, verdict: WaitVerdict) -> bool:
        if self.verdict is not None:
            return False
        self.verdict = verdict
        awaited = self._future is not None and not self._future.done()
        self._on_verdict(self, self._future if awaited else None)
        return True

    @property
    def is_allowed(self) -> bool:
        """Return whether the pod goes on to be bound."""
        return self.verdict is not None and self.verdict.status is None

    def stop_timers(self) -> None:
        """Let no timer end the wait any more; the plugins stay pending."""
        for timer in self._timers.values():
            timer.cancel()

    async def wait(self) -> WaitVerdict:
        """Return the verdict, once it is there. One waiter at a time."""
        while self.verdict is None:
            self._future = asyncio.get_running_loop().create_future()
            try:
                await self._future
            finally:
                self._future = None
        return self.verdict

    def __repr__(self) -> str:
        return f"HeldPod({self.pod.key}, pending={list(self._timers)}, verdict={self.verdict})"


class WaitingPodMap:
    """Waiting pods by uid, in the order in which they began to wait."""

    def __init__(self, *, clock: Clock, recorder: Recorder, failures: PluginFailures | None = None) -> None:
        self._failures = failures if failures is not None else PluginFailures(recorder)
        self._clock = clock
        self._recorder = recorder
        self._pods: dict[str, HeldPod] = {}
        self._verdicts: dict[str, WaitVerdict] = {}
        self._indices: list[WaitingPodIndex] = []
        #: The names of the plugins of all profiles; empty: unknown.
        self.plugins: set[str] = set()
        self.releases = PermitReleases()
        # Made once, and not for every pod.
        self._on_verdict = self._decided
        self._check = self.check_name

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, pod: Pod, *, node_name: str, profile_name: str, timeouts: Mapping[str, float]) -> HeldPod:
        """Begin a wait: `timeouts` are seconds by plugin. A wait without plugins is over at once."""
        self._verdicts.pop(pod.uid, None)
        held = HeldPod(
            pod,
            node_name=node_name,
            profile_name=profile_name,
            waiting_since=self._clock.now(),
            on_verdict=self._on_verdict,
            check=self._check,
        )
        for plugin, seconds in timeouts.items():
            held.hold(plugin, seconds, self._clock)
        if not timeouts:
            held.allow("")
        replaced = self._pods.get(pod.uid)
        if replaced is not None:
            self._drop(replaced)
        self._pods[pod.uid] = held
        if not held.is_allowed:
            for index in self._indices:
                index.add(held)
        return held

    def _decided(self, held: HeldPod, future: asyncio.Future[None] | None) -> None:
        """Let a pod go on that has its verdict, and take it out of the indices where it was allowed."""
        is_allowed = held.is_allowed
        if is_allowed and self._pods.get(held.pod.uid) is held:
            for index in self._indices:
                index.remove(held)
        if future is not None:
            self.releases.add(future, is_refused=not is_allowed)

    def index(self, key: Callable[[Pod], Hashable | None]) -> WaitingPodIndex:
        """Return an index of the waiting pods by `key(pod)`, kept up from now on; None leaves a pod out.

        One that was allowed waits no more, and is in no index.
        """
        index = WaitingPodIndex(key, self._failures)
        for held in self._pods.values():
            if not held.is_allowed:
                index.add(held)
        self._indices.append(index)
        return index

    def _drop(self, held: HeldPod) -> None:
        held.stop_timers()
        if self._pods.get(held.pod.uid) is held:
            del self._pods[held.pod.uid]
            for index in self._indices:
                index.remove(held)

    def get(self, uid: str) -> HeldPod | None:
        """Return the waiting pod with that uid. It stays here until its binding cycle has taken the verdict."""
        return self._pods.get(uid)

    def is_held_back(self, uid: str) -> bool:
        """Return whether the pod is here and was not allowed: nobody goes on with it, so it may be given up."""
        held = self._pods.get(uid)
        return held is not None and not held.is_allowed

    def all(self) -> Sequence[HeldPod]:
        """Return all waiting pods; a copy, so they may be allowed and rejected on the way."""
        return tuple(self._pods.values())

    def reject(self, uid: str, *, plugin: str = "", reason: str = "removed") -> bool:
        """Reject a waiting pod; return False when there is none, or its verdict was already there."""
        held = self._pods.get(uid)
        return held is not None and held.refuse(plugin, reason)

    def check_name(self, plugin: str) -> None:
        """Raise `ValueError` if no plugin has that name."""
        if plugin and self.plugins and plugin not in self.plugins:
            pending = {name for held in self._pods.values() for name in held.pending_plugins}
            close = get_close_matches(plugin, self.plugins, n=1)
            meant = f', did you mean "{close[0]}"?' if close else ""
            waited = f" (pods wait for {', '.join(sorted(pending))})" if pending else ""
            raise ValueError(f'no plugin is called "{plugin}"{meant}{waited}; pass self.name')

    def delete(self, uid: str) -> bool:
        """End the wait of a pod that is gone; return False when it does not wait, or its verdict was already there."""
        held = self._pods.get(uid)
        return held is not None and held.delete()

    def stop(self, uid: str) -> bool:
        """End the wait of a pod that nobody will bind; return False when it does not wait, or had its verdict."""
        held = self._pods.get(uid)
        return held is not None and held.stop()

    def verdict(self, uid: str) -> WaitVerdict | None:
        """Return how the pod's wait ended, until `forget`; None where it did not wait, or waits still."""
        held = self._pods.get(uid)
        return held.verdict if held is not None else self._verdicts.get(uid)

    def forget(self, uid: str) -> None:
        """Drop what is known of a wait whose binding cycle is over; or of one that was cut short before it waited."""
        self._verdicts.pop(uid, None)
        held = self._pods.get(uid)
        if held is not None:
            self._drop(held)

    async def wait(self, uid: str) -> Status | None:
        """Wait for the verdict on a pod; None when it does not wait, or was allowed.

        Cancellation ends the wait, and then that is the verdict.
        """
        held = self._pods.get(uid)
        if held is None:
            return None
        began = self._clock.now()
        try:
            verdict = await held.wait()
        except asyncio.CancelledError:
            held.stop()
            raise
        finally:
            self._drop(held)
            if held.verdict is not None:
                self._verdicts[uid] = held.verdict
        status = verdict.status
        code = Code.SUCCESS if status is None else status.code
        seconds = self._clock.now() - began
        self._recorder.observe("scheduler_permit_wait_duration_seconds", seconds, code.label)
        if status is None or status.is_rejected:
            return status
        return error_status(
            f"waiting on permit for pod: {status.message}", plugin=status.plugin, error=status.as_error()
        )

    def check_invariants(self) -> None:
        """Raise AssertionError where the map contradicts itself."""
        for uid, held in self._pods.items():
            assert uid == held.pod.uid, f"{held} is filed under uid {uid}"
            assert held.verdict is not None or held.pending_plugins, f"{held} waits for nobody"
        held_back = {uid: held for uid, held in self._pods.items() if not held.is_allowed}
        for index in self._indices:
            index.check_invariants(held_back)
        assert not self._pods.keys() & self._verdicts.keys(), "a pod waits and is remembered as having waited"
