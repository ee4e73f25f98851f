"""Find the node that a nominated pod waits for, and the victims that are still terminating there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.departures import is_stuck, leaving
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.placement import fits_on
from pyscheduler.runtime.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["awaited_room"]


def awaited_room(
    scheduling: SchedulingCycle,
    profile: Profile,
    info: PodInfo,
    *,
    joint: object | None,
    nodes: Nodes | None = None,
) -> tuple[str, Sequence[PodInfo]] | None:
    """Return the node that a pod is nominated to, and the pods of lower priority that are leaving it.

    None if no such pod is leaving, if one may never be gone, if the node does not take the pod without them, or if it
    is not one of `nodes`. `joint` is that of the pod's attempt: members of a group may share what they reserve.
    """
    pod, snapshot = info.pod, scheduling.snapshot
    name = scheduling.queue.nominator.node_of(pod.uid)
    node = snapshot.get(name) if name else None
    if node is None or (nodes is not None and nodes.index(name) is None):
        return None
    victims = leaving(node.pods, pod)
    if not victims or is_stuck(node, pod, scheduling.clock.wall()):
        return None
    # A question, because a plugin that refuses the pod for a while does not take its node away.
    state = CycleState(Trial(TrialKind.QUESTION))
    state.joint = joint
    with Statement(snapshot, TrialKind.QUESTION) as statement:
        statement.evict_all(victims, name, free_ports=True)
        fits = fits_on(profile, state, pod, snapshot.nodes, name)
    return (name, victims) if fits else None
