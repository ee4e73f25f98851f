"""Check the cache: compute a NodeInfo again from its node and pods, and compare it with the cached one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.node_info import NodeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.resource import Resource

__all__ = ["check_node_info"]


def check_node_info(info: NodeInfo) -> None:
    """Raise AssertionError unless the sums and lists of `info` are those of its node and its pods."""
    naive = NodeInfo()
    if info.node is not None:
        naive.set_node(info.node)
    for pod in info.pods:
        naive.add_pod(pod)
    name = info.name or "a node that is gone"
    for what in ("requested", "non_zero_requested", "allocatable"):
        have, expected = _amounts(getattr(info, what)), _amounts(getattr(naive, what))
        assert have == expected, f"{what} of {name} is {have}, its pods say {expected}"
    for what in ("pods", "pods_with_affinity", "pods_with_required_anti_affinity"):
        uids, naive_uids = _uids(getattr(info, what)), _uids(getattr(naive, what))
        assert uids == naive_uids, f"{what} of {name} are {uids}, should be {naive_uids}"
        assert len(set(uids)) == len(uids), f"{what} of {name} hold a pod twice"
    assert sorted(info.used_ports) == sorted(naive.used_ports), f"host ports of {name}"
    assert info.pvc_ref_counts == naive.pvc_ref_counts, f"claims of {name}"
    assert info.declared_features == naive.declared_features, f"declared features of {name}"
    images = {each for image in info.node.status.images for each in image.names} if info.node is not None else set()
    assert info.image_states.keys() == images, f"images of {name}"


def _amounts(resource: Resource) -> dict[str, int]:
    fixed = {
        "cpu": resource.milli_cpu,
        "memory": resource.memory,
        "ephemeral-storage": resource.ephemeral_storage,
        "pods": resource.allowed_pods,
    }
    # An amount of zero that is left behind means the same as none.
    return fixed | {name: amount for name, amount in resource.scalars.items() if amount}


def _uids(pods: Sequence[PodInfo]) -> list[str]:
    return sorted(pod.pod.uid for pod in pods)
