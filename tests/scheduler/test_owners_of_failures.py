"""Failures of functions and coroutines that plugins give to the scheduler name the plugin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import CycleState, Handle, PermitPlugin, PostBindPlugin, Status
from pyscheduler.testing import FakeCluster


async def refuse(what: str) -> None:
    """Raise; a coroutine function of the module."""
    raise LookupError(what)


def key_of(names: dict[str, str], pod: Pod) -> str:
    """Raise for each pod; a function of the module."""
    return names[pod.uid]


class Gives(PermitPlugin, PostBindPlugin):
    """Gives the scheduler functions that fail."""

    names: dict[str, str]
    handler: Callable[[Pod], object] | None = None
    key: Callable[[Pod], str] | None = None

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.names = {}
        if self.handler is not None:
            handle.lister(Pod).add_event_handler(on_add=self.handler)
        if self.key is not None:
            handle.index_waiting_pods(self.key)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait(timeout=1) if self.key is not None else None

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if pod.labels.get("spawn") == "function":
            self.handle.spawn(refuse("of the module"))
        elif pod.labels.get("spawn") == "method":
            self.handle.spawn(self.work())

    async def work(self) -> None:
        """Raise."""
        await refuse("of the plugin")


class LambdaHandler(Gives):
    """Its handler captures nothing of the plugin."""

    handler = staticmethod(lambda pod: pod.no_such_field)


class CapturingHandler(Gives):
    """Its handler captures the plugin."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.lister(Pod).add_event_handler(on_add=lambda pod: self.names[pod.uid])


class PartialKey(Gives):
    """Its index has a function of the module as its key."""

    key = staticmethod(partial(key_of, {}))


@pytest.mark.parametrize(
    ("plugin", "spawn", "point"),
    [
        pytest.param(LambdaHandler, "", "EventHandler", id="lambda"),
        pytest.param(CapturingHandler, "", "EventHandler", id="lambda with self"),
        pytest.param(PartialKey, "", "WaitingIndex", id="key of an index"),
        pytest.param(Gives, "function", "Task", id="task of a function"),
        pytest.param(Gives, "method", "Task", id="task of a method"),
    ],
)
async def test_a_failure_names_the_plugin(cluster: FakeCluster, plugin: type[Gives], spawn: str, point: str) -> None:
    """Handlers, keys of indices and tasks are reported with the plugin that gave them."""
    cluster.add_node("n1")
    framework = cluster.framework(enable=[plugin], allow_plugin_errors=True)
    await framework.schedule("p", labels={"spawn": spawn})
    (failure,) = {str(each): each for each in framework.plugin_errors}.values()
    assert (failure.plugin, failure.point) == (plugin.name, point)
    assert "test_owners_of_failures.py:" in failure.place
