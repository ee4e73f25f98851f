"""`Reuse.UNTIL_FORGOTTEN`: answers are kept until the plugin says that they may be others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from pyscheduler import (
    CycleState,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    Pod,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    Status,
)
from pyscheduler.api import KubeObject, kind_of
from pyscheduler.testing import FakeCluster, PluginCheckError, Step, check_plugin

HOT = Status.unschedulable("node(s) were hot")


class NodeLoad(KubeObject):
    """The load of the node with this name."""

    api_version: ClassVar[str] = "example.com/v1"
    kind: ClassVar[str] = "NodeLoad"

    percent: int = 0


LOADS = kind_of(NodeLoad, "nodeloads", namespaced=False)


class Load(FilterPlugin, ScorePlugin, SignPlugin):
    """Rejects hot nodes and prefers idle ones; counts the rows that it is asked about."""

    reuse = Reuse.UNTIL_FORGOTTEN
    watches = (LOADS,)
    forgets: ClassVar[bool] = True

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.percent: dict[str, int] = {}
        self.asked = 0
        handle.lister(NodeLoad).add_event_handler(
            on_add=self.note,
            on_update=lambda _old, new: self.note(new),
            on_delete=lambda old: self.note(old, gone=True),
        )

    def note(self, load: NodeLoad, *, gone: bool = False) -> None:
        """Keep a measured load."""
        self.percent[load.metadata.name] = 0 if gone else load.percent
        if self.forgets:
            self.handle.forget_answers([load.metadata.name, "unknown"])

    def loads(self, nodes: Nodes) -> NDArray[np.int64]:
        """Return int64[n]."""
        self.asked += len(nodes)
        return np.array([self.percent.get(nodes.name(row), 0) for row in range(len(nodes))], dtype=np.int64)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        return NodeStatuses.failing(self.loads(nodes) > 90, HOT)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return 100 - self.loads(nodes)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return ()


class Forgetful(Load):
    """Says nothing when a load changes."""

    reuse = Reuse.UNTIL_FORGOTTEN
    forgets = False


def load(name: str, percent: int) -> dict[str, Any]:
    """Return a manifest."""
    return {"apiVersion": "example.com/v1", "kind": "NodeLoad", "metadata": {"name": name}, "percent": percent}


async def test_answers_are_kept_until_they_are_forgotten(cluster: FakeCluster) -> None:
    """Equal pods cost a question about each node that has changed; a new load counts at once."""
    cluster.serve(LOADS)
    for number in range(40):
        cluster.add_node(f"n{number}", allocatable={"cpu": "100"})
        cluster.add(load(f"n{number}", 50), NodeLoad)
    cluster.patch(NodeLoad, "n3", {"percent": 10})
    framework = cluster.framework(enable=[Load], disable=["NodeResourcesFit", "NodeResourcesBalancedAllocation"])
    plugin: Any = framework.plugin("Load")
    assert framework.profile.equivalence_cache is not None

    for number in range(3):
        assert (await framework.schedule(f"p{number}")).node == "n3"
    asked = plugin.asked
    for number in range(3, 9):
        assert (await framework.schedule(f"p{number}")).node == "n3"
    # The node that got the pod, for the filter and for the score.
    assert plugin.asked - asked == 6 * 2

    cluster.patch(NodeLoad, "n3", {"percent": 95})
    cluster.patch(NodeLoad, "n7", {"percent": 5})
    asked = plugin.asked
    assert (await framework.schedule("p9")).node == "n7"
    # n3, which has got a pod, too, and n7.
    assert plugin.asked - asked == 2 * 2


async def test_one_name_is_refused(cluster: FakeCluster) -> None:
    """A text would be taken for the names of its letters."""
    framework = cluster.framework()
    with pytest.raises(TypeError, match=r"write handle.forget_answers\(\[name\]\)"):
        framework.profile.handle.forget_answers("n1")


HISTORY = [
    Step("add_node", "n0"),
    Step("add_node", "n1"),
    Step("add_pod", "p0"),
    Step("add", load("n0", 99), NodeLoad),
    Step("add_pod", "p1"),
    Step("add_pod", "p2"),
]


def test_a_change_without_the_call_fails_the_check_of_the_cache() -> None:
    """The remedy names the call; the plugin that makes it passes."""
    checks = ["cache", "earlier-pods", "forms", "signature"]
    with pytest.raises(PluginCheckError) as caught:
        check_plugin(Forgetful, histories=[HISTORY], checks=checks)
    assert caught.value.check == "cache"
    assert "handle.forget_answers" in caught.value.remedy
    check_plugin(Load, histories=[HISTORY], checks=checks)
