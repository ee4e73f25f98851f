"""Fixtures: a cluster with groups, and a scheduler with `Coscheduling`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyscheduler.api import KubeObject, Pod
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeCluster, FakeFramework, ScheduleResult
from pyscheduler_coscheduling.plugin import Coscheduling

TABLE = DialectTable(DIALECTS)
LABELS = {"sigs": "scheduling.x-k8s.io/pod-group", "ming": "pod-group.scheduling.ming.io"}


class CoschedulingCluster:
    """The nodes, groups and pods of one cluster, and their states."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        for name in ("sigs", "ming"):
            cluster.serve(TABLE.named(name).kinds[0])
        self.scheduler: FakeFramework | None = None

    def kind(self, dialect: str) -> type[KubeObject]:
        return TABLE.named(dialect).kinds[0].type

    def schedule(
        self,
        *,
        profiles: tuple[str, ...] = ("pyscheduler",),
        disable: tuple[str, ...] = (),
        preemption: bool = False,
        gates: str = "",
        **args: Any,
    ) -> FakeFramework:
        """Start a scheduler whose profiles have the plugin at all extension points, QueueSort included."""
        text = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "profiles": [
                {
                    "schedulerName": name,
                    "plugins": {
                        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Coscheduling"}]},
                        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                        "postFilter": {"disabled": [] if preemption else [{"name": "DefaultPreemption"}]},
                        **{point: {"disabled": [{"name": "Coscheduling"}]} for point in disable},
                    },
                    "pluginConfig": [{"name": "Coscheduling", "args": args}],
                }
                for name in profiles
            ],
        }
        self.scheduler = self.cluster.framework(config=json.dumps(text), feature_gates=gates)
        return self.scheduler

    @property
    def running(self) -> FakeFramework:
        assert self.scheduler is not None
        return self.scheduler

    @property
    def plugin(self) -> Coscheduling:
        found = self.running.plugin("Coscheduling")
        assert isinstance(found, Coscheduling)
        return found

    def nodes(self, count: int, cpu: str = "1", **keywords: Any) -> None:
        for number in range(count):
            self.cluster.add_node(f"n{number}", allocatable={"cpu": cpu, "pods": "110"}, **keywords)

    def group(
        self,
        name: str,
        minimum: object,
        *,
        pods: int = 0,
        dialect: str = "sigs",
        namespace: str = "default",
        **spec: Any,
    ) -> None:
        """Create a PodGroup, and as many pods of it."""
        kind = TABLE.named(dialect).kinds[0]
        self.cluster.add(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"minMember": minimum, **spec},
            },
            kind.type,
        )
        self.pods(name, pods, dialect=dialect)

    def change(self, name: str, *, dialect: str = "sigs", **spec: Any) -> None:
        self.cluster.patch(self.kind(dialect), name, {"spec": spec}, namespace="default")

    def pods(self, group: str, count: int, *, start: int = 0, dialect: str = "sigs", **keywords: Any) -> None:
        """Create pods GROUP-0, GROUP-1 ... of 1 CPU with the group's label."""
        keywords.setdefault("requests", {"cpu": "1"})
        for number in range(start, start + count):
            self.cluster.add_pod(f"{group}-{number}", labels={LABELS[dialect]: group}, **keywords)

    def relabel(self, pod: str, group: str | None) -> None:
        self.cluster.patch(Pod, pod, {"metadata": {"labels": {LABELS["sigs"]: group}}})

    async def settle(self, seconds: float = 0.0) -> None:
        await self.running.settle()
        if seconds:
            await self.clock.advance(seconds)

    async def start_with_group(
        self,
        minimum: int,
        *,
        nodes: int,
        pods: int | None = None,
        seconds: float = 0.0,
        cpu: str = "1",
        dialect: str = "sigs",
        spec: Mapping[str, object] | None = None,
        **args: Any,
    ) -> None:
        """Create nodes, a scheduler and the group g with its pods (as many as its minimum), and advance the clock."""
        self.nodes(nodes, cpu=cpu)
        self.schedule(**args)
        self.group("g", minimum, pods=minimum if pods is None else pods, dialect=dialect, **(spec or {}))
        await self.settle(seconds)

    def result(self, name: str) -> ScheduleResult:
        return self.running.result(name)

    def states(self, group: str, *, dialect: str = "sigs") -> Mapping[str, int]:
        members = [
            pod for pod in self.cluster.pods() if pod.labels.get(LABELS[dialect]) == group and not pod.is_terminal
        ]
        return dict(Counter(self.running.result(pod.name, namespace=pod.namespace).state for pod in members))

    def messages(self, prefix: str) -> list[str]:
        return [
            event["note"]
            for event in self.cluster.events("FailedScheduling")
            if event["regarding"]["name"].startswith(prefix)
        ]


@pytest.fixture
def world(pyscheduler_cluster: FakeCluster) -> CoschedulingCluster:
    """Return a cluster that serves the PodGroups of sigs and ming."""
    return CoschedulingCluster(pyscheduler_cluster)


@pytest.fixture(
    params=[
        pytest.param("SchedulerPopFromBackoffQ=false", id="backoff"),
        pytest.param("SchedulerPopFromBackoffQ=true", id="pop from backoff"),
    ]
)
def gates(request: pytest.FixtureRequest) -> str:
    """Return the feature gates: pods are not popped from backoff, or they are."""
    return str(request.param)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the scheduling attempts of each pod, by name, from now on."""
    counted: Counter[str] = Counter()
    original: Callable[..., Any] = Coscheduling.pre_filter

    def counting(self: Coscheduling, state: Any, pod: Any, nodes: Any) -> Any:
        counted[pod.name] += 1
        return original(self, state, pod, nodes)

    monkeypatch.setattr(Coscheduling, "pre_filter", counting)
    return counted


@pytest.fixture
def world_on() -> Callable[[FakeCluster], CoschedulingCluster]:
    """Return a function that makes a `CoschedulingCluster` of a cluster."""
    return CoschedulingCluster
