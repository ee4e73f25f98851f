"""Remember which searches for victims failed in earlier passes; a pass is a scheduling round over all jobs.

A failed search is not repeated while this data is unchanged:

- the nodes: free amounts, answers of filters, and shared GPUs;
- the queues: amounts and fair shares;
- the job itself, its possible victims, and the waiting jobs that the search considered.
"""

# Row of the benchmark: batch-philly. Without this module, it takes at least 1.3 times as long.

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler_batch.contract import ACTIVE, ALLOCATED, TaskState
from pyscheduler_batch.disruption_budgets import RespectedBudgets, budgets_of
from pyscheduler_batch.gpu_sharing.shared import SharedRoom
from pyscheduler_batch.model.statement import position_of
from pyscheduler_kai.job_index import KEY_OF

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Job, Task
    from pyscheduler_kai.cycle import Cycle
    from pyscheduler_kai.gang import Gang, Quantities
    from pyscheduler_kai.job_queue import JobKey, JobQueue
    from pyscheduler_kai.wanted_line import WantedLine

__all__ = ["Attempt", "FailedSearches", "Reads", "attempt_of", "may_remember"]

#: What a simulation may place: the pending tasks of a victim, too.
_PLACEABLE: Final = ACTIVE | {TaskState.PENDING}
#: With more failures, all are forgotten.
_MOST_FAILURES: Final = 256
#: After a pass has moved more tasks, it remembers nothing.
_MOST_MOVED: Final = 256
#: Other tasks of the scheduler may run after so many jobs that are looked at.
_TURN_EVERY: Final = 64
#: A failure that depends on more waiting jobs is not remembered.
_MOST_WAITING: Final = 4_000
#: By queue row, the waiting jobs that matter: their keys, and what they ask for.
_Waiting = dict[int, list[tuple["JobKey", "Quantities"]]]


class Reads:
    """The waiting jobs of each queue that the simulations of a search have read."""

    def __init__(self) -> None:
        #: The top queues that took part.
        self.tops: set[int] = set()
        #: By queue row, the key of the last job; None for all jobs of the queue.
        self.last: dict[int, JobKey | None] = {}

    def note(self, line: JobQueue | WantedLine, left: Collection[int]) -> None:
        """Add what a line has read. `left`: the queues that still have jobs of interest."""
        for row, key in line.last_read(left):
            known = self.last.setdefault(row, key)
            if known is not None and (key is None or known < key):
                self.last[row] = key

    def waiting(self, cycle: Cycle) -> _Waiting | None:
        """Return what the read jobs are now; None if they are too many. Where there was none, all jobs count."""
        found: _Waiting = {}
        count = 0
        for row, entries in cycle.lines.pending_under(self.tops).items():
            last = self.last.get(row)
            end = len(entries) if last is None else bisect_right(entries, last, key=KEY_OF)
            count += end
            if count > _MOST_WAITING:
                return None
            if end:
                found[row] = [(key, gang.requested()) for key, gang in entries[:end]]
        return found


@attrs.frozen(eq=False)
class _World:
    """The state that all searches depend on, until the pass moves something."""

    #: The columns of the node table.
    nodes: Sequence[NDArray[np.float64] | NDArray[np.bool_]]
    #: The sums and shares of queues, and the pool.
    queues: Sequence[NDArray[np.float64]]
    node_changes: int
    placed: tuple[int, Mapping[str, object]]
    #: How pods share GPUs; None in a profile without GpuSharing.
    shares: object

    def equals(self, other: _World) -> bool:
        """Return whether a search has the same result in both."""
        return (
            self.node_changes == other.node_changes
            and all(map(np.array_equal, self.queues, other.queues))
            and all(map(np.array_equal, self.nodes, other.nodes))
            and self.placed == other.placed
            and self.shares == other.shares
        )


@attrs.frozen(eq=False)
class _Failure:
    """A failed search: the data that it depended on, and the reasons that it recorded by job uid."""

    job: Job
    protected: Collection[str]
    reads: Reads
    waiting: _Waiting
    further: object
    reasons: Mapping[str, Mapping[str, str]]


class FailedSearches:
    """The searches that failed in the world of the last pass."""

    def __init__(self) -> None:
        self._world: _World | None = None
        self.failed: dict[tuple[str, str], _Failure] = {}
        #: Whether the filters' answers about all victims last; None if nobody asked.
        self._victims_last: bool | None = None

    def enter(self, cycle: Cycle, placed: Iterable[Job]) -> None:
        """Forget everything if the world is another one. `placed`: jobs that this pass placed."""
        world = _world_of(cycle, placed)
        if self._world is None or not world.equals(self._world):
            self._world = attrs.evolve(world, nodes=[column.copy() for column in world.nodes])
            self.failed.clear()
            self._victims_last = None

    def holds(self, cycle: Cycle) -> bool:
        """Return whether pods share GPUs as in `enter`: an event may have changed that since."""
        return self._world is not None and self._world.shares == _shares_of(cycle)

    async def victims_last(self, cycle: Cycle) -> bool:
        """Return whether filters say the same about all victims as long as the world is the same."""
        if self._victims_last is None:
            self._victims_last = True
            for at, gang in enumerate(cycle.lines.running(lambda _: True), start=1):
                if at % _TURN_EVERY == 0:
                    await cycle.session.turn()
                if not all(_lasts(cycle, task) for task in gang.tasks if task.state in _PLACEABLE):
                    self._victims_last = False
                    break
        return self._victims_last


