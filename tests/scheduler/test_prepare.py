"""`async def prepare()` of plugins: no pod is scheduled before it ends, and it cannot hold the scheduler for ever."""

from __future__ import annotations

import logging

import pytest

from pyscheduler import CycleState, FilterPlugin, Handle, NodeInfo, Pod, Status
from pyscheduler.testing import FakeCluster

COLD = Status.unschedulable("nothing was measured")


class Measured(FilterPlugin):
    """Rejects all nodes until it has fetched its figures; `seconds` is how long that takes."""

    seconds = 4.0

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.is_ready = False
        self.ran = False

    async def prepare(self) -> None:
        """Fetch the figures."""
        await self.handle.clock.sleep(self.seconds)
        self.is_ready = True

    async def run(self) -> None:
        """Begin after the preparation, however it ended."""
        self.ran = True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if self.is_ready else COLD


class Slow(Measured):
    """Never gets an answer."""

    seconds = 1e6


class Broken(Measured):
    """Fails to fetch."""

    async def prepare(self) -> None:
        """Fail."""
        raise OSError("no route to the metrics")


class HasHelper(Measured):
    """Has a plain function of that name, which is its own."""

    def prepare(self, figures: object) -> None:  # type: ignore[override] # an older plugin's
        """Do something else."""


async def test_the_first_pod_waits_for_the_preparation(cluster: FakeCluster) -> None:
    """The pod that is there at the start is decided with the figures, at its first attempt."""
    cluster.add_node("n1")
    cluster.add_pod("p")
    framework = cluster.framework(enable=[Measured])
    plugin = framework.plugin("Measured")
    await framework.settle()
    assert (framework.scheduler.cycles, plugin.ran) == (0, False)  # type: ignore[attr-defined] # its own
    await cluster.clock.advance(4)
    assert framework.result("p").node == "n1"
    assert (framework.scheduler.cycles, plugin.ran) == (1, True)  # type: ignore[attr-defined] # its own


async def test_the_preparation_has_ten_seconds(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Then it is cancelled, a line says so, and scheduling begins."""
    cluster.add_node("n1")
    cluster.add_pod("p")
    framework = cluster.framework(enable=[Slow])
    with caplog.at_level(logging.WARNING, "pyscheduler"):
        await framework.settle()
        await cluster.clock.advance(9)
        assert framework.scheduler.cycles == 0
        await cluster.clock.advance(2)
    assert framework.result("p").message.startswith("0/1 nodes are available: 1 nothing was measured.")
    assert "Scheduling begins though a plugin is not prepared task=pyscheduler Slow.prepare" in caplog.text


async def test_a_failed_preparation_is_reported(cluster: FakeCluster) -> None:
    """Scheduling begins at once, and the error names the plugin."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Broken], allow_plugin_errors=True)
    await framework.schedule("p")
    assert framework.scheduler.cycles
    assert [(each.plugin, str(each.error)) for each in framework.plugin_errors] == [
        ("Broken", "no route to the metrics")
    ]


async def test_a_plain_function_of_that_name_is_the_plugins_own(cluster: FakeCluster) -> None:
    """Only a coroutine function is called."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[HasHelper])
    assert (await framework.schedule("p")).message.startswith("0/1 nodes are available: 1 nothing was measured.")
