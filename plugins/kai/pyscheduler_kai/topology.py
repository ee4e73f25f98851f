"""KAI's plugin `topology`: the sets of nodes that a job or a sub-group may use, in the order in which they are tried.

Each set has the nodes of one domain, such as one rack. A job may name a required level, a preferred level, or both.
Domains of the preferred level are tried first, then wider ones up to the required level.

Source: KAI-Scheduler, `plugins/topology` (`job_filtering.go`, `node_scoring.go`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from pyscheduler_batch.contract import ALLOCATED, CPU, MEMORY, NO_NODE, PODS, Policy
from pyscheduler_kai.topologies import TopologyTree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, Job, Session, Task

__all__ = ["Constraint", "NodeSets", "Topology", "constraint_of"]

#: How much better the nodes of the best preferred domain score, in tenths.
_WEIGHT: Final = 100_000.0
_TENTHS: Final = 10
_NOT_THERE: Final = 1000.0
_TOLERANCE: Final = 1e-9


@attrs.frozen
class Constraint:
    """The name of a topology, and the levels that a job must and should be in; "" for none."""

    topology: str
    required: str = ""
    preferred: str = ""


def constraint_of(said: Mapping[str, object]) -> Constraint | None:
    """Return the constraint of a PodGroup or of a sub-group of it; None without a topology."""
    if not said:
        return None
    names = [said.get(key) for key in ("topology", "requiredTopologyLevel", "preferredTopologyLevel")]
    topology, required, preferred = (name if isinstance(name, str) else "" for name in names)
    return Constraint(topology, required, preferred) if topology else None


@attrs.frozen(eq=False)
class NodeSets:
    """The sets of nodes to try, each int64[n] of rows, and what nodes score.

    `refusal`: why there is no set. `scores`: float64[N], or None if no level is preferred.
    """

    sets: Sequence[NDArray[np.int64]] = ()
    refusal: str = ""
    scores: NDArray[np.float64] | None = None


class Topology(Policy):
    """Place jobs and sub-groups into domains of a Topology."""

    name: ClassVar[str] = "topology"

    def open_session(self, session: Session) -> None:
        """Forget the trees of the last pass."""
        self._session = session
        self._trees: dict[str, TopologyTree] = {}

    def tree(self, name: str) -> TopologyTree | None:
        """Return a topology of the cluster; None if there is none of that name."""
        if name not in self._trees:
            levels = self._session.topologies.get(name)
            if levels is None:
                return None
            self._trees[name] = TopologyTree.from_labels(levels, self._session.labels, len(self._session.nodes))
        return self._trees[name]

    def problem(self, constraint: Constraint, sub_group: str = "") -> str:
        """Return why no cluster with the present topologies could satisfy a constraint, or ""."""
        levels = self._session.topologies.get(constraint.topology)
        if levels is None:
            return f"Requested topology {constraint.topology} does not exist"
        return _wrong_levels(constraint, sub_group, levels)

    def node_sets(
        self,
        job: Job,
        sub_group: str,
        constraint: Constraint,
        members: Sequence[Task],
        tasks: Sequence[Task],
        rows: NDArray[np.int64],
    ) -> NodeSets:
        """Return the sets of nodes, among `rows`, for some tasks of a job or of a sub-group ("" for the job).

        `members` are all tasks of the job or the sub-group.
        """
        tree = self.tree(constraint.topology)
        if tree is None:
            return NodeSets(refusal=self.problem(constraint, sub_group))
        if not tasks:
            return NodeSets([rows])
        top, bottom = tree.level(constraint.required), tree.level(constraint.preferred)
        wrong = self.problem(constraint, sub_group)
        if wrong:
            return NodeSets(refusal=wrong)
        lowest = bottom if bottom >= 0 else top
        whole = f"topology {constraint.topology}, requirement {constraint.required} couldn't be satisfied for job "
        whole += f"<{job.key}>" + (f", subgroup {sub_group}" if sub_group else "")
        valid = rows[tree.ids[0, rows] >= 0]
        level, domain = tree.common(valid, lowest if top < 0 else min(lowest, top))
        room = _Room(self._session, tree, tasks)
        if not room.fits(level)[domain]:
            where = "the cluster" if level == 0 else tree.names[level][domain]
            return NodeSets(refusal=f"{whole}: not enough resources in {where} to allocate the job")
        scores = self._scores(tree, room, bottom, level, domain) if bottom >= 0 else None
        allowed = _domains_in_use(tree, top, members) if top >= 0 else None
        sets: list[NDArray[np.int64]] = []
        for each in range(lowest, max(top, 0) - 1, -1):
            accepted = room.fits(each)
            if allowed is not None:
                accepted = accepted & np.isin(tree.ancestors(each, top), allowed)
            if each >= level:
                accepted = accepted & (tree.ancestors(each, level) == domain)
            ids = tree.ids[each, valid]
            order = room.order(each)
            sets += [found for at in order[accepted[order]].tolist() if len(found := valid[ids == at])]
        return NodeSets(sets, "" if sets else whole, scores)

    def _scores(self, tree: TopologyTree, room: _Room, preferred: int, level: int, domain: int) -> NDArray[np.float64]:
        """Return float64[N]: the later the preferred domain of a node comes, the higher; 0 outside of them."""
        scores = np.zeros(tree.ids.shape[1])
        order = room.order(preferred)
        if preferred >= level:
            order = order[tree.ancestors(preferred, level)[order] == domain]
        tenths: NDArray[np.float64] = np.zeros(len(tree.names[preferred]))
        tenths[order] = np.arange(1, len(order) + 1) * _TENTHS // len(order)
        inside = tree.ids[preferred] >= 0
        scores[inside] = tenths[tree.ids[preferred, inside]] * _WEIGHT
        return scores


def _wrong_levels(constraint: Constraint, sub_group: str, levels: Sequence[str]) -> str:
    """Return what is wrong with the levels of a constraint, or ""."""
    if not constraint.required and not constraint.preferred:
        return f"no topology constraints were found for subgroup {sub_group}, with topology name {constraint.topology}"
    # Of the preferred level, those below the required one count.
    inner = levels[levels.index(constraint.required) :] if constraint.required in levels else levels
    for kind, name, known in (("required", constraint.required, levels), ("preferred", constraint.preferred, inner)):
        if name and name not in known:
            whose = f"sub-group {sub_group}" if sub_group else "workload"
            return (
                f"topology constraint error: {whose} specified '{name}' as the {kind} topology constraint level, "
                f"but the topology tree '{constraint.topology}' does not contain a level with this name"
            )
    return ""


def _domains_in_use(tree: TopologyTree, level: int, members: Sequence[Task]) -> NDArray[np.int64] | None:
    """Return int64: the domains of a level in which tasks hold nodes; None if no task does."""
    rows = [task.node for task in members if task.state in ALLOCATED and task.node != NO_NODE]
    return np.unique(tree.ids[level, rows]) if rows else None


class _Room:
    """The room for some tasks in the domains of a topology, level by level."""

    def __init__(self, session: Session, tree: TopologyTree, tasks: Sequence[Task]) -> None:
        self._tree = tree
        self._count = len(tasks)
        table, axis = session.nodes, session.axis
        free = table.future
        if table.ready is not None:
            free = np.where(table.ready[:, None], free, 0.0)
        requests = np.array([task.request for task in tasks])
        most, total = requests.max(axis=0), requests.sum(axis=0)
        pods = axis.index[PODS]
        self._asked = np.flatnonzero((total > 0) & (np.arange(len(total)) != pods))
        self._total: Amounts = total
        self._free = free
        extended = [at for name, at in axis.index.items() if name not in (CPU, MEMORY)]
        #: float64[N], or None if some tasks request what others do not: how many of the largest tasks each node takes.
        self._places: NDArray[np.float64] | None = None
        if all((requests[:, at] > 0).all() or not (requests[:, at] > 0).any() for at in extended):
            needs = np.flatnonzero(most > 0)
            if len(self._asked):
                self._places = np.clip(np.floor(free[:, needs] / most[needs] + _TOLERANCE).min(axis=1), 0.0, None)
            else:
                self._places = np.full(len(table), float(self._count))
        self._ratios: dict[int, NDArray[np.float64]] = {}
        self._fits: dict[int, NDArray[np.bool_]] = {}

    def fits(self, level: int) -> NDArray[np.bool_]:
        """Return bool: the domains of a level that have room for the tasks, as far as sums tell."""
        found = self._fits.get(level)
        if found is None:
            if self._places is not None:
                found = self._tree.sums(level, self._places) >= self._count
            else:
                found = self._ratio(level) <= 1.0
            self._fits[level] = found
        return found

    def _ratio(self, level: int) -> NDArray[np.float64]:
        """Return float64: the largest part of what is free that the tasks request, of any resource."""
        found = self._ratios.get(level)
        if found is None:
            found = np.zeros(len(self._tree.names[level]))
            for at in self._asked.tolist():
                free = self._tree.sums(level, self._free[:, at])
                part = np.divide(self._total[at], free, out=np.full(len(free), _NOT_THERE), where=free != 0)
                found = np.maximum(found, part)
            self._ratios[level] = found
        return found

    def order(self, level: int) -> NDArray[np.int64]:
        """Return int64: the domains of a level, those of the fullest domain above first; equal ones by name."""
        keys: list[NDArray[np.float64] | NDArray[np.int64]] = []
        for up in range(1, level + 1):
            above = self._tree.ancestors(level, up)
            names = np.argsort(np.argsort(np.array(self._tree.names[up])))
            keys = [names[above], -self._ratio(up)[above], *keys]
        return np.lexsort(keys) if keys else np.arange(len(self._tree.names[level]), dtype=np.int64)
