"""Find the GPUs of a node that have room for a pod's share, and choose among them.

The capacity of a GPU is its memory in MiB, or 100 (percent) if the memory is unknown.

Source: KAI-Scheduler, `pkg/scheduler/api/node_info/gpu_sharing_node_info.go`, `pkg/scheduler/gpu_sharing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler_batch.model.axis import GPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Node

__all__ = [
    "FRACTION_ANNOTATION",
    "MEMORY_ANNOTATION",
    "MEMORY_LABEL",
    "NUM_DEVICES_ANNOTATION",
    "SHARE_ANNOTATIONS",
    "DeviceShares",
    "ShareRequest",
    "gpu_memory",
    "share_request",
    "smallest_gpu_memory",
    "usable_share",
]

FRACTION_ANNOTATION: Final = "gpu-fraction"
MEMORY_ANNOTATION: Final = "gpu-memory"
NUM_DEVICES_ANNOTATION: Final = "gpu-fraction-num-devices"
#: What a request for shares depends on.
SHARE_ANNOTATIONS: Final = (FRACTION_ANNOTATION, MEMORY_ANNOTATION, NUM_DEVICES_ANNOTATION)
#: The label of nodes with the memory of each GPU in MiB.
MEMORY_LABEL: Final = "nvidia.com/gpu.memory"

#: The memory of a GPU whose node has no label: fractions are percents then.
_DEFAULT_MEMORY: Final = 100
#: From here on, the label is in bytes: a known mistake of GPU feature discovery.
_TEBIBYTE: Final = 1 << 20
#: A power of two: sums of such parts are exact.
_PARTS: Final = 1 << 20
_WHOLE_NUMBER: Final = frozenset("0123456789")


@attrs.define
class DeviceShares:
    """The devices of one node that pods share."""

    #: What each device of the node has.
    capacity: int
    #: By name of a shared device, what pods have of it; more than 0.
    used: dict[str, int] = attrs.Factory(dict)

    def with_room(self, amount: int) -> list[str]:
        """Return the shared devices with room for an amount, the fullest first, equals by name."""
        fitting = [name for name, used in self.used.items() if self.capacity - used - amount >= 0]
        return sorted(fitting, key=lambda name: (-self.used[name], name))

    def choose(
        self, amount: int, devices: int, whole: int, new: Callable[[int], str], *, spread: bool = False
    ) -> Sequence[str] | None:
        """Return the names of the devices that a pod gets, or None if too few have room.

        Shared devices come first, the fullest of them first; with `spread`, whole devices come first. `new(n)` names
        the n-th device that is shared from now on.
        """
        shared = self.with_room(amount)
        if whole + len(shared) < devices:
            return None
        number = min(whole, devices) if spread else max(devices - len(shared), 0)
        kept = shared[::-1] if spread else shared
        return (*kept[: devices - number], *(new(index) for index in range(number)))

    def take(self, names: Iterable[str], amount: int) -> None:
        """Give a pod an amount, more than 0, of each of these devices."""
        for name in names:
            self.used[name] = self.used.get(name, 0) + amount

    def give_back(self, names: Iterable[str], amount: int) -> list[str]:
        """Take an amount of each of these devices from a pod; return those that nobody shares any more."""
        freed = []
        for name in names:
            self.used[name] -= amount
            if self.used[name] <= 0:
                del self.used[name]
                freed.append(name)
        return freed


@attrs.frozen
class ShareRequest:
    """The request of a pod for each of some GPUs: a portion, or memory in MiB."""

    devices: int
    portion: float = 0.0
    memory: int = 0

    def amount(self, capacity: int) -> int:
        """Return the memory of each GPU in MiB, on a node whose GPUs have this capacity; at least 1.

        Differs from KAI: there, a small portion of a small GPU is 0, so any number of pods shares it.
        """
        return self.memory or max(int(self.portion * capacity), 1)

    def amounts(self, capacity: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[n]: `amount` on nodes whose GPUs have these capacities."""
        if self.memory:
            return np.full(len(capacity), self.memory, dtype=np.int64)
        amounts: NDArray[np.int64] = np.maximum((self.portion * capacity).astype(np.int64), 1)
        return amounts

    def fits(self, used: NDArray[np.int64], capacity: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return bool[k, n]: which devices have room for an amount, if pods have `used` (int64[k, n]) of them."""
        fits: NDArray[np.bool_] = used <= capacity - self.amounts(capacity)
        return fits

    def gpus(self, capacity: int) -> float:
        """Return how many GPUs the request counts as, in 1048576ths of each, so that sums and differences are exact.

        Parts are rounded down: a device that is used up by its shares never counts for more than one. Memory of more
        than a device counts as a whole one, because some nodes do not say how much memory theirs have.
        Differs from KAI: there, memory is rounded up to hundredths of a device.
        """
        part = min(self.memory / capacity, 1.0) if self.memory else self.portion
        return max(int(part * _PARTS), 1) / _PARTS * self.devices

    def is_possible(self, capacity: int) -> bool:
        """Return whether a GPU of this memory may be asked for it: a part of one, or a multiple without a rest."""
        return self.memory <= capacity or self.memory % capacity == 0


def share_request(annotations: Mapping[str, str], *, has_whole_gpus: bool) -> ShareRequest | None:
    """Return what a pod's annotations request; None for a pod that shares no GPU.

    Raises `ValueError` with KAI's sentence for annotations that contradict each other or cannot be read. Source:
    KAI-Scheduler, `pkg/binder/plugins/gpusharing/gpu-request`, which rejects such pods at their creation.
    """
    fraction, memory = annotations.get(FRACTION_ANNOTATION), annotations.get(MEMORY_ANNOTATION)
    number = annotations.get(NUM_DEVICES_ANNOTATION)
    if fraction is None and memory is None:
        if number is not None:
            text = "cannot request multiple fractional devices without specifying fraction portion or gpu-memory"
            raise ValueError(text)
        return None
    if fraction is not None and has_whole_gpus:
        raise ValueError("cannot have both GPU fraction request and whole GPU resource request/limit")
    if memory is not None and (fraction is not None or has_whole_gpus):
        raise ValueError("cannot request both GPU and GPU memory")
    devices = 1
    if number is not None:
        devices = _positive(number, "fraction count annotation value must be a positive integer greater than 0")
    if memory is not None:
        text = "gpu-memory annotation value must be a positive integer greater than 0"
        return ShareRequest(devices, memory=_positive(memory, text))
    return ShareRequest(devices, portion=_portion(fraction or ""))


def usable_share(annotations: Mapping[str, str], *, has_whole_gpus: bool) -> ShareRequest | None:
    """Return `share_request`; None also for annotations that cannot be used: `GpuSharing` rejects such pods."""
    try:
        return share_request(annotations, has_whole_gpus=has_whole_gpus)
    except ValueError:
        return None


def gpu_memory(labels: Mapping[str, str]) -> int:
    """Return the memory of each GPU of a node in MiB, in hundreds; 100 if the node's labels do not say."""
    text = labels.get(MEMORY_LABEL, "")
    value = int(text) if text and _WHOLE_NUMBER.issuperset(text) else 0
    if value >= _TEBIBYTE:
        value >>= 20
    return value - value % 100 or _DEFAULT_MEMORY


def smallest_gpu_memory(nodes: Iterable[Node]) -> int:
    """Return the memory of the smallest GPU of a cluster, as `gpu_memory` does; 100 if no node has a GPU."""
    return min((gpu_memory(node.labels) for node in nodes if GPU in node.status.allocatable), default=_DEFAULT_MEMORY)


def _positive(text: str, mistake: str) -> int:
    # As in Go: neither a sign nor blanks nor digits of other scripts; what is larger than 64 bits is no number.
    if not text or not _WHOLE_NUMBER.issuperset(text) or len(text) > 20 or not 0 < int(text) < 1 << 63:
        raise ValueError(mistake)
    return int(text)


def _portion(text: str) -> float:
    mistake = "gpu-fraction annotation value must be a positive number smaller than 1.0"
    if not text or not text.isascii() or text != text.strip() or "_" in text:
        raise ValueError(mistake)
    try:
        value = float(text)
    except ValueError:
        raise ValueError(mistake) from None
    if not 0 < value < 1:
        raise ValueError(mistake)
    return value
