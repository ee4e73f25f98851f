"""Replay a trace of jobs in virtual time: jobs arrive, wait until enough of their workers are bound, run, and end.

If evictions leave too few workers of a job, the job starts again.

With the fidelity `full`, the scheduler talks to an API server in this process. With `decisions`, it reads typed objects
in memory, which is faster.

Differs from a real cluster: watches never end, and pods run as soon as they are bound.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from kube_testserver.virtual_time import VirtualClock
from kube_testserver.wire import new_uid
from pyscheduler.framework.errors import APIError
from pyscheduler.framework.plugin_failures import error_text
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler_lab.simulation.gpu_profile import with_gpu_sharing
from pyscheduler_lab.simulation.group_objects import class_name, default_dialect, definitions, priority_classes
from pyscheduler_lab.simulation.node_changes import NodeChanges
from pyscheduler_lab.simulation.queue_plan import batch_definitions
from pyscheduler_lab.simulation.replay_cluster import DecisionCluster, ServedCluster
from pyscheduler_lab.simulation.replay_meter import Meter
from pyscheduler_lab.simulation.replay_objects import NAMESPACE, group_of, new_namespace, pod_of
from pyscheduler_lab.simulation.replay_report import Phase, PluginErrors, ReplayReport
from pyscheduler_lab.simulation.scheduler_process import SchedulerProcess, namespaces_of_plugins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.config.types import Configuration
    from pyscheduler.framework.plugin_failures import PluginFailure
    from pyscheduler.runtime.assembly.registry import Registry
    from pyscheduler.runtime.tie_break import Ties
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_lab.clusters import Cluster
    from pyscheduler_lab.clusters.failures import Failures
    from pyscheduler_lab.simulation.queue_plan import QueuePlan
    from pyscheduler_lab.simulation.replay_cluster import Fidelity
    from pyscheduler_lab.simulation.replay_meter import JobRun
    from pyscheduler_lab.traces import Job

__all__ = ["UNSCHEDULABLE_SECONDS", "Progress", "Replay"]

UNSCHEDULABLE_SECONDS: Final = 6 * 3600.0
"""The default time after which an unschedulable pod is retried although nothing happened.

With five minutes, as in `run`, such retries are most of the work over months of a full cluster, and change little.
"""

#: Interval between calls of `progress`, in virtual seconds.
_STRIDE_SECONDS: Final = 3600.0
#: If nothing runs, arrives or is bound for this long, the waiting jobs will wait forever: every default window, lease
#: and wait of a plugin is shorter. At least twice the time after which every pod is retried.
_STUCK_SECONDS: Final = 4 * 3600.0
#: If each waiting pod had at least as many errors in a row, and nothing else can happen, the errors will not end.
_MOST_ERRORS: Final = 60
#: A controller creates the workers of an evicted job again after this time, in seconds.
_RESTART_SECONDS: Final = 1.0
#: The group plugins' counter of deadlocks, and its labels for resolved deadlocks.
_DEADLOCKS: Final = "pyscheduler_podgroup_deadlocks_total"
_RESOLVED: Final = (("result", "resolved"),)


class _FirstOrLast(random.Random):
    """Draws the first or the last number of a range; bits are random.

    Policies of Volcano draw among the rows of nodes with equal scores from it. Nodes are added by name, so that rows
    are in the order of names.
    """

    ties: Ties = "first"

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        numbers = range(start) if stop is None else range(start, stop, step)
        return numbers[0 if self.ties == "first" else -1]


def _random_source(seed: int, ties: Ties) -> random.Random:
    if ties == "random":
        return random.Random(seed)
    found = _FirstOrLast(seed)
    found.ties = ties
    return found


class _Counts(NullRecorder):
    """Counts attempts by result and warnings by kind; reads the counters of group plugins."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self._deadlocks: Callable[[], Mapping[tuple[tuple[str, str], ...], float]] = dict

    @property
    def deadlocks_resolved(self) -> int:
        """Return the number of resolved deadlocks of groups; 0 without a plugin that resolves them."""
        return int(self._deadlocks().get(_RESOLVED, 0))

    def counter(
        self,
        name: str,
        read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]],
        *,
        description: str = "",  # noqa: ARG002 - the Protocol's
    ) -> None:
        """Keep the function that reads the count of deadlocks."""
        if name == _DEADLOCKS:
            self._deadlocks = read

    def count(self, family: str, *labels: str) -> None:
        """Count attempts."""
        if family == "scheduler_schedule_attempts_total":
            self.attempts[labels[0]] += 1

    def warning(self, kind: str) -> None:
        """Count a warning."""
        self.warnings[kind] += 1


