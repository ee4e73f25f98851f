"""Plugins that look at single devices: what they read of all nodes, and the devices that they choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.api import Namespace
from pyscheduler.framework import ScorePlugin, SignPlugin
from pyscheduler_batch.gpu_sharing.books import groups_of
from pyscheduler_batch.gpu_sharing.plugin import GpuSharing
from pyscheduler_batch.gpu_sharing.shared import POLICY_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Handle, Nodes, SignFragment
    from pyscheduler.testing import FakeCluster
    from pyscheduler_batch.gpu_sharing.shared import Room

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: GpuSharing}, {name: WholeFirst}]}}
  pluginConfig: [{name: GpuSharing, args: {allocationTimeout: 0s, namespace: reservations}}]
"""


class WholeFirst(ScorePlugin, SignPlugin):
    """Chooses a whole device as long as there is one."""

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        handle.shared(POLICY_KEY, dict)[handle.profile_name] = self
        self.rooms: list[tuple[int, list[int], int]] = []

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        return np.zeros(len(nodes), dtype=np.int64)

    def choose_devices(self, pod: Pod, room: Room) -> Sequence[str] | None:
        self.rooms.append((room.amount, [*room.shared.used.values()], room.whole))
        return [room.new(0)] if room.whole else None

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return ()


async def test_another_plugin_chooses_the_device(pyscheduler_cluster: FakeCluster) -> None:
    """It sees the devices of the node in order; without an answer of it, the fullest device is filled.

    The arrays say the same as the labels of the pods, also when a pod is gone.
    """
    cluster = pyscheduler_cluster
    cluster.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "reservations"}}, Namespace)
    cluster.add_node("n0", allocatable={"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "2"})
    framework = cluster.framework(config=CONFIG, enable=[WholeFirst])
    for name in ("p0", "p1", "p2"):
        await framework.schedule(name, annotations={"gpu-fraction": "0.2"})
        await cluster.clock.advance(1)
    devices = [groups_of(cluster.pod(f"p{number}")) for number in range(3)]
    assert devices[0] != devices[1]
    assert devices[2] in devices[:2]
    policy, sharing = framework.plugin("WholeFirst"), framework.plugin("GpuSharing")
    assert isinstance(policy, WholeFirst)
    assert isinstance(sharing, GpuSharing)
    assert policy.rooms[-1] == (20, [20, 20], 0)
    columns = sharing.columns.of(framework.nodes())
    assert (columns.used.tolist(), columns.whole.tolist(), columns.capacity.tolist()) == ([[40], [20]], [0], [100])
    cluster.delete_pod("p1")
    await cluster.clock.advance(20)
    columns = sharing.columns.of(framework.nodes())
    assert (columns.used[0].tolist(), columns.whole.tolist()) == ([40], [1])
