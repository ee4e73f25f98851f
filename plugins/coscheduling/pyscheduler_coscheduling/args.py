"""The args of `Coscheduling` in the configuration file.

Sources: the projects scheduler-plugins (`CoschedulingArgs` and its validation) and podgroup-scheduler-framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.framework.plugin_args import wire
from pyscheduler.podgroup.strategy import Strategy, strategy_problems
from pyscheduler_coscheduling.deadlock_resolver.units import DeadlockArgs
from pyscheduler_quota.controller import MODES, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CoschedulingArgs"]

_DEFAULT_WAIT_SECONDS: Final = 60.0
_ALL_PERCENT: Final = 100
_SCOPES: Final = ("cluster", "node")
_ABOVE_ZERO: Final = "must be greater than 0"


@attrs.frozen(kw_only=True)
class CoschedulingArgs:
    """The args for waiting, giving up, and the pause before the next try of a group."""

    #: How long a member waits at Permit if its group does not say; 0 means 60.
    permit_waiting_time_seconds: int = 60
    #: How long a group that failed is refused; 0 switches that off.
    denied_pg_expiration_time_seconds: int = attrs.field(default=20, metadata=wire(key="deniedPGExpirationTimeSeconds"))
    #: How long a group that failed although it had enough pods is refused in addition; 0 switches that off.
    pod_group_backoff_seconds: int = 0
    #: A group that misses at most this share of its minimum keeps its nodes when a member does not fit.
    pod_group_reject_percentage: int = 10
    #: Whether minResources must be free on all nodes together (`cluster`), or on one (`node`).
    min_resources_scope: str = "cluster"
    #: `permit`: members hold their nodes until enough have one; `groupCycle`: all are placed in one cycle.
    strategy: str = Strategy.PERMIT.value
    deadlock: DeadlockArgs = attrs.Factory(DeadlockArgs)
    #: The dialects to serve, by name; by default those whose row names this plugin.
    dialects: tuple[str, ...] = attrs.field(default=(), metadata=wire(omit_empty=True))
    #: `wait`: a group is held until the quotas of its namespace have room for all of its minResources; `none`.
    quota_reservation: str = WAIT
    #: Refuse pods without a group.
    require_group: bool = False
    #: Accepted so that old manifests can be read; without effect.
    kube_master: Any = attrs.field(default=None, metadata=wire(omit_empty=True))
    kube_config_path: Any = attrs.field(default=None, metadata=wire(omit_empty=True))

    def __attrs_post_init__(self) -> None:
        """Raise a `ValueError` that names every bad value."""
        problems = list(self._problems())
        if problems:
            raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _problems(self) -> Iterator[str]:
        for key, seconds in (
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
            ("deniedPGExpirationTimeSeconds", self.denied_pg_expiration_time_seconds),
            ("podGroupBackoffSeconds", self.pod_group_backoff_seconds),
            *self.deadlock.negatives(),
        ):
            if seconds < 0:
                yield f"{key}: Invalid value: {seconds}: {_ABOVE_ZERO}"
        if not 0 <= self.pod_group_reject_percentage <= _ALL_PERCENT:
            value = self.pod_group_reject_percentage
            yield f"podGroupRejectPercentage: Invalid value: {value}: must be between 0 and 100"
        if self.min_resources_scope not in _SCOPES:
            scope = f'Unsupported value: "{self.min_resources_scope}"'
            yield f'minResourcesScope: {scope}: supported values: "cluster", "node"'
        if self.quota_reservation not in MODES:
            yield f'quotaReservation: Unsupported value: "{self.quota_reservation}": supported values: "wait", "none"'
        yield from strategy_problems(self.strategy)

    @property
    def wait_seconds(self) -> float:
        """Return how long a member waits if its group does not say."""
        return float(self.permit_waiting_time_seconds) or _DEFAULT_WAIT_SECONDS

    @property
    def permitted_seconds(self) -> float:
        """Return how long a group that had its minResources is not checked again."""
        return float(self.denied_pg_expiration_time_seconds) or self.wait_seconds
