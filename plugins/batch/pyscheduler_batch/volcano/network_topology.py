"""network-topology-aware: place jobs into HyperNodes of a low tier. Source: Volcano `plugins/network-topology-aware`.

A job with `networkTopology` in mode `hard` runs in one HyperNode of at most `highestTierAllowed` (or of the tier that
`highestTierName` names). In mode `soft` any HyperNode will do, and the whole cluster. HyperNodes of a lower tier come
first; within a tier the one that is fullest afterwards. A job that runs in part stays below the highest HyperNode that
is allowed above its nodes.

Differs from Volcano, which places the job in every HyperNode of a tier and then takes the best one: here they are tried
from the best one on. Sub-groups (`subGroupPolicy`) are not followed. Jobs with a topology neither preempt nor reclaim;
in Volcano they reclaim on nodes all over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pyscheduler.batch.axis import CPU, MEMORY
from pyscheduler.batch.hyper_nodes import HyperNodeTree
from pyscheduler.batch.tasks import ACTIVE, NO_NODE
from pyscheduler_batch.volcano.policy import VolcanoPolicy, float_argument, int_argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler.batch.tasks import Job, Task

__all__ = ["NetworkTopologyAware"]

_MAX_SCORE: Final = 100.0
_FADING: Final = 0.8


class NetworkTopologyAware(VolcanoPolicy):
    """Place jobs with `networkTopology` into HyperNodes; fill HyperNodes with other pods."""

    name: ClassVar[str] = "network-topology-aware"

    def prepare(self) -> None:
        """Read the arguments; the tree is built when it is first asked for."""
        said = self.arguments
        weight = int_argument(said, "weight", 1)
        self._weight = _MAX_SCORE * (weight if weight >= 0 else 1)
        keys = {CPU: "hypernode.binpack.cpu", MEMORY: "hypernode.binpack.memory"}
        for name in str(said.get("hypernode.binpack.resources") or "").split(","):
            if name.strip():
                keys.setdefault(name.strip(), f"hypernode.binpack.resources.{name.strip()}")
        weights = {name: int_argument(said, key, 1) for name, key in keys.items()}
        self._weights = self.session.axis.amounts({name: each if each >= 0 else 1 for name, each in weights.items()})
        self._known = np.array([name in weights for name in self.session.axis.names])
        self._fills = str(said.get("hypernode.binpack.normal-pod.enable", "true")).lower() != "false"
        fading = float_argument(said, "hypernode.binpack.normal-pod.fading", _FADING)
        self._fading = fading if fading >= 0 else _FADING
        self._tree: HyperNodeTree | None = None

    @property
    def tree(self) -> HyperNodeTree:
        """Return the HyperNodes of the cluster."""
        if self._tree is None:
            session = self.session
            self._tree = HyperNodeTree.of(session.hyper_nodes, session.nodes.names, session.labels)
            self._lowest = self._tree.lowest_of()
        return self._tree

    def highest_tier(self, job: Job) -> int | None:
        """Return the highest tier in which a job may run; None for a job without a topology."""
        said = job.topology
        if not said:
            return None
        tree = self.tree
        top = int(tree.tiers[-1])
        if said.get("mode") == "soft":
            return top
        tier, name = said.get("highestTierAllowed"), said.get("highestTierName")
        if isinstance(tier, int) and not isinstance(tier, bool):
            return tier
        return tree.tier_names.get(name, top) if isinstance(name, str) else top

    def domains(self, job: Job) -> Iterator[NDArray[np.bool_]]:
        """Yield bool[N], the nodes of each HyperNode that the job may use, in the order in which they are tried."""
        tree, highest = self.tree, self.highest_tier(job)
        if highest is None:
            return
        held = tree.around(_nodes(job))
        below = [*range(len(tree.names))]
        if held >= 0:
            allowed = [at for at in tree.path(held) if tree.tiers[at] <= highest]
            if not allowed:
                return
            below = [at for at in below if allowed[-1] in tree.path(at)]
        scores = self._filled(job)
        chosen = [at for at in below if tree.tiers[at] <= highest and (held >= 0 or self._holds(job, at))]
        chosen.sort(key=lambda at: (int(tree.tiers[at]), -scores[at]))
        for at in chosen:
            if tree.members[at].any():
                yield tree.members[at]

    def _holds(self, job: Job, at: int) -> bool:
        """Return whether the job's `minResources` fit into what a HyperNode has idle, now or later."""
        if job.min_resources is None:
            return True
        nodes, inside, scale = self.session.nodes, self.tree.members[at], self.session.scale
        sums = (nodes.idle[inside].sum(axis=0), nodes.future[inside].sum(axis=0))
        return any(scale.less_equal(job.min_resources, each) for each in sums)

    def _filled(self, job: Job) -> NDArray[np.float64]:
        """Return float64[H]: the used part of each HyperNode with the job, by weight; 0 if it is too small."""
        total = np.sum([task.request for task in job.tasks.values()], axis=0)
        return self._used_part(total)

    def _used_part(self, request: NDArray[np.float64]) -> NDArray[np.float64]:
        members, nodes = self.tree.members.astype(np.float64), self.session.nodes
        counts = self._known & (request > 0)
        weights = self._weights[counts]
        if not counts.any() or weights.sum() <= 0:
            return np.zeros(len(self.tree.names))
        offered = members @ nodes.allocatable[:, counts]
        used = offered - members @ (nodes.idle[:, counts] - nodes.pipelined[:, counts]) + request[counts]
        parts = np.divide(used * weights, offered, out=np.zeros_like(used), where=offered > 0)
        found: NDArray[np.float64] = parts.sum(axis=1) / weights.sum()
        found[(used > offered).any(axis=1)] = 0.0
        return found

    def score_nodes(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return float64[n] for the nodes `rows`, or None if nothing is scored."""
        if task.job.topology:
            return self._near(task.job, rows)
        return self._spread_over_tiers(task, rows) if self._fills and len(self.tree.names) > 1 else None

    def _near(self, job: Job, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Score nodes by the tier that they share with the nodes of the job; equal best ones by its tasks there."""
        tree = self.tree
        held = tree.around(_nodes(job))
        if held < 0:
            return None
        own = self._lowest[rows]
        low, high = int(tree.tiers.min()), int(tree.tiers.max())
        by_id = {at: self._nearness(at, held, low, high) for at in np.unique(own).tolist()}
        scores = np.array([by_id[at] for at in own.tolist()])
        best = scores == scores.max()
        if np.count_nonzero(best) > 1:
            placed = np.array(_nodes(job), dtype=np.int64)
            for at in np.unique(own[best]).tolist():
                if at >= 0:
                    scores[best & (own == at)] += tree.members[at, placed].sum() / len(job.tasks)
        return scores * self._weight

    def _nearness(self, at: int, held: int, low: int, high: int) -> float:
        if at < 0:
            return 0.0
        if at == held or low == high:
            return 1.0
        return (high - int(self.tree.tiers[self.tree.common(at, held)])) / (high - low)

    def _spread_over_tiers(self, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Score nodes by how full their HyperNodes are with the task; lower tiers count more."""
        tree, filled = self.tree, self._used_part(task.request)
        scores, total = np.zeros(len(rows)), 0.0
        for tier in range(int(tree.tiers.min()), int(tree.tiers.max()) + 1):
            weight = self._fading ** (tier - 1)
            total += weight
            of_tier = np.ones(len(rows))
            for at in np.flatnonzero(tree.tiers == tier)[::-1].tolist():
                inside = tree.members[at, rows]
                of_tier[inside] = filled[at]
            scores += weight * of_tier
        return scores / total * self._weight if total > 0 else scores


def _nodes(job: Job) -> Sequence[int]:
    """Return the nodes on which tasks of a job are placed."""
    return [task.node for task in job.tasks.values() if task.state in ACTIVE and task.node != NO_NODE]
