"""Rules for MIG partitions of GPUs.

Pods that share a GPU avoid nodes with MIG partitions.

Source: KAI-Scheduler, `pkg/scheduler/api/node_info` (PredicateByNodeResourcesType), `pkg/scheduler/api/common_info`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyscheduler.framework import Status
from pyscheduler_batch.model.values import go_boolean

if TYPE_CHECKING:
    from pyscheduler.api import Node

__all__ = ["gpus_of_profile", "sharing_refusal"]

_ENABLED_LABEL: Final = "node-role.kubernetes.io/mig-enabled"
_STRATEGY_LABEL: Final = "nvidia.com/mig.strategy"
_PREFIX: Final = "nvidia.com/mig-"
_PROFILE: Final = re.compile(r"nvidia\.com/mig-([0-9]+)g\.[0-9]+gb")
#: By strategy, why a pod with a part of a GPU may not run on the node, as KAI says it.
_REFUSALS: Final = {
    "single": Status.unresolvable("only whole gpu jobs can run on a node with MigStrategy='single'"),
    "mixed": Status.unresolvable("non MIG jobs cant run on a node with MigStrategy='mixed'"),  # codespell:ignore cant
}


def gpus_of_profile(resource: str) -> int:
    """Return how many GPUs one of this resource counts as in queues: the slices of a MIG profile, 0 for all others."""
    found = _PROFILE.fullmatch(resource)
    return int(found[1]) if found else 0


def sharing_refusal(node: Node) -> Status | None:
    """Return why no pod may share a GPU of this node; None if pods may."""
    enabled = node.labels.get(_ENABLED_LABEL)
    if enabled is None:
        is_enabled = any(name.startswith(_PREFIX) for name in node.status.allocatable)
    else:
        is_enabled = go_boolean(enabled) is True
    return _REFUSALS.get(node.labels.get(_STRATEGY_LABEL, "")) if is_enabled else None
