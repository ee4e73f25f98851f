"""The GPUs of all nodes (`devices` in the code) as arrays, for filters and scores that look at single GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler_batch.gpu_sharing.device_shares import gpu_memory
from pyscheduler_batch.model.axis import GPU

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.framework import Handle, NodeInfo, Nodes
    from pyscheduler_batch.gpu_sharing.books import GpuBooks

__all__ = ["NO_DEVICE", "DeviceColumns", "Devices"]

#: Stands in `used` where a node has no further shared device: no amount fits there.
NO_DEVICE: Final = 1 << 40


@attrs.frozen
class Devices:
    """The devices of some nodes, one column for each node; the arrays are not to be written to.

    `used`: int64[k, n], what pods have of each shared device, in the order in which sharing began; `NO_DEVICE` where a
    node has fewer than k. `capacity`: int64[n], what each device of the node has, in the same unit. `whole`: int64[n],
    how many devices no pod has. `stamps`: int64[n], a number that changes whenever anything on the node does.
    """

    used: NDArray[np.int64]
    capacity: NDArray[np.int64]
    whole: NDArray[np.int64]
    stamps: NDArray[np.int64]


class DeviceColumns:
    """The shared devices by row of the snapshot; `books` has what is recorded of each node."""

    def __init__(self, handle: Handle, books: GpuBooks) -> None:
        self._handle = handle
        self._books = books
        #: The position in `books.changed` up to which changes are known.
        self._position = 0
        #: By row, the generation of the node when the row was read; -1: not read yet.
        self._generations: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._used: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)
        self._capacity: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        #: Shared devices that no pod requests as a whole yet.
        self._unreserved: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._stamps: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._last_stamp = 0

    def of(self, nodes: Nodes) -> Devices:
        """Return the devices of these nodes as they are now."""
        self._follow()
        rows = slice(None) if nodes is self._handle.snapshot.nodes else nodes.rows
        whole = nodes.allocatable(GPU) - nodes.requested(GPU) - self._unreserved[rows]
        return Devices(self._used[:, rows], self._capacity[rows], whole, self._stamps[rows])

    def _follow(self) -> None:
        nodes = self._handle.snapshot.nodes
        generations = nodes.generations()
        if len(generations) != len(self._generations):
            self._resize(len(generations))
        stale = np.flatnonzero(self._generations != generations)
        rows: list[int] = stale.tolist()
        names = self._books.changed.since(self._position)
        if names is None:
            rows = [*range(len(generations))]
        elif names:
            found = (nodes.index(name) for name in names)
            rows = [*dict.fromkeys([*rows, *(row for row in found if row is not None)])]
        for row in rows:
            self._read(row, nodes[row])
        self._position = self._books.changed.position
        self._generations[stale] = generations[stale]

    def _resize(self, number: int) -> None:
        self._generations = np.full(number, -1, dtype=np.int64)
        self._used = np.full((0, number), NO_DEVICE, dtype=np.int64)
        self._capacity = np.zeros(number, dtype=np.int64)
        self._unreserved = np.zeros(number, dtype=np.int64)
        self._stamps = np.zeros(number, dtype=np.int64)

    def _read(self, row: int, node: NodeInfo) -> None:
        shared = self._books.nodes.get(node.name)
        used = [] if shared is None else list(shared.used.values())
        if len(used) > len(self._used):
            more = np.full((len(used) - len(self._used), self._used.shape[1]), NO_DEVICE, dtype=np.int64)
            self._used = np.concatenate((self._used, more))
        self._used[: len(used), row] = used
        self._used[len(used) :, row] = NO_DEVICE
        if shared is not None:
            self._capacity[row] = shared.capacity
        else:
            self._capacity[row] = gpu_memory({} if node.node is None else node.node.labels)
        self._unreserved[row] = self._books.without_reservation(node.name)
        self._last_stamp += 1
        self._stamps[row] = self._last_stamp