class Attempt:
    """A search that is about to begin."""

    def __init__(self, cycle: Cycle, action: str, gang: Gang, further: Callable[[], object]) -> None:
        """`further` returns what searches of the action depend on besides."""
        self._cycle = cycle
        self._further = further
        self._memory = cycle.kept.failed
        self._gang = gang
        self._key = (action, gang.job.uid)
        self._protected = frozenset(cycle.session.protected(gang.job))
        self._reasons = dict(cycle.session.reasons)

    def has_failed(self) -> bool:
        """Return whether the search would fail; if so, record the reasons that it would record."""
        failure, session = self._memory.failed.get(self._key), self._cycle.session
        if failure is None or failure.job is not self._gang.job or failure.protected != self._protected:
            return False
        if failure.waiting != failure.reads.waiting(self._cycle) or failure.further != self._further():
            return False
        if not self._lasts():
            return False
        for uid, reasons in failure.reasons.items():
            for reason, message in reasons.items():
                session.record(session.jobs[uid], reason, message)
        return True

    async def note_failure(self) -> None:
        """Remember that the search was complete and failed."""
        cycle, memory = self._cycle, self._memory
        if not self._lasts() or not await memory.victims_last(cycle) or not memory.holds(cycle):
            return
        waiting = cycle.reads.waiting(cycle)
        if waiting is not None:
            if len(memory.failed) >= _MOST_FAILURES:
                memory.failed.clear()
            memory.failed[self._key] = _Failure(
                self._gang.job, self._protected, cycle.reads, waiting, self._further(), dict(self._new_reasons())
            )

    def _new_reasons(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        for uid, reasons in self._cycle.session.reasons.items():
            before = self._reasons.get(uid, {})
            if reasons is not before:
                yield uid, {reason: text for reason, text in reasons.items() if reason not in before}

    def _lasts(self) -> bool:
        return all(_lasts(self._cycle, task) for task in self._gang.to_place())


def attempt_of(cycle: Cycle, action: str, gang: Gang, further: Callable[[], object]) -> Attempt | None:
    """Return a search that is about to begin; None if its result is not to be remembered."""
    moved = cycle.session.ledger.moved
    if not cycle.may_remember or len(moved) > _MOST_MOVED or gang.has_topology():
        return None
    placed: dict[str, Job] = {}
    for task, first in moved.values():
        if position_of(task) == first:
            continue
        if first.state != TaskState.PENDING or task.state not in ALLOCATED:
            return None
        placed[task.job.uid] = task.job
    cycle.kept.failed.enter(cycle, placed.values())
    cycle.reads = Reads()
    return Attempt(cycle, action, gang, further)


def may_remember(cycle: Cycle) -> bool:
    """Return whether failures of this pass hold in later ones: no policy depends on time, or on what nobody knows."""
    policies = (entry.policy for tier in cycle.session.tiers for entry in tier)
    return (
        cycle.session.plan_log is None
        and cycle.kept.is_stable
        and (cycle.min_runtime is None or not cycle.min_runtime.is_set)
        and not isinstance(budgets_of(cycle.session), RespectedBudgets)
        and all(map(cycle.session.is_own, policies))
    )


def _world_of(cycle: Cycle, placed: Iterable[Job]) -> _World:
    nodes, kept = cycle.session.nodes, cycle.kept
    ready = np.ones(len(nodes), dtype=np.bool_) if nodes.ready is None else nodes.ready
    return _World(
        (nodes.allocatable, nodes.idle, nodes.releasing, nodes.pipelined, ready),
        cycle.proportion.search_inputs(),
        cycle.session.node_changes,
        kept.placed.state(job for job in placed if kept.running.job(job.uid) is not None),
        _shares_of(cycle),
    )


def _shares_of(cycle: Cycle) -> object:
    """Return what is equal as long as pods share GPUs in the same way."""
    room = cycle.session.extras.get(SharedRoom)
    if room is None:
        return None
    cycle.session.placer.show_moves()
    return room.shares()


def _lasts(cycle: Cycle, task: Task) -> bool:
    """Return whether the filters' answer about a task follows from node objects and `_shares_of`."""
    session = cycle.session
    return session.lasts(task) or (SharedRoom in session.extras and session.placer.lasts_with_shares(task))
