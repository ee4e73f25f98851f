"""`FGD`: prefer the node on which the pod increases the fragmentation of the GPUs least.

Fragmentation is the part of the free GPUs that typical pods cannot use.

Source: Weng et al., USENIX ATC 2023, section 4.2 and algorithm 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.framework import MAX_SCORE, Reuse
from pyscheduler_fgd.fragmentation import Fragmentation, Free
from pyscheduler_fgd.observed_tasks import ObservedTasks
from pyscheduler_fgd.policy import Candidates, Demand, GpuPolicy
from pyscheduler_fgd.typical_tasks import WHOLE, TypicalTask, read_tasks, typical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, Handle, Nodes

__all__ = ["FGD", "FGDArgs"]


@attrs.frozen(kw_only=True)
class FGDArgs:
    """The typical tasks: given here, or in a file; with neither, they are the pods of the cluster."""

    typical_tasks: tuple[TypicalTask, ...] = ()
    typical_tasks_file: str = ""
    #: The part of all tasks that the most frequent kinds must cover; rarer kinds do not count.
    coverage: float = attrs.field(default=0.95, validator=[attrs.validators.gt(0), attrs.validators.le(1)])
    #: The label of nodes that names the GPU model.
    model_label: str = "nvidia.com/gpu.product"

    def __attrs_post_init__(self) -> None:
        if self.typical_tasks and self.typical_tasks_file:
            raise ValueError("typicalTasksFile: not allowed together with typicalTasks")


class FGD(GpuPolicy):
    """Score nodes by how much their fragmentation falls, or how little it grows."""

    reuse = Reuse.UNTIL_FORGOTTEN
    args_type = FGDArgs
    args: FGDArgs

    def __init__(self, args: FGDArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        given = args.typical_tasks
        if args.typical_tasks_file:
            given = tuple(read_tasks(args.typical_tasks_file))
        self._observed = None if given else ObservedTasks(handle, args.model_label)
        #: The worth of free GPUs to the typical tasks.
        self.fragmentation = Fragmentation(typical(given, args.coverage))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        self._observe()
        return super().score_nodes(state, pod, nodes)

    def _observe(self) -> None:
        """Take over the pods of the cluster as typical tasks, if they have changed much."""
        if self._observed is not None and self._observed.have_changed():
            self.fragmentation = Fragmentation(typical(self._observed.take(), self.args.coverage))
            self._kept.clear()

    def evaluate(self, demand: Demand, candidates: Candidates) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        table = self.fragmentation
        label = candidates.nodes.labels(self.args.model_label)
        model = table.model_ids(label.values)[label.ids[candidates.rows]]
        free = Free(model, candidates.cpu, candidates.parts, np.maximum(candidates.whole, 0))
        before = table.usable(table.place(model, free.cpu), free)
        place = table.place(model, free.cpu - demand.cpu)
        if demand.share is not None and demand.share.devices == 1:
            return self._try_devices(demand, candidates, free, place, before)
        if demand.share is not None:
            # The paper has no pods that share several devices.
            return super().evaluate(demand, candidates)
        left = attrs.evolve(free, whole=np.maximum(free.whole - demand.whole, 0))
        return self._scores(WHOLE * demand.whole * table.weight - before + table.usable(place, left)), None

    def _try_devices(
        self,
        demand: Demand,
        candidates: Candidates,
        free: Free,
        place: NDArray[np.int64],
        before: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the best score of each node, and the first device that has it."""
        assert demand.share is not None
        table, parts, whole = self.fragmentation, free.parts, free.whole
        amounts = demand.share.amounts(candidates.capacity)
        # The worth with the free CPU after the placement, but with the devices before it.
        untouched = table.usable(place, free) - before
        shared = np.maximum(parts - -(-amounts * WHOLE // candidates.capacity), 0)
        falls = (
            (parts - shared) * table.weight
            + untouched
            - table.usable_parts(place, parts)
            + table.usable_parts(place, shared)
        )
        broken = np.maximum((candidates.capacity - amounts) * WHOLE // candidates.capacity, 0)
        fall = (
            (WHOLE - broken) * table.weight
            + untouched
            - table.usable_whole(place, whole)
            + table.usable_whole(place, np.maximum(whole - 1, 0))
            + table.usable_parts(place, broken)
        )
        scores = np.empty((len(falls) + 1, len(fall)), dtype=np.int64)
        scores[:-1] = np.where(demand.share.fits(candidates.used, candidates.capacity), self._scores(falls), -1)
        scores[-1] = np.where(whole > 0, self._scores(fall), -1)
        devices = scores.argmax(axis=0)
        best = np.take_along_axis(scores, devices[None], axis=0)[0]
        # -1: no device has room. Filters reject such a node, so its score is never used.
        return np.maximum(best, 0), np.where(best < 0, -1, devices)

    def _scores(self, falls: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the scores for falls of the fragmentation, which are in thousandths times tasks."""
        scores: NDArray[np.int64] = (
            MAX_SCORE / (1 + np.exp(falls / (-WHOLE * max(self.fragmentation.weight, 1))))
        ).astype(np.int64)
        return scores
