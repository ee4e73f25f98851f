"""HeadroomReused: the same answers as Headroom, for much less work."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pyscheduler import FilterPlugin
from pyscheduler.testing import FakeCluster
from small_plugins.headroom import Headroom, HeadroomOneByOne
from small_plugins.reused import HeadroomReused

NODES = 100
PODS = 60


@attrs.define
class Work:
    """The number of calls of a filter, and the number of nodes in all these calls."""

    calls: int = 0
    nodes: int = 0

    def counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return `filter` or `filter_nodes` of a plugin, which now counts its calls and nodes."""

        def count(plugin: FilterPlugin, *args: Any) -> Any:
            self.calls += 1
            self.nodes += len(args[-1]) if method.__name__ == "filter_nodes" else 1
            return method(plugin, *args)

        return count


async def work_for(pods: int, cluster: FakeCluster, plugin: type[FilterPlugin]) -> Work:
    """Return the work of a plugin for so many equal pods."""
    for number in range(NODES):
        cluster.add_node(f"n{number}", allocatable={"cpu": "10"})
    work = Work()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeadroomOneByOne, "filter", work.counted(HeadroomOneByOne.filter))
        patch.setattr(Headroom, "filter_nodes", work.counted(Headroom.filter_nodes))
        framework = cluster.framework(enable=[plugin])
        for number in range(pods):
            cluster.add_pod(f"p{number}", requests={"cpu": "500m"})
        await framework.settle()
    assert all(pod.node_name for pod in cluster.pods())
    return work


async def test_reused_answers_cost_less(pyscheduler_clock):
    """Columns take one call for each pod, about all nodes; with reused answers, only changed nodes are asked about."""
    plugins = (HeadroomOneByOne, Headroom, HeadroomReused)
    clusters = [FakeCluster(clock=pyscheduler_clock) for _ in plugins]
    one_by_one, columns, reused = [await work_for(PODS, *each) for each in zip(clusters, plugins, strict=True)]
    for cluster in clusters:
        await cluster.close()
    assert one_by_one == Work(calls=PODS * NODES, nodes=PODS * NODES)
    assert columns == Work(calls=PODS, nodes=PODS * NODES)
    # Two pods ask about all nodes, because answers are kept from the second equal pod on.
    assert reused.nodes <= 2 * NODES + PODS


async def test_reused_answers_are_right(pyscheduler_cluster):
    """A node that fills up is asked again: equal pods stop where the headroom ends."""
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "10"})
    framework = cluster.framework(enable=[HeadroomReused])

    for number in range(9):
        assert (await framework.schedule(f"p{number}", requests={"cpu": "1"})).node == "n1"
    refused = await framework.schedule("p9", requests={"cpu": "1"})
    assert refused.message.startswith("0/1 nodes are available: 1 node(s) had no CPU headroom left.")
