"""Choose nodes for the pods of a job: first for its minimum number of pods, then for one more pod at a time.

If fewer pods than the minimum find nodes, none of them gets a node.

Source: KAI-Scheduler, `actions/common/allocate.go`, `framework/session.go` and the node order plugins in
`plugins/nodeavailability`, `plugins/resourcetype`, `plugins/gpusharingorder`, `plugins/nominatednode` and
`plugins/nodeplacement`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import attrs
import numpy as np

from pyscheduler.api import pod_requests
from pyscheduler_batch.contract import CPU, GPU, NodeOrder, Policy, Predicate, TaskState
from pyscheduler_batch.gpu_sharing.device_shares import share_request
from pyscheduler_batch.gpu_sharing.shared import SharedRoom
from pyscheduler_batch.model.answers import mask_of, scores_of
from pyscheduler_batch.model.memory import Kept
from pyscheduler_batch.model.row_cache import RowCache
from pyscheduler_batch.resource_claims import ClaimedGpus
from pyscheduler_kai.gang import DEFAULT_LEAF, Branch, Gang, Leaf, in_order
from pyscheduler_kai.switches import (
    DynamicResources,
    GpuSharingOrder,
    NodeAvailability,
    NominatedNode,
    ResourceType,
)
from pyscheduler_kai.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts, NodeTable, Session, Statement, Task
    from pyscheduler_kai.proportion import Proportion
    from pyscheduler_kai.topology import NodeSets

__all__ = ["POD_SCHEDULING_ERRORS", "Placement", "no_room"]

POD_SCHEDULING_ERRORS: Final = "PodSchedulingErrors"
_DENSITY: Final = 9.0
_RESOURCE_TYPE: Final = 10.0
_AVAILABILITY: Final = 1_000.0
_SHARED_GPU: Final = 10_000.0
_NOMINATED: Final = 10_000_000.0

#: Other tasks of the scheduler may run after so many tasks.
_TURN_EVERY: Final = 8
_SPREAD: Final = "spread"
_T = TypeVar("_T", bound=np.generic)


def no_room(pod: str) -> str:
    """Return why a job waits: the first of its pods (`namespace/name`) that finds no node large enough."""
    return f"no node has room for {pod}"


class NodePlacement(Policy):
    """Fill nodes (`binpack`) or prefer empty ones (`spread`), for GPU tasks (argument `gpu`) and others (`cpu`)."""

    name: ClassVar[str] = "nodeplacement"

    @property
    def spread_gpu(self) -> bool:
        """Return whether GPU tasks are spread."""
        return self.arguments.get("gpu") == _SPREAD

    @property
    def spread_cpu(self) -> bool:
        """Return whether tasks without GPUs are spread."""
        return self.arguments.get("cpu") == _SPREAD


class _NodeOrder(Kept):
    """The nodes by name, kept as long as the nodes are the same."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.all_rows: NDArray[np.int64] = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        self.name_rank: NDArray[np.int64] = np.empty(len(names), dtype=np.int64)
        self.name_rank[self.all_rows] = np.arange(len(names))

    def note(self, uid: str) -> None:
        """Ignore jobs."""


@attrs.define(eq=False)
class _Trial:
    """One attempt to place a gang within a statement. `mark`: where the statement stood before."""

    statement: Statement
    gang: Gang
    promise: bool
    mark: int
    #: float64[N]: what the nodes score by the topology; None for nothing.
    scores: NDArray[np.float64] | None = None
    #: Whether a topology constraint left only some nodes.
    is_narrowed: bool = False


def _leaves(branch: Branch) -> Iterator[Leaf]:
    for child in branch.children:
        if isinstance(child, Branch):
            yield from _leaves(child)
        else:
            yield child


