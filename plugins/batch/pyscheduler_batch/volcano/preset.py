"""The preset `volcano`: its actions, its tiers, and the classes by name.

Source: Volcano `pkg/scheduler/util.go`, the configuration that is built in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ACTIONS", "DEFAULT_ACTIONS", "DEFAULT_TIERS", "NEEDED_POLICIES", "POLICIES", "SESSION"]

_ROOM = "pyscheduler_batch.volcano"

#: Where the class of each action is, as `module:Name`.
ACTIONS: Final[Mapping[str, str]] = {
    "enqueue": f"{_ROOM}.enqueue:Enqueue",
    "allocate": f"{_ROOM}.allocate:Allocate",
    "backfill": f"{_ROOM}.backfill:Backfill",
    "preempt": f"{_ROOM}.preempt:Preempt",
    "reclaim": f"{_ROOM}.reclaim:Reclaim",
}
#: Where the class of each policy is.
POLICIES: Final[Mapping[str, str]] = {
    "binpack": f"{_ROOM}.binpack:Binpack",
    "capacity": f"{_ROOM}.capacity:Capacity",
    "conformance": f"{_ROOM}.conformance:Conformance",
    "drf": f"{_ROOM}.drf:Drf",
    "gang": f"{_ROOM}.gang:Gang",
    "network-topology-aware": f"{_ROOM}.network_topology:NetworkTopologyAware",
    "nodeorder": f"{_ROOM}.nodeorder:NodeOrder",
    "overcommit": f"{_ROOM}.overcommit:Overcommit",
    "predicates": f"{_ROOM}.predicates:Predicates",
    "priority": f"{_ROOM}.priority:Priority",
    "proportion": f"{_ROOM}.proportion:Proportion",
    "resourcequota": f"{_ROOM}.resource_quota:ResourceQuotas",
    "sla": f"{_ROOM}.sla:Sla",
}
#: Those without which the preset's actions cannot run.
NEEDED_POLICIES: Final[Sequence[str]] = ()
SESSION: Final = f"{_ROOM}.session:VolcanoSession"
DEFAULT_ACTIONS: Final = ("enqueue", "allocate", "backfill")
DEFAULT_TIERS: Final[Sequence[Sequence[str]]] = (
    ("priority", "gang", "conformance"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder"),
)
