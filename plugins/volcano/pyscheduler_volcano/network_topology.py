"""Volcano's plugin `network-topology-aware`: place the pods of a job on nodes that are close together.

A HyperNode is a named set of nodes; a low tier means that its nodes are close together. A job with `networkTopology` in
mode `hard` runs in one HyperNode of tier `highestTierAllowed` or lower. In mode `soft`, the job may use the whole
cluster. HyperNodes of a low tier are tried first.

Differs from Volcano: the first HyperNode that can take the job is used, not the best one.

Source: Volcano `plugins/network-topology-aware`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from pyscheduler_batch.contract import ACTIVE, CPU, MEMORY, NO_NODE
from pyscheduler_volcano.hyper_nodes import HyperNodeTree
from pyscheduler_volcano.policy import VolcanoPolicy, number_argument

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_volcano.sub_jobs import SubJob

    #: A `networkTopology` as in the object.
    Topology = Mapping[str, object]

__all__ = ["NetworkTopologyAware", "has_topology", "topology_of"]

_log = logging.getLogger(__name__)

_MAX_SCORE: Final = 100.0
_FADING: Final = 0.8


class NetworkTopologyAware(VolcanoPolicy):
    """Place jobs with `networkTopology` into HyperNodes; fill HyperNodes with other pods."""

    name: ClassVar[str] = "network-topology-aware"
    #: What was logged about HyperNodes that the last tree was made of.
    _told: Collection[str] = ()

    def prepare(self) -> None:
        """Read the arguments; the tree is built when it is first asked for."""
        said = self.arguments
        weight = number_argument(said, "weight", 1)
        self._weight = _MAX_SCORE * (weight if weight >= 0 else 1)
        keys = {CPU: "hypernode.binpack.cpu", MEMORY: "hypernode.binpack.memory"}
        for name in str(said.get("hypernode.binpack.resources") or "").split(","):
            if name.strip():
                keys.setdefault(name.strip(), f"hypernode.binpack.resources.{name.strip()}")
        weights = {name: number_argument(said, key, 1) for name, key in keys.items()}
        self._weights = self.session.axis.amounts({name: each if each >= 0 else 1 for name, each in weights.items()})
        self._known = np.array([name in weights for name in self.session.axis.names])
        self._fills = str(said.get("hypernode.binpack.normal-pod.enable", "true")).lower() != "false"
        fading = number_argument(said, "hypernode.binpack.normal-pod.fading", _FADING)
        self._fading = fading if fading >= 0 else _FADING
        self._fills_first = self.session.switch(self, "enabledHyperNodeOrder", default=True)
        self._tree: HyperNodeTree | None = None

    @property
    def tree(self) -> HyperNodeTree:
        """Return the HyperNodes of the cluster."""
        if self._tree is None:
            session = self.session
            self._tree = HyperNodeTree.of(session.hyper_nodes, session.nodes.names, session.labels)
            self._lowest = self._tree.lowest_of()
            for sentence in self._tree.warnings:
                if sentence not in self._told:
                    _log.warning("%s", sentence)
            self._told = self._tree.warnings
        return self._tree

    def highest_tier(self, said: Topology) -> int | None:
        """Return the highest tier that a `networkTopology` allows; None for an empty one."""
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
        return self._domains(job.topology, [*job.tasks.values()], job.min_resources, None)

    def part_domains(
        self, job: Job, part: SubJob, within: NDArray[np.bool_] | None
    ) -> Iterator[NDArray[np.bool_]] | None:
        """Yield bool[N], the nodes of each HyperNode that a sub-group may use; return None if it may use any.

        `within`, bool[N]: the nodes that the job may use; None for all.
        """
        said = topology_of(job, part.name)
        if not said:
            return None
        least = np.sum([task.request for task in part.tasks], axis=0)
        return self._domains(said, part.members, least, within)

    def _domains(
        self,
        said: Topology,
        tasks: Sequence[Task],
        least: NDArray[np.float64] | None,
        within: NDArray[np.bool_] | None,
    ) -> Iterator[NDArray[np.bool_]]:
        tree, highest = self.tree, self.highest_tier(said)
        if highest is None:
            return
        held, below = self._reachable(tasks, highest)
        if within is not None:
            below = [at for at in below if not (tree.members[at] & ~within).any()]
        scores = np.zeros(len(tree.names))
        if self._fills_first:
            scores = self._used_part(np.sum([task.request for task in tasks], axis=0))
        chosen = [at for at in below if held >= 0 or self._holds(least, at)]
        chosen.sort(key=lambda at: (int(tree.tiers[at]), -scores[at]))
        for at in chosen:
            if tree.members[at].any():
                yield tree.members[at]

    def _reachable(self, tasks: Iterable[Task], highest: int) -> tuple[int, list[int]]:
        """Return the lowest HyperNode around the placed tasks, -1 for none, and those that may be used up to a tier."""
        tree = self.tree
        held = tree.around(_nodes(tasks))
        below = [at for at in range(len(tree.names)) if tree.tiers[at] <= highest]
        if held >= 0:
            allowed = [at for at in tree.path(held) if tree.tiers[at] <= highest]
            below = [at for at in below if allowed and allowed[-1] in tree.path(at)]
        return held, below

    def why_no_domain(self, job: Job, failed: Iterable[str]) -> str:
        """Return which HyperNodes a job or a sub-group must run in, and how much room the largest has.

        `failed`: the uids of the tasks that fitted nowhere. "" if the tasks may use the whole cluster.
        """
        first = min((job.tasks[uid] for uid in failed if uid in job.tasks), key=lambda task: task.key, default=None)
        if first is None:
            return ""
        tasks, least, whose = [*job.tasks.values()], job.min_member, "the job"
        policy = job.sub_groups.get(first.sub_group.rpartition("/")[0])
        said = job.topology
        if policy is not None and policy.topology:
            said, least, whose = policy.topology, policy.min_member, f"sub-group {first.sub_group}"
            tasks = [task for task in tasks if task.sub_group == first.sub_group]
        tree, highest = self.tree, self.highest_tier(said)
        if highest is None or highest >= tree.tiers[-1]:
            return ""
        name = said.get("highestTierName")
        tier = f"tier {highest}{f' ({name})' if name in tree.tier_names else ''} or lower"
        below = [at for at in self._reachable(tasks, highest)[1] if tree.members[at].any()]
        if not below:
            return f"network topology: {whose} must run in one HyperNode of {tier}, and none has nodes for it"
        count = max(least - sum(task.state in ACTIVE for task in tasks), 1)
        room = tree.members[below] @ self._places(first)
        best = int(room.argmax())
        text = f"network topology: no HyperNode of {tier} takes {count} pod{'s' * (count > 1)} of {whose}"
        return f"{text}; {tree.names[below[best]]} has room for {int(room[best])}" if room[best] < count else text

    def _places(self, task: Task) -> NDArray[np.float64]:
        """Return float64[N]: how many tasks like this one the nodes have room for, now or later."""
        asked = task.request > 0
        places: NDArray[np.float64] = np.floor(self.session.nodes.future[:, asked] / task.request[asked]).min(axis=1)
        return np.clip(places, 0.0, None)

    def _holds(self, least: NDArray[np.float64] | None, at: int) -> bool:
        """Return whether the least that tasks need fits into what a HyperNode has idle, now or later."""
        if least is None:
            return True
        nodes, inside, scale = self.session.nodes, self.tree.members[at], self.session.scale
        sums = (nodes.idle[inside].sum(axis=0), nodes.future[inside].sum(axis=0))
        return any(scale.less_equal(least, each) for each in sums)

    def _used_part(self, request: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[H]: the used part of each HyperNode with a request, by weight; 0 if it is too small."""
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
        if topology_of(task.job, task.sub_group):
            return self._near([each for each in task.job.tasks.values() if each.sub_group == task.sub_group], rows)
        return self._spread_over_tiers(task, rows) if self._fills and len(self.tree.names) > 1 else None

    def _near(self, tasks: Sequence[Task], rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Score nodes by the tier that they share with the nodes of the tasks; equal best ones by the tasks there."""
        tree = self.tree
        held = tree.around(_nodes(tasks))
        if held < 0:
            return None
        own = self._lowest[rows]
        low, high = int(tree.tiers.min()), int(tree.tiers.max())
        by_id = {at: self._nearness(at, held, low, high) for at in np.unique(own).tolist()}
        scores = np.array([by_id[at] for at in own.tolist()])
        best = scores == scores.max()
        if np.count_nonzero(best) > 1:
            placed = np.array(_nodes(tasks), dtype=np.int64)
            for at in np.unique(own[best]).tolist():
                if at >= 0:
                    scores[best & (own == at)] += tree.members[at, placed].sum() / len(tasks)
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


def topology_of(job: Job, sub_group: str) -> Topology:
    """Return the `networkTopology` of a sub-group by its policy; that of the job for tasks that no policy matches."""
    policy = job.sub_groups.get(sub_group.rpartition("/")[0]) if sub_group else None
    return job.topology if policy is None else policy.topology


def has_topology(job: Job) -> bool:
    """Return whether the job or one of its policies has a `networkTopology`."""
    return bool(job.topology) or any(each.topology for each in job.sub_groups.values())


def _nodes(tasks: Iterable[Task]) -> Sequence[int]:
    """Return the nodes on which the tasks are placed."""
    return [task.node for task in tasks if task.state in ACTIVE and task.node != NO_NODE]
