"""What is measured of a replay: where each job stands, and what is held, integrated over time.

A GPU is held by a pod that is bound, or that waits at Permit and has its place reserved. It is *used* from the moment
at which all workers of its job are bound; what is held before that is held by an incomplete job, and nobody has
anything of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler.cluster.embedded.controllers.follower import Follower
from pyscheduler.cluster.embedded.resources.builtin import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
    from pyscheduler.cluster.embedded.store import Change, Record
    from pyscheduler.simulation.job_traces import Job

__all__ = ["JobRun", "Meter", "Moment"]


@attrs.define(eq=False)
class JobRun:
    """One job on its way. Times are seconds since the beginning; None for what has not happened."""

    job: Job
    arrived: float | None = None
    #: When all of its workers were bound.
    started: float | None = None
    ended: float | None = None
    #: The names of its workers that are bound.
    bound: set[str] = attrs.Factory(set)

    @property
    def is_incomplete(self) -> bool:
        """Tell whether it is there and does not run."""
        return self.arrived is not None and self.started is None


@attrs.frozen
class Moment:
    """What is held and what waits, from `time` on until the next one: GPUs, and jobs that do not run."""

    time: float
    used: int
    idle: int
    waiting_jobs: int


class Meter:
    """Follows the pods of a cluster. `complete` is called with each job of which the last worker was bound.

    `reserved` yields the names of the pods that have a place in the scheduler's memory only.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        *,
        now: Callable[[], float],
        reserved: Callable[[], Iterable[str]],
        complete: Callable[[JobRun], object],
    ) -> None:
        self._now = now
        self._reserved = reserved
        self._complete = complete
        self.runs: dict[str, JobRun] = {}
        #: The job of each pod that is there, by the pod's name.
        self._job_of: dict[str, JobRun] = {}
        self._used = 0
        self._waiting = 0
        #: GPUs of bound workers of jobs that do not run.
        self._bound_idle = 0
        self.moments: list[Moment] = []
        self.used_gpu_seconds = 0.0
        self.partial_gpu_seconds = 0.0
        #: When a job last came or left, or a worker was bound.
        self.last_event = 0.0
        self._follower = Follower(
            cluster.registry.collection(PODS), clock=cluster.clock, listed=self._listed, changed=self._changed
        )

    def start(self) -> None:
        """Begin to follow."""
        self._follower.start()

    def stop(self) -> None:
        """End; what was held until now is accounted for."""
        self._follower.stop()
        self._account(self._now())

    @property
    def used(self) -> int:
        """Return how many GPUs jobs run on now."""
        return self._used

    @property
    def waiting(self) -> int:
        """Return how many jobs are there and do not run."""
        return self._waiting

    # --- jobs ------------------------------------------------------------------------------------

    def arrive(self, job: Job) -> JobRun:
        """Take down that a job has come, before its pods are made."""
        self.last_event = self._now()
        run = self.runs[job.name] = JobRun(job, arrived=self.last_event)
        self._job_of.update((f"{job.name}-{number}", run) for number in range(job.workers))
        self._waiting += 1
        return run

    def leave(self, run: JobRun) -> None:
        """Take down that a job has ended, before its pods are deleted."""
        run.ended = self.last_event = self._now()
        self._used -= run.job.gpu_count
        for number in range(run.job.workers):
            self._job_of.pop(f"{run.job.name}-{number}", None)

    # --- time ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at the cluster, which is at rest: what is so now is so until something happens."""
        self._follower.catch_up()
        idle = self._bound_idle
        for name in self._reserved():
            run = self._job_of.get(name)
            if run is not None and run.started is None and name not in run.bound:
                idle += run.job.gpus
        last = self.moments[-1] if self.moments else None
        if last is None or (last.used, last.idle, last.waiting_jobs) != (self._used, idle, self._waiting):
            now = self._now()
            self._account(now)
            self.moments.append(Moment(now, self._used, idle, self._waiting))

    def _account(self, now: float) -> None:
        """Add up what was held since the last moment, which holds on until now."""
        if self.moments:
            last = self.moments[-1]
            self.used_gpu_seconds += last.used * (now - last.time)
            self.partial_gpu_seconds += last.idle * (now - last.time)

    # --- following -------------------------------------------------------------------------------

    def _listed(self, records: Sequence[Record]) -> None:
        present = {record.name for record in records}
        for name in [name for name in self._job_of if name not in present]:
            self._lost(name)
        for record in records:
            self._look_at(record)

    def _changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._lost(change.record.name)
        else:
            self._look_at(change.record)

    def _look_at(self, record: Record) -> None:
        if not record.fields.get("spec.nodeName"):
            return
        run = self._job_of.get(record.name)
        if run is None or record.name in run.bound:
            return
        run.bound.add(record.name)
        self._bound_idle += run.job.gpus
        self.last_event = self._now()
        if len(run.bound) == run.job.workers and run.started is None:
            run.started = self._now()
            self._bound_idle -= run.job.gpu_count
            self._used += run.job.gpu_count
            self._waiting -= 1
            self._complete(run)

    def _lost(self, name: str) -> None:
        """Take down that a worker was taken away from a job that does not run, by preemption say."""
        run = self._job_of.get(name)
        if run is not None and name in run.bound and run.started is None:
            run.bound.discard(name)
            self._bound_idle -= run.job.gpus
