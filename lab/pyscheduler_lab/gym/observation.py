"""The input of a learned policy, which scores nodes: one flat array with each node's features and, last, the pod's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import pod_requests
from pyscheduler_fgd.policy import demand_of
from pyscheduler_lab.clusters.node import GPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import Nodes
    from pyscheduler_batch.gpu_sharing.plugin import GpuSharing

__all__ = ["NODE_FEATURES", "POD_FEATURES", "observation_size", "observe", "split"]

NODE_FEATURES: Final[Sequence[str]] = (
    "free_cpu",
    "free_memory",
    "free_gpus",
    "shared_gpu_room",
    "most_shared_gpu_room",
    "gpus",
)
"""The features of a node: free CPU and memory; GPUs that no pod has a part of; the sum of the free parts of GPUs that
pods share; the largest of these parts; all GPUs."""

POD_FEATURES: Final[Sequence[str]] = ("cpu", "memory", "gpus", "gpu_part")
"""The features of a pod: requested CPU, memory and GPUs, and the part of each GPU that it gets; 1 for whole GPUs."""


def observation_size(nodes: int) -> int:
    """Return the length of an observation of so many nodes."""
    return nodes * len(NODE_FEATURES) + len(POD_FEATURES)


def split(observation: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return float32[n, 6], the features of the nodes, and float32[4], those of the pod; both are views."""
    nodes, pod = observation[: -len(POD_FEATURES)], observation[-len(POD_FEATURES) :]
    return nodes.reshape(-1, len(NODE_FEATURES)), pod


def observe(nodes: Nodes, pod: Pod | None, sharing: GpuSharing | None) -> NDArray[np.float32]:
    """Return the observation of a pod before it is placed; without a pod, its features are 0.

    `sharing` knows which parts of GPUs are free; None if the profile does not share GPUs.
    """
    found = np.zeros(observation_size(len(nodes)), dtype=np.float32)
    table, request = split(found)
    cpu, memory, gpus = (nodes.allocatable(name) for name in ("cpu", "memory", GPU))
    most_cpu, most_memory, most_gpus = (max(int(each.max(initial=0)), 1) for each in (cpu, memory, gpus))
    table[:, 0] = (cpu - nodes.requested("cpu")) / most_cpu
    table[:, 1] = (memory - nodes.requested("memory")) / most_memory
    table[:, 2] = (gpus - nodes.requested(GPU)) / most_gpus
    table[:, 5] = gpus / most_gpus
    if sharing is not None:
        _add_shared(table, nodes, sharing, most_gpus)
    if pod is not None:
        demand = demand_of(pod)
        request[0] = demand.cpu / most_cpu
        request[1] = pod_requests(pod).get("memory", 0) / most_memory
        request[2], request[3] = demand.whole / most_gpus, float(demand.whole > 0)
        share = demand.share
        if share is not None and not share.memory:
            request[2], request[3] = share.devices / most_gpus, float(share.portion)
    return np.clip(found, 0, 1, out=found)


def _add_shared(table: NDArray[np.float32], nodes: Nodes, sharing: GpuSharing, most_gpus: int) -> None:
    """Replace the GPUs that no pod has a part of, and add the room of shared GPUs."""
    devices = sharing.columns.of(nodes)
    table[:, 2] = devices.whole / most_gpus
    if len(devices.used):
        # A GPU that does not exist has no room.
        room = np.maximum(devices.capacity - devices.used, 0) / np.maximum(devices.capacity, 1)
        table[:, 3] = room.sum(axis=0) / most_gpus
        table[:, 4] = room.max(axis=0)
