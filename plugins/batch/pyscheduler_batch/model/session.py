"""A session: the state of all jobs, queues and nodes during one scheduling round."""

from __future__ import annotations

import inspect
import math
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs

from pyscheduler_batch.contract import Listener, plays
from pyscheduler_batch.model.answers import ContractError
from pyscheduler_batch.model.memory import Memory
from pyscheduler_batch.model.statement import CheckedStatement, Ledger, Statement, position_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence, Set as AbstractSet

    from pyscheduler.framework import LabelColumn
    from pyscheduler_batch.contract import Action, Policy
    from pyscheduler_batch.model.axis import Amounts, ResourceAxis
    from pyscheduler_batch.model.node_table import NodeTable
    from pyscheduler_batch.model.placer import Effects, Placer
    from pyscheduler_batch.model.plan_log import PlanLog
    from pyscheduler_batch.model.queue_table import QueueTable
    from pyscheduler_batch.model.tasks import Job, Task

__all__ = ["EnabledPolicy", "Session"]

#: Other tasks of the scheduler may run after so many tasks of a statement that is carried out.
_TURN_EVERY: Final = 64


@attrs.frozen
class EnabledPolicy:
    """A policy in its tier. `switches` are the `enable...` flags of the file; a flag that is not there is on."""

    policy: Policy
    switches: Mapping[str, bool] = attrs.Factory(dict)

    def is_on(self, switch: str, *, default: bool = True) -> bool:
        """Return whether the file leaves a switch on, for example `enablePreemptable`."""
        return self.switches.get(switch, default)


async def _no_turn() -> None:
    """Go on at once."""


def _nobody(_: Job) -> Collection[str]:
    """Return no jobs."""
    return ()


def _is_not_refused(_: Task) -> bool:
    """Return that no eviction was refused."""
    return False


def _no_labels(key: str) -> LabelColumn:
    """Raise `LookupError`: the session was made without labels of nodes."""
    raise LookupError(f"labels of nodes are not known, among them {key}")


def _never(_: Task) -> bool:
    """Return that the filters' answer about a task may change at any time."""
    return False


def _no_time() -> float:
    """Return that no time has passed."""
    return 0.0


