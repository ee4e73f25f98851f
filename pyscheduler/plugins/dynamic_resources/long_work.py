"""Continue a search for devices in the background if it takes too long for one scheduling cycle.

A call of Filter may spend up to about 20 ms on a pod's search. If that is not enough, the pod waits, and the search
continues in small parts between other tasks. Then the pod is retried and uses the results.

Differs from kube-scheduler, in which a cycle lasts as long as its search.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.plugins.dynamic_resources.choice import Findings
from pyscheduler.plugins.dynamic_resources.errors import AllocationTimeoutError
from pyscheduler.plugins.dynamic_resources.patience import PAUSES_PER_CYCLE, CyclePatience, Patience
from pyscheduler.plugins.dynamic_resources.worker import Computation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.api import Pod, ResourceClaim
    from pyscheduler.framework import Handle, NodeInfo, Status
    from pyscheduler.plugins.dynamic_resources.allocated import AllocatedState
    from pyscheduler.plugins.dynamic_resources.choice import Choice
    from pyscheduler.plugins.dynamic_resources.pools import Inventory
    from pyscheduler.plugins.dynamic_resources.requests import ClassLookup

__all__ = ["Basis", "Job", "LongWork"]

_log = logging.getLogger(__name__)

#: So many pods are worked on at once, and of so many the devices that were found are kept.
_AT_ONCE: Final = 4
_MOST_KEPT: Final = 8
#: So many reasons why pods cannot run on a node are kept, at about a hundred bytes each.
_MOST_ANSWERS: Final = 100_000
#: A namespace has its full time again after so many seconds for each time that it was halved.
_FORGIVEN_AFTER_SECONDS: Final = 60.0
_LEAST_SECONDS: Final = 0.05
#: So many pauses fit into a call that has answers to go by, and so many into one that nobody waits for.
_SHORT: Final = 10
_ENDLESS: Final = 1_000_000
#: No machine makes so many pauses in a second; where a clock stands still they count instead.
_PAUSES_PER_SECOND: Final = 5_000


class _JobPatience(Patience):
    """Yields at each pause, and ends the work when the time of the pod is over."""

    def __init__(self, hand_over: Callable[[], None], seconds: float) -> None:
        super().__init__()
        self._hand_over = hand_over
        self._seconds = seconds
        self._pauses_left = seconds * _PAUSES_PER_SECOND
        #: How long it has run; whoever runs it adds that up.
        self.used_seconds = 0.0

    def pause(self) -> None:
        self._pauses_left -= 1
        if self.is_over():
            raise AllocationTimeoutError("filter operation aborted: context deadline exceeded")
        self._hand_over()

    def is_over(self) -> bool:
        return self._pauses_left < 0 or self.used_seconds >= self._seconds


@attrs.frozen
class Basis:
    """The inputs of the choice of devices for a pod: claims, classes, slices, and the devices allocated so far."""

    claims: tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, str], ...]
    inventory: Inventory = attrs.field(eq=False)
    changes: int = attrs.field(eq=False)

    @classmethod
    def of(
        cls, claims: Sequence[ResourceClaim], classes: ClassLookup, inventory: Inventory, allocated: AllocatedState
    ) -> Basis:
        """Return the basis of now; two that are equal may still differ in slices and allocations."""
        names: set[str] = set()
        for claim in claims:
            for request in claim.spec.devices.requests:
                ways = request.first_available or ((request.exactly,) if request.exactly is not None else ())
                names.update(way.device_class_name for way in ways)
        found = ((name, classes(name)) for name in sorted(names))
        return cls(
            tuple((claim.uid, claim.resource_version) for claim in claims),
            tuple((name, one.resource_version if one is not None else "") for name, one in found),
            inventory,
            allocated.changes,
        )


@attrs.define(eq=False)
class Job:
    """The work on one pod, and its results: by node the reason why the pod cannot run there, None where it can.

    It begins with `prepare`, which gives `choice` the present allocations and returns them with the nodes to look at.
    Before that, a job holds hardly any memory, because many may wait. At the end it gives up its `choice`, with all
    that the search has found out, unless some node has the devices.
    """

    pod: Pod
    choice: Choice | None
    prepare: Callable[[Choice], tuple[Basis, Iterable[NodeInfo]]]
    basis: Basis
    answers: dict[str, Status | None] = attrs.Factory(dict)
    #: Whether all nodes were looked at, or the time was over before.
    is_done: bool = False
    has_timed_out: bool = False
    #: Whether an attempt of the pod has gone by the results.
    is_used: bool = False
    _computation: Computation | None = None
    _patience: _JobPatience | None = None

    @property
    def has_begun(self) -> bool:
        """Return True if `begin` was called."""
        return self._computation is not None

    def begin(self, seconds: float) -> None:
        """Prepare the job to run for so many seconds."""
        assert self.choice is not None, "it was not done yet"
        before = self.basis
        self.basis, nodes = self.prepare(self.choice)
        if (before, before.changes) != (self.basis, self.basis.changes):
            self.answers.clear()
        left = [info for info in nodes if info.name not in self.answers]
        self._computation = Computation(partial(self._look_at, left))
        self._patience = _JobPatience(self._computation.pause, seconds)

    def step(self, now: Callable[[], float]) -> float:
        """Work a little; return how many seconds that took."""
        assert self._computation is not None, "it was begun"
        assert self._patience is not None, "it was begun"
        began = now()
        self.is_done = self._computation.step()
        took = now() - began
        self._patience.used_seconds += took
        return took

    def close(self) -> None:
        """End the work at its present pause."""
        if self._computation is not None:
            self._computation.close()
            self._computation = self._patience = None
        if None not in self.answers.values():
            self.choice = None

    def _look_at(self, nodes: Iterable[NodeInfo]) -> None:
        assert self._patience is not None, "it was begun"
        assert self.choice is not None, "it was not done yet"
        alike: dict[Status | None, Status | None] = {}
        for info in nodes:
            status, self.has_timed_out = self.choice.look_at(info, self._patience)
            if self.has_timed_out:
                return
            self.answers[info.name] = alike.setdefault(status, status)


def _has_passed(now: Callable[[], float], deadline: float) -> bool:
    return now() >= deadline


@attrs.define(eq=False)
class _Namespace:
    """The seconds that a namespace used, and how often its pods ran out of time; both decay with time."""

    seconds: float = 0.0
    halvings: float = 0.0
    at: float = 0.0

    def forgive(self, now: float) -> None:
        passed = max(now - self.at, 0.0) / _FORGIVEN_AFTER_SECONDS
        self.seconds *= math.exp(-passed)
        self.halvings = max(self.halvings - passed, 0.0)
        self.at = now


class LongWork:
    """The jobs of one plugin; `timeout_seconds` is what a pod gets, 0 for as much as it takes."""

    def __init__(self, handle: Handle, timeout_seconds: float) -> None:
        self._handle = handle
        self._timeout_seconds = timeout_seconds
        #: By uid of the pod, in the order in which they began.
        self._jobs: dict[str, Job] = {}
        self._running: list[Job] = []
        self._namespaces: dict[str, _Namespace] = {}
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def is_busy_with(self, pod: Pod) -> bool:
        """Return True while there is work on a pod, so that the pod has to wait."""
        job = self._jobs.get(pod.uid)
        return job is not None and not job.is_done

    def look_up(self, pod: Pod, choice: Choice, basis: Basis) -> None:
        """Copy the results about a pod into a choice that is made for it, as far as they are still valid."""
        job = self._jobs.get(pod.uid)
        if job is None:
            return
        if job.basis != basis:
            self.forget(pod)
            return
        if not job.is_done:
            return
        is_outdated = (job.basis.changes, job.basis.inventory) != (basis.changes, basis.inventory)
        if not (job.is_used and (is_outdated or job.has_timed_out)):
            choice.found = Findings(job.answers, is_outdated, job.has_timed_out)
        known = job.choice.allocators.get(None) if job.choice is not None else None
        if known is not None and job.basis.inventory is basis.inventory and choice.make_allocator is not None:
            choice.allocators[None] = known

    def note_used(self, pod: Pod) -> None:
        """Note that an attempt of a pod used the results; if they do not hold any more, the next begins anew."""
        job = self._jobs.get(pod.uid)
        if job is not None and job.is_done:
            job.is_used = True

    def patience(self, pod: Pod, *, short: bool = False, endless: bool = False) -> Patience:
        """Return how long one call about a pod may take within a cycle."""
        seconds = self.seconds_for(pod.namespace)
        expired = None
        if seconds != math.inf:
            now = self._handle.clock.now
            deadline = now() + seconds
            expired = partial(_has_passed, now, deadline)
        # Pods that look for devices wait for each other, and nobody else for all of them.
        pauses = PAUSES_PER_CYCLE // (1 + sum(not job.is_done for job in self._jobs.values()))
        return CyclePatience(expired, _ENDLESS if endless else _SHORT if short else pauses)

    def forget(self, pod: Pod) -> None:
        """Drop all results about a pod, and end the work on it."""
        job = self._jobs.pop(pod.uid, None)
        if job is not None:
            job.close()
            if job in self._running:
                self._running.remove(job)

    def begin(self, job: Job) -> bool:
        """Work on a pod and retry the pod afterwards; return False if no event loop runs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        before = self._jobs.get(job.pod.uid)
        if before is not None and before.basis == job.basis and before.basis.changes == job.basis.changes:
            job.answers.update(before.answers)  # a cycle may ask about some of the nodes only
        self.forget(job.pod)
        self._drop_old()
        self._jobs[job.pod.uid] = job
        if self._task is None or self._task.done():
            self._task = self._handle.spawn(self._run(), name="look for devices")
        return True

    def seconds_for(self, namespace: str) -> float:
        """Return how long a pod of a namespace may take."""
        if not self._timeout_seconds:
            return math.inf
        known = self._namespaces.get(namespace)
        if known is None:
            return self._timeout_seconds
        known.forgive(self._handle.clock.now())
        least = min(_LEAST_SECONDS, self._timeout_seconds)
        return max(self._timeout_seconds * math.exp2(-known.halvings), least)

    def _account(self, namespace: str) -> _Namespace:
        now = self._handle.clock.now()
        if len(self._namespaces) > 10_000:
            self._namespaces = {name: one for name, one in self._namespaces.items() if one.halvings > 0}
        account = self._namespaces.setdefault(namespace, _Namespace(at=now))
        account.forgive(now)
        return account

    def _drop_old(self) -> None:
        """Forget the oldest results where there are too many, and those that nobody will ask for."""
        found = answers = 0
        newest: Inventory | None = None
        for uid, job in reversed(list(self._jobs.items())):
            if not job.is_done:
                continue
            newest = newest or job.basis.inventory
            found += job.choice is not None
            answers += len(job.answers)
            is_old = job.is_used and (job.basis.inventory is not newest or answers > _MOST_ANSWERS)
            is_one_too_many = job.choice is not None and found > _MOST_KEPT
            if is_old or is_one_too_many or not self._handle.queue_place(uid):
                del self._jobs[uid]

    async def _run(self) -> None:
        try:
            while self._choose():
                for job in list(self._running):
                    self._step(job)
                    await asyncio.sleep(0)
        finally:
            for job in list(self._running):
                self.forget(job.pod)

    def _choose(self) -> Sequence[Job]:
        """Return the jobs to run next, no two of one namespace."""
        if len(self._running) == _AT_ONCE or len(self._running) == len(self._jobs):
            return self._running
        busy = {job.pod.namespace for job in self._running}
        waiting = [job for job in self._jobs.values() if not job.is_done and job.pod.namespace not in busy]
        waiting.sort(key=lambda job: self._account(job.pod.namespace).seconds)
        for job in waiting:
            namespace = job.pod.namespace
            if len(self._running) < _AT_ONCE and namespace not in busy and self._is_wanted(job):
                busy.add(namespace)
                self._running.append(job)
        return self._running

    def _is_wanted(self, job: Job) -> bool:
        """Return True if the pod is still to be scheduled; forget it otherwise."""
        if self._handle.queue_place(job.pod.uid):
            return True
        self.forget(job.pod)
        return False

    def _step(self, job: Job) -> None:
        if job not in self._running or not self._is_wanted(job):
            return
        account = self._account(job.pod.namespace)
        try:
            if not job.has_begun:
                job.begin(self.seconds_for(job.pod.namespace))
            account.seconds += job.step(self._handle.clock.now)
        except Exception:  # noqa: BLE001 - a bug must cost this pod an attempt, and not all that wait
            _log.exception("Looking for devices failed pod=%s", job.pod.key)
            self.forget(job.pod)
            self._handle.activate([job.pod])
            return
        if not job.is_done:
            return
        self._running.remove(job)
        job.close()
        self._drop_old()
        if job.has_timed_out:
            account.halvings += 1.0
        self._handle.activate([job.pod])
