"""What one scheduling attempt carries from its scheduling cycle into its binding cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pyscheduler.framework.cycle_state import CycleState, PodsToActivate
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.runtime.profile import Profile

__all__ = ["Attempt"]


@attrs.define(kw_only=True, eq=False)
class Attempt:
    """One try to place one pod."""

    profile: Profile
    queued: QueuedPodInfo
    state: CycleState
    to_activate: PodsToActivate
    #: Clock seconds when the pod was popped.
    started_at: float
    #: The pod with its node set, once it is assumed.
    assumed: PodInfo | None = None
    node_name: str = ""
    evaluated_nodes: int = 0
    feasible_nodes: int = 0
