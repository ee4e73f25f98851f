"""What a scheduler asks of the API server, itself and for its plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.api.kinds import NODES, PODS
from pyscheduler.runtime.assembly.permissions import Need, needs_of_plugins, reading
from pyscheduler.scheduler.in_tree_groups import RULES as GROUP_RULES
from pyscheduler.scheduler.pod_status import RULES as STATUS_RULES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyscheduler.api import ResourceKind
    from pyscheduler.runtime.profile import Profile

__all__ = ["needs"]

#: Read by the scheduler itself, whatever its plugins are.
_ALWAYS = (PODS, NODES)


def needs(
    profiles: Iterable[Profile], kinds: Collection[ResourceKind], *, in_tree_groups: bool = False
) -> Sequence[Need]:
    """Return the needs of a scheduler with these profiles, which keeps copies of these kinds.

    `in_tree_groups`: it schedules Kubernetes' own groups of pods.
    """
    return [
        *(Need(reading(kind), "scheduling") for kind in _ALWAYS),
        *(Need(rule, "pod conditions") for rule in STATUS_RULES),
        *(Need(rule, "pod groups") for rule in (GROUP_RULES if in_tree_groups else ())),
        *needs_of_plugins(profiles, [kind for kind in kinds if kind not in _ALWAYS]),
    ]
