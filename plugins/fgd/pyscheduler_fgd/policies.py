"""Score plugins to compare with the plugin `FGD`: `Random`, `DotProd`, `GpuClustering`, `GpuPacking` and `BestFit`.

Source: Weng et al., USENIX ATC 2023, section 6.1, and the definitions in the simulator of its authors.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from zlib import crc32

import attrs
import numpy as np

from pyscheduler.framework import MAX_SCORE, Reuse, Status
from pyscheduler.framework.node_memo import NodeMemo
from pyscheduler_batch.gpu_sharing.books import groups_of
from pyscheduler_fgd.policy import Candidates, Demand, GpuPolicy, demand_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Handle, NodeInfo, Nodes, SignFragment
    from pyscheduler_batch.gpu_sharing.shared import Room

__all__ = ["BestFit", "DotProd", "GpuClustering", "GpuPacking", "Random", "RandomArgs"]

#: The largest node: thousandths of a core, thousandths of GPUs.
_CPU: Final = 128_000
_GPU: Final = 8_000
#: A pod of more GPUs has the class of this many.
_CLASSES: Final = 62


@attrs.frozen(kw_only=True)
class RandomArgs:
    """The seed of the draws: the same seed and the same pods give the same placement."""

    seed: int = 0


class Random(GpuPolicy):
    """Draw a node, and draw the GPUs of a pod that shares some.

    A draw depends on the seed, on the namespace and name of the pod and, for a node, on the names of the nodes. It does
    not depend on the order of the nodes, nor on earlier pods.
    """

    args_type = RandomArgs
    args: RandomArgs

    def __init__(self, args: RandomArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hashes: NodeMemo[int] = NodeMemo(lambda node: crc32(node.name.encode()))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        scores = np.zeros(len(nodes), dtype=np.int64)
        ids = self._hashes.ids(nodes)
        hashes = np.array(self._hashes.values, dtype=np.uint64)[ids]
        scores[np.argmax(_drawn(hashes, self._digest(pod)))] = MAX_SCORE
        return scores

    def _digest(self, pod: Pod) -> int:
        text = f"{self.args.seed}/{pod.key}".encode()
        return int.from_bytes(blake2b(text, digest_size=8).digest())

    def choose_devices(self, pod: Pod, room: Room) -> Sequence[str] | None:
        shared = room.shared.with_room(room.amount)
        if len(shared) + room.whole < room.devices:
            return None
        drawn = random.Random(self._digest(pod)).sample(range(len(shared) + room.whole), room.devices)
        return [shared[number] if number < len(shared) else room.new(number) for number in drawn]

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        return Status.unschedulable("each pod is drawn a node of its own")


def _drawn(hashes: NDArray[np.uint64], digest: int) -> NDArray[np.uint64]:
    """Return uint64[n]: the numbers that a pod draws for nodes with these hashes of names.

    The last step of SplitMix64 mixes the bits. The largest XOR alone would draw some nodes more often than others.
    """
    mixed = hashes ^ np.uint64(digest)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class DotProd(GpuPolicy):
    """Prefer nodes whose free amounts point away from the request: the smallest dot product of the two."""

    reuse = Reuse.UNTIL_FORGOTTEN

    def evaluate(self, demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        ratio = _CPU // _GPU
        # Both products times 128000 squared, so that the division comes last.
        product = candidates.cpu * demand.cpu + ratio**2 * candidates.free * candidates.requested(demand)
        scores = MAX_SCORE - -(-MAX_SCORE * product // (2 * _CPU**2))
        return np.clip(scores, 0, MAX_SCORE), None


class BestFit(GpuPolicy):
    """Prefer nodes on which the least is left, CPU and GPUs weighted alike."""

    def evaluate(self, demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        cpu = candidates.cpu - demand.cpu
        gpu = candidates.free - candidates.requested(demand)
        scores: NDArray[np.int64] = (MAX_SCORE * (2 * _CPU - cpu - _CPU // _GPU * gpu)) // (2 * _CPU)
        return scores, None

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Spread the scores over 0 to 100, in place; equal scores become 0."""
        scores -= scores.min()
        highest = int(scores.max())
        if highest:
            scores *= MAX_SCORE
            scores //= highest


class GpuPacking(GpuPolicy):
    """Prefer shared GPUs, then free GPUs of used nodes, then unused nodes."""

    reuse = Reuse.UNTIL_FORGOTTEN

    def evaluate(self, demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        number = len(candidates.rows)
        if not demand.needs_gpu:
            return super().evaluate(demand, candidates)
        share = demand.share
        if share is None:
            new: NDArray[np.int64] = np.full(number, demand.whole, dtype=np.int64)
            percents = np.zeros(number, dtype=np.int64)
        else:
            used = np.where(share.fits(candidates.used, candidates.capacity), candidates.used, -1)
            fullest = np.sort(used, axis=0)[::-1][: share.devices]
            new = share.devices - (fullest >= 0).sum(axis=0)
            free = (candidates.capacity - fullest) * 100 // candidates.capacity
            percents = np.where(fullest >= 0, free, 0).sum(axis=0)
        scores = np.maximum(MAX_SCORE - percents // 10, MAX_SCORE // 2)
        scores = np.where(new > 0, np.maximum(MAX_SCORE // 2 - new, MAX_SCORE // 3), scores)
        is_unused = candidates.whole == candidates.gpus
        return np.where(is_unused, np.maximum(MAX_SCORE // 3 - candidates.gpus, candidates.gpus), scores), None


class GpuClustering(GpuPolicy):
    """Prefer nodes that run pods of the same class: pods that share a GPU, pods of one GPU, of two GPUs, and so on."""

    reuse = Reuse.UNTIL_FORGOTTEN

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._classes = NodeMemo(_classes_on)

    def evaluate(self, demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        if not demand.needs_gpu:
            return super().evaluate(demand, candidates)
        ids = self._classes.ids(candidates.nodes)[candidates.rows]
        present = np.array(self._classes.values, dtype=np.int64)[ids]
        own = _class_of(demand)
        base = np.where(present == 0, 1, np.where(present == own, 3, np.where(present & own, 2, 0)))
        quarter = MAX_SCORE // 4
        scores: NDArray[np.int64] = quarter * base + quarter * (_GPU - candidates.free) // _GPU
        return np.clip(scores, 0, MAX_SCORE), None


def _class_of(demand: Demand) -> int:
    """Return the class of a pod as one bit, or 0 for a pod without GPUs."""
    if demand.share is not None:
        return 1
    return 1 << min(demand.whole, _CLASSES) if demand.whole else 0


def _classes_on(node: NodeInfo) -> int:
    """Return the classes of the pods on a node, a bit for each."""
    classes = 0
    for info in node.pods:
        demand = demand_of(info.pod)
        # A pod that only reserves a shared GPU is none of the pods that use GPUs.
        if demand.share is not None or not groups_of(info.pod):
            classes |= _class_of(demand)
    return classes