class Placement:
    """Places the tasks of gangs; the nodes of a set come in the order of their names, which decides between equals."""

    def __init__(self, session: Session, proportion: Proportion, policies: Sequence[Policy]) -> None:
        self._session = session
        self._proportion = proportion
        self._table = session.nodes
        self._rows = RowCache(len(session.nodes))
        session.ledger.listeners.append(self._rows)
        self._every: NDArray[np.int64] = np.arange(len(session.nodes))
        order = session.memory.get(_NodeOrder, lambda: _NodeOrder(session.nodes.names))
        #: int64[N]: all nodes by name; and the place of each node by name.
        self.all_rows, self.name_rank = order.all_rows, order.name_rank
        self._gpu = session.axis.index.get(GPU, -1)
        self._cpu = session.axis.index[CPU]
        by_name = {policy.name: policy for policy in policies}
        place = by_name.get(NodePlacement.name)
        self._place = place if isinstance(place, NodePlacement) else None
        self._availability = _AVAILABILITY if NodeAvailability.name in by_name else 0.0
        self._resource_type = _RESOURCE_TYPE if ResourceType.name in by_name else 0.0
        self._nominated = _NOMINATED if NominatedNode.name in by_name else 0.0
        self._shared_room: SharedRoom | None = (
            session.extras.get(SharedRoom) if GpuSharingOrder.name in by_name else None
        )
        self._claimed: ClaimedGpus | None = (
            session.extras.get(ClaimedGpus) if DynamicResources.name in by_name else None
        )
        topology = by_name.get(Topology.name)
        self._topology = topology if isinstance(topology, Topology) else None
        self._most = session.nodes.allocatable.max(axis=0, initial=0.0)
        #: By column, float64[N]: what the nodes offer.
        self._totals: dict[int, NDArray[np.float64]] = {}
        #: How many tasks were to be placed so far.
        self._tried = 0
        self._too_large: dict[bytes, bool] = {}
        #: Requests that found no room, with the masks of nodes they were tried with.
        self._no_room: dict[tuple[bytes, int], NDArray[np.bool_]] = {}
        self._orders: list[NodeOrder] = [policy for tier in session.policies(NodeOrder) for policy in tier]
        self._predicates: list[Predicate] = [policy for tier in session.policies(Predicate) for policy in tier]

    @property
    def table(self) -> NodeTable:
        """Return the nodes."""
        return self._table

    @property
    def topology(self) -> Topology | None:
        """Return the policy `topology`; None if it is off."""
        return self._topology

    def by_name(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows in the order of the nodes' names, each once."""
        has = np.zeros(len(self.name_rank), dtype=np.bool_)
        has[self.name_rank[rows]] = True
        ordered: NDArray[np.int64] = self.all_rows[has]
        return ordered

    def gpus(self, task: Task) -> float:
        """Return how many GPUs a task requests."""
        return float(task.request[self._gpu]) if self._gpu >= 0 else 0.0

    def free_gpus(self) -> NDArray[np.float64]:
        """Return float64[N]: the GPUs that are idle or being released, less what is promised; 0 if not ready."""
        table = self._table
        if self._gpu < 0:
            return np.zeros(len(table))
        column = self._gpu
        free: NDArray[np.float64] = table.idle[:, column] + table.releasing[:, column] - table.pipelined[:, column]
        return free if table.ready is None else np.where(table.ready, free, 0.0)

    def free_in_all(self) -> float:
        """Return how many GPUs of the cluster are idle or being released, as queues count them."""
        table = self._table
        free = self._proportion.counted(table.idle + table.releasing - table.pipelined)[:, 2]
        ready = free if table.ready is None else free[table.ready]
        return float(np.maximum(ready, 0.0).sum())

    def is_too_large(self, task: Task) -> bool:
        """Return whether no node, even if it were empty, has enough of some resource."""
        key = task.request.tobytes()
        found = self._too_large.get(key)
        if found is None:
            found = self._too_large[key] = bool(np.any(task.request > self._most))
        return found

    def forget_failures(self) -> None:
        """Begin a time in which nodes only fill up: a task that found no room then finds none later."""
        self._no_room.clear()

    def feasible_rows(self, gang: Gang) -> NDArray[np.int64]:
        """Return the nodes that may have room for a job: for GPU jobs, those with free or leaving GPUs."""
        if any(self.gpus(task) == 0 for task in gang.tasks):
            return self.all_rows
        table, column = self._table, self._gpu
        has = (table.idle[:, column] > 0) | (table.releasing[:, column] - table.pipelined[:, column] > 0)
        return self.all_rows[has[self.all_rows]]

    def matches(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the filters accept once evicted tasks are gone, whatever they have left."""
        return self._with_predicates(task, self._session.placer.suitable(task))

    def curable(self, task: Task) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes that the filters accept, or could accept after evictions."""
        return self._with_predicates(task, self._session.placer.curable(task))

    def packs_gpus(self) -> bool:
        """Return whether a task with GPUs takes the node with the fewest free GPUs, of those where it fits now first.

        Filters and nominations may decide otherwise.
        """
        packs = self._gpu >= 0 and self._place is not None and not self._place.spread_gpu
        is_plain = not self._orders and not self._predicates and self._shared_room is None
        return packs and is_plain and self._availability > _DENSITY

    def _with_predicates(self, task: Task, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        for predicate in self._predicates:
            accepted = predicate.filter_nodes(task)
            if accepted is not None:
                mask = mask & mask_of(accepted, len(mask), predicate.filter_nodes)
        return mask

    async def place_gang(self, statement: Statement, rows: NDArray[np.int64], gang: Gang, *, promise: bool) -> bool:
        """Place the next tasks of a gang on the nodes `rows`; undo all if one finds no node.

        `promise`: only promise nodes (in simulations); evicted tasks take part. Other tasks of the scheduler may run
        meanwhile.
        """
        tasks = gang.to_place(for_real=not promise)
        if not tasks:
            return False
        refusal = self._proportion.over_capacity(gang.job, self._proportion.total(tasks))
        if refusal is not None:
            if not promise:
                self._session.record(gang.job, refusal.reason, refusal.message)
            return False
        mark = statement.checkpoint()
        trial = _Trial(statement, gang, promise, mark)
        if gang.is_simple():
            if await self._place_tasks(trial, rows, tasks):
                return True
            statement.rollback(mark)
            return False
        wanted: dict[str, list[Task]] = {}
        for task in tasks:
            wanted.setdefault(task.sub_group or DEFAULT_LEAF, []).append(task)
        if await self._place_branch(trial, rows, gang.root, wanted):
            return True
        statement.rollback(mark)
        return False

    async def _place_branch(
        self, trial: _Trial, rows: NDArray[np.int64], branch: Branch, wanted: dict[str, list[Task]]
    ) -> bool:
        """Place the tasks of a branch on the first set of nodes that takes them."""
        if branch.constraint is None or self._topology is None:
            return await self._place_children(trial, rows, branch, wanted)
        tasks = [task for leaf in _leaves(branch) for task in wanted.get(leaf.name, ())]
        found = self._node_sets(trial, branch, tasks, rows)
        return await _place_on_first(trial, found, lambda some: self._place_children(trial, some, branch, wanted))

    def _node_sets(self, trial: _Trial, member: Leaf | Branch, tasks: list[Task], rows: NDArray[np.int64]) -> NodeSets:
        """Return the sets of nodes of a sub-group with a constraint; record why there is none."""
        assert self._topology is not None, "the policy topology is on"
        assert member.constraint is not None, "only sub-groups with a constraint have sets of nodes"
        found = self._topology.node_sets(trial.gang.job, member.name, member.constraint, member.tasks, tasks, rows)
        trial.is_narrowed = True
        if found.refusal and not trial.gang.is_part:
            self._session.record(trial.gang.job, POD_SCHEDULING_ERRORS, found.refusal)
        return found

    async def _place_children(
        self, trial: _Trial, rows: NDArray[np.int64], branch: Branch, wanted: dict[str, list[Task]]
    ) -> bool:
        for child in in_order(branch):
            if isinstance(child, Branch):
                if not await self._place_branch(trial, rows, child, wanted):
                    return False
            elif not await self._place_leaf(trial, rows, child, wanted.get(child.name, [])):
                return False
        return True

    async def _place_leaf(self, trial: _Trial, rows: NDArray[np.int64], leaf: Leaf, tasks: list[Task]) -> bool:
        if leaf.constraint is None or self._topology is None or not tasks:
            return await self._place_tasks(trial, rows, tasks)
        found = self._node_sets(trial, leaf, tasks, rows)
        return await _place_on_first(trial, found, lambda some: self._place_tasks(trial, some, tasks))

    async def _place_tasks(self, trial: _Trial, rows: NDArray[np.int64], tasks: Iterable[Task]) -> bool:
        for task in tasks:
            self._tried += 1
            if self._tried % _TURN_EVERY == 0:
                await self._session.turn()
            if not self._place_task(trial, rows, task):
                job = trial.gang.job
                # Only the first message counts.
                if not trial.gang.is_part and POD_SCHEDULING_ERRORS not in self._session.reasons.get(job.uid, ()):
                    self._session.record(job, POD_SCHEDULING_ERRORS, self._why_no_node(task))
                return False
        return True

    def _why_no_node(self, task: Task) -> str:
        """Return why a task finds no node: an unusable claim or annotation about GPUs, the filters, or no room.

        KAI-Scheduler refuses to create pods whose annotations about shared GPUs cannot be used.
        """
        if problem := self._claim_problem(task):
            return f"pod {task.key} cannot be scheduled: {problem}"
        if task.pod is not None and task.pod.annotations and SharedRoom in self._session.extras:
            try:
                share_request(task.pod.annotations, has_whole_gpus=pod_requests(task.pod).get(GPU, 0) > 0)
            except ValueError as error:
                return f"the annotations of {task.key} cannot be used: {error}"
        return self._session.placer.why_not(task, beside_room=True) or no_room(task.key)

    def _claim_problem(self, task: Task) -> str:
        """Return what is wrong with the claims of a task, whatever the node; "" for nothing."""
        if self._claimed is None or task.pod is None or not task.pod.spec.resource_claims:
            return ""
        return self._claimed.queue_problem(task.pod, task.job.queue)

    def _place_task(self, trial: _Trial, rows: NDArray[np.int64], task: Task) -> bool:
        """Place one task. If no other task of the gang was placed, a failure holds for other gangs."""
        statement, promise = trial.statement, trial.promise
        if self.is_too_large(task) or self._claim_problem(task):
            return False
        mask = self.matches(task)
        key = (task.request.tobytes(), id(mask))
        if key in self._no_room:
            return False
        found = self._choose(task, rows, mask, trial.scores)
        if found is None:
            if not trial.is_narrowed and statement.checkpoint() == trial.mark:
                self._no_room[key] = mask
            return False
        node, is_idle = found
        if is_idle and not promise and self._accepts_now(task, node):
            statement.allocate(task, node)
        elif self._stays(task, node) and promise:
            # The victim finds its own node again: it is not evicted.
            statement.restore(task)
        else:
            statement.pipeline(task, node)
        return True

    def _accepts_now(self, task: Task, node: int) -> bool:
        """Return whether the filters accept the node although tasks are still leaving it."""
        if not self._table.releasing[node].any():
            return True
        room = self._session.extras.get(SharedRoom)
        if room is not None and task.pod is not None and task.pod.annotations:
            name, idle = self._table.names[node], float(self._table.idle[node, self._gpu])
            if not room.has_room_now(task.pod, name, idle):
                return False
        return self._session.placer.feasible_now(task, node)

    def _stays(self, task: Task, node: int) -> bool:
        """Return whether an evicted task would find its own node again, and on it the GPUs that it shares."""
        if task.state != TaskState.RELEASING or (node != task.node and node not in task.leaving):
            return False
        room = self._session.extras.get(SharedRoom)
        return room is None or task.pod is None or room.keeps_devices(task.pod)

    def _choose(
        self, task: Task, rows: NDArray[np.int64], mask: NDArray[np.bool_], extra: NDArray[np.float64] | None
    ) -> tuple[int, bool] | None:
        """Return the best node, and whether the task fits its idle resources; None if no node fits.

        `extra`: float64[N], added to the scores.

        Among all nodes they stand in the order of the table, so that nothing has to be copied.
        """
        fits = self._holds("later", task.request, self._free) & mask
        chosen = self._every if rows is self.all_rows else rows
        if chosen is rows:
            fits = fits[rows]
        hits = fits.nonzero()[0]
        if not len(hits):
            return None
        fits_idle = self._holds("now", task.request, lambda some: self._table.idle[some])
        if len(hits) == 1 and not self._orders:
            # In a full cluster mostly one node is left: nothing is to be compared.
            node = int(chosen[hits[0]])
            return node, bool(fits_idle[node])
        scores = self._scores(task, chosen, fits_idle)
        score = np.where(fits, scores if extra is None else scores + extra[chosen], -np.inf)
        best = int(np.argmax(score))
        if chosen is not rows:
            equal = np.flatnonzero(score == score[best])
            best = int(equal[np.argmin(self.name_rank[equal])])
        node = int(chosen[best])
        return node, bool(fits_idle[node])

    def is_full(self, requests: Iterable[Amounts]) -> bool:
        """Return whether no node has room for a task of any of these requests, now or once releasing tasks are gone."""
        return not any(self._holds("later", request, self._free).any() for request in requests)

    def _free(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64[n, R]: what is idle or being released, less what is promised."""
        table = self._table
        free: NDArray[np.float64] = table.idle[rows] + table.releasing[rows] - table.pipelined[rows]
        return free

    def _free_of(self, column: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64[n]: a column of what is idle or being released, less what is promised."""
        table = self._table
        free: NDArray[np.float64] = (
            table.idle[rows, column] + table.releasing[rows, column] - table.pipelined[rows, column]
        )
        return free

    def _holds(
        self, when: str, request: Amounts, room: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    ) -> NDArray[np.bool_]:
        """Return bool[N]: the nodes whose `room` holds the request."""
        fits: NDArray[np.bool_] = self._rows.get(
            (when, request.tobytes()), lambda rows: np.logical_and.reduce(room(rows) >= request, axis=1)
        )
        return fits

    def _scores(self, task: Task, rows: NDArray[np.int64], fits_idle: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return float64[n]. `fits_idle`: bool[N]; `rows`: int64[n]."""
        table = self._table
        score = np.where(self._at(fits_idle, rows), self._availability, 0.0)
        needs_gpu = self.gpus(task) > 0
        if not needs_gpu and self._resource_type:
            has_gpu = table.allocatable[rows, self._gpu] > 0 if self._gpu >= 0 else np.zeros(len(rows), dtype=np.bool_)
            score += np.where(has_gpu, 0.0, self._resource_type)
        if self._nominated and task.pod is not None and task.pod.status.nominated_node_name:
            score += np.where(rows == table.index.get(task.pod.status.nominated_node_name, -1), self._nominated, 0.0)
        if self._shared_room is not None and task.pod is not None:
            index = table.index
            shared = [index[name] for name in self._shared_room.nodes_for(task.pod) if name in index]
            score += np.where(np.isin(rows, shared), _SHARED_GPU, 0.0) if shared else 0.0
        for order in self._orders:
            extra = order.score_nodes(task, rows)
            if extra is not None:
                score += scores_of(extra, len(rows), order.score_nodes)
        if self._place is None:
            return score
        column = self._gpu if needs_gpu else self._cpu
        spreads = self._place.spread_gpu if needs_gpu else self._place.spread_cpu
        free = self._rows.get(("free", column), partial(self._free_of, column))
        total = self._totals.get(column)
        if total is None:
            total = self._totals[column] = table.allocatable[:, column].copy()
        score += (_spread if spreads else _pack)(self._at(free, rows), self._at(total, rows))
        return score

    def _at(self, figures: NDArray[_T], rows: NDArray[np.int64]) -> NDArray[_T]:
        """Return those figures [N] that belong to `rows`."""
        return figures if rows is self._every else figures[rows]


async def _place_on_first(
    trial: _Trial, found: NodeSets, place: Callable[[NDArray[np.int64]], Awaitable[bool]]
) -> bool:
    """Place tasks on the first set of nodes that takes them; return False if none does."""
    outer = trial.scores
    for rows in found.sets:
        mark = trial.statement.checkpoint()
        trial.scores = found.scores if found.scores is not None else outer
        is_placed = await place(rows)
        trial.scores = outer
        if is_placed:
            return True
        trial.statement.rollback(mark)
    return False


def _pack(free: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 0 to 9: fuller nodes score higher; nodes without the resource score 0."""
    has = total != 0
    counted = free if has.all() else free[has]
    if not len(counted):
        return np.zeros(len(free))
    least, most = counted.min(), max(float(counted.max()), 0.0)
    if most == 0:
        return np.zeros(len(free))
    if least == most:
        return np.where(has, _DENSITY, 0.0)
    density: NDArray[np.float64] = _DENSITY * (1 - (free - least) / (most - least))
    return density if counted is free else np.where(has, density, 0.0)


def _spread(free: NDArray[np.float64], total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 0 to 1: the free part of each node."""
    result: NDArray[np.float64] = np.divide(free, total, out=np.zeros(len(free)), where=total != 0)
    return result
