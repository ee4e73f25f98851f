"""Create the workloads (one pod each) of Kueue's scalability test, run and end the pods, and compute the figures.

Source: Kueue, `test/performance/scheduler/runner`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks.cohort_shapes import SHAPES, SHORT
from benchmarks.shapes import SCHEDULER, priority_class
from kube_objects.clock import LoopClock
from kube_objects.quantity import quantity_milli
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.controllers.follower import Follower
from kube_testserver.controllers.lifecycle import RUN_DURATION
from pyscheduler.testing.builders import node_manifest, pod_manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.cohort_shapes import WorkloadClass
    from kube_testserver.store import Change, Record

__all__ = ["CohortStage"]

_CRDS: Final = Path(__file__).parents[1] / "configs" / "crds"
_QUEUES: Final = "scheduling.volcano.sh/v1beta1"
_NODE_LABEL: Final = "pyscheduler.test/cohort"
#: Watches may lag behind by so many changes of each resource.
_HISTORY: Final = 500_000


@attrs.define
class _Workload:
    """A workload and its times, in seconds of one clock."""

    of: WorkloadClass
    created: float
    admission_seconds: float = 0.0
    #: When the pod that runs now was bound; None while none runs.
    bound: float | None = None
    is_finished: bool = False
    evictions: int = 0


@attrs.define
class _QueueUsage:
    """The usage of one queue by its events: time and cores of the last event, and the core seconds before it."""

    first: float
    last: float
    cores: float = 0.0
    core_seconds: float = 0.0

    def note(self, now: float, cores: float) -> None:
        """Take in an event."""
        self.core_seconds += self.cores * (now - self.last)
        self.last, self.cores = now, cores


class CohortStage:
    """A cluster, its users, its kubelets and the recorder; made inside a running event loop. Methods are orders."""

    def __init__(self, name: str, *, short: bool) -> None:
        self._shape = SHORT if short else SHAPES[name]
        self.cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), history_limit=_HISTORY)
        for kind in ("queues", "podgroups"):
            self.cluster.load((_CRDS / f"{kind}.scheduling.volcano.sh.yaml").read_text(encoding="utf-8"))
        self.cluster.add(*(priority_class(each.priority) for each in self._shape.classes))
        self.cluster.add(_queue("root"), *map(self._node, self._cohorts))
        self._lifecycle = self.cluster.lifecycle()
        self._tasks: list[asyncio.Task[None]] = []
        self._began = 0.0
        self._ended = 0.0
        #: By namespace and name of the pod.
        self._workloads: dict[str, _Workload] = {}
        self._finished = 0
        self._held_core_seconds = 0.0
        self._usages: dict[str, _QueueUsage] = {}
        clock, registry = self.cluster.clock, self.cluster.registry
        self._now = clock.now
        pods = registry.collection(self.cluster.resource("v1", "Pod"))
        queues = registry.collection(self.cluster.resource(_QUEUES, "Queue"))
        self._followers = [
            Follower(pods, clock=clock, listed=_expect_nothing, changed=self._pod_changed),
            Follower(queues, clock=clock, listed=lambda _: None, changed=self._queue_changed),
        ]

    @property
    def _cohorts(self) -> list[str]:
        return [f"cohort-{number}" for number in range(self._shape.cohorts)]

    def _node(self, cohort: str) -> dict[str, Any]:
        """Return a node as large as the quotas of a cohort together."""
        cores = self._shape.quota * self._shape.queues
        amounts = {"cpu": str(cores), "memory": "1Ti", "pods": str(cores)}
        return node_manifest(cohort, allocatable=amounts, labels={_NODE_LABEL: cohort})

    # Orders

    def begin(self) -> None:
        """Create the queues, and begin to create workloads."""
        self._lifecycle.start()
        for follower in self._followers:
            follower.start()
        self._began = self._now()
        shape = self._shape
        for cohort in self._cohorts:
            quota = shape.quota * shape.queues
            self.cluster.add(_queue(cohort, parent="root", deserved=quota, capability=quota))
            for number in range(shape.queues):
                name = f"cq-{number}-{cohort}"
                limit = shape.quota + shape.borrowing
                self.cluster.add(_queue(name, parent=cohort, deserved=shape.quota, capability=limit))
                for each in shape.classes:
                    self._tasks.append(asyncio.create_task(self._generate(name, cohort, each)))

    async def _generate(self, queue: str, cohort: str, of: WorkloadClass) -> None:
        for number in range(of.count):
            await asyncio.sleep(of.interval_seconds)
            name = f"{of.name}-{number}"
            self._workloads[f"{queue}/{name}"] = _Workload(of, self._now())
            self.cluster.add(_pod(queue, name, cohort, of))

    def progress(self) -> object:
        """Return how many workloads have ended, and whether the test is over."""
        is_idle = all(not usage.cores for usage in self._usages.values())
        is_over = self._finished == self._shape.workloads and is_idle
        return {"workloads": self._shape.workloads, "finished": self._finished, "is_over": is_over}

    def figures(self) -> object:
        """Return the figures; times in seconds, usage as a part of the nominal quotas."""
        for task in self._tasks:
            task.result()
        totals: defaultdict[str, float] = defaultdict(float)
        for workload in self._workloads.values():
            totals[workload.of.name] += workload.admission_seconds
        queues = self._shape.cohorts * self._shape.queues
        usages = self._usages.values()
        seconds = max(each.last for each in usages) - min(each.first for each in usages)
        quota_seconds = self._shape.quota * queues * seconds
        return {
            "pods": len(self._workloads),
            "seconds": self._ended - self._began,
            **{
                f"admission_{each.name}_seconds": totals[each.name] / (each.count * queues)
                for each in self._shape.classes
            },
            # The status of a queue counts a pod until the scheduler has noticed its end; `usage_by_bindings` does not.
            "usage": sum(each.core_seconds for each in usages) / quota_seconds,
            "held_core_seconds": self._held_core_seconds,
            "usage_by_bindings": self._held_core_seconds / quota_seconds,
            "evictions": sum(workload.evictions for workload in self._workloads.values()),
            "problems": self._lifecycle.rejections,
            "server_cpu_seconds": time.process_time(),
        }

    # The recorder, and the controller of jobs

    def _pod_changed(self, change: Change) -> None:
        record, now = change.record, self._now()
        workload = self._workloads[record.key]
        if change.type == "DELETED":
            self._evicted(record, workload, now)
        elif workload.bound is None:
            if record.fields["spec.nodeName"] and not workload.is_finished:
                workload.bound = now
                workload.admission_seconds = now - workload.created
        elif record.fields["status.phase"] == "Succeeded" and not workload.is_finished:
            workload.is_finished = True
            self._finished += 1
            self._ended = now
            self._release(workload, now)

    def _evicted(self, record: Record, workload: _Workload, now: float) -> None:
        """Count an eviction; create the pod again, as the controller of a job does."""
        if workload.is_finished:
            return
        workload.evictions += 1
        self._release(workload, now)
        cohort = record.decode()["spec"]["nodeSelector"][_NODE_LABEL]
        self.cluster.add(_pod(record.namespace, record.name, cohort, workload.of))

    def _release(self, workload: _Workload, now: float) -> None:
        if workload.bound is not None:
            self._held_core_seconds += workload.of.cpu * (now - workload.bound)
            workload.bound = None

    def _queue_changed(self, change: Change) -> None:
        record, now = change.record, self._now()
        if not record.name.startswith("cq-"):
            return
        allocated = (record.decode().get("status") or {}).get("allocated") or {}
        usage = self._usages.setdefault(record.name, _QueueUsage(now, now))
        usage.note(now, quantity_milli(allocated.get("cpu", "0")) / 1000)


def _expect_nothing(records: Sequence[Record]) -> None:
    """Fail if the log was too short for the recorder."""
    if records:
        raise RuntimeError("the recorder missed changes of pods")


def _queue(name: str, *, parent: str = "", deserved: int = 0, capability: int = 0) -> dict[str, Any]:
    spec: dict[str, Any] = {"reclaimable": True}
    if parent:
        spec |= {"parent": parent, "deserved": {"cpu": str(deserved)}, "capability": {"cpu": str(capability)}}
    return {"apiVersion": _QUEUES, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _pod(queue: str, name: str, cohort: str, of: WorkloadClass) -> dict[str, Any]:
    return pod_manifest(
        name,
        namespace=queue,
        scheduler_name=SCHEDULER,
        requests={"cpu": str(of.cpu)},
        annotations={"scheduling.volcano.sh/queue-name": queue, RUN_DURATION: f"{of.run_seconds:g}s"},
        node_selector={_NODE_LABEL: cohort},
        spec={
            "priorityClassName": priority_class(of.priority)["metadata"]["name"],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
        },
    )
