"""Check, for `pyscheduler demo`, that the pods on a shared GPU do not request more than the GPU has."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["GPU", "RESERVATIONS", "Devices", "is_reservation", "share_of"]

GPU: Final = "nvidia.com/gpu"
_SHARE: Final = "gpu-memory"
_DEVICE: Final = "runai-gpu-group"
_CAPACITY: Final = "nvidia.com/gpu.memory"
RESERVATIONS: Final = "device-reservations"
"""The namespace in which the demo keeps reservation pods."""


def is_reservation(pod: dict[str, Any]) -> bool:
    """Return whether a pod only holds a device that others share."""
    return bool(pod["metadata"]["namespace"] == RESERVATIONS)


def share_of(pod: dict[str, Any]) -> int:
    """Return how much of a device a pod requests; 0 for one that shares none."""
    return int(pod["metadata"].get("annotations", {}).get(_SHARE, 0))


@attrs.define
class Devices:
    """The shared devices of all nodes."""

    #: By node, what each of its devices has.
    capacity: dict[str, int]
    #: By node and by name of a device, what its pods request.
    _used: dict[str, dict[str, int]] = attrs.field(factory=lambda: defaultdict(lambda: defaultdict(int)))
    #: Nodes and devices that reservation pods hold.
    _reserved: set[tuple[str, str]] = attrs.Factory(set)
    #: What is wrong with single pods.
    _problems: list[str] = attrs.Factory(list)

    @classmethod
    def of(cls, nodes: Iterable[dict[str, Any]]) -> Devices:
        """Return the devices of these nodes; a node without the label has none that can be shared."""
        labels = {node["metadata"]["name"]: node["metadata"].get("labels", {}) for node in nodes}
        return cls({name: int(each[_CAPACITY]) for name, each in labels.items() if _CAPACITY in each})

    def take(self, node: str, pod: dict[str, Any]) -> None:
        """Count a pod that runs on a node."""
        device = pod["metadata"].get("labels", {}).get(_DEVICE, "")
        if is_reservation(pod):
            self._reserved.add((node, device))
        elif share_of(pod):
            if not device:
                self._problems.append(
                    f"pod {pod['metadata']['name']} shares a device of node {node}, and none is named"
                )
            self._used[node][device] += share_of(pod)

    @property
    def shared(self) -> int:
        """Return what all pods together have of shared devices."""
        return sum(sum(devices.values()) for devices in self._used.values())

    def fits(self, node: str, pod: dict[str, Any], free: int) -> bool:
        """Return whether a node has room for a pod's share; `free` devices have no pod."""
        amount, capacity = share_of(pod), self.capacity.get(node, 0)
        if not amount:
            return True
        return amount <= capacity and (
            free >= 1 or any(used + amount <= capacity for used in self._used[node].values())
        )

    def problems(self) -> Iterator[str]:
        """Yield what is wrong."""
        yield from self._problems
        for node, devices in self._used.items():
            for device, used in devices.items():
                if used > self.capacity.get(node, 0):
                    yield f"device {device} of node {node} is overcommitted by {used - self.capacity.get(node, 0)}"
                if (node, device) not in self._reserved:
                    yield f"device {device} of node {node} is shared, and no pod reserves it"
