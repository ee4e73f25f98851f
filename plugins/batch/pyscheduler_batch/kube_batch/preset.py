"""The preset `kube-batch`: its actions, its tiers, and the classes by name.

Source: kube-batch `pkg/scheduler/util.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["ACTIONS", "DEFAULT_ACTIONS", "DEFAULT_TIERS", "NEEDED_POLICIES", "POLICIES", "SESSION"]

_ROOM = "pyscheduler_batch.kube_batch"
_SHARED = "pyscheduler_batch.volcano"

#: Where the class of each action is, as `module:Name`.
ACTIONS: Final[Mapping[str, str]] = {
    "allocate": f"{_ROOM}.allocate:Allocate",
    "backfill": f"{_ROOM}.backfill:Backfill",
    "preempt": f"{_ROOM}.preempt:Preempt",
    "reclaim": f"{_ROOM}.reclaim:Reclaim",
}
#: Where the class of each policy is.
POLICIES: Final[Mapping[str, str]] = {
    "conformance": f"{_SHARED}.conformance:Conformance",
    "drf": f"{_SHARED}.drf:Drf",
    "gang": f"{_ROOM}.gang:Gang",
    "nodeorder": f"{_SHARED}.nodeorder:NodeOrder",
    "predicates": f"{_ROOM}.predicates:Predicates",
    "priority": f"{_ROOM}.priority:Priority",
    "proportion": f"{_ROOM}.proportion:Proportion",
}
#: Those without which the preset's actions cannot run.
NEEDED_POLICIES: Final[Sequence[str]] = ()
SESSION: Final = f"{_ROOM}.session:KubeBatchSession"
DEFAULT_ACTIONS: Final = ("allocate", "backfill")
DEFAULT_TIERS: Final[Sequence[Sequence[str]]] = (
    ("priority", "gang"),
    ("drf", "predicates", "proportion", "nodeorder"),
)
