"""Fixtures: a cluster with gangs, and a scheduler with `Gang`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import KubeObject, Pod
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeCluster, FakeFramework, ScheduleResult
from pyscheduler_gang.plugin import Gang

KEY = "gang.scheduling.koordinator.sh/"
ROW = DialectTable(DIALECTS).named("koordinator")
KIND: type[KubeObject] = ROW.kinds[0].type
LABEL = ROW.keys[0].name


class GangCluster:
    """The nodes, gangs and pods of one cluster, and their states."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        cluster.serve(ROW.kinds[0])
        self.scheduler: FakeFramework | None = None

    # --- what there is

    def schedule(
        self,
        *,
        profiles: tuple[str, ...] = ("pyscheduler",),
        preemption: bool = False,
        **args: Any,
    ) -> FakeFramework:
        """Start a scheduler whose profiles have the plugin at all extension points, and the queue order of gangs."""
        text = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "profiles": [
                {
                    "schedulerName": name,
                    "plugins": {
                        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "GangSort"}]},
                        "multiPoint": {"enabled": [{"name": "Gang"}]},
                        "postFilter": {"disabled": [] if preemption else [{"name": "DefaultPreemption"}]},
                    },
                    "pluginConfig": [
                        {"name": "Gang", "args": args},
                        {"name": "GangSort", "args": {"order": "gang"}},
                    ],
                }
                for name in profiles
            ],
        }
        self.scheduler = self.cluster.framework(config=json.dumps(text))
        return self.scheduler

    def node(self, name: str, cpu: float) -> None:
        self.cluster.add_node(name, allocatable={"cpu": f"{round(cpu * 1000)}m"})

    def gang(self, name: str, minimum: Any, *, pods: int = 0, timeout: int | None = None, **said: str) -> None:
        """Create a PodGroup and as many pods of it; `said` are Koordinator's annotations, underscores for dashes."""
        spec = {"minMember": minimum, **({} if timeout is None else {"scheduleTimeoutSeconds": timeout})}
        metadata = {"name": name, "namespace": "default", "annotations": annotations(**said)}
        self.cluster.add({"apiVersion": KIND.api_version, "kind": "PodGroup", "metadata": metadata, "spec": spec}, KIND)
        self.pods(name, pods, gang=name)

    def status(self, name: str) -> Any:
        return next(each.status for each in self.cluster.objects(KIND) if each.name == name)

    def pods(
        self, prefix: str, count: int, *, gang: str = "", start: int = 0, cpu: float = 1, **keywords: Any
    ) -> list[str]:
        """Create pods, members of `gang` if given; return their names."""
        names = [f"{prefix}-{number}" for number in range(start, start + count)]
        labels = {**keywords.pop("labels", {}), **({LABEL: gang} if gang else {})}
        for name in names:
            self.cluster.add_pod(name, labels=labels, requests={"cpu": f"{round(cpu * 1000)}m"}, **keywords)
        return names

    def relabel(self, pod: str, gang: str | None) -> None:
        self.cluster.patch(Pod, pod, {"metadata": {"labels": {LABEL: gang}}})

    def fail(self, path: str, status: int, *, times: int, method: str = "") -> Any:
        """Let the API server refuse requests to paths of this pattern; return what counts them."""
        return self.cluster.server.faults.add(Fault(path=path, status=status, times=times, method=method))

    async def start_with_gang(
        self,
        minimum: int,
        *,
        cpu: float,
        pods: int | None = None,
        seconds: float = 0,
        args: Mapping[str, Any] | None = None,
        **said: Any,
    ) -> None:
        """Create a scheduler, a node and the gang g with its pods (as many as its minimum), and advance the clock."""
        self.schedule(**(args or {}))
        self.node("n", cpu)
        self.gang("g", minimum, pods=minimum if pods is None else pods, **said)
        await self.settle(seconds)

    # --- results

    async def settle(self, seconds: float = 0) -> None:
        """Let the scheduler work for this time, and check its invariants."""
        assert self.scheduler is not None
        await self.scheduler.start()
        await self.clock.advance(seconds)
        await self.scheduler.settle()
        self.plugin.check_invariants()

    @property
    def plugin(self) -> Gang:
        assert self.scheduler is not None
        plugin = self.scheduler.plugin("Gang")
        assert isinstance(plugin, Gang)
        return plugin

    def record(self, key: str) -> Any:
        found = self.plugin.gangs.named(key)
        assert found is not None, f"nothing is known of {key}"
        return found

    def result(self, name: str, *, namespace: str = "default") -> ScheduleResult:
        assert self.scheduler is not None
        return self.scheduler.result(name, namespace=namespace)

    def states(self, prefix: str = "") -> Counter[str]:
        pods = [pod for pod in self.cluster.pods() if pod.name.startswith(prefix)]
        return Counter(self.result(pod.name, namespace=pod.namespace).state for pod in pods)

    def tries(self) -> Counter[str]:
        """Count the attempts of pods that are in the queue, by name."""
        assert self.scheduler is not None
        queue = self.scheduler.scheduler.queue
        return Counter({pod.name: info.attempts for pod in queue.pending_pods() if (info := queue.get(pod.uid))})

    def attempts(self) -> int:
        """Return the most attempts that any pod in the queue has had."""
        return max(self.tries().values())

    def marked(self, prefix: str = "") -> set[str]:
        return {
            pod.name
            for pod in self.cluster.pods()
            if pod.name.startswith(prefix) and pod.annotations.get(f"{KEY}timeout") == "true"
        }


def annotations(**said: str) -> dict[str, str]:
    """Return Koordinator's annotations."""
    return {KEY + name.replace("_", "-"): value for name, value in said.items()}


@pytest.fixture
def said() -> Any:
    """Give what makes annotations: `said(min_available="3")`."""
    return annotations


@pytest.fixture
def world(pyscheduler_cluster: FakeCluster) -> GangCluster:
    """Give an empty cluster that knows PodGroups."""
    return GangCluster(pyscheduler_cluster)
