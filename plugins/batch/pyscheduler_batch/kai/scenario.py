"""Scenarios: which tasks to evict for which tasks of a pending job, and the generators that propose them.

A *unit* is what is evicted together: a surplus task, or the rest of a job. An accumulator takes units in the order of
victims. A cheap filter drops what cannot make enough room. Two generators then propose parts of what has accumulated:
the units on one node, or the units on the fewest nodes that could hold the pending tasks, and more.

Source: KAI-Scheduler, `actions/common/solvers` (`pod_scenario_builder.go`, `sub_scenario_emitter.go`, the filters) and
the plugins `nodelocalgreedy` and `multinodegang`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.batch.tasks import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler.batch.tasks import Task
    from pyscheduler_batch.kai.gang import Gang
    from pyscheduler_batch.kai.job_queue import JobQueue
    from pyscheduler_batch.kai.placement import Placement

__all__ = ["Probe", "Scenario", "Unit", "multi_node", "node_local"]


@attrs.frozen(eq=False)
class Unit:
    """Tasks of one job that are evicted together. `gang` is the whole job."""

    gang: Gang
    tasks: Sequence[Task]


@attrs.frozen(eq=False)
class Scenario:
    """Units to evict; `recorded` ones made room for fewer tasks of the same job."""

    recorded: Sequence[Unit]
    units: Sequence[Unit]

    @property
    def tasks(self) -> list[Task]:
        """Return the tasks to evict."""
        return [task for unit in (*self.recorded, *self.units) for task in unit.tasks]

    def by_job(self) -> dict[str, tuple[Gang, list[Task]]]:
        """Return by job uid the job and its tasks to evict."""
        result: dict[str, tuple[Gang, list[Task]]] = {}
        for unit in (*self.recorded, *self.units):
            _, tasks = result.setdefault(unit.gang.job.uid, (unit.gang, []))
            tasks += unit.tasks
        return result

    def fingerprint(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what identifies the scenario among those of one pending gang."""
        return (_uids(self.recorded), _uids(self.units))


def _uids(units: Iterable[Unit]) -> tuple[str, ...]:
    return tuple(sorted(task.uid for unit in units for task in unit.tasks))


@attrs.frozen(eq=False)
class Probe:
    """A search for room for some tasks of a job."""

    placement: Placement
    #: The tasks as a job of their own.
    gang: Gang
    pending: Sequence[Task]
    #: int64[n]: nodes that have room now, and those of recorded victims.
    rows: NDArray[np.int64]
    recorded: Sequence[Unit]
    #: By job uid, the whole jobs.
    whole: dict[str, Gang]
    #: The candidates, taken from one after the other.
    victims: JobQueue


