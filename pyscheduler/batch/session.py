"""A session: one pass of a batch profile over its jobs, queues and nodes.

Pure: the session works on tables, asks a `Placer` where tasks may go, and hands its decisions to `Effects`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from pyscheduler.batch.contract import Listener
from pyscheduler.batch.statement import Ledger, Statement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from pyscheduler.batch.axis import ResourceAxis
    from pyscheduler.batch.contract import Action, Policy
    from pyscheduler.batch.node_table import NodeTable
    from pyscheduler.batch.placer import Effects, Placer
    from pyscheduler.batch.queue_table import QueueTable
    from pyscheduler.batch.tasks import Job

__all__ = ["EnabledPolicy", "Session"]


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


def _no_time() -> float:
    """Return that no time has passed."""
    return 0.0


@attrs.define(eq=False, kw_only=True, slots=False)
class Session:
    """The state of a pass. Actions change it through statements only."""

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
    #: Returns the seconds since the pass began, for time limits of searches; by default no time passes.
    elapsed: Callable[[], float] = _no_time
    #: What policies and actions of a preset share in this pass, by its type.
    extras: dict[type, Any] = attrs.Factory(dict)
    #: By job uid, the reasons recorded in this pass, in order and without repetition.
    reasons: dict[str, dict[str, str]] = attrs.Factory(dict)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the ledger that all statements of the session share."""
        listeners = [entry.policy for tier in self.tiers for entry in tier if isinstance(entry.policy, Listener)]
        return Ledger(nodes=self.nodes, queues=self.queues, placer=self.placer, listeners=listeners)

    def statement(self) -> Statement:
        """Return a new, empty statement."""
        return Statement(self.ledger)

    def commit(self, statement: Statement) -> None:
        """Carry out what a statement holds."""
        statement.commit(self.effects)

    def policies(self, role: type[Any], switch: str = "") -> list[list[Any]]:
        """Return by tier the policies that take part in a role (a class of the contract) and are switched on."""
        return [
            [entry.policy for entry in tier if isinstance(entry.policy, role) and (not switch or entry.is_on(switch))]
            for tier in self.tiers
        ]

    def record(self, job: Job, reason: str, message: str = "") -> None:
        """Record why a job waits; the first message for a reason stays."""
        self.reasons.setdefault(job.uid, {}).setdefault(reason, message)

    async def run(self, actions: Sequence[Action]) -> None:
        """Open the session, run the actions in order, close the session."""
        policies = [entry.policy for tier in self.tiers for entry in tier]
        for policy in policies:
            policy.open_session(self)
        for action in actions:
            await action.run(self)
        for policy in policies:
            policy.close_session(self)
