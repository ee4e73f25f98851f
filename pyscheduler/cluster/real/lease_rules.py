"""The rules of leader election, without I/O: a replica reports what it read and wrote, and asks what to do next.

Two rules keep two replicas from leading at once. Each replica measures time with its own monotonic clock:

* A leader stops `renew_deadline` seconds after it *sent* the last renewal that was accepted.
* A standby takes the lease of another replica only after it has *watched* the lease unchanged for the
  `leaseDurationSeconds` written in it.

For example, the renew deadline is 10 s and the lease duration 15 s. A leader that sends its last renewal at 0 s stops
at 10 s. A standby sees this renewal later than 0 s, so it waits at least until 15 s.
"""

from __future__ import annotations

import math
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import attrs

from kube_objects.times import format_micro_time
from pyscheduler.api import LeaseSpec
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from pyscheduler.config.types import LeaderElection

__all__ = ["LeaseRules", "Move"]

#: The renew deadline must leave room for one retry, with kube-scheduler's jitter.
_JITTER: Final = 1.2
#: A wait is at most so much shorter than the retry period; never longer, so that a takeover is not late.
_SPREAD: Final = 0.25
#: The least wait, in seconds: a timer may ring a little early, and what is due must not be polled for.
_LEAST_SECONDS: Final = 0.01


class Move(Enum):
    """The next move of a replica."""

    READ = auto()
    #: Make the lease, which is not there.
    CREATE = auto()
    #: Replace the lease last seen.
    UPDATE = auto()
    #: Nothing now; begin again after `pause_seconds`.
    WAIT = auto()
    #: Leadership is lost.
    STOP = auto()


@attrs.define(kw_only=True)
class LeaseRules:
    """One replica's view of the lease. Every `now` and `asked_at` is monotonic seconds of one clock.

    Leadership once lost does not come back: a new replica (a new `identity`) begins anew.
    """

    identity: str
    config: LeaderElection = attrs.field()
    leading: bool = False
    #: What the lease says, as last seen or written; None where it was not there.
    spec: LeaseSpec | None = None
    #: Until when this replica leads, unless it renews before.
    _leads_until: float = -math.inf
    #: Until when what was seen is respected.
    _respected_until: float = -math.inf

    @config.validator
    def _check(self, _attribute: object, config: LeaderElection) -> None:
        if config.lease_duration_seconds <= config.renew_deadline_seconds:
            raise ConfigError("leaderElection: leaseDuration must be greater than renewDeadline")
        if config.renew_deadline_seconds <= _JITTER * config.retry_period_seconds:
            raise ConfigError(f"leaderElection: renewDeadline must be greater than retryPeriod*{_JITTER}")

    # What is so

    def leads(self, now: float) -> bool:
        """Return True if this replica may act as the leader: it holds the lease, and its last renewal is recent."""
        return self.leading and now < self._leads_until

    def left_seconds(self, now: float) -> float:
        """Return how long it may take to renew."""
        return max(self._leads_until - now, 0.0)

    @property
    def holder(self) -> str:
        """Return the holder of the lease, as last seen; empty if there is none."""
        return (self.spec.holder_identity or "") if self.spec is not None else ""

    @property
    def mine(self) -> bool:
        """Return True if the lease names this replica, as last seen."""
        return self.holder == self.identity

    # What to do

    def begin(self, now: float) -> Move:
        """Begin a try: a leader writes right away, as long as it knows what it replaces."""
        if not self.leading:
            return Move.READ
        if not self.leads(now):
            return Move.STOP
        return Move.UPDATE if self.mine else Move.READ

    def found(self, spec: LeaseSpec | None, now: float) -> Move:
        """Take in what a read has found; None where there is no lease.

        A leader goes on where the lease still names it (somebody put a label on it) or was deleted, and has lost where
        it names anybody else or nobody: others will take it for free.
        """
        self._see(spec, now)
        if self.leading:
            if not self.leads(now):
                return Move.STOP
            if spec is None:
                return Move.CREATE
            return Move.UPDATE if self.mine else Move.STOP
        if spec is not None and (self.mine or not self.holder):
            return Move.UPDATE
        if now < self._respected_until:
            return Move.WAIT
        return Move.CREATE if spec is None else Move.UPDATE

    def wrote(self, spec: LeaseSpec, asked_at: float, now: float) -> Move:
        """Take in a write that was accepted; it was sent at `asked_at`, which is when its time begins."""
        self.spec = spec
        if self.leading and not self.leads(now):
            return Move.STOP  # the answer came after this replica had stopped leading
        self._leads_until = asked_at + self.config.renew_deadline_seconds
        if now < self._leads_until:
            self.leading = True
        return Move.WAIT

    def stop(self) -> None:
        """Lead no more."""
        self.leading = False
        self._leads_until = -math.inf

    def pause_seconds(self, now: float, chance: float) -> float:
        """Return how long to wait before the next try; `chance` is in [0, 1) and spreads replicas apart.

        Never beyond what must not be missed: the end of one's own leadership, or of another's lease.
        """
        wait = self.config.retry_period_seconds * (1 - _SPREAD * chance)
        due = self._leads_until if self.leading else self._respected_until
        if due > now:
            wait = min(wait, due - now)
        return max(wait, _LEAST_SECONDS)

    # What to write

    def claim(self, wall: float) -> LeaseSpec:
        """Return the lease as it is to be written: held by this replica, renewed at `wall` (epoch seconds)."""
        now = format_micro_time(wall)
        old = self.spec
        if old is None:
            acquired, transitions = now, 0
        elif self.mine:
            acquired, transitions = old.acquire_time or now, old.lease_transitions or 0
        else:
            acquired, transitions = now, (old.lease_transitions or 0) + 1
        return LeaseSpec(
            holder_identity=self.identity,
            # Whole seconds, rounded up: rounded down, others would come before this replica has stopped.
            lease_duration_seconds=math.ceil(self.config.lease_duration_seconds),
            acquire_time=acquired,
            renew_time=now,
            lease_transitions=transitions,
        )

    def release(self, wall: float) -> LeaseSpec:
        """Return the lease as a leader releases it: without a holder, and expiring in a second."""
        now = format_micro_time(wall)
        return LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=(self.spec.lease_transitions or 0) if self.spec is not None else 0,
        )

    def _see(self, spec: LeaseSpec | None, now: float) -> None:
        """Note what the lease says; a change begins a new term of respect.

        Only the spec counts: whoever goes on labelling a dead leader's lease does not keep it alive. A lease that goes
        away is a change, too: its last holder, whom we need not have seen, makes it anew if it is alive. A leader
        remembers its own, to go on where it was.
        """
        if spec is None:
            if self.spec is not None and not self.leading:
                self.spec = None
                self._respected_until = now + self.config.lease_duration_seconds
            return
        if spec != self.spec:
            self.spec = spec
            self._respected_until = now + (spec.lease_duration_seconds or self.config.lease_duration_seconds)
