"""Skip each KAI pod group that has `schedulingBackoff: 1` if the scheduler failed to place the group before.

After the failure, the scheduler writes a condition with the name of its node pool into the group. It skips the group
while the newest condition names this pool.

Source: KAI-Scheduler, `pkg/scheduler/cache/cluster_info/cluster_info.go` (isPodGroupUpForScheduler).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyscheduler_batch.queue_problems import SCHEDULING_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler_batch.contract import JobSpec

__all__ = ["ONCE", "held_back"]

#: The value of `schedulingBackoff` of a group that each pool tries once.
ONCE: Final = 1


def held_back(spec: JobSpec, node_pool: str) -> str:
    """Return the error of a group that the pool does not try again, or "". `node_pool`: as conditions name it."""
    if spec.scheduling_backoff != ONCE or not spec.scheduling_conditions:
        return ""
    last = max(spec.scheduling_conditions, key=_transition)
    if last.get("nodePool") != node_pool:
        return ""
    text = f'node pool "{node_pool}" has tried the group once; assign another pool, or delete the scheduling condition'
    return f"{SCHEDULING_BACKOFF}: {text} ({last.get('message', '')})"


def _transition(condition: Mapping[str, object]) -> int:
    """Return the number of a condition; -1 if it has none."""
    text = condition.get("transitionID")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 20 else -1
