"""Propose scenarios: sets of tasks (pods) to evict, so that a pending job finds nodes.

Victims are collected in units: tasks of one job that are evicted together. A job above its minimum loses one task or
sub-group at a time; at its minimum, it loses all its tasks at once. After each unit, a quick check counts the GPUs that
are free or used by collected units. If these GPUs may be enough, a generator function proposes units to evict:

- `node_local` tries to make room on one node.
- `multi_node` tries to make room on several nodes. The first proposal has just enough nodes for the pending job,
  the later ones have more.

Source: KAI-Scheduler, `actions/common/solvers` (`pod_scenario_builder.go`, `sub_scenario_emitter.go`, the filters) and
the plugins `nodelocalgreedy` and `multinodegang`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler_batch.contract import NO_NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Task
    from pyscheduler_kai.gang import Gang
    from pyscheduler_kai.job_queue import JobQueue
    from pyscheduler_kai.placement import Placement

__all__ = ["Probe", "Scenario", "Unit", "VictimReader", "VictimTape", "multi_node", "node_local"]


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
    #: The candidates, from the first one.
    victims: VictimReader


class VictimTape:
    """The victims of a search in their order, read by one probe after the other.

    As long as whole jobs are evicted, the order does not depend on what a probe recorded, and is computed once.
    """

    def __init__(self, make: Callable[[], JobQueue], pop: Callable[[JobQueue], Gang]) -> None:
        self.make = make
        self.pop = pop
        self._line: JobQueue | None = None
        self._is_closed = False
        #: Whether the tape holds all victims.
        self.is_complete = False
        self.read: list[tuple[Gang, list[Task]]] = []

    def entry(self, at: int) -> tuple[Gang, list[Task]] | None:
        """Return the job at a place and its unit; None at the end of the tape."""
        while at >= len(self.read) and not self._is_closed:
            if self._line is None:
                self._line = self.make()
            if not self._line:
                self._is_closed = self.is_complete = True
                break
            gang = self.pop(self._line)
            tasks = gang.to_evict()
            if len(tasks) < len(gang.tasks):
                # What is left of the job would come back; from here on each probe needs a line of its own.
                self._is_closed = True
                break
            self.read.append((gang, tasks))
        return self.read[at] if at < len(self.read) else None


class VictimReader:
    """Takes victims from a tape, and behind its end from a line of its own."""

    def __init__(self, tape: VictimTape) -> None:
        self._tape = tape
        self._at = 0
        self._line: JobQueue | None = None

    def take(self) -> tuple[Gang, list[Task]] | None:
        """Return the next job and its unit; None if there are no more."""
        if self._line is None:
            found = self._tape.entry(self._at)
            if found is not None:
                self._at += 1
                return found
            if self._tape.is_complete:
                return None
            self._line = self._tape.make()
            for _ in range(self._at):
                self._tape.pop(self._line)
        if not self._line:
            return None
        gang = self._tape.pop(self._line)
        return gang, gang.to_evict()

    def put_back(self, gang: Gang) -> None:
        """Add what is left of a job."""
        assert self._line is not None
        self._line.push(gang)


class _Room:
    """The GPUs of nodes, and whether a list of requests could find room in them."""

    def __init__(self, required: Sequence[float], free: NDArray[np.float64]) -> None:
        self._required = required
        self._free: list[float] = free.tolist()
        self._size = required[0] if required and required[0] == required[-1] else 0.0
        self._slots = sum(self._slots_of(amount) for amount in self._free)

    def _slots_of(self, amount: float) -> int:
        """Return how many requests, if all are of one size, an amount can hold."""
        return int(amount // self._size) if self._size > 0 and amount > 0 else 0

    def add(self, node: int, amount: float) -> None:
        """Add GPUs to a node."""
        before = self._free[node]
        self._free[node] = before + amount
        if self._size:
            self._slots += self._slots_of(before + amount) - self._slots_of(before)

    def holds_greedily(self) -> bool:
        """Return whether each request (largest first) finds a node among the roomiest ones, first fit."""
        if not self._required or self._required[0] == 0:
            return True
        if self._size:
            return self._slots >= len(self._required)
        return _fit_greedily(self._required, self._free)

    def may_hold(self, more: Mapping[int, float]) -> bool:
        """Return False if the requests certainly find no room, even with more GPUs on some nodes."""
        if not self._required or self._required[0] == 0:
            return True
        free = self._free
        if self._size:
            gained = sum(
                self._slots_of(free[node] + amount) - self._slots_of(free[node]) for node, amount in more.items()
            )
            return self._slots + gained >= len(self._required)
        return sum(max(amount, 0.0) for amount in free) + sum(more.values()) >= sum(self._required)


class _Accumulator:
    """Takes victims one unit at a time, and keeps what the filter and the generators need."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.units: list[Unit] = []
        #: By job uid, all units of the job, recorded ones first.
        self.of_job: dict[str, list[Unit]] = {}
        #: By node, the jobs that lose a task there.
        self.on_node: dict[int, dict[str, Gang]] = {}
        recorded = {task.uid: task for unit in probe.recorded for task in unit.tasks}
        self._recorded = recorded.keys()
        # With a task named twice the original's filter fails, and lets everything pass.
        self._is_blind = len(recorded) < sum(len(unit.tasks) for unit in probe.recorded)
        placement = probe.placement
        required = sorted((placement.gpus(task) for task in probe.pending), reverse=True)
        free = placement.free_gpus().copy()
        for task in recorded.values():
            if task.node != NO_NODE:
                free[task.node] += placement.gpus(task)
        self._room = _Room(required, free)
        #: The room with recorded victims only.
        self._base = _Room(required, free)
        masks = {id(mask): mask for mask in map(placement.curable, probe.pending)}
        self._masks = [mask for mask in masks.values() if not mask.all()]
        #: By node, the GPUs of the units; and the nodes with units of jobs with several tasks.
        self._freed: dict[int, float] = {}
        self._shared: set[int] = set()
        self._reachable = np.zeros(len(free), dtype=np.bool_)
        self._reachable[probe.rows] = True
        for unit in probe.recorded:
            self.of_job.setdefault(unit.gang.job.uid, []).append(unit)
            for task in unit.tasks:
                if task.node != NO_NODE:
                    self._reachable[task.node] = True

    def _note(self, unit: Unit) -> None:
        uid = unit.gang.job.uid
        self.units.append(unit)
        self.of_job.setdefault(uid, []).append(unit)
        is_shared = len(unit.gang.tasks) > 1
        for task in unit.tasks:
            node = task.node
            if node != NO_NODE:
                gpus = self._probe.placement.gpus(task)
                self._room.add(node, gpus)
                self._freed[node] = self._freed.get(node, 0.0) + gpus
                self._reachable[node] = True
                self.on_node.setdefault(node, {})[uid] = unit.gang
                if is_shared:
                    self._shared.add(node)

    def _advance(self) -> bool | None:
        """Take the next unit; return whether the filter is to be asked, or None if there are no more victims."""
        victims = self._probe.victims
        taken = victims.take()
        if taken is None:
            return None
        gang, tasks = taken
        if any(task.uid in self._recorded for task in tasks):
            rest = [task for task in gang.tasks if task.uid not in self._recorded]
            if rest:
                victims.put_back(gang.part(rest))
            return False
        if len(tasks) < gang.active:
            uids = {task.uid for task in tasks}
            victims.put_back(gang.part(task for task in gang.tasks if task.uid not in uids))
        if tasks:
            self._note(Unit(self._probe.whole[gang.job.uid], tasks))
        return True

    def _may_suffice(self) -> bool:
        """Return whether the pending tasks could fit into free GPUs and those of the victims."""
        if not all((mask & self._reachable).any() for mask in self._masks):
            return False
        return self._is_blind or self._room.holds_greedily()

    def states(self) -> Iterator[bool]:
        """Yield True whenever what has accumulated may suffice, the first time before any victim, or else False."""
        yield self._may_suffice()
        while (is_new := self._advance()) is not None:
            yield is_new and self._may_suffice()

    def is_hopeless_node(self, node: int) -> bool:
        """Return whether the jobs of a node, all of one task, certainly make too little room."""
        if node in self._shared:
            return False
        return not self._base.may_hold({node: self._freed.get(node, 0.0)})

    def is_hopeless(self, units: Sequence[Unit]) -> bool:
        """Return whether these units and the recorded ones certainly make too little room."""
        more: dict[int, float] = {}
        for unit in units:
            for task in unit.tasks:
                if task.node != NO_NODE:
                    more[task.node] = more.get(task.node, 0.0) + self._probe.placement.gpus(task)
        return not self._base.may_hold(more)


