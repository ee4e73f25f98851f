"""A random cluster of rival jobs on virtual time, with faults, crashes, and changes from outside."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod, PriorityClass
from pyscheduler.podgroup.wire import KAI_PODGROUPS, KUBE_BATCH_PODGROUPS, VOLCANO_PODGROUPS
from pyscheduler.testing import FakeCluster
from pyscheduler_kai.objects import KAI_QUEUES
from pyscheduler_kube_batch.objects import KUBE_BATCH_QUEUES
from pyscheduler_lab.audit import History, Options, Verdict, check
from pyscheduler_volcano.objects import VOLCANO_QUEUES
from tests.batch.chaos.mortal_scheduler import WRITES, Death, MortalScheduler
from tests.batch.chaos.refusals import REASONS, REFUSED, Refusal
from tests.batch.write_log import WriteLog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import ResourceKind
    from pyscheduler.testing import VirtualClock

__all__ = ["CONFIG", "KINDS", "QUEUES", "SETUPS", "Job", "Outcome", "RivalJobs", "Setup", "TroubledCluster"]

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 100000, burst: 100000}
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: %s, actions: "%s"%s}}]
"""


@attrs.frozen
class System:
    """The kinds of a batch system."""

    queue: ResourceKind
    group: ResourceKind
    #: The annotation of a pod that names its group.
    key: str


KINDS = {
    "kai": System(KAI_QUEUES, KAI_PODGROUPS, "pod-group-name"),
    "volcano": System(VOLCANO_QUEUES, VOLCANO_PODGROUPS, "scheduling.k8s.io/group-name"),
    "kube-batch": System(KUBE_BATCH_QUEUES[0], KUBE_BATCH_PODGROUPS[0], "scheduling.k8s.io/group-name"),
}
_ORDER = "{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}, {name: binpack}"
_LIMITS = {"burst_seconds": 90.0, "status_seconds": 60.0, "in_flight_seconds": 15.0}


@attrs.frozen(kw_only=True)
class Setup:
    """A preset with its actions and tiers, and what the checker must know."""

    preset: str
    actions: str
    tiers: str = ""
    options: Options

    @property
    def config(self) -> str:
        """Return the configuration of a scheduler."""
        return CONFIG % (self.preset, self.actions, self.tiers and f", tiers: [{self.tiers}]")


def _volcano(tiers: str, **options: Any) -> Setup:
    return Setup(
        preset="volcano",
        actions="enqueue, allocate, backfill, preempt, reclaim",
        tiers=tiers,
        options=Options(schedulers=frozenset({"batch"}), evicts_stale_gangs=False, **_LIMITS, **options),
    )


SETUPS = {
    "kai": Setup(
        preset="kai",
        actions="allocate, consolidation, reclaim, preempt, stalegangeviction",
        options=Options(schedulers=frozenset({"batch"}), **_LIMITS),
    ),
    # Who may be a victim is decided by gang and proportion together. As in Volcano, a policy behind two that agree on
    # nobody would choose alone: so there is none behind them.
    "volcano": _volcano(
        "{plugins: [{name: priority}, {name: gang}, {name: proportion}]}, "
        f"{{plugins: [{{name: overcommit}}, {_ORDER}]}}",
        formula="proportion",
    ),
    # Nearly as Volcano ships: if gang spares all, proportion chooses alone, breaks gangs, and shares justify nothing.
    "volcano-shipped": _volcano(
        "{plugins: [{name: priority}, {name: gang}, {name: conformance}]}, "
        f"{{plugins: [{{name: overcommit}}, {{name: proportion}}, {_ORDER}]}}",
        formula="none",
        breaks_gangs=True,
    ),
    # Its gang compares each victim with the same count: two members on one node may go together, and break the gang.
    "kube-batch": Setup(
        preset="kube-batch",
        actions="reclaim, allocate, backfill, preempt",
        tiers="{plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: proportion}]}, "
        "{plugins: [{name: drf}, {name: predicates}, {name: nodeorder}]}",
        options=Options(
            schedulers=frozenset({"batch"}),
            formula="kube-batch",
            evicts_stale_gangs=False,
            breaks_gangs=True,
            **_LIMITS,
        ),
    ),
}

