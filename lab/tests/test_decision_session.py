"""A scheduler on typed objects: what programs add, and what they read of its decisions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyscheduler.api import Pod
from pyscheduler.config.load import loads
from pyscheduler.framework.errors import AlreadyExistsError, ConfigError, NotFoundError
from pyscheduler.testing import make_node, make_pod, node_manifest, pod_manifest
from pyscheduler_lab.simulation.decisions.session import Session

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles: [{schedulerName: pyscheduler}]
"""


def session(**keywords: Any) -> Session:
    """Return a session with the default plugins."""
    return Session(loads(CONFIG, source="test"), **keywords)


def test_pods_are_placed_one_after_the_other() -> None:
    """A manifest and a typed pod; the third pod waits for room, and gets that of the first."""

    async def run() -> None:
        async with session() as made:
            made.add(node_manifest("n1", allocatable={"cpu": "2", "pods": "10"}))
            made.add(pod_manifest("a", requests={"cpu": "1"}))
            await made.settle()
            assert made.node_of("default/a") == "n1"
            made.add(make_pod("b", requests={"cpu": "1"}), make_pod("c", requests={"cpu": "1"}))
            await made.settle()
            assert [each.pod for each in made.bindings] == ["default/a", "default/b"]
            assert made.node_of("default/c") == ""
            assert "Insufficient cpu" in made.reason_of("default/c")
            assert made.reasons().keys() == {"default/c"}
            await made.advance(60)
            made.remove("v1", "Pod", "a", namespace="default")
            await made.settle()
            assert made.node_of("default/c") == "n1"
            assert made.reasons() == {}
            assert made.bindings[-1].time == made.bindings[0].time + 60

    asyncio.run(run())


def test_victims_leave_at_once_if_pods_run() -> None:
    """Preemption evicts a running pod; the pod that needs its room is nominated and bound."""

    async def run() -> None:
        async with session(runs_pods=True) as made:
            made.add(make_node("n1", allocatable={"cpu": "1", "pods": "10"}))
            made.add(pod_manifest("low", requests={"cpu": "1"}))
            await made.settle()
            low = made.cluster.get(Pod, "low", "default")
            assert low is not None
            assert low.status.phase == "Running"
            made.add(pod_manifest("high", requests={"cpu": "1"}, priority=10))
            await made.advance(20)
            assert made.node_of("default/high") == "n1"
            assert made.cluster.get(Pod, "low", "default") is None

    asyncio.run(run())


def test_priority_classes_complete_pods() -> None:
    """As admission does, from the class that the pod names, or from the default class."""

    async def run() -> None:
        async with session() as made:
            for name, value in (("high", 7), ("usual", 3)):
                kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
                made.add({**kind, "value": value, "globalDefault": name == "usual"})
            made.add(pod_manifest("a", spec={"priorityClassName": "high"}), pod_manifest("b"))
            assert [pod.priority for pod in made.cluster.pods()] == [7, 3]

    asyncio.run(run())


def test_mistakes_of_callers() -> None:
    """One line each."""

    async def run() -> None:
        async with session() as made:
            made.add(pod_manifest("a"))
            with pytest.raises(AlreadyExistsError, match="Pod default/a already exists"):
                made.add(pod_manifest("a"))
            with pytest.raises(ConfigError, match=r"Pod b: .*nodeName"):
                made.add(pod_manifest("b", spec={"nodeName": 3}))
            with pytest.raises(NotFoundError, match='Pod "x" not found'):
                made.remove("v1", "Pod", "x", namespace="default")

    asyncio.run(run())
