"""The interface of `GpuSharing` for other plugins of this package, which use it without importing `GpuSharing`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pyscheduler.api import Pod

__all__ = ["SHARED_KEY", "SPREAD_KEY", "SharedRoom"]

#: The key of `handle.shared`, for a mapping of `GpuSharing` by profile.
SHARED_KEY: Final = "pyscheduler-batch/gpu-sharing"
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