@attrs.define(eq=False, kw_only=True, slots=False)
class Session:
    """The state of a pass. Actions change it through statements only."""

    #: How the modules of the system begin, and of those on which it builds: see `is_own`.
    own_modules: ClassVar[tuple[str, ...]] = ("pyscheduler_batch.",)
    #: The steps of the reason codes that the system itself records, as those of a policy.
    steps: ClassVar[Mapping[str, str]] = {}

    axis: ResourceAxis
    nodes: NodeTable
    queues: QueueTable
    #: By uid.
    jobs: Mapping[str, Job]
    tiers: Sequence[Sequence[EnabledPolicy]]
    placer: Placer
    effects: Effects
    #: Seconds since 1970 at the begin of the pass.
    now: float
    #: Lets other tasks of the scheduler run, if it is time.
    turn: Callable[[], Awaitable[None]] = _no_turn
    #: The same, but it never ends the pass: for the midst of what must be finished.
    uncut_turn: Callable[[], Awaitable[None]] = _no_turn
    #: Returns the uids of the jobs that must not be evicted for a job, because of earlier passes.
    protected: Callable[[Job], Collection[str]] = _nobody
    #: Returns whether the API server has refused to evict a task a short time ago, so that it would not be evicted now.
    is_refused: Callable[[Task], bool] = attrs.field(default=_is_not_refused, init=False)
    #: Whether the decisions are carried out: then bindings may be refused, and evicted pods stay for a while.
    is_live: bool = attrs.field(default=False, init=False)
    #: Returns the uids of the jobs for which `protected` may answer differently than for others.
    with_past: Callable[[], AbstractSet[str]] = frozenset
    #: Chooses among equal nodes.
    rng: Random = attrs.Factory(lambda: Random(0))
    #: Returns the seconds since the pass began, for time limits of searches; by default no time passes.
    elapsed: Callable[[], float] = _no_time
    #: By name, the label keys of the levels of a topology, the widest first.
    topologies: Mapping[str, tuple[str, ...]] = attrs.Factory(dict)
    #: Returns the values of a label on the nodes, in the order of the node table.
    labels: Callable[[str], LabelColumn] = _no_labels
    #: Returns whether what the filters say about a task's node holds as long as `node_changes` is the same number.
    lasts: Callable[[Task], bool] = _never
    #: Another number in each pass before which something changed that filters read of nodes.
    node_changes: int = 0
    #: float64[R]: what pods that are no tasks of the session hold of all nodes; None if there are none.
    foreign: Amounts | None = None
    #: What policies and actions of a preset share in this pass, by its type.
    extras: dict[type, Any] = attrs.Factory(dict)
    #: What they keep from pass to pass.
    memory: Memory = attrs.Factory(Memory)
    #: Seconds since 1970 at which the next pass is due even if nothing changes; infinity for never.
    wake_at: float = math.inf
    #: Where rejected eviction plans are noted; None if nobody wants to know.
    plan_log: PlanLog | None = None
    #: The name of the action that runs, or ran last.
    action: str = ""
    #: By job uid, the reasons recorded in this pass, in order and without repetition.
    reasons: dict[str, dict[str, str]] = attrs.Factory(dict)
    #: Whether all policies have prepared for the pass; before, it cannot be cut.
    is_open: bool = False
    #: The statements of the action that runs, if it must end them.
    _statements: list[Statement] | None = attrs.field(default=None, init=False)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the ledger that all statements of the session share."""
        return Ledger(
            nodes=self.nodes,
            queues=self.queues,
            placer=self.placer,
            listeners=self.listeners(),
            memory=self.memory,
        )

    def listeners(self) -> list[Listener]:
        """Return who follows the changes of statements: the policies that are listeners, in order of tiers."""
        policies = (entry.policy for tier in self.tiers for entry in tier)
        return [cast("Listener", policy) for policy in policies if plays(policy, Listener)]

    def statement(self) -> Statement:
        """Return a new, empty statement."""
        if self._statements is None:
            return Statement(self.ledger)
        made = CheckedStatement(self.ledger)
        self._statements.append(made)
        return made

    def commit(self, statement: Statement) -> None:
        """Carry out what a statement holds."""
        statement.commit(self.effects)

    async def turn_amid(self, statement: Statement) -> None:
        """Let other tasks of the scheduler run, if it is time; undo the statement if the pass ends here."""
        try:
            await self.turn()
        except BaseException:
            statement.discard()
            raise

    async def commit_in_turns(self, statement: Statement) -> None:
        """Carry out what a statement holds; other tasks of the scheduler may run meanwhile. Nothing is left undone."""
        steps = statement.commit_steps(self.effects)
        try:
            for at, _ in enumerate(steps, start=1):
                if at % _TURN_EVERY == 0:
                    await self.uncut_turn()
        finally:
            for _ in steps:  # the pass is cancelled: a part of a job must not be decided
                pass

    def policies(self, role: type[Any], switch: str = "") -> list[list[Any]]:
        """Return by tier the policies that take part in a role (a class of the contract) and are switched on."""
        return [
            [entry.policy for entry in tier if plays(entry.policy, role) and (not switch or entry.is_on(switch))]
            for tier in self.tiers
        ]

    def wake(self, at: float) -> None:
        """Make a pass due at a time (seconds since 1970) that changes a decision, such as the end of a protection."""
        if at > self.now:
            self.wake_at = min(self.wake_at, at)

    def record(self, job: Job, reason: str, message: str = "") -> None:
        """Record why a job waits; the first message for a reason stays."""
        known = self.reasons.get(job.uid, {})
        if reason not in known:
            # Not changed in place: what is known may be kept for later passes.
            self.reasons[job.uid] = {**known, reason: message}

    def why_waiting(self, job: Job) -> Mapping[str, str]:
        """Return why a job waits without a recorded reason, as of the end of the pass: reason and message."""
        return {}

    async def open(self) -> None:
        """Let the policies prepare for the pass."""
        for tier in self.tiers:
            for entry in tier:
                entry.policy.open_session(self)
                await self.turn()

    def close(self) -> None:
        """Let the policies end the pass."""
        for tier in self.tiers:
            for entry in tier:
                entry.policy.close_session(self)

    async def run(self, actions: Sequence[Action]) -> None:
        """Open the session, run the actions in order, close the session."""
        await self.open()
        self.is_open = True
        for action in actions:
            self.action = getattr(action, "name", type(action).__name__)
            await self._run(action)
        self.close()

    def is_own(self, part: Policy | Action) -> bool:
        """Return whether a policy or an action is of the system itself.

        Policies of others may look at anything, so nothing that they say is remembered. Own actions may keep what no
        statement carries out, until the pass ends.
        """
        return type(part).__module__.startswith(self.own_modules)

    async def _run(self, action: Action) -> None:
        """Run an action; raise `ContractError` if its `run` is not async, or if it leaves a statement open."""
        is_ours = self.is_own(action)
        self._statements = None if is_ours else []
        running: object = action.run(self)
        if not inspect.isawaitable(running):
            raise self._broken(action, 'run is not async; write "async def run(self, session)"')
        await running
        for statement in self._statements or ():
            left = [change.task for change in statement.changes if position_of(change.task) == change.new]
            if left:
                count = f" and {len(left) - 1} more" if len(left) > 1 else ""
                text = f"run ended with an open statement (task {left[0].key}{count})"
                raise self._broken(action, f"{text}; call session.commit(statement) or statement.discard()")
        self._statements = None

    def _broken(self, action: Action, text: str) -> ContractError:
        code = getattr(type(action).run, "__code__", None)
        return ContractError(f'action "{self.action}": {text}', plugin=self.action, kind="action", code=code)