@attrs.frozen(kw_only=True)
class Progress:
    """The state of a replay; `time` in virtual seconds."""

    time: float
    jobs: int
    arrived: int
    waiting: int
    finished: int
    used_gpus: float
    attempts: int


class Replay:
    """One replay; call `run` once. Raises `ConfigError` for a profile that cannot be built.

    The same `seed` gives the same history. With `queues`, every job is a group, which names its queue. If a job shares
    GPUs, the first profile of `config` gets the plugin GpuSharing.
    """

    #: The cluster, for inspection by the caller.
    cluster: DecisionCluster | ServedCluster

    def __init__(  # noqa: PLR0913 - wiring, by keyword
        self,
        jobs: Sequence[Job],
        nodes: Cluster,
        config: Configuration,
        *,
        registry: Registry,
        settings: Settings | None = None,
        seed: int = 0,
        queues: QueuePlan | None = None,
        fidelity: Fidelity = "full",
        failures: Failures | None = None,
    ) -> None:
        self._jobs = jobs
        self._queues = queues
        self._nodes = nodes
        #: Batch systems read the priority of a job from its group. If one job has a priority, all have a class: a job
        #: without a class has the default of the system.
        self._has_priority_classes = queues is not None and any(job.priority for job in jobs)
        self._shares_gpus = any(job.shares_gpus for job in jobs)
        self._config = with_gpu_sharing(config) if self._shares_gpus else config
        self._registry = registry
        self._settings = settings if settings is not None else Settings(max_unschedulable_seconds=UNSCHEDULABLE_SECONDS)
        self._stuck_seconds = max(_STUCK_SECONDS, 2 * self._settings.max_unschedulable_seconds)
        self._rng = random.Random(f"replay/{seed}")
        self._clock = VirtualClock()
        self._began = self._clock.now()
        cluster = DecisionCluster if fidelity == "decisions" else ServedCluster
        self.cluster = cluster(
            clock=self._clock,
            rng=random.Random(self._rng.getrandbits(64)),
            uid=partial(new_uid, random.Random(f"replay/{seed}/uids")),
        )
        self._counts = _Counts()
        self._process = SchedulerProcess(self._clock, self._build)
        self._scheduler = self._process.build()
        #: The first message of a plugin that failed, by plugin and extension point.
        self._first_errors: dict[tuple[str, str], str] = {}
        self._scheduler.plugin_failures.listeners.append(self._note_failure)
        profile = self._scheduler.profiles[config.profiles[0].scheduler_name]
        self._scheduler_name = profile.name
        self._table = registry.dialect_table()
        dialect = default_dialect(profile.plugins, self._table) if queues is None else queues.dialect
        self._row = self._table.named(dialect)
        self.meter = Meter(
            self.cluster,
            now=self._now,
            reserved=self._reserved,
            complete=self._run_job,
            interrupt=self._interrupt,
            replace=self._replace,
        )
        #: The changes of the nodes; None if there are none.
        self.node_changes = self._node_changes(failures, seed) if failures is not None else None
        self._finished = 0
        self._phases: list[Phase] = []

    def _node_changes(self, failures: Failures, seed: int) -> NodeChanges:
        return NodeChanges(
            failures,
            self._nodes.nodes,
            self.cluster,
            clock=self._clock,
            seed=seed,
            namespace=NAMESPACE,
            shares_gpus=self._shares_gpus,
            job_of=self.meter.job_of,
            last_job_event=lambda: self.meter.last_event,
        )

    @property
    def dialect(self) -> str:
        """Return the name of the dialect that groups are written in."""
        return self._row.name

    def _build(self) -> Scheduler:
        return build(
            self._config,
            self.cluster.transport(),
            self._clock,
            _random_source(self._rng.getrandbits(64), self._settings.ties),
            registry=self._registry,
            recorder=self._counts,
            settings=self._settings,
        )

    def waiting_messages(self) -> dict[str, str]:
        """Return by name of a job why one of its pods without a node waits, as the condition of the pod says it."""
        found: dict[str, str] = {}
        for name, message in self.cluster.waiting(NAMESPACE).items():
            found.setdefault(name.rpartition("-")[0], message)
        return found

    async def run(self, progress: Callable[[Progress], object] = lambda _: None) -> ReplayReport:
        """Replay the trace until its end, or until nothing changes any more; call `progress` at intervals."""
        began = time.perf_counter()
        try:
            with self._phase("start"):
                await self._start()
            with self._phase("arrivals"):
                await self._until(lambda: len(self.meter.runs) == len(self._jobs), progress)
            with self._phase("drain"):
                await self._until(self._is_over, progress)
            self.meter.stop()
            return self._report(time.perf_counter() - began)
        finally:
            self.cluster.stop()
            if self.node_changes is not None:
                self.node_changes.stop()
            await self._process.end()

    # --- what happens ----------------------------------------------------------------------------

    async def _start(self) -> None:
        self.cluster.add(*map(new_namespace, (NAMESPACE, *namespaces_of_plugins(self._scheduler))))
        self.cluster.add(*definitions(self._table))
        if self._queues is not None:
            self.cluster.add(*batch_definitions(), *self._queues.manifests)
        if self._has_priority_classes:
            self.cluster.add(*priority_classes(job.priority for job in self._jobs))
        nodes = self._nodes.manifests(shares_gpus=self._shares_gpus)
        by_name = self._settings.ties != "random"
        self.cluster.add(*(sorted(nodes, key=lambda node: str(node["metadata"]["name"])) if by_name else nodes))
        self.meter.start()
        self.cluster.start()
        await self._process.begin()
        self._began = self._clock.now()
        if self.node_changes is not None:
            self.node_changes.start()
        for job in self._jobs:
            self._clock.call_at(self._began + job.arrival, partial(self._submit, job))

    async def _until(self, over: Callable[[], bool], progress: Callable[[Progress], object]) -> None:
        while not over():
            seconds = min(_STRIDE_SECONDS, self._error_seconds) if self._counts.attempts["error"] else _STRIDE_SECONDS
            await self._clock.advance(seconds, at_rest=self.meter.look)
            self._process.require()
            progress(self._progress())

    def _is_over(self) -> bool:
        if self._all_done():
            return True
        last_event = self.meter.last_event
        if self.node_changes is not None:
            if self.node_changes.is_expected:
                return False
            last_event = max(last_event, self.node_changes.last_event)
        if self.meter.running:
            return False
        quiet = self._now() - last_event
        return quiet >= self._stuck_seconds or (quiet >= self._error_seconds and self._has_only_errors())

    @property
    def _error_seconds(self) -> float:
        """The longest time of `_MOST_ERRORS` attempts that end with an error."""
        return _MOST_ERRORS * self._config.pod_max_backoff_seconds

    def _has_only_errors(self) -> bool:
        """Return True if each waiting pod is retried again and again because of an error, such as that of a plugin."""
        queue = self._scheduler.queue
        waiting = [queue.get(pod.uid) for pod in queue.pending_pods()]
        return bool(waiting) and all(each is not None and each.consecutive_errors >= _MOST_ERRORS for each in waiting)

    def _submit(self, job: Job) -> None:
        """Create the objects of a job, as a user does."""
        self.meter.arrive(job)
        if self._has_group(job):
            queue = self._queues.queue_of(job) if self._queues is not None else ""
            priority_class = class_name(job.priority) if self._has_priority_classes else ""
            self.cluster.add(group_of(job, self._row, queue=queue, priority_class=priority_class))
        self._add_pods(job, range(job.workers))

    def _has_group(self, job: Job) -> bool:
        return job.is_gang or self._queues is not None

    def _add_pods(self, job: Job, numbers: Iterable[int]) -> None:
        has_group = self._has_group(job)
        if self.node_changes is not None:
            self.node_changes.pods_added()
        for number in numbers:
            pod = pod_of(job, number, self._row, scheduler_name=self._scheduler_name, has_group=has_group)
            self.cluster.add(pod)

    def _remove_pods(self, job: Job) -> None:
        for number in range(job.workers):
            with suppress(APIError):  # it may have been evicted
                self.cluster.remove("v1", "Pod", f"{job.name}-{number}", namespace=NAMESPACE)

    def _run_job(self, run: JobRun) -> None:
        if not run.job.is_endless:
            self._clock.call_later(run.job.duration, partial(self._finish, run, len(run.spans)))

    def _replace(self, run: JobRun, name: str) -> None:
        self._clock.call_later(_RESTART_SECONDS, partial(self._add_again, run, name, len(run.spans)))

    def _add_again(self, run: JobRun, name: str, spans: int) -> None:
        """Create an evicted worker again, unless its job was interrupted or has ended since."""
        if len(run.spans) == spans and not run.is_interrupted:
            self.meter.recreate(name)
            self._add_pods(run.job, [int(name.rpartition("-")[2])])

    def _interrupt(self, run: JobRun) -> None:
        self._clock.call_later(_RESTART_SECONDS, partial(self._restart, run))

    def _restart(self, run: JobRun) -> None:
        """Replace all workers of a job that lost some, as a job controller does."""
        self._remove_pods(run.job)
        self.meter.resume(run)
        self._add_pods(run.job, range(run.job.workers))

    def _finish(self, run: JobRun, spans: int) -> None:
        """End a job, unless it was interrupted since it began its run number `spans`.

        Its objects are deleted, as the garbage collector does after the deletion of their owner.
        """
        if len(run.spans) != spans:
            return
        job = run.job
        self.meter.leave(run)
        self._finished += 1
        self._remove_pods(job)
        if self._has_group(job):
            kind = self._row.kinds[0]
            self.cluster.remove(kind.api_version, kind.kind, job.name, namespace=NAMESPACE)

    # --- the report ------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._clock.now() - self._began

    def _note_failure(self, failure: PluginFailure) -> None:
        text = error_text(failure.error) + (f", {failure.place}" if failure.place else "")
        self._first_errors.setdefault((failure.plugin, failure.point), text)

    def _reserved(self) -> Iterator[str]:
        return (held.pod.name for held in self._scheduler.waiting_pods.all())

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        simulated, attempts = self._now(), self._scheduler.cycles
        yield
        phase = Phase(
            name=name,
            simulated_s=round(self._now() - simulated, 3),
            attempts=self._scheduler.cycles - attempts,
            wall_s=round(time.perf_counter() - wall, 3),
            cpu_s=round(time.process_time() - cpu, 3),
        )
        self._phases.append(phase)

    def _progress(self) -> Progress:
        return Progress(
            time=self._now(),
            jobs=len(self._jobs),
            arrived=len(self.meter.runs),
            waiting=self.meter.waiting,
            finished=self._finished,
            used_gpus=self.meter.used,
            attempts=self._scheduler.cycles,
        )

    def _report(self, wall_seconds: float) -> ReplayReport:
        times = self._scheduler.plugin_failures.counts
        return ReplayReport(
            jobs=len(self._jobs),
            finished=self._finished,
            dialect=self.dialect,
            deadlocks_resolved=self._counts.deadlocks_resolved,
            attempts=self._scheduler.cycles,
            attempts_by_result=dict(sorted(self._counts.attempts.items())),
            warnings=dict(sorted(self._counts.warnings.items())),
            plugin_errors=[
                PluginErrors(plugin=key[0], point=key[1], times=times[key], message=message)
                for key, message in sorted(self._first_errors.items())
            ],
            phases=self._phases,
            wall_s=round(wall_seconds, 3),
        )

    def _all_done(self) -> bool:
        """Return True if each job has ended, or runs and has no end."""
        return self._finished + self.meter.endless == len(self._jobs)
