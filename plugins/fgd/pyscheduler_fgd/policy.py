"""`GpuPolicy`: the base class of the six score plugins in this package."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.api import pod_requests
from pyscheduler.framework import CPU, ScorePlugin, SignFragment, SignPlugin, Status
from pyscheduler_batch.gpu_sharing.books import GpuBooks
from pyscheduler_batch.gpu_sharing.device_columns import DeviceColumns
from pyscheduler_batch.gpu_sharing.device_shares import SHARE_ANNOTATIONS, ShareRequest, usable_share
from pyscheduler_batch.gpu_sharing.shared import POLICY_KEY, SHARED_KEY, DevicePolicy, Room
from pyscheduler_batch.model.axis import GPU
from pyscheduler_fgd.typical_tasks import WHOLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Handle, Nodes
    from pyscheduler_batch.gpu_sharing.plugin import GpuSharing

__all__ = ["Candidates", "Demand", "GpuPolicy", "demand_of"]

#: The largest number of kinds of pods whose scores are kept.
_KINDS: Final = 1024


@attrs.frozen
class Demand:
    """The request of a pod for CPU, in thousandths of a core, and for parts of GPUs or whole ones."""

    cpu: int
    share: ShareRequest | None
    whole: int

    @property
    def needs_gpu(self) -> bool:
        """Return whether the pod requests any part of a GPU."""
        return self.share is not None or self.whole > 0


def demand_of(pod: Pod) -> Demand:
    """Return the request of a pod; annotations that cannot be used count as none."""
    requests = pod_requests(pod)
    whole = requests.get(GPU, 0)
    return Demand(requests.get(CPU, 0), usable_share(pod.annotations, has_whole_gpus=whole > 0), whole)


@attrs.frozen
class Candidates:
    """Some nodes, which a policy scores: `rows` of the snapshot's `nodes`. Arrays have one column for each of them.

    `used`, `capacity`, `whole`: as in `Devices`. `gpus`: how many devices each node has.
    """

    nodes: Nodes
    rows: NDArray[np.int64]
    #: Free CPU in thousandths of a core.
    cpu: NDArray[np.int64]
    used: NDArray[np.int64]
    capacity: NDArray[np.int64]
    whole: NDArray[np.int64]
    gpus: NDArray[np.int64]

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """The free thousandths of each device that pods share, int64[k, n]; 0 where there is none."""
        parts: NDArray[np.int64] = (self.capacity - self.used) * WHOLE // self.capacity
        return np.maximum(parts, 0)

    @cached_property
    def free(self) -> NDArray[np.int64]:
        """The free thousandths of all devices of each node, int64[n]."""
        free: NDArray[np.int64] = self.parts.sum(axis=0) + WHOLE * self.whole
        return free

    def requested(self, demand: Demand) -> NDArray[np.int64]:
        """Return int64[n]: the thousandths of GPUs that the pod gets on each node."""
        if demand.share is None:
            return np.full(len(self.rows), WHOLE * demand.whole, dtype=np.int64)
        amounts = demand.share.amounts(self.capacity)
        requested: NDArray[np.int64] = demand.share.devices * amounts * WHOLE // self.capacity
        return requested


@attrs.define
class _Kept:
    """The scores and devices for one kind of pods by row of the snapshot, valid while the stamp of the row stays."""

    stamps: NDArray[np.int64]
    scores: NDArray[np.int64]
    devices: NDArray[np.int64]

    @classmethod
    def blank(cls, number: int) -> _Kept:
        return cls(*(np.full(number, -1, dtype=np.int64) for _ in range(3)))


class GpuPolicy(ScorePlugin, SignPlugin):
    """A policy; most define `evaluate`. Where a profile has two policies, the first chooses the devices."""

    reuse_annotations = SHARE_ANNOTATIONS

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._kept: dict[Demand, _Kept] = {}
        if handle is not None:
            policies: dict[str, DevicePolicy] = handle.shared(POLICY_KEY, dict)
            policies.setdefault(handle.profile_name, self)

    @cached_property
    def _columns(self) -> DeviceColumns:
        # Read when the first pod is scored, because all plugins of the profile exist only then.
        by_profile: dict[str, GpuSharing] = self.handle.shared(SHARED_KEY, dict)
        sharing = by_profile.get(self.handle.profile_name)
        return DeviceColumns(self.handle, GpuBooks()) if sharing is None else sharing.columns

    def evaluate(self, demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Return int64[n]: the scores of the candidates, and the device of each that a share gets, if that matters.

        A device is a number: that of a shared one in its order, or a larger one for any wholly free device. The score
        of a candidate depends only on its own column. By default, all nodes are equal.
        """
        return np.zeros(len(candidates.rows), dtype=np.int64), None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        rows = nodes.rows
        return self._answers(demand_of(pod), rows).scores[rows]

    def choose_devices(self, pod: Pod, room: Room) -> Sequence[str] | None:
        """Return the device that a pod gets on the chosen node; None leaves the choice to `GpuSharing`."""
        row = self.handle.snapshot.nodes.index(room.node_name)
        if row is None or room.devices > 1:
            return None
        device = int(self._answers(demand_of(pod), np.array([row], dtype=np.int64)).devices[row])
        names = list(room.shared.used)
        if device < 0:
            return None
        return (names[device],) if device < len(names) else (room.new(0),)

    def _answers(self, demand: Demand, rows: NDArray[np.int64]) -> _Kept:
        """Return the scores and devices for a kind of pods, up to date for these rows of the snapshot."""
        nodes = self.handle.snapshot.nodes
        devices = self._columns.of(nodes)
        kept = self._kept.pop(demand, None)
        if kept is None or len(kept.stamps) != len(nodes):
            kept = _Kept.blank(len(nodes))
            if len(self._kept) >= _KINDS:
                del self._kept[next(iter(self._kept))]
        self._kept[demand] = kept
        stale = rows[kept.stamps[rows] != devices.stamps[rows]]
        if len(stale):
            found = Candidates(
                nodes=nodes,
                rows=stale,
                cpu=nodes.allocatable(CPU)[stale] - nodes.requested(CPU)[stale],
                used=devices.used[:, stale],
                capacity=devices.capacity[stale],
                whole=devices.whole[stale],
                gpus=nodes.allocatable(GPU)[stale],
            )
            scores, chosen = self.evaluate(demand, found)
            kept.scores[stale] = scores
            kept.devices[stale] = -1 if chosen is None else chosen
            kept.stamps[stale] = devices.stamps[stale]
        return kept

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        return (SignFragment(f"{self.name}/demand", demand_of(pod)),)
