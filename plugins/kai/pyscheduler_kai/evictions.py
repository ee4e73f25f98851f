"""The actions of KAI that evict pods: `consolidation`, `reclaim`, `preempt` and `stalegangeviction`.

The first three make room for waiting jobs. `consolidation` moves running jobs to other nodes. `reclaim` evicts pods of
queues above their fair share or quota. `preempt` evicts pods of jobs with lower priority in the same queue.
`stalegangeviction` evicts gangs that were below their minimum for too long.

Source: KAI-Scheduler, `actions/consolidation`, `actions/reclaim`, `actions/preempt`, `actions/stalegangeviction` and
`actions/common/minimal_job_comparison.go`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import format_time
from pyscheduler_batch.contract import ACTIVE, Action, Claim, Refusal, Tasks, TaskState
from pyscheduler_batch.model.answers import mask_of
from pyscheduler_kai.cycle import DELAY_NOT_ELAPSED, Cycle, prepared_cycle
from pyscheduler_kai.gang import DEFAULT_LEAF, ZERO, Gang, Quantities, add
from pyscheduler_kai.kept_jobs import stale_tasks
from pyscheduler_kai.look_alikes import LookAlikes
from pyscheduler_kai.placement import POD_SCHEDULING_ERRORS
from pyscheduler_kai.search_memory import attempt_of
from pyscheduler_kai.solver import Budget, Solver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pyscheduler_batch.contract import Job, Session, Task, VictimFilter
    from pyscheduler_kai.job_queue import JobQueue
    from pyscheduler_kai.scenario import Scenario

__all__ = ["Consolidation", "Preempt", "Reclaim", "StaleGangEviction"]

_STALENESS_GRACE: Final = 60.0
_MAX_VICTIM_JOBS: Final = 16
#: How many jobs a reason names.
_NAMED: Final = 5


class _Evicting(Action, ABC):
    """The common base of the three solving actions.

    Arguments: `queueDepth`, how many jobs of a queue are considered (-1 for all); `schedulingSignatures`, whether a job
    is skipped that looks like one that failed (default true); `maxActionSearchDuration`, `maxJobSearchDuration` and
    `minJobSearchDuration`, see `Budget`.
    """

    steps: ClassVar[Mapping[str, str]] = {POD_SCHEDULING_ERRORS: "nodes", DELAY_NOT_ELAPSED: "evictions"}

    async def run(self, session: Session) -> None:
        """Take the waiting jobs in the order of queues, and search room for each."""
        cycle = await prepared_cycle(session)
        if cycle.is_large and session.plan_log is None and not self.may_help(cycle):
            cycle.note_delays(preemptible=self.name == Consolidation.name)
            return
        line = cycle.lines.waiting(
            evicts=True, preemptible=self.name == Consolidation.name, depth=self.arguments.get("queueDepth")
        )
        failed: dict[int, LookAlikes] = {}
        skips = self.arguments.get("schedulingSignatures", "true") != "false"
        budget = Budget(session.elapsed, self.arguments)
        while line:
            await session.turn()
            gang = line.pop()
            if not self.may_try(cycle, gang):
                self._note(cycle, gang)
                continue
            look_alikes = failed.setdefault(self.group_of(gang.job), LookAlikes(cycle.signature))
            if skips and not look_alikes.is_easier(gang):
                continue
            tasks = gang.to_place()
            if session.is_live and not all(task.may_preempt for task in tasks):
                if session.plan_log is not None:
                    text = "the preemptionPolicy of its pods is Never"
                    session.plan_log.note(gang.job, self.name, (), Refusal("PreemptionNever", text))
                continue
            if session.is_live and not tasks:
                continue
            too_large = next((task for task in tasks if cycle.placement.is_too_large(task)), None)
            if too_large is not None:
                session.record(gang.job, POD_SCHEDULING_ERRORS, f"no node is large enough for {too_large.key}")
                continue
            # No search can succeed if the filters refuse all nodes whatever is evicted.
            is_curable = all(cycle.placement.curable(task).any() for task in tasks)
            if not is_curable or not session.placer.may_run_together(tasks):
                look_alikes.note(gang)
                continue
            budget.begin_job()
            if not await self.solve(cycle, gang, budget):
                if budget.is_spent:
                    return
                look_alikes.note(gang)
            await session.turn()

    async def solve(self, cycle: Cycle, gang: Gang, budget: Budget) -> bool:
        """Search room for one job and carry it out; return whether there was any."""
        if not self.is_worth_it(cycle, gang):
            self._note(cycle, gang)
            return False
        attempt = attempt_of(cycle, self.name, gang, lambda: self.further_inputs(cycle, gang))
        if attempt is not None and attempt.has_failed():
            return False
        await cycle.lines.read_victims(lambda queue: self.is_victim_queue(cycle, gang, queue))
        victims = self.victims(cycle, gang)
        solver = Solver(
            cycle,
            self.name,
            budget,
            victims,
            lambda part, plan: self._judge(cycle, part, plan),
            may_be_valid=lambda part, plan, placed: self.may_accept(cycle, part, plan, placed),
            keeps_all=self.name == Consolidation.name,
            candidates=self.candidates(cycle, gang),
        )
        statement = await solver.solve(gang)
        if statement is None:
            self._note_young(cycle, gang)
            if attempt is not None and solver.is_exhausted:
                await attempt.note_failure()
            return False
        await cycle.open_statement.commit(statement)
        return True

    def further_inputs(self, cycle: Cycle, gang: Gang) -> object:
        """Return what a search of this action depends on, but searches of other actions do not; for comparisons."""
        return None

    @abstractmethod
    def may_help(self, cycle: Cycle) -> bool:
        """Return whether a search for any waiting job could succeed; if not, no job is looked at."""

    def _judge(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> bool:
        """Return whether a simulated scenario may be carried out; note one that may not."""
        if self.accepts(cycle, gang, scenario):
            return True
        log = cycle.session.plan_log
        if log is not None:
            placed = sum(task.state == TaskState.PIPELINED for task in gang.tasks)
            log.note(gang.job, self.name, scenario.tasks, self.why_rejected(cycle, gang, scenario), placed=placed)
        return False

    def _note(self, cycle: Cycle, gang: Gang) -> None:
        """Note that no plan is searched for a job."""
        if cycle.session.plan_log is not None:
            cycle.session.plan_log.note(gang.job, self.name, (), self.why_not_tried(cycle, gang))

    def why_not_tried(self, cycle: Cycle, gang: Gang) -> Refusal:
        """Return why no plan is searched for a job."""
        return Refusal("NoRoomAfterEvictions", "free resources and what may be evicted are too few")

    def why_rejected(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> Refusal:
        """Return the rule that rejects a scenario."""
        for rule in cycle.scenario_rules:
            refusal = rule.validate(Claim(gang.job), scenario.tasks, self.name)
            if refusal is not None:
                return refusal
        units = scenario.by_job().values()
        young = (victim for victim, tasks in units if not cycle.keeps_minimum(self.name, gang.job, victim, tasks))
        return self._too_young(cycle, gang, young) or Refusal("PlanRejected")

    def _note_young(self, cycle: Cycle, gang: Gang) -> None:
        """Note which jobs are no candidates because of their minimum run time, if no plan was noted."""
        log = cycle.session.plan_log
        if log is None or (gang.job.uid, self.name) in log.plans:
            return
        others = cycle.lines.running(lambda queue: self.is_victim_queue(cycle, gang, queue))
        refusal = self._too_young(cycle, gang, filter(partial(self.ranks_below, gang), others))
        if refusal is not None:
            log.note(gang.job, self.name, (), refusal)

    def _too_young(self, cycle: Cycle, gang: Gang, victims: Iterable[Gang]) -> Refusal | None:
        """Return until when their minimum run time protects jobs; None if it protects none of them."""
        policy = cycle.min_runtime
        if policy is None:
            return None
        ends = sorted((policy.protected_until(self.name, gang.job, each.job), each.job.key) for each in victims)
        young = [f"{key} until {format_time(end)}" for end, key in ends if end > cycle.session.now]
        if not young:
            return None
        more = f" and {len(young) - _NAMED} more" if len(young) > _NAMED else ""
        text = f"the minimum run time still protects {', '.join(young[:_NAMED])}{more}"
        return Refusal("MinRuntimeNotElapsed", text)

    def may_try(self, cycle: Cycle, gang: Gang) -> bool:
        """Return whether the job may use this action at all."""
        return True

    def group_of(self, job: Job) -> int:
        """Return the group of jobs whose failures count for this one: its queue."""
        return job.queue_row

    def is_worth_it(self, cycle: Cycle, gang: Gang) -> bool:
        """Return whether a search could succeed."""
        return True

    def is_victim_queue(self, cycle: Cycle, gang: Gang, queue: int) -> bool:
        """Return whether jobs of a queue may be victims."""
        return True

    def ranks_below(self, gang: Gang, victim: Gang) -> bool:
        """Return whether the priority of a job allows to make it a victim."""
        return True

    @abstractmethod
    def is_victim(self, cycle: Cycle, gang: Gang, victim: Gang) -> bool:
        """Return whether a job may be a victim."""

    @abstractmethod
    def accepts(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> bool:
        """Return whether a simulated scenario may be carried out."""

    def may_accept(self, cycle: Cycle, gang: Gang, scenario: Scenario, placed: Collection[str]) -> bool:
        """Return False if a scenario is certainly rejected whose tasks with these UIDs have a node at the end."""
        return True

    def victims(self, cycle: Cycle, gang: Gang) -> Callable[[], JobQueue]:
        """Return what makes the line of candidates: preemptible jobs that this action and all policies allow."""
        accepts = self._acceptance(cycle, gang)
        return lambda: self.line_of_victims(cycle, gang, accepts)

    def candidates(self, cycle: Cycle, gang: Gang) -> Callable[[], Iterable[Gang]] | None:
        """Return what lists the candidates in any order; None if only their line is known."""
        accepts = self._acceptance(cycle, gang)
        return lambda: filter(accepts, cycle.lines.running(lambda queue: self.is_victim_queue(cycle, gang, queue)))

    def _acceptance(self, cycle: Cycle, gang: Gang) -> Callable[[Gang], bool]:
        """Return whether a job is a candidate, as a function that remembers its answers."""
        own, filters = gang.job, cycle.victim_filters
        known: dict[str, bool] = {}

        protected = cycle.session.protected(gang.job)

        def accepts(victim: Gang) -> bool:
            uid = victim.job.uid
            if uid not in known:
                known[uid] = (
                    victim.job is not own
                    and uid not in protected
                    and self.is_victim(cycle, gang, victim)
                    and _all_allow(filters, gang, victim, self.name)
                )
            return known[uid]

        return accepts

    def line_of_victims(self, cycle: Cycle, gang: Gang, accepts: Callable[[Gang], bool]) -> JobQueue:
        """Return the line of candidates, the last first."""
        return cycle.lines.victims(accepts, lambda queue: self.is_victim_queue(cycle, gang, queue))


def _all_allow(filters: Sequence[VictimFilter], gang: Gang, victim: Gang, action: str) -> bool:
    """Return whether the policies allow to evict every task of a job."""
    for policy in filters:
        mask = policy.may_evict(Claim(gang.job), Tasks.of(victim.tasks), action)
        if mask is not None and not mask_of(mask, len(victim.tasks), policy.may_evict).all():
            return False
    return True


def _rules_accept(cycle: Cycle, gang: Gang, scenario: Scenario, action: str) -> bool:
    """Return whether the rules of further policies accept a scenario."""
    return all(rule.validate(Claim(gang.job), scenario.tasks, action) is None for rule in cycle.scenario_rules)


class Consolidation(_Evicting):
    """Move running jobs so that a job fits. All victims must get another node.

    Argument `maxConsolidationVictims`: how many jobs may be candidates; one more is taken, as in the original.
    -1 is unlimited, 0 turns the action off.
    """

    name: ClassVar[str] = "consolidation"
    evicts: ClassVar[str] = "any"

    @property
    def _most(self) -> int:
        return int(self.arguments.get("maxConsolidationVictims", _MAX_VICTIM_JOBS))

    async def run(self, session: Session) -> None:
        """Run the action."""
        if self._most != 0:
            await super().run(session)

    def may_help(self, cycle: Cycle) -> bool:
        """Return whether the cluster has enough free GPUs for some preemptible job."""
        asks = cycle.asks()
        return bool((asks.preemptible & (asks.gpus <= cycle.placement.free_in_all())).any())

    def group_of(self, job: Job) -> int:
        """Return one group for all jobs."""
        return 0

    def is_worth_it(self, cycle: Cycle, gang: Gang) -> bool:
        """Return whether the cluster has enough free GPUs in all."""
        wanted = sum(cycle.placement.gpus(task) for task in gang.to_place())
        return bool(cycle.placement.free_gpus().sum() >= wanted)

    def is_victim(self, cycle: Cycle, gang: Gang, victim: Gang) -> bool:
        """Return True: any preemptible job may move."""
        return True

    def candidates(self, cycle: Cycle, gang: Gang) -> Callable[[], Iterable[Gang]] | None:
        """Return None: only the first candidates of the line count."""
        return None

    def line_of_victims(self, cycle: Cycle, gang: Gang, accepts: Callable[[Gang], bool]) -> JobQueue:
        """Return the line of the first candidates."""
        if self._most < 0:
            return super().line_of_victims(cycle, gang, accepts)
        return cycle.lines.line_of_victims(self._first(cycle, accepts))

    def _first(self, cycle: Cycle, accepts: Callable[[Gang], bool]) -> Iterator[Gang]:
        """Return the first candidates, the oldest jobs first; in the original, jobs have no order."""
        return islice(filter(accepts, cycle.candidates()), self._most + 1)

    def further_inputs(self, cycle: Cycle, gang: Gang) -> object:
        """Return the first candidates and the order of their queues, and whether plans without room are tried."""
        first = [] if self._most < 0 else [*self._first(cycle, self._acceptance(cycle, gang))]
        rows = [*dict.fromkeys(victim.job.queue_row for victim in first)]
        return cycle.is_large, rows, {victim.job.uid for victim in first}

    def why_rejected(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> Refusal:
        """Return the rule that rejects a scenario."""
        lost = [task.key for task in scenario.tasks if task.state == TaskState.RELEASING]
        if lost:
            return Refusal("VictimsNotMoved", f"no other node has room for {', '.join(dict.fromkeys(lost))}")
        return super().why_rejected(cycle, gang, scenario)

    def accepts(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> bool:
        """Return whether every victim found a place."""
        return all(task.state != TaskState.RELEASING for task in scenario.tasks) and _rules_accept(
            cycle, gang, scenario, self.name
        )


class Reclaim(_Evicting):
    """Take resources back from queues above their fair share.

    Argument `consolidatingReclaim`: whether tasks that only move do not count as reclaimed (default true).
    """

    name: ClassVar[str] = "reclaim"
    evicts: ClassVar[str] = "reclaim"

    def may_help(self, cycle: Cycle) -> bool:
        """Return whether the queue of some job stays within its fair share, and there may be GPUs to take."""
        return cycle.has_moved_tasks() or cycle.proportion.any_can_reclaim(cycle.asks(), cycle.placement.free_in_all())

    def may_try(self, cycle: Cycle, gang: Gang) -> bool:
        """Return whether the job's queue stays within its fair share."""
        return cycle.proportion.can_reclaim(gang.job, gang.requested())

    def why_not_tried(self, cycle: Cycle, gang: Gang) -> Refusal:
        """Return by how much the queue would exceed its share or, for a job that may not be evicted, its quota."""
        found = cycle.proportion.why_no_reclaim(gang.job, gang.requested())
        return found or super().why_not_tried(cycle, gang)

    def why_rejected(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> Refusal:
        """Return the rule that rejects a scenario."""
        units = self._units(cycle, scenario)
        if not cycle.proportion.is_fair(gang.job, gang.requested(), units):
            return cycle.proportion.why_unfair(gang.job, units)
        return super().why_rejected(cycle, gang, scenario)

    def is_victim(self, cycle: Cycle, gang: Gang, victim: Gang) -> bool:
        """Return whether the victim is not protected by its run time."""
        return cycle.allows_victim(self.name, gang.job, victim)

    def is_victim_queue(self, cycle: Cycle, gang: Gang, queue: int) -> bool:
        """Return whether it is another queue, above its share."""
        own = gang.job.queue_row
        return queue != own and cycle.proportion.may_be_victim(own, gang.requested(), queue)

    def is_worth_it(self, cycle: Cycle, gang: Gang) -> bool:
        """Return whether the shares allow to take as many GPUs as the job lacks."""
        # Tasks that consolidation has moved may go back to nodes that have no room for them, as in the original.
        if not cycle.is_large or cycle.has_moved_tasks():
            return True
        lacks = gang.requested()[2] - cycle.placement.free_in_all()
        units = cycle.largest_units(lambda queue: self.is_victim_queue(cycle, gang, queue))
        return lacks <= 0 or lacks < cycle.proportion.most_gpus(gang.job, gang.requested(), units)

    async def solve(self, cycle: Cycle, gang: Gang, budget: Budget) -> bool:
        """Search room for one job; the shares are judged as they are now."""
        cycle.proportion.start_solution()
        return await super().solve(cycle, gang, budget)

    def accepts(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> bool:
        """Return whether the shares justify what is taken, and no protected job falls below its minimum."""
        if not cycle.proportion.is_fair(gang.job, gang.requested(), self._units(cycle, scenario)):
            return False
        return _keep_minimum(cycle, gang, scenario, self.name) and _rules_accept(cycle, gang, scenario, self.name)

    def may_accept(self, cycle: Cycle, gang: Gang, scenario: Scenario, placed: Collection[str]) -> bool:
        """Return whether the shares justify what is taken."""
        return cycle.proportion.is_fair(gang.job, gang.requested(), self._units(cycle, scenario, placed))

    def _units(
        self, cycle: Cycle, scenario: Scenario, placed: Collection[str] | None = None
    ) -> dict[int, list[Quantities]]:
        """Return by queue what each unit of a scenario loses.

        `placed`: UIDs of the tasks that have a node at the end; None if tasks are where they will be.
        """
        units: dict[int, list[Quantities]] = {}
        for victim, tasks in scenario.by_job().values():
            amounts = self._amounts(cycle, victim, tasks, placed)
            if amounts:
                units.setdefault(victim.job.queue_row, []).extend(amounts)
        return units

    def _amounts(
        self, cycle: Cycle, victim: Gang, tasks: Sequence[Task], placed: Collection[str] | None
    ) -> list[Quantities]:
        """Return what a job loses: each surplus task, then the others as one."""
        ignores_moved = self.arguments.get("consolidatingReclaim", "true") != "false"

        def counts(task: Task) -> bool:
            has_node = task.state in ACTIVE if placed is None else task.uid in placed
            return not (ignores_moved and has_node)

        by_leaf: dict[str, list[Task]] = {}
        for task in tasks:
            by_leaf.setdefault(task.sub_group or DEFAULT_LEAF, []).append(task)
        minima = {leaf.name: leaf.minimum for leaf in victim.leaves}
        surplus: list[Quantities] = []
        core: Quantities | None = None
        for name, members in by_leaf.items():
            least = max(minima[name], 0)
            surplus.extend(cycle.proportion.quantities(task) for task in members[least:] if counts(task))
            for task in members[:least]:
                if counts(task):
                    core = add(core or ZERO, cycle.proportion.quantities(task))
        return surplus if core is None else [*surplus, core]


class Preempt(_Evicting):
    """Take resources from jobs of lower priority in the same queue."""

    name: ClassVar[str] = "preempt"
    evicts: ClassVar[str] = "preempt"

    def may_help(self, cycle: Cycle) -> bool:
        """Return whether some queue has a job of lower priority than one that waits."""
        asks, lowest = cycle.asks(), cycle.lowest_priorities()
        return any(
            row in lowest and lowest[row] < priority
            for row, priority in zip(asks.rows.tolist(), asks.priority.tolist(), strict=True)
        )

    def why_not_tried(self, cycle: Cycle, gang: Gang) -> Refusal:
        """Return by how much a job that may not be evicted would exceed a quota."""
        return cycle.proportion.over_quota(gang.job, gang.requested()) or super().why_not_tried(cycle, gang)

    def is_worth_it(self, cycle: Cycle, gang: Gang) -> bool:
        """Return whether a non-preemptible job stays within quota."""
        return cycle.proportion.over_quota(gang.job, cycle.proportion.total(gang.to_place())) is None

    def is_victim(self, cycle: Cycle, gang: Gang, victim: Gang) -> bool:
        """Return whether the victim is of lower priority and not protected."""
        return self.ranks_below(gang, victim) and cycle.allows_victim(self.name, gang.job, victim)

    def ranks_below(self, gang: Gang, victim: Gang) -> bool:
        """Return whether the victim is of lower priority."""
        return victim.job.priority < gang.job.priority

    def is_victim_queue(self, cycle: Cycle, gang: Gang, queue: int) -> bool:
        """Return whether it is the job's own queue."""
        return queue == gang.job.queue_row

    def accepts(self, cycle: Cycle, gang: Gang, scenario: Scenario) -> bool:
        """Return whether no protected job falls below its minimum."""
        return _keep_minimum(cycle, gang, scenario, self.name) and _rules_accept(cycle, gang, scenario, self.name)


def _keep_minimum(cycle: Cycle, gang: Gang, scenario: Scenario, action: str) -> bool:
    return all(cycle.keeps_minimum(action, gang.job, victim, tasks) for victim, tasks in scenario.by_job().values())


class StaleGangEviction(Action):
    """Evict jobs that have run below their minimum for too long.

    Argument `defaultStalenessGracePeriod`: seconds, for jobs that do not set it; negative means never.
    """

    name: ClassVar[str] = "stalegangeviction"

    def __init__(self, arguments: Mapping[str, str] | None = None) -> None:
        super().__init__(arguments)
        self._grace = float(self.arguments.get("defaultStalenessGracePeriod", _STALENESS_GRACE))

    async def run(self, session: Session) -> None:
        """Stamp stale jobs, evict those whose grace period is over, and clear the stamp of others."""
        cycle = await prepared_cycle(session)
        for job in cycle.kept.maybe_stale(session):
            tasks = stale_tasks(job, cycle.gangs, is_live=session.is_live)
            if not tasks:
                if not job.counts[TaskState.PIPELINED]:  # the room that the job waits for may not come
                    job.stale_since = None
                continue
            if job.stale_since is None:
                job.stale_since = session.now
            grace = self._grace if job.staleness_grace is None else job.staleness_grace
            if grace < 0:
                continue
            if session.plan_log is not None:
                end = format_time(max(job.stale_since + grace, session.now))
                text = f"the gang runs below its minimum; its pods are evicted at {end} if no pod comes back"
                session.plan_log.note(job, self.name, (), Refusal("StaleGang", text))
            if session.now - job.stale_since < grace:
                session.wake(job.stale_since + grace)
                continue
            gang = cycle.gangs[job.uid]
            if gang.is_satisfied() and max(job.lost.values()) < job.stale_since + grace:
                continue  # one more attempt: what is placed now may be bound
            if any(map(session.is_refused, tasks)):
                continue  # what is placed now may be bound meanwhile
            statement = session.statement()
            for task in tasks:
                statement.evict(task, action=self.name)
            session.commit(statement)
            await session.turn()
