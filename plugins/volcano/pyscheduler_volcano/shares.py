"""The deserved amounts of queues after a pass, for the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler_volcano.queue_policy import QueuePolicy

if TYPE_CHECKING:
    from pyscheduler_batch.contract import Session
    from pyscheduler_batch.status.metrics import Shares

__all__ = ["shares_of"]


def shares_of(session: Session) -> Shares | None:
    """Return the shares of the first policy that divides the cluster; None if there is none."""
    policy = next(iter(policy for tier in session.policies(QueuePolicy) for policy in tier), None)
    deserved = getattr(policy, "deserved", None)
    return None if deserved is None else (session.queues.index, deserved, session.axis.names)
