"""The solver of `consolidation`, `reclaim` and `preempt`: it finds victims for a pending job by simulation.

A *scenario* is a set of victims; a *generator* proposes scenarios. The solver evicts the victims in a simulation. It
accepts a scenario if the job's pods then find nodes and the action allows the evictions.

Source: KAI-Scheduler, `actions/common/solvers` (`job_solver.go`, `by_pod_solver.go`) and `actions/common/action.go`.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler_batch.contract import ACTIVE, NO_NODE, Refusal, TaskState
from pyscheduler_kai.placement import POD_SCHEDULING_ERRORS, no_room
from pyscheduler_kai.room import has_room_for_all
from pyscheduler_kai.scenario import Probe, Unit, VictimReader, VictimTape

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Statement, Task
    from pyscheduler_kai.cycle import Cycle
    from pyscheduler_kai.gang import Gang
    from pyscheduler_kai.job_queue import JobQueue
    from pyscheduler_kai.rehearsal import Outcome
    from pyscheduler_kai.scenario import Scenario
    from pyscheduler_kai.switches import ScenarioGenerator
    from pyscheduler_kai.vacancy import Vacancy

__all__ = ["Budget", "Solver"]

_LOST = frozenset({TaskState.RELEASING, TaskState.PIPELINED})
_NO_ROOM: Final = Refusal("NoRoomAfterEvictions", "without these pods there is no room for the job either")
_ACTION_SECONDS: Final = 300.0
_JOB_SECONDS: Final = 240.0


class Budget:
    """The time limits for the searches of an action: for all of them, and for each.

    Arguments of the action, in seconds: `maxActionSearchDuration` and `maxJobSearchDuration`, 0 is unlimited; and
    `minJobSearchDuration`, what each job gets at least.
    Source: KAI-Scheduler, `actions/common/solvers/search_budget.go`.
    """

    def __init__(self, elapsed: Callable[[], float], arguments: Mapping[str, str]) -> None:
        self.elapsed = elapsed
        action = float(arguments.get("maxActionSearchDuration", _ACTION_SECONDS))
        self._action_end = elapsed() + (action or inf)
        self._job_seconds = float(arguments.get("maxJobSearchDuration", _JOB_SECONDS)) or inf
        self._least_job_seconds = float(arguments.get("minJobSearchDuration", 0.0))
        self._job_end = inf

    def begin_job(self) -> None:
        """Begin the search for one job."""
        now = self.elapsed()
        self._job_end = max(min(self._action_end, now + self._job_seconds), now + self._least_job_seconds)

    @property
    def is_spent(self) -> bool:
        """Return whether the search for the present job, and with it the action, must end."""
        return self.elapsed() >= self._job_end


@attrs.frozen(eq=False)
class _Solution:
    """A scenario that worked: its open statement, and the tasks that lost their place."""

    statement: Statement
    units: Sequence[Unit]
    tasks: Sequence[Task]
    #: Whether every unit of the scenario lost a task, and no task is named twice.
    is_exact: bool


class Solver:
    """Searches victims for one pending job.

    `victims` returns the candidates; `is_valid` judges a simulated scenario for a gang of pending tasks.
    `may_be_valid`: False if it certainly rejects a scenario whose tasks with these UIDs keep a node, or find one.
    `keeps_all`: it accepts no scenario that leaves a victim without a node. `candidates` returns the candidates in any
    order, for a job that requires a topology domain; None: it is searched like others.
    """

    def __init__(
        self,
        cycle: Cycle,
        action: str,
        budget: Budget,
        victims: Callable[[], JobQueue],
        is_valid: Callable[[Gang, Scenario], bool],
        *,
        may_be_valid: Callable[[Gang, Scenario, Collection[str]], bool] = lambda *_: True,
        keeps_all: bool = False,
        candidates: Callable[[], Iterable[Gang]] | None = None,
    ) -> None:
        self.cycle = cycle
        self._candidates = candidates
        self.action = action
        self.budget = budget
        self.is_valid = is_valid
        self.may_be_valid = may_be_valid
        #: In a small session a simulation leaves a reason on each victim that finds no other node, as in the original.
        #: A plan log wants to know what is wrong with each scenario.
        self.needs_room_for_all = keeps_all and cycle.is_large and cycle.session.plan_log is None
        self.tape = VictimTape(victims, cycle.lines.next_victim)
        #: Whether no search found anything, or ended before all scenarios were tried.
        self.is_exhausted = True
        #: Scenarios that failed, so that another generator does not try them again.
        self.failed: set[object] = set()

    async def solve(self, gang: Gang) -> Statement | None:
        """Return the open statement that evicts the victims and promises nodes to the job, or None.

        Other tasks of the scheduler may run between two simulations.
        """
        tasks = gang.to_place()
        if not tasks:
            return None
        used = gang.used
        rows = self.cycle.placement.feasible_rows(gang)
        domains = self.cycle.lines.domains_for(gang, self._candidates)
        for generator in self.cycle.generators if domains is None else (domains,):
            search = _Search(self, generator, gang, tasks, rows)
            solution = await (search.run() if domains is None else search.run_whole())
            if solution is not None:
                self.is_exhausted = False
                # A solution that leaves a leaf below its minimum is not carried out, nor undone within this pass: the
                # original does neither, and decides with it.
                is_solved = gang.is_satisfied() and gang.used > used
                return solution.statement if is_solved else None
            if self.budget.is_spent:
                return None
        return None


class _Search:
    """The probes of one generator."""

    def __init__(
        self, solver: Solver, generator: ScenarioGenerator, gang: Gang, tasks: Sequence[Task], rows: NDArray[np.int64]
    ) -> None:
        self._solver = solver
        self._cycle = solver.cycle
        self._generator = generator
        self._gang = gang
        self._tasks = tasks
        self._rows = rows
        self._end = solver.budget.elapsed() + (generator.seconds or inf)
        self._recorded: Sequence[Unit] = ()
        self._recorded_tasks: Sequence[Task] = ()
        self._last: _Solution | None = None

    async def run(self) -> _Solution | None:
        """Return the solution for all tasks, or None."""
        count = len(self._tasks)
        low, high, size = 0, 0, 1
        while low < count:
            if not await self._try(size):
                high = size
                break
            low = size
            size = min(size * 2, count)
        while high - low > 1:
            middle = (low + high) // 2
            if await self._try(middle):
                low = middle
            else:
                high = middle
        if low == count and self._last is not None:
            return self._last
        return await self._probe(count) if low else None

    async def run_whole(self) -> _Solution | None:
        """Return the solution for all tasks at once, or None."""
        return await self._probe(len(self._tasks))

    async def _try(self, size: int) -> bool:
        """Return whether there is room for the first tasks; record the victims."""
        solution = await self._probe(size)
        if solution is None:
            return False
        # The last step would evict the same tasks again: then its result is known.
        if size == len(self._tasks) and solution.is_exact:
            self._last = solution
        else:
            await self._cycle.open_statement.undo(solution.statement)
        # A unit may name a task twice in a scenario, but not once it is recorded.
        self._recorded = [Unit(unit.gang, list(dict.fromkeys(unit.tasks))) for unit in solution.units]
        self._recorded_tasks = solution.tasks
        return True

    async def _probe(self, size: int) -> _Solution | None:
        """Return a solution for the first tasks, or None."""
        from_job = self._gang
        chosen = self._tasks[:size]
        placed = [task for task in from_job.tasks if task.state in ACTIVE]
        gang = from_job.lowered_part([*placed, *chosen])
        recorded_rows = [task.node for task in self._recorded_tasks if task.node != NO_NODE]
        placement = self._cycle.placement
        rows = placement.by_name(np.concatenate([self._rows, np.array(recorded_rows, dtype=np.int64)]))
        pending = gang.to_place()
        if not pending:
            return None
        # What the part requests is kept from here: its tasks are placed when a scenario is judged.
        gang.requested()
        probe = Probe(
            placement=placement,
            gang=gang,
            pending=pending,
            rows=rows,
            recorded=self._recorded,
            whole=self._cycle.gangs,
            victims=VictimReader(self._solver.tape),
        )
        uids = tuple(sorted(task.uid for task in pending))
        budget, failed = self._solver.budget, self._solver.failed
        # What one plan evicts is back before the next one is looked at.
        vacancy = self._cycle.rehearsal.vacancy(rows)
        for scenario in self._generator.scenarios(probe):
            await self._cycle.session.turn()
            if scenario is None:
                continue
            if budget.is_spent or budget.elapsed() >= self._end:
                self._solver.is_exhausted = False
                return None
            key = (uids, scenario.fingerprint())
            if key in failed:
                continue
            is_hopeless = self._solver.needs_room_for_all and not has_room_for_all(placement, pending, scenario.tasks)
            solution = None if is_hopeless else await self._simulate(gang, scenario, rows, vacancy)
            if solution is not None:
                return solution
            failed.add(key)
        return None

    async def _simulate(
        self, gang: Gang, scenario: Scenario, rows: NDArray[np.int64], vacancy: Vacancy | None
    ) -> _Solution | None:
        """Evict, place the job and the victims in the order of queues, and judge the result."""
        tasks = scenario.tasks
        if not tasks:
            return None
        cycle = self._cycle
        # Many searches succeed at once: only what follows a failure is rehearsed.
        rehearses, rehearsal = bool(self._solver.failed), cycle.rehearsal
        foreseen = await rehearsal.foresee(gang, scenario, vacancy) if rehearses else None
        if foreseen is not None and not self._is_promising(gang, scenario, foreseen):
            self._note_failure(gang, tasks)
            return None
        left = np.array([task.node for task in tasks if task.node != NO_NODE], dtype=np.int64)
        rows = cycle.placement.by_name(np.concatenate([rows, left]))
        statement = cycle.open_statement.begin()
        cycle.placement.forget_failures()
        try:
            await cycle.open_statement.evict(statement, tasks, action=self._solver.action, by=gang.job)
            is_promising = (
                not rehearses
                or foreseen is not None
                or self._is_promising(gang, scenario, await rehearsal.outcome(gang, tasks, rows))
            )
            is_placed = is_promising and await self._place_all(statement, gang, tasks, rows)
            if not is_placed:
                self._note_failure(gang, tasks)
            if not is_placed or not self._solver.is_valid(gang, scenario):
                await cycle.open_statement.undo(statement)
                return None
        except BaseException:
            # The pass ends here: what was only tried is no result.
            cycle.open_statement.discard(statement)
            raise
        lost = [task for task in tasks if task.state in _LOST]
        unit_of: dict[str, Unit] = {}
        for unit in (*scenario.recorded, *scenario.units):
            for task in unit.tasks:
                unit_of.setdefault(task.uid, unit)
        units = {id(unit_of[task.uid]): unit_of[task.uid] for task in lost}
        is_exact = len(unit_of) == len(tasks) and len(units) == len(scenario.recorded) + len(scenario.units)
        return _Solution(statement, list(units.values()), lost, is_exact)

    def _is_promising(self, gang: Gang, scenario: Scenario, outcome: Outcome) -> bool:
        """Return False if a simulation certainly finds no room for the job, or its result is certainly rejected."""
        if not outcome.is_sure:
            return True
        cycle = self._cycle
        # A plan log wants to know what is wrong with each scenario.
        is_promising = outcome.is_placed and (
            cycle.session.plan_log is not None or self._solver.may_be_valid(gang, scenario, outcome.placed)
        )
        if not is_promising:
            outcome.note(cycle.reads)
            for task in outcome.refused:
                why = cycle.session.placer.why_not(task, beside_room=True) or no_room(task.key)
                cycle.session.record(task.job, POD_SCHEDULING_ERRORS, why)
        return is_promising

    def _note_failure(self, gang: Gang, tasks: Sequence[Task]) -> None:
        if (log := self._cycle.session.plan_log) is not None:
            log.note(gang.job, self._solver.action, tasks, _NO_ROOM)

    async def _place_all(
        self, statement: Statement, gang: Gang, victims: Sequence[Task], rows: NDArray[np.int64]
    ) -> bool:
        """Place the job and the victims in the order of queues; return whether the job found room."""
        cycle, own = self._cycle, gang.job.uid
        placed = cycle.lines.in_line(gang, victims)
        wanted = {each.job.uid for _, each in placed}
        line, left = cycle.lines.line_of(placed), Counter(each.job.queue_row for _, each in placed)
        while left:
            following = line.take_one_of(wanted, left)
            is_placed = await cycle.placement.place_gang(statement, rows, following, promise=True)
            if is_placed:
                continue
            if following.job.uid == own:
                cycle.reads.note(line, left)
                return False
            # The original asks again here; the answer is kept, and decides what a later action sees of the job.
            following.to_place()
        cycle.reads.note(line, left)
        return True
