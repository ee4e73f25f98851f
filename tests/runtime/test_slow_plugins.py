"""Slow plugins: an extension point that took long has its plugins timed for some time, and the slow one is named."""

from __future__ import annotations

import logging
import random

import pytest

from pyscheduler import (
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    PermitPlugin,
    Pod,
    PreBindPlugin,
    PreFilterPlugin,
    Status,
)
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    NodeInfo,
    Nodes,
    QueueingHint,
)
from pyscheduler.testing import FakeCluster


class Slow(PreFilterPlugin, PermitPlugin):
    """Takes `seconds` of the virtual clock at PreFilter."""

    seconds = 0.0

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        self.handle.clock._now += self.seconds  # type: ignore[attr-defined] # nothing else takes time here

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


class SlowHint(FilterPlugin, EnqueueExtensions):
    """Rejects all pods, and takes 200 ms to say that an event helps."""

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("no")

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD), self.hint)]

    def hint(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        self.handle.clock._now += 0.2  # type: ignore[attr-defined] # the same
        return QueueingHint.SKIP


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged about slowness."""
    return [text for record in caplog.records if "slow" in (text := record.getMessage())]


async def test_the_second_slow_call_names_the_plugin(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Timing costs nothing before a point was slow: so the first time only the extension point is known."""
    monkeypatch.setattr(random.Random, "random", lambda _: 0.99)  # no cycle is sampled
    cluster.add_node("n1")
    framework = cluster.framework(enable=[Slow])
    slow = framework.plugin("Slow")
    assert isinstance(slow, Slow)
    with caplog.at_level(logging.INFO):
        slow.seconds = 0.05
        await framework.schedule("quick")
        assert messages(caplog) == []
        slow.seconds = 0.25
        await framework.schedule("first")
        expected = "extensionPoint=PreFilter profile=pyscheduler seconds=0.250"
        assert messages(caplog) == [f"Extension point was slow; its plugins are timed from now on {expected}"]
        await framework.schedule("second")
    assert len(messages(caplog)) == 2
    assert messages(caplog)[1].endswith("plugin=Slow extensionPoint=PreFilter pod=default/second seconds=0.250 times=1")
    assert framework.scheduler.plugin_failures._slow == {("Slow", "PreFilter"): 1}
    await cluster.clock.advance(601)
    await framework.schedule("third")
    assert framework.scheduler.plugin_failures._slow == {("Slow", "PreFilter"): 1}, "timed for ever"


async def test_a_slow_hint_is_named_at_once(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Hints are timed one by one for their metric anyway."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[SlowHint])
    await framework.schedule("p")
    cluster.add_node("n2")
    await framework.settle()
    assert messages(caplog)[0].endswith(
        "plugin=SlowHint extensionPoint=QueueingHint event=NodeAdd pod=default/p seconds=0.200 times=1"
    )


class SlowElsewhere(PreBindPlugin):
    """Takes 200 ms in a handler, and between two awaits of `pre_bind` and of `run`."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_delete=lambda _: self.block())

    def block(self) -> None:
        """Take 200 ms of the virtual clock."""
        self.handle.clock._now += 0.2  # type: ignore[attr-defined] # nothing else takes time here

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        await self.handle.clock.sleep(60)
        self.block()

    async def run(self) -> None:
        await self.handle.clock.sleep(5)
        self.block()


async def test_handlers_and_coroutines_that_block_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The log names plugin and place; a coroutine that only waits is not slow."""
    cluster = FakeCluster()
    cluster.add_node("n1")
    framework = cluster.framework(enable=[SlowElsewhere])
    await framework.schedule("p")
    assert not messages(caplog)
    await cluster.clock.advance(60)
    cluster.delete_pod("p")
    await framework.settle()
    await cluster.close()
    found = [text.partition("plugin=")[2] for text in messages(caplog)]
    assert found == [
        "SlowElsewhere extensionPoint=run seconds=0.200 times=1",
        "SlowElsewhere extensionPoint=PreBind pod=default/p seconds=0.200 times=1",
        "SlowElsewhere extensionPoint=EventHandler resource=pods object=default/p seconds=0.200 times=1",
    ]
