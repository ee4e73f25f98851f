"""The preset `kai`: its actions and policies, by name, as `module:Class`. Nothing is imported until it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ACTIONS", "DEFAULT_ACTIONS", "DEFAULT_TIERS", "POLICIES"]

ACTIONS: Final[Mapping[str, str]] = {
    "allocate": "pyscheduler_batch.kai.allocate:Allocate",
    "consolidation": "pyscheduler_batch.kai.evictions:Consolidation",
    "reclaim": "pyscheduler_batch.kai.evictions:Reclaim",
    "preempt": "pyscheduler_batch.kai.evictions:Preempt",
    "stalegangeviction": "pyscheduler_batch.kai.evictions:StaleGangEviction",
}
POLICIES: Final[Mapping[str, str]] = {
    "proportion": "pyscheduler_batch.kai.proportion:Proportion",
    "priority": "pyscheduler_batch.kai.orders:Priority",
    "elastic": "pyscheduler_batch.kai.orders:Elastic",
    "kubeflow": "pyscheduler_batch.kai.orders:Kubeflow",
    "ray": "pyscheduler_batch.kai.orders:Ray",
    "taskorder": "pyscheduler_batch.kai.orders:TaskPriority",
    "nodeplacement": "pyscheduler_batch.kai.placement:NodePlacement",
    "minruntime": "pyscheduler_batch.kai.min_runtime:MinRuntime",
}
DEFAULT_ACTIONS: Final[Sequence[str]] = tuple(ACTIONS)
DEFAULT_TIERS: Final[Sequence[Sequence[str]]] = (tuple(POLICIES),)
