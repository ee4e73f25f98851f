"""The args of the plugin `Gang` in the configuration file, most of them under Koordinator's names.

Source of defaults and messages: Koordinator's `CoschedulingArgs`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.plugin_args import Duration, wire
from pyscheduler.podgroup import DIALECTS, MatchPolicy
from pyscheduler.podgroup.strategy import Strategy, strategy_problems
from pyscheduler_coscheduling.deadlock_resolver.units import DeadlockArgs

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DEFAULT_WAIT_SECONDS", "OWN_DIALECTS", "SERVABLE_DIALECTS", "GangArgs"]

DEFAULT_WAIT_SECONDS: Final = 600.0

OWN_DIALECTS: Final = tuple(dialect.name for dialect in DIALECTS if dialect.claimed_by == "Gang")

SERVABLE_DIALECTS: Final = (*OWN_DIALECTS, "sigs")
"""The built-in dialects that the plugin can serve: it watches their kinds."""


@attrs.frozen(kw_only=True)
class GangArgs:
    """The args; they must be equal in all profiles of a scheduler, because profiles share their gangs."""

    #: How long members wait for each other if their gang does not say; 0 means the default.
    default_timeout_seconds: Duration = DEFAULT_WAIT_SECONDS
    #: Accepted without effect: there is one event loop and no workers.
    controller_workers: int = 1
    #: Preemption by whole gangs is not implemented; only `false` is accepted.
    enable_preemption: bool = False
    #: Gather gangs in the layers of the network that they name; needs `strategy: groupCycle`.
    aware_network_topology: bool = False
    default_match_policy: str = MatchPolicy.ONCE_SATISFIED.value
    #: Deprecated: without the schedule cycle, members of a failed round are tried, too.
    skip_check_schedule_cycle: bool = False
    #: `permit`: members hold their nodes until their gangs are complete; `groupCycle`: all are placed in one cycle.
    strategy: str = Strategy.PERMIT.value
    deadlock: DeadlockArgs = attrs.Factory(DeadlockArgs)
    #: The dialects to serve, by name; by default those whose row names this plugin.
    dialects: tuple[str, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))

    def __attrs_post_init__(self) -> None:
        """Raise a `ValueError` that names every bad value."""
        problems = list(self._problems())
        if problems:
            raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _problems(self) -> Iterator[str]:
        if self.default_timeout_seconds < 0:
            yield "coeSchedulingArgs DefaultTimeoutSeconds invalid"
        if self.controller_workers < 1:
            yield "coeSchedulingArgs ControllerWorkers invalid"
        if self.enable_preemption:
            yield "enablePreemption: gangs cannot preempt as a whole yet; leave it out, or set it to false"
        if self.aware_network_topology and self.strategy != Strategy.GROUP_CYCLE:
            yield "awareNetworkTopology: only whole gangs are gathered; set strategy: groupCycle, too"
        if self.default_match_policy not in set(MatchPolicy):
            yield f'defaultMatchPolicy: "{self.default_match_policy}" is none of {", ".join(MatchPolicy)}'
        for key, seconds in self.deadlock.negatives():
            yield f"{key}: Invalid value: {seconds}: must not be negative"
        yield from strategy_problems(self.strategy)
        unknown = [name for name in self.dialects if name not in SERVABLE_DIALECTS]
        if unknown:
            yield f"dialects: {', '.join(unknown)} cannot be served; known are {', '.join(SERVABLE_DIALECTS)}"

    @property
    def wait_seconds(self) -> float:
        """Return how long members wait for each other if their gang does not say."""
        return self.default_timeout_seconds or DEFAULT_WAIT_SECONDS

    @property
    def match_policy(self) -> MatchPolicy:
        """Return the policy of gangs that do not say."""
        return MatchPolicy(self.default_match_policy)
