"""The interface by which other plugins use `GpuSharing` without importing it.

A plugin that chooses GPUs instead of `GpuSharing` implements `DevicePolicy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyscheduler.api import Pod
    from pyscheduler_batch.gpu_sharing.device_shares import DeviceShares

__all__ = ["POLICY_KEY", "SHARED_KEY", "SPREAD_KEY", "DevicePolicy", "Room", "SharedRoom"]

#: The key of `handle.shared`, for a mapping of `GpuSharing` by profile.
SHARED_KEY: Final = "pyscheduler-batch/gpu-sharing"
#: The key of `handle.shared`, for a mapping of `DevicePolicy` by profile.
POLICY_KEY: Final = "pyscheduler-batch/gpu-device-policy"
#: The key for the names of the batch profiles whose policies spread pods over GPUs.
SPREAD_KEY: Final = "pyscheduler-batch/gpu-spread"


@attrs.frozen
class SharedRoom:
    """The room on shared GPUs, as a session sees it."""

    #: Returns the names of the nodes with a GPU that is shared already and has room for the pod.
    nodes_for: Callable[[Pod], Collection[str]]
    #: Returns the names of the GPUs that the pod with this uid shares; none if it has no node.
    devices_of: Callable[[str], Sequence[str]]
    #: Returns whether the GPUs that the pod would get on a node have room while evicted pods are still there. The
    #: number is how many GPUs of the node are idle.
    has_room_now: Callable[[Pod, str, float], bool]
    #: Returns whether an evicted pod would get the same GPUs again on its node.
    keeps_devices: Callable[[Pod], bool]
    #: Returns all that decides which GPUs pods get, besides pod and node objects. Two results are equal only if it is
    #: the same; never if another plugin chooses the GPUs.
    shares: Callable[[], object]


@attrs.frozen
class Room:
    """The devices of a node among which a pod gets some: `amount` of each of `devices` devices."""

    node_name: str
    amount: int
    devices: int
    #: The devices that pods share already, in the order in which sharing began. Not to be changed.
    shared: DeviceShares
    #: How many devices no pod has.
    whole: int
    #: Returns the name of the n-th of the whole devices that is shared from now on.
    new: Callable[[int], str]


class DevicePolicy(Protocol):
    """A plugin that chooses the devices of the pods of its profile."""

    def choose_devices(self, pod: Pod, room: Room) -> Sequence[str] | None:
        """Return the names of the devices that the pod gets, or None to leave the choice to `GpuSharing`."""
        ...