#: Values of the priority classes. KAI evicts no job of 100 and more.
CLASSES = {"low": 10, "middle": 60, "build": 100}
QUEUES = ("a", "b", "c", "d")
#: Longer than any backoff, lease and grace period.
LONG = 1500.0
STEP = 1.0


@attrs.frozen
class Job:
    """A gang of `size` pods with `gpus` each."""

    name: str
    queue: str
    size: int
    gpus: int
    priority: str
    annotations: Mapping[str, str] = {}


class RivalJobs:
    """The nodes, queues and jobs of one batch system."""

    #: The grace period of pods; None for the default.
    grace: int | None = None

    def __init__(self, cluster: FakeCluster, preset: str) -> None:
        self.cluster, self.preset, self.kinds = cluster, preset, KINDS[preset]
        self.jobs: dict[str, Job] = {}
        #: Number of pods and nodes that were created.
        self.made = 0
        cluster.serve(self.kinds.queue)
        cluster.serve(self.kinds.group)

    def add_classes(self, values: Mapping[str, int]) -> None:
        """Create priority classes."""
        for name, value in values.items():
            manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            self.cluster.add({**manifest, "value": value}, PriorityClass)

    def add_node(self, name: str) -> None:
        """Create a node with 4 GPUs."""
        self.cluster.add_node(name, allocatable={"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "4"})

    def add_queue(self, name: str, spec: dict[str, Any]) -> None:
        """Create a queue."""
        kind = self.kinds.queue
        manifest = {"apiVersion": kind.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        self.cluster.add(manifest, kind.type)

    def change_queue(self, name: str, spec: dict[str, Any]) -> None:
        """Patch the spec of a queue."""
        self.cluster.patch(self.kinds.queue.type, name, {"spec": spec}, namespace="")

    def add_gang(self, job: Job, **spec: Any) -> None:
        """Create the group of a job and its pods."""
        kind = self.kinds.group
        metadata = {"name": job.name, "namespace": "default", "annotations": {**job.annotations}}
        spec = {"queue": job.queue, "priorityClassName": job.priority, **spec}
        manifest = {"apiVersion": kind.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
        self.cluster.add(manifest, kind.type)
        self.jobs[job.name] = job
        self.recreate()

    def end_job(self, job: Job) -> None:
        """Delete a job with its pods."""
        for pod in self.cluster.pods():
            if pod.labels["job"] == job.name:
                self.delete_pod(pod)
        self.cluster.delete(self.kinds.group.type, job.name)

    def delete_pod(self, pod: Pod) -> None:
        """Delete a pod of a job that ends."""
        self.cluster.delete_pod(pod.name)

    def recreate(self) -> None:
        """Create the pods that jobs lack, as their controllers do."""
        here = Counter(pod.labels["job"] for pod in self.cluster.pods() if not pod.is_terminating)
        for job in self.jobs.values():
            for _ in range(job.size - here[job.name]):
                self.made += 1
                self.cluster.add_pod(
                    f"{job.name}-{self.made}",
                    requests={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(job.gpus)},
                    annotations={self.kinds.key: job.name, **job.annotations},
                    labels={"job": job.name},
                    scheduler_name="batch",
                    spec={"priorityClassName": job.priority, "terminationGracePeriodSeconds": self.grace},
                )


@attrs.frozen(kw_only=True)
class Outcome:
    """What a run came to."""

    seed: int
    verdict: Verdict
    history: History
    #: How often each fault, each change from outside, each crash and each warning happened.
    troubles: Counter[str]
    warnings: Counter[str]
    bound: int
    #: Pods that a node refused, because it had no room.
    refused: int
    pending: int


class TroubledCluster(RivalJobs):
    """One cluster. `run` lets it live through its troubles, and then rest."""

    #: How long a pod takes to end, in seconds: one of these.
    stops: ClassVar[tuple[float, ...]] = (0.0, 2.0, 8.0)
    #: For how long writes are refused, in seconds: one of these.
    refusals: ClassVar[tuple[float, ...]] = (2.0, 10.0, 30.0, 90.0)
    #: More fields of pod groups, by preset.
    group_fields: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __init__(self, preset: str, seed: int, clock: Clock | None = None) -> None:
        self.setup, self.rng = SETUPS[preset], random.Random(seed)
        self.seed = seed
        super().__init__(FakeCluster(seed=seed, clock=cast("VirtualClock | None", clock)), self.setup.preset)
        self.troubles: Counter[str] = Counter()
        self._faults: dict[str, Fault] = {}
        self._refusals: list[Refusal] = []
        self._lives = 0
        self.log = WriteLog(self.cluster.server)
        self.log.start()
        self.lifecycle = self.cluster.server.lifecycle(start_seconds=1.0, stop_seconds=self.rng.choice(self.stops))
        self.lifecycle.start()
        self._fill()
        scheduler_rng = random.Random(seed)
        self.mortal = MortalScheduler(self.cluster, self.setup.config, scheduler_rng)

    # The cluster

    def _fill(self) -> None:
        self.add_classes(CLASSES)
        for number in range(self.rng.randint(2, 4)):
            self.add_node(f"n{number}")
        if self.preset == "kai":
            self.add_queue("top", {"resources": dict.fromkeys(("gpu", "cpu", "memory"), _free())})
        for name in QUEUES:
            self.add_queue(name, self._queue_spec(name))

    def _queue_spec(self, name: str) -> dict[str, Any]:
        """Return random quotas, limits and weights."""
        rng = self.rng
        if self.preset != "kai":
            spec: dict[str, Any] = {"weight": rng.randint(1, 4)}
            if self.preset == "volcano" and rng.random() < 0.3:
                spec["capability"] = {"nvidia.com/gpu": str(rng.choice([4, 8])), "cpu": "64", "memory": "64Gi"}
            return spec
        gpu = {"quota": rng.choice([0, 2, 4, 6]), "limit": rng.choice([-1, -1, 6, 8])}
        gpu["overQuotaWeight"] = rng.choice([0, 1, 3])
        spec = {"resources": {"gpu": gpu, "cpu": _free(), "memory": _free()}}
        if name in {"a", "b"}:
            spec["parentQueue"] = "top"
        if rng.random() < 0.2:
            spec |= {"preemptMinRuntime": "20s", "reclaimMinRuntime": "30s"}
        return spec

    def add_job(self, queue: str = "") -> None:
        """Create a random gang, in a random queue unless one is given."""
        size, rng = self.rng.randint(1, 4), self.rng
        name, gpus = f"job{len(self.jobs)}-{self.made}", rng.choice([1, 2, 4])
        priority = rng.choice([*CLASSES, "middle"])
        minimum = rng.randint(1, size)
        job = Job(name, queue or rng.choice(QUEUES), size, gpus, priority)
        self.add_gang(job, minMember=minimum, **self.group_fields.get(self.preset, {}))
        for refusal in self._refusals:
            self._cover(refusal)

    def recreate(self) -> None:
        """Delete pods of nodes that are gone, too."""
        nodes = {node.name for node in self.cluster.nodes()}
        for pod in self.cluster.pods():
            if pod.node_name and pod.node_name not in nodes:
                self.delete_pod(pod)
        super().recreate()

    # Troubles

    def _arm(self) -> None:
        """Let some requests of each kind go wrong, in the ways that a network and a server have."""
        ways: dict[str, dict[str, Any]] = {
            "409": {"status": 409},
            "429": {"status": 429, "retry_after_seconds": 1},
            "500": {"status": 500},
            "answer lost": {"lose": "answer"},
            "request lost": {"lose": "request"},
            "late": {"delay_seconds": 1.5},
        }
        for what in ("bind", "evict", "pod status", "group status", "queue status"):
            method, path = WRITES[what]
            for way, fields in ways.items():
                fault = Fault(method=method, path=path, probability=self.rng.choice([0.01, 0.05]), **fields)
                self._faults[f"{what}: {way}"] = self.cluster.server.faults.add(fault)
        fault = Fault(method="GET", path="/(pods|nodes|queues|podgroups)$", probability=0.1, status=500)
        self._faults["list: 500"] = self.cluster.server.faults.add(fault)
        # Most evictions come early.
        if self.rng.random() < 0.5:
            self.troubles[self._refuse()] += 1

    def _trouble(self) -> None:
        """Let something happen from outside."""
        chance = self.rng.random()
        acts: list[tuple[float, Callable[[], str]]] = [
            (0.30, self._new_job),
            (0.42, self._change_queue),
            (0.48, self._replace_queue),
            (0.56, self._lose_node),
            (0.64, self._lose_pod),
            (0.74, self.finish_job),
            (0.90, self._drop_watches),
            (1.00, self._refuse),
        ]
        act = next((act for bound, act in acts if chance < bound), None)
        if act is not None:
            self.troubles[act()] += 1

    def _new_job(self) -> str:
        self.add_job()
        return "new job"

    def _change_queue(self) -> str:
        name = self.rng.choice(QUEUES)
        if self._has_queue(name):
            self.change_queue(name, self._queue_spec(name))
        return "quota changed"

    def _replace_queue(self) -> str:
        """Delete a queue; another turn creates it again."""
        name = self.rng.choice(QUEUES)
        if self._has_queue(name):
            self.cluster.delete(self.kinds.queue.type, name, namespace="")
            return "queue deleted"
        self.add_queue(name, self._queue_spec(name))
        return "queue created again"

    def _has_queue(self, name: str) -> bool:
        return any(each.name == name for each in self.cluster.objects(self.kinds.queue.type))

    def _lose_node(self) -> str:
        """Delete a node with its pods, or create another one."""
        names = [node.name for node in self.cluster.nodes()]
        if len(names) < 3:
            self.made += 1
            self.add_node(f"n{self.made}-new")
            return "node created"
        name = self.rng.choice(names)
        self.cluster.delete_node(name)
        for pod in self.cluster.pods():
            if pod.node_name == name:
                self.delete_pod(pod)
        return "node deleted"

    def _lose_pod(self) -> str:
        pods = self.cluster.pods()
        if pods:
            self.delete_pod(self.rng.choice(pods))
        return "pod deleted"

    def finish_job(self) -> str:
        if not self.jobs:
            return "no job"
        self.end_job(self.jobs.pop(self.rng.choice([*self.jobs])))
        return "job deleted"

    def delete_pod(self, pod: Pod) -> None:
        """Delete a pod; a condition that a failed eviction left is taken off, or the log would show an eviction."""
        if not pod.is_terminating:
            self.cluster.patch(Pod, pod.name, {"status": {"conditions": []}}, status=True)
        super().delete_pod(pod)

    def _drop_watches(self) -> str:
        how = self.rng.choice(["end", "cut", "within"])
        self.cluster.server.router.drop_watches(how=how)
        return f"watches: {how}"

    def _refuse(self) -> str:
        """Let one kind of writes about pods be refused for a while, those of one queue or all."""
        rng, now = self.rng, self.cluster.clock.now()
        refusal = Refusal(
            # Evictions are rare.
            what=rng.choice([*REFUSED, "evict", "evict"]),
            who=rng.choice(REASONS),
            until=now + rng.choice(self.refusals),
            queue=rng.choice(["", rng.choice(QUEUES)]),
        )
        self._cover(refusal)
        self._refusals.append(refusal)
        self.cluster.server.faults.add(refusal)
        return f"refused for a while: {refusal.what} by {refusal.who}"

    def _cover(self, refusal: Refusal) -> None:
        """Let a refusal be about the jobs that there are."""
        jobs = [job.name for job in self.jobs.values() if job.queue == refusal.queue]
        refusal.cover(jobs if refusal.queue else None)

    def end_refusals(self) -> None:
        """End the refusals whose time is over."""
        now = self.cluster.clock.now()
        for refusal in [each for each in self._refusals if each.until <= now]:
            self._end_refusal(refusal)

    def _end_refusal(self, refusal: Refusal) -> None:
        self.troubles[refusal.title] += refusal.hits
        refusal.times = 0
        self._refusals.remove(refusal)

    def _death(self) -> Death | None:
        if self.rng.random() < 0.3:
            return None
        return Death(self.rng.choice([*WRITES]), self.rng.randint(0, 6), self.rng.random() < 0.5)

    # A run

    async def run(self, seconds: float = 120.0) -> Outcome:
        """Live through troubles for so long, then rest; return the verdict on all writes."""
        cluster, rng = self.cluster, self.rng
        self._arm()
        for _ in range(rng.randint(3, 6)):
            self.add_job()
        await self.mortal.start(self._death())
        end = cluster.clock.now() + seconds
        while cluster.clock.now() < end:
            await self._step(rng.choice([0.02, 0.3, STEP, STEP, 4.0]))
            if rng.random() < 0.25:
                self._trouble()
            if self.mortal.is_dead or rng.random() < 0.03:
                await self.mortal.crash()
                # Its last requests may still be under way: a lease keeps the next scheduler from beginning before.
                await self._step(rng.choice([2.0, 4.0, 10.0]))
                await self._start_again(self._death())
        await self._rest()
        return await self._end()

    async def _start_again(self, death: Death | None = None) -> None:
        """Start another scheduler."""
        self.note_crash()
        await self.mortal.start(death)

    def note_crash(self) -> None:
        """Create a queue, a change from outside: the next scheduler does not know all earlier evictions."""
        resources = {name: {"quota": 0, "limit": -1, "overQuotaWeight": 0} for name in ("gpu", "cpu", "memory")}
        self._lives += 1
        self.add_queue(f"life-{self._lives}", {"resources": resources} if self.preset == "kai" else {})

    def _calm(self) -> None:
        """End all faults; create the queues that are missing."""
        for name, fault in self._faults.items():
            self.troubles[name] += fault.hits
        for refusal in [*self._refusals]:
            self._end_refusal(refusal)
        self.cluster.server.faults.clear()
        for name in QUEUES:
            if not self._has_queue(name):
                self.add_queue(name, self._queue_spec(name))

    async def _step(self, seconds: float) -> None:
        await self.cluster.clock.advance(seconds)
        self.end_refusals()
        self.recreate()

    async def _rest(self) -> None:
        """Let a scheduler live that meets no trouble, until long after the last change."""
        if self.mortal.is_dead:
            await self.mortal.crash()
            await self._start_again()
        self.mortal.spare()
        self._calm()
        end = self.cluster.clock.now() + LONG
        while self.cluster.clock.now() < end:
            await self._step(5.0)

    async def _end(self) -> Outcome:
        scheduler = self.mortal.scheduler
        assert scheduler is not None
        scheduler.check_invariants()
        history = self.log.history()
        verdict = check(history, self.setup.options)
        pods = self.cluster.pods()
        await self.mortal.crash()
        self.lifecycle.stop()
        self.log.stop()
        self.troubles.update({f"crash: {kind}": count for kind, count in self.mortal.crashes.items()})
        return Outcome(
            seed=self.seed,
            verdict=verdict,
            history=history,
            troubles=self.troubles,
            warnings=self.mortal.warnings,
            bound=sum(bool(pod.node_name) for pod in pods),
            refused=self.lifecycle.rejections,
            pending=sum(not pod.node_name for pod in pods),
        )


def _free() -> dict[str, int]:
    return {"quota": -1, "limit": -1, "overQuotaWeight": 1}
