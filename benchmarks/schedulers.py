"""Make the schedulers that the benchmarks measure, and record how long their scheduling cycles take."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from benchmarks.batch_objects import BATCH
from benchmarks.shapes import SCHEDULER
from kube_objects.clock import LoopClock
from pyscheduler.config.load import loads
from pyscheduler.framework import EnqueueExtensions, FilterPlugin
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import ClusterEventWithHint, CycleState, NodeInfo, Status
    from pyscheduler.scheduler.ports import Transport
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["CONFIG", "CONFIGURATIONS", "BenchMetrics", "TimedCycles", "make_scheduler"]

CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles: [{schedulerName: pyscheduler}]
"""

_PER_NODE_FILTER: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: AnyNode}]}}
"""

_BATCH: Final = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: -1}}
profiles:
- schedulerName: pyscheduler
- schedulerName: {BATCH}
  plugins: {{multiPoint: {{enabled: [{{name: Batch}}], disabled: [{{name: DefaultPreemption}}]}}}}
  pluginConfig: [{{name: Batch, args: {{preset: kai}}}}]
"""
_GROUPING: Final = _BATCH.replace("enabled: [{name: Batch}]", "enabled: [{name: Batch}, {name: PodGrouper}]")
_COHORTS: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig:
  - name: Batch
    args:
      preset: volcano
      actions: allocate, preempt, reclaim
      # One tier: victims are those that all policies agree on.
      tiers:
      - plugins:
        - {name: priority}
        - {name: gang, enablePreemptable: false}
        - {name: conformance}
        - {name: predicates}
        - {name: capacity, enableHierarchy: true}
        - {name: nodeorder}
"""

#: By the names that cases have for them; the first profile's name is replaced.
CONFIGURATIONS: Final = {
    "default": CONFIG,
    "per-node-filter": _PER_NODE_FILTER,
    "batch": _BATCH,
    "grouping": _GROUPING,
    "cohorts": _COHORTS,
    **{
        name: (Path(__file__).parents[1] / "configs" / file).read_text(encoding="utf-8")
        for name, file in (
            ("coscheduling", "coscheduling.yaml"),
            ("kai", "batch-kai.yaml"),
            ("volcano", "batch-volcano.yaml"),
        )
    },
}


class AnyNode(FilterPlugin, EnqueueExtensions):
    """A filter as third parties write it: it is asked about one node at a time, and has nothing against it."""

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Wait for nothing."""
        return []

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Let it pass."""
        del state, pod, node
        return None


class BenchMetrics(Metrics):
    """Keeps the length of scheduling algorithm runs (`attempts`, in seconds by the clock) and counts warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts: list[float] = []
        self.warnings: dict[str, int] = {}

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Keep the runs, in seconds."""
        super().observe(family, value, *labels)
        if family == "scheduler_scheduling_algorithm_duration_seconds":
            self.attempts.append(value)

    def warning(self, kind: str) -> None:
        """Count a warning."""
        super().warning(kind)
        self.warnings[kind] = self.warnings.get(kind, 0) + 1


class TimedCycles:
    """Stands before a scheduler's cycles and notes the CPU time of each, in seconds.

    A cycle that waits (for PostFilter, for extenders) is charged with whatever the process did meanwhile.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.seconds: list[float] = []
        self._cycles: Any = scheduler.queued_pods.scheduling
        scheduler.queued_pods.scheduling = self  # type: ignore[assignment]  # it answers in the cycles' place

    async def run_scheduling_cycle(self, profile: Any, queued: Any) -> Any:
        """Run one and time it."""
        begun = time.thread_time()
        try:
            return await self._cycles.run_scheduling_cycle(profile, queued)
        finally:
            self.seconds.append(time.thread_time() - begun)

    def __getattr__(self, name: str) -> Any:
        # Kept: a failed look-up for each use costs 1 % of a plain pod's cycle. The cycles' parts do not change.
        value = self.__dict__[name] = getattr(self._cycles, name)
        return value


def make_scheduler(
    transport: Transport, *, configuration: str = "default", name: str = SCHEDULER, recorder: BenchMetrics | None = None
) -> Scheduler:
    """Return a scheduler, not yet started, whose first profile is called `name`; it writes as fast as it can."""
    registry = discover()
    registry.add("AnyNode", AnyNode)
    config = loads(CONFIGURATIONS[configuration], source=configuration)
    config = attrs.evolve(
        config,
        client_connection=attrs.evolve(config.client_connection, qps=-1),
        profiles=(attrs.evolve(config.profiles[0], scheduler_name=name), *config.profiles[1:]),
    )
    metrics = recorder if recorder is not None else Metrics()
    return build(config, transport, LoopClock(), random.Random(1), registry=registry, recorder=metrics)
