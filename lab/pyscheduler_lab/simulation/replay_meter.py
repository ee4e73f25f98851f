"""Measure a replay of a job trace: the state of each job, and the GPUs in use over time.

A pod *holds* its GPUs while it has a node. The GPUs are *used* once the job's minimum of workers is bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pyscheduler_lab.simulation.decisions.typed_cluster import Binding
from pyscheduler_lab.traces.job import gpus_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pyscheduler_lab.simulation.replay_cluster import ReplayCluster
    from pyscheduler_lab.traces import Job

__all__ = ["JobRun", "Meter", "Moment", "PodRun"]


@attrs.define(eq=False)
class JobRun:
    """One job of the replay. Times in seconds since the beginning; None for events that have not happened."""

    job: Job
    arrived: float | None = None
    #: When the minimum of workers was bound.
    started: float | None = None
    ended: float | None = None
    #: The nodes of the bound workers, by name of the worker.
    bound: dict[str, str] = attrs.Factory(dict)
    #: Begin and end of each run so far; the last one is whole, the others were interrupted by an eviction.
    spans: list[tuple[float, float]] = attrs.Factory(list)
    #: Too few workers were left after an eviction, and the job is not created again yet.
    is_interrupted: bool = False

    @property
    def is_endless(self) -> bool:
        """Return True if the job runs and has no end."""
        return self.started is not None and self.job.is_endless

    @property
    def bound_milli(self) -> int:
        """Thousandths of GPUs of the bound workers."""
        return len(self.bound) * self.job.worker_gpu_milli


@attrs.define(eq=False)
class PodRun:
    """One pod of a job. Times in seconds since the beginning; None for events that have not happened.

    An evicted pod is created again, as a new pod of the same name. If its job was interrupted, all pods are created
    again; they belong to the next `run` of the job.
    """

    job: str
    name: str
    run: int
    created: float
    node: str = ""
    bound: float | None = None
    #: How many pods were bound before this one.
    place: int | None = None
    #: When the pod ended, was evicted, or was deleted because its job was interrupted.
    left: float | None = None
    is_evicted: bool = False
    #: Begin of the run of the job.
    run_started: float | None = None


@attrs.frozen
class Moment:
    """GPUs held and jobs waiting, from `time` until the next moment."""

    time: float
    used: float
    idle: float
    waiting_jobs: int


class Meter:
    """Follows the pods of a cluster.

    `complete` is called with each job that starts, `interrupt` with each job that has too few workers after an
    eviction, and `replace` with the name of each evicted worker of a job that still has enough.
    `reserved` yields the names of the pods that are reserved in the scheduler's memory but not bound.
    """

    def __init__(
        self,
        cluster: ReplayCluster,
        *,
        now: Callable[[], float],
        reserved: Callable[[], Iterable[str]],
        complete: Callable[[JobRun], object],
        interrupt: Callable[[JobRun], object],
        replace: Callable[[JobRun, str], object],
    ) -> None:
        self._now = now
        self._reserved = reserved
        self._complete = complete
        self._interrupt = interrupt
        self._replace = replace
        self.runs: dict[str, JobRun] = {}
        #: All pods in the order of their creation, and the last one of each name.
        self.pods: list[PodRun] = []
        self._pod_of: dict[str, PodRun] = {}
        #: The job of each existing pod, by the pod's name.
        self._job_of: dict[str, JobRun] = {}
        #: Thousandths of GPUs on which jobs run now.
        self._used_milli = 0
        #: The numbers of jobs that have arrived and do not run, that run and will end, and that run and have no end.
        self.waiting = 0
        self.running = 0
        self.endless = 0
        #: Thousandths of GPUs of bound workers whose jobs do not run yet.
        self._idle_milli = 0
        #: All bindings of workers, in order.
        self.bindings: list[Binding] = []
        self.moments: list[Moment] = []
        #: When a job last arrived or ended, or a worker was bound.
        self.last_event = 0.0
        self._feed = cluster.follow(self)

    @property
    def used(self) -> float:
        """The number of GPUs on which jobs run now."""
        return gpus_of(self._used_milli)

    def start(self) -> None:
        """Start to follow."""
        self._feed.start()

    def stop(self) -> None:
        """Stop to follow."""
        self._feed.stop()

    def job_of(self, pod: str) -> Job | None:
        """Return the job of a pod; None if it has ended, or for other pods."""
        run = self._job_of.get(pod)
        return None if run is None else run.job

    # --- jobs ------------------------------------------------------------------------------------

    def arrive(self, job: Job) -> JobRun:
        """Record the arrival of a job, before its pods are created."""
        self.last_event = self._now()
        run = self.runs[job.name] = JobRun(job, arrived=self.last_event)
        for number in range(job.workers):
            self._job_of[f"{job.name}-{number}"] = run
            self._create(PodRun(job.name, f"{job.name}-{number}", 1, self.last_event))
        self.waiting += 1
        return run

    def leave(self, run: JobRun) -> None:
        """Record the end of a job, before its pods are deleted."""
        run.ended = self.last_event = self._now()
        assert run.started is not None, "only jobs that run end"
        run.spans.append((run.started, run.ended))
        self._count(run, -1)
        self._used_milli -= run.bound_milli
        for pod in self._pods_of(run.job):
            self._job_of.pop(pod.name, None)
            pod.left = pod.left if pod.left is not None else run.ended

    def resume(self, run: JobRun) -> None:
        """Forget the removed workers of an interrupted job, before its pods are created again."""
        self._feed.catch_up()
        run.is_interrupted = False
        now = self._now()
        for pod in self._pods_of(run.job):
            pod.left = pod.left if pod.left is not None else now
            self._create(PodRun(pod.job, pod.name, pod.run + 1, now))

    def recreate(self, name: str) -> None:
        """Record that an evicted worker is created again, while its job runs."""
        last = self._pod_of[name]
        self._create(PodRun(last.job, name, last.run, self._now(), run_started=last.run_started))

    def _create(self, pod: PodRun) -> None:
        self.pods.append(pod)
        self._pod_of[pod.name] = pod

    def _pods_of(self, job: Job) -> list[PodRun]:
        """Return the last pod of each worker."""
        return [self._pod_of[f"{job.name}-{number}"] for number in range(job.workers)]

    # --- time ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Read the cluster at rest; its state holds until the next event."""
        self._feed.catch_up()
        idle_milli = self._idle_milli
        for name in self._reserved():
            run = self._job_of.get(name)
            if run is not None and run.started is None and name not in run.bound:
                idle_milli += run.job.worker_gpu_milli
        idle = gpus_of(idle_milli)
        last = self.moments[-1] if self.moments else None
        if last is None or (last.used, last.idle, last.waiting_jobs) != (self.used, idle, self.waiting):
            self.moments.append(Moment(self._now(), self.used, idle, self.waiting))

    # --- following -------------------------------------------------------------------------------

    def listed(self, names: Collection[str]) -> None:
        """Note that only these pods exist."""
        present = set(names)
        for name in [name for name in self._job_of if name not in present]:
            self.lost(name)

    def bound(self, name: str, node: str) -> None:
        """Note that a pod has a node; it may have been noted before."""
        run = self._job_of.get(name)
        if run is None or run.is_interrupted or name in run.bound:
            return
        run.bound[name] = node
        self.last_event = self._now()
        pod = self._pod_of[name]
        pod.node, pod.bound, pod.place = node, self.last_event, len(self.bindings)
        self.bindings.append(Binding(self.last_event, name, node))
        if run.started is not None:
            self._used_milli += run.job.worker_gpu_milli
            return
        self._idle_milli += run.job.worker_gpu_milli
        if len(run.bound) == run.job.min_workers:
            run.started = self._now()
            for each in self._pods_of(run.job):
                each.run_started = run.started
            self._idle_milli -= run.bound_milli
            self._used_milli += run.bound_milli
            self.waiting -= 1
            self._count(run, 1)
            self._complete(run)

    def lost(self, name: str) -> None:
        """Note that a pod is gone: with too few left, its job does not run until it is created again."""
        run = self._job_of.get(name)
        if run is None or run.is_interrupted:
            return
        self.last_event = self._now()
        pod = self._pod_of[name]
        pod.left, pod.is_evicted = self.last_event, True
        if run.started is not None and len(run.bound.keys() - {name}) >= run.job.min_workers:
            self._used_milli -= run.job.worker_gpu_milli if name in run.bound else 0
            run.bound.pop(name, None)
            self._replace(run, name)
            return
        if run.started is None:
            self._idle_milli -= run.bound_milli
        else:
            run.spans.append((run.started, self.last_event))
            self._count(run, -1)
            run.started = None
            self._used_milli -= run.bound_milli
            self.waiting += 1
        run.bound.clear()
        run.is_interrupted = True
        self._interrupt(run)

    def _count(self, run: JobRun, change: int) -> None:
        """Count a job that begins or ceases to run."""
        if run.job.is_endless:
            self.endless += change
        else:
            self.running += change
