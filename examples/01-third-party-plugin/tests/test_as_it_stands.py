"""The smallest whole test of a plugin: a class, a cluster, a pod, and what became of it."""

import attrs
import numpy as np

from pyscheduler import ScorePlugin
from pyscheduler.testing import make_pod


@attrs.frozen
class MyPluginArgs:
    """How much it counts that a node has pods already."""

    weight: int = 1


class MyPlugin(ScorePlugin):
    """Prefer nodes with fewer pods."""

    args_type = MyPluginArgs

    def score_nodes(self, state, pod, nodes):
        return np.maximum(100 - self.args.weight * nodes.pod_counts(), 0)


async def test_spreads(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    cluster.add_node("n1", allocatable={"cpu": "4"})
    framework = cluster.framework(enable=[MyPlugin], args={"MyPlugin": {"weight": 2}})
    result = await framework.schedule(make_pod("p", requests={"cpu": "1"}))
    assert result.node == "n1"
    await cluster.clock.advance(60)
    cluster.assert_invariants()