def _fit_greedily(required: Sequence[float], free: Sequence[float]) -> bool:
    """Return whether each amount (largest first) finds a holder among the roomiest ones, first fit."""
    left = sorted(free, reverse=True)[: len(required)]
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


def node_local(probe: Probe) -> Iterator[Scenario | None]:
    """Propose victims node by node: for each node of the last unit's job, all units of the jobs that lose a task there.

    Units on other nodes are among them if they are of such a job. Before any victim, only recorded ones are proposed.
    """
    accumulated = _Accumulator(probe)
    names = probe.placement.name_rank
    for may_suffice in accumulated.states():
        yield None
        if not may_suffice:
            continue
        if not accumulated.units:
            if probe.recorded:
                yield Scenario(probe.recorded, ())
            continue
        latest = accumulated.units[-1].gang
        nodes = {task.node for task in latest.tasks if task.node != NO_NODE}
        seen: set[tuple[str, ...]] = set()
        for node in sorted(nodes, key=lambda row: int(names[row])) if len(nodes) > 1 else nodes:
            if accumulated.is_hopeless_node(node):
                continue
            # All units of the jobs that lose a task of the node, job by job.
            units = [
                Unit(gang, [task for unit in accumulated.of_job[uid] for task in unit.tasks])
                for uid, gang in accumulated.on_node.get(node, {}).items()
            ]
            if not units or accumulated.is_hopeless(units):
                continue
            key = _uids(units)
            if key not in seen:
                seen.add(key)
                yield Scenario(probe.recorded, units)


def multi_node(probe: Probe) -> Iterator[Scenario | None]:
    """Propose the units on the nodes of the smallest capacity, as few as cover the request; then on more nodes.

    The capacity of a node is the sum of its free GPUs and those of the units there. Nodes too small for the smallest
    pending task are left out. Each further proposal adds nodes: one, then two, then four, and so on.
    """
    accumulated = _Accumulator(probe)
    for may_suffice in accumulated.states():
        yield None
        if not may_suffice:
            continue
        if not accumulated.units:
            yield Scenario(probe.recorded, ())
            continue
        for scenario in _growing(probe, accumulated.units):
            if not accumulated.is_hopeless(scenario.units):
                yield scenario


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
