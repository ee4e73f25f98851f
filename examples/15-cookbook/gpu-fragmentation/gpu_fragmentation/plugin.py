"""GpuFragmentation: place pods where they make the fewest free GPUs useless (Fragmentation Gradient Descent).

The plugin has a list of typical pods, from its args or from the cluster. A free GPU is useless for a typical pod that
requests no GPU or does not fit on the node. The fragmentation of a node is the number of its useless GPUs, as an
average over the typical pods. The plugin prefers the node whose fragmentation grows least. In the paper, pods also
share GPUs; here, they do not.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, sections 4.1 and 4.2.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

from pyscheduler import (
    CPU,
    MAX_SCORE,
    MEMORY,
    CycleState,
    Handle,
    Nodes,
    Pod,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
)
from pyscheduler.api import pod_requests, quantity_milli, quantity_value

#: CPU in thousandths, memory in bytes, GPUs.
Demand: TypeAlias = tuple[int, int, int]


@attrs.frozen(kw_only=True)
class PodKind:
    """A kind of pods of the target workload: requests as in a manifest, and how often it comes."""

    cpu: str = "0"
    memory: str = "0"
    gpus: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    weight: float = attrs.field(default=1.0, validator=[attrs.validators.gt(0), attrs.validators.le(1e9)])

    def __attrs_post_init__(self) -> None:
        _ = self.demand  # raises `QuantityError` for an amount that does not parse

    @property
    def demand(self) -> Demand:
        """Return what a pod of this kind requests."""
        return quantity_milli(self.cpu), quantity_value(self.memory), self.gpus


@attrs.frozen(kw_only=True)
class GpuFragmentationArgs:
    """The resource that counts as GPU, and the target workload; without one, it is the pods of the cluster."""

    resource: str = attrs.field(default="nvidia.com/gpu", validator=attrs.validators.min_len(1))
    workload: tuple[PodKind, ...] = ()
    #: Of the pods of the cluster, the most frequent kinds count, at most so many.
    max_kinds: int = attrs.field(default=64, validator=[attrs.validators.ge(1), attrs.validators.le(1024)])


class GpuFragmentation(ScorePlugin, SignPlugin):
    """Score nodes by how little their fragmentation would grow."""

    args_type = GpuFragmentationArgs
    args: GpuFragmentationArgs
    # With a workload from the args, a score depends on free and requested amounts only. See also `may_reuse`.
    reuse = Reuse.WHILE_AMOUNTS_STAY

    def __init__(self, args: GpuFragmentationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        #: How many pods of the cluster, waiting ones included, request the same. After a restart it is the same again.
        self.seen: Counter[Demand] = Counter()
        self._workload: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
        if args.workload:
            weights: Counter[Demand] = Counter()
            for kind in args.workload:
                weights[kind.demand] += kind.weight  # type: ignore[assignment] # a share, not a count
            self._workload = as_arrays(weights.most_common())
        else:
            handle.lister(Pod).add_event_handler(
                on_add=lambda pod: self.count(pod, 1),
                on_update=self.recount,
                on_delete=lambda pod: self.count(pod, -1),
            )

    def may_reuse(self, pod: Pod) -> bool:
        """Forbid the cache if the workload is learned: then a score depends on pods that came before."""
        return bool(self.args.workload)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        names = (CPU, MEMORY, self.args.resource)
        free = np.stack([nodes.allocatable(name) - nodes.requested(name) for name in names])
        demand = np.array(self.demand_of(pod), dtype=np.int64)[:, None]
        growth = self.fragmentation(free - demand) - self.fragmentation(free)
        # Thousandths of a GPU, negated: the least growth is the best.
        return np.asarray(np.rint(-1000 * growth), dtype=np.int64)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Spread the scores over 0 to 100, in place."""
        lowest, highest = int(scores.min()), int(scores.max())
        if highest == lowest:
            scores[:] = MAX_SCORE
        else:
            scores[:] = (scores - lowest) * MAX_SCORE // (highest - lowest)

    def fragmentation(self, free: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64[n]: the expected number of GPUs on each node that a pod of the workload cannot use.

        `free` is int64[3, n]: CPU, memory and GPUs that are free.
        """
        demands, shares = self.workload()
        gpus = np.maximum(free[2], 0)
        # bool[kinds, n]. Nothing that requests no GPU can use one: to such a kind, every free GPU is a fragment.
        usable = (demands <= free[None, :, :]).all(axis=1) & (demands[:, 2] > 0)
        fragments: NDArray[np.float64] = gpus * (shares.sum() - shares @ usable)
        return fragments

    def workload(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return int64[kinds, 3, 1], what each kind requests, and float64[kinds], its share."""
        if self._workload is None:
            self._workload = as_arrays(self.seen.most_common(self.args.max_kinds))
        return self._workload

    def demand_of(self, pod: Pod) -> Demand:
        """Return what a pod requests."""
        requests = pod_requests(pod)
        return requests.get(CPU, 0), requests.get(MEMORY, 0), requests.get(self.args.resource, 0)

    def count(self, pod: Pod, number: int) -> None:
        """Count a pod of the cluster in or out."""
        demand = self.demand_of(pod)
        self.seen[demand] += number
        if not self.seen[demand]:
            del self.seen[demand]
        self._workload = None

    def recount(self, old: Pod, new: Pod) -> None:
        """Count a resized pod with its new requests."""
        if self.demand_of(old) != self.demand_of(new):
            self.count(old, -1)
            self.count(new, 1)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (SignFragment("GpuFragmentation/demand", self.demand_of(pod)),)


def as_arrays(kinds: Sequence[tuple[Demand, float]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the demands (int64[kinds, 3, 1]) and shares (float64[kinds]) of a workload."""
    demands = np.array([demand for demand, _ in kinds], dtype=np.int64).reshape(-1, 3, 1)
    weights = np.array([weight for _, weight in kinds], dtype=np.float64)
    return demands, weights / weights.sum() if len(weights) else weights