class _Accumulator:
    """Takes victims one unit at a time, and keeps what the filter needs."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.units: list[Unit] = []
        self._recorded = {task.uid for unit in probe.recorded for task in unit.tasks}
        self._required = sorted((probe.placement.gpus(task) for task in probe.pending), reverse=True)
        self._free = probe.placement.free_gpus().copy()
        self._masks = [mask for task in probe.pending if not (mask := probe.placement.curable(task)).all()]
        self._reachable = np.zeros(len(self._free), dtype=np.bool_)
        self._reachable[probe.rows] = True
        for unit in probe.recorded:
            self._note(unit)

    def _note(self, unit: Unit) -> None:
        for task in unit.tasks:
            if task.node != NO_NODE:
                self._free[task.node] += self._probe.placement.gpus(task)
                self._reachable[task.node] = True

    def advance(self) -> Unit | None:
        """Take the next unit; return None if the next job only has recorded tasks."""
        gang = self._probe.victims.pop()
        tasks = gang.to_evict()
        taken = {task.uid for task in tasks}
        if taken & self._recorded:
            rest = [task for task in gang.tasks if task.uid not in self._recorded]
            if rest:
                self._probe.victims.push(gang.part(rest))
            return None
        if len(tasks) < gang.active:
            self._probe.victims.push(gang.part(task for task in gang.tasks if task.uid not in taken))
        unit = Unit(self._probe.whole[gang.job.uid], tasks)
        if tasks:
            self.units.append(unit)
            self._note(unit)
        return unit

    def may_suffice(self) -> bool:
        """Return whether the pending tasks could fit into free GPUs and those of the victims."""
        if not all((mask & self._reachable).any() for mask in self._masks):
            return False
        return _fit_greedily(self._required, self._free)

    def states(self) -> Iterator[None]:
        """Yield whenever what has accumulated may suffice, the first time before any victim."""
        if self.may_suffice():
            yield
        while self._probe.victims:
            if self.advance() is not None and self.may_suffice():
                yield


def _fit_greedily(required: Sequence[float], free: NDArray[np.float64]) -> bool:
    """Return whether each amount (largest first) finds a holder among the roomiest ones, first fit."""
    if not required or required[0] == 0:
        return True
    if not len(free) or free.max() < required[0]:
        return False
    left = np.sort(free)[::-1][: len(required)].tolist()
    for amount in required:
        if amount == 0:
            return True
        for at, room in enumerate(left):
            if room >= amount:
                left[at] -= amount
                break
        else:
            return False
    return True


def node_local(probe: Probe) -> Iterator[Scenario]:
    """Propose the units on each node of the job that was taken last."""
    accumulated = _Accumulator(probe)
    names = probe.placement.name_rank
    for _ in accumulated.states():
        if not accumulated.units:
            if probe.recorded:
                yield Scenario(probe.recorded, ())
            continue
        latest = accumulated.units[-1].gang
        nodes = {task.node for task in latest.tasks if task.node != NO_NODE}
        seen: set[tuple[str, ...]] = set()
        for node in sorted(nodes, key=lambda row: int(names[row])):
            units = _units_on(accumulated.units, probe.recorded, node)
            key = _uids(units)
            if units and key not in seen:
                seen.add(key)
                yield Scenario(probe.recorded, units)


def _units_on(units: Sequence[Unit], recorded: Sequence[Unit], node: int) -> list[Unit]:
    """Return, job by job, all units of the jobs that lose a task of the node."""
    jobs = {unit.gang.job.uid: unit.gang for unit in units if any(task.node == node for task in unit.tasks)}
    return [
        Unit(gang, [task for unit in (*recorded, *units) if unit.gang.job.uid == uid for task in unit.tasks])
        for uid, gang in jobs.items()
    ]


def multi_node(probe: Probe) -> Iterator[Scenario]:
    """Propose the units on the fewest nodes that cover the demand, the smallest nodes first, then on more nodes."""
    accumulated = _Accumulator(probe)
    for _ in accumulated.states():
        if not accumulated.units:
            yield Scenario(probe.recorded, ())
            continue
        yield from _growing(probe, accumulated.units)


def _growing(probe: Probe, units: Sequence[Unit]) -> Iterator[Scenario]:
    placement = probe.placement
    free = placement.free_gpus()
    demand = [placement.gpus(task) for task in probe.pending]
    freed = np.zeros(len(free))
    for unit in probe.recorded:
        for task in unit.tasks:
            if task.node != NO_NODE:
                freed[task.node] += placement.gpus(task)
    capacity: dict[int, float] = {}
    on_node: dict[int, list[int]] = {}
    for at, unit in enumerate(units):
        for task in unit.tasks:
            node = task.node
            if node == NO_NODE:
                continue
            capacity[node] = capacity.get(node, float(free[node] + freed[node])) + placement.gpus(task)
            batches = on_node.setdefault(node, [])
            if not batches or batches[-1] != at:
                batches.append(at)
    least = min(demand)
    # `on_node` is in the order of the first victim on each node, and sorting keeps that order between equals.
    nodes = sorted((node for node in on_node if not 0 < least > capacity[node]), key=capacity.__getitem__)
    base = sum(float(free[row] + freed[row]) for row in probe.rows.tolist() if row not in on_node)
    count = _smallest_count([capacity[node] for node in nodes], max(sum(demand) - base, 0.0))
    step = 1
    while count <= len(nodes):
        picked = {at for node in nodes[:count] for at in on_node[node]}
        yield Scenario(probe.recorded, [unit for at, unit in enumerate(units) if at in picked])
        if count == len(nodes):
            return
        count = min(count + step, len(nodes))
        step *= 2


def _smallest_count(capacities: Sequence[float], demand: float) -> int:
    """Return how many of the first capacities cover the demand; one more than there are if all do not."""
    if demand <= 0:
        return 0
    total = 0.0
    for at, capacity in enumerate(capacities):
        total += capacity
        if total >= demand:
            return at + 1
    return len(capacities) + 1
