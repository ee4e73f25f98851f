"""The end has one deadline for everything, however much of the API server is gone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod
from pyscheduler.framework import PermitPlugin, PreBindPlugin, Status
from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.testing import FakeCluster


class Stubborn(PreBindPlugin):
    """Takes a minute to bind, and another to end its background work."""

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        assert self.handle is not None
        await self.handle.clock.sleep(60)
        return None

    async def run(self) -> None:
        assert self.handle is not None
        try:
            await self.handle.clock.sleep(3600)
        except asyncio.CancelledError:
            await self.handle.clock.sleep(60)


class Gate(PermitPlugin):
    """Lets all go once somebody says so."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait(timeout=60)

    def open(self) -> None:
        for waiting in self.handle.waiting_pods():
            waiting.allow(self.name)


async def stop(cluster: FakeCluster, framework: Any, **keywords: Any) -> float:
    """Stop it; return how long that took."""
    begun = cluster.clock.now()
    stopping = asyncio.create_task(framework.scheduler.stop(**keywords))
    while not stopping.done():
        assert cluster.clock.now() - begun < 60
        await cluster.clock.advance(0.25)
    await stopping
    return cluster.clock.now() - begun


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(delay_seconds=600), id="hangs"),
        pytest.param(Fault(status=503), id="refuses"),
        pytest.param(Fault(lose="request"), id="is gone"),
    ],
)
@pytest.mark.parametrize("grace", [10.0, 4.0])
async def test_a_stop_ends_within_its_grace_period(cluster: FakeCluster, fault: Fault, grace: float) -> None:
    """Bindings, conditions, events and the closing of the client share the time; nothing is left behind."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    framework = cluster.framework()
    await framework.start()
    cluster.server.faults.add(fault)
    cluster.add_pod("fits", requests={"cpu": "1"})
    cluster.add_pod("big", requests={"cpu": "64"})
    await framework.settle()
    assert await stop(cluster, framework, grace_seconds=grace) <= grace + 0.5
    assert framework.scheduler.binding_count == 0
    cluster.server.faults.clear()
    again = cluster.framework()
    await again.settle()
    assert again.result("fits").bound


async def test_a_plugin_that_does_not_stop_does_not_delay_the_stop(cluster: FakeCluster) -> None:
    """Neither with a binding nor with its background work; the pod is left to the next scheduler."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Stubborn])
    await framework.schedule("p")
    assert framework.scheduler.binding_count == 1
    assert await stop(cluster, framework) <= 10.5
    assert not framework.result("p").bound


async def test_an_idle_scheduler_stops_at_once(cluster: FakeCluster) -> None:
    """The deadline is no waiting time."""
    cluster.add_node("n1")
    framework = cluster.framework()
    assert (await framework.schedule("p")).bound
    assert await stop(cluster, framework) <= 0.25


@pytest.mark.slow
async def test_allowed_pods_are_bound_before_the_stop(cluster: FakeCluster) -> None:
    """Many that are let go at once go on one after the other; a stop in between must not cut a group in two."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "1000"})
    framework = cluster.framework(enable=[Gate])
    await framework.start()
    names = [f"p{number}" for number in range(300)]
    for name in names:
        cluster.add_pod(name, requests={"cpu": "1"})
    await cluster.clock.advance(1)
    assert len(framework.scheduler.waiting_pods) == len(names)
    framework.plugin("Gate").open()
    await stop(cluster, framework)
    assert all(cluster.pod(name).node_name == "n1" for name in names)
