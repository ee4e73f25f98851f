"""Estimate whether a pod, or several equal pods of a group, would find room if they were retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.placement import feasible_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.runtime.profile import Profile
    from pyscheduler.scheduler.scheduling_cycle import SchedulingCycle

__all__ = ["has_room", "is_rejected_again", "places_by_node"]


def has_room(scheduling: SchedulingCycle, profile: Profile, queued: QueuedPodInfo) -> bool:
    """Return True if the pod would find room, and as many pods like it as its group needs (`AfterFailure.room_for`)."""
    wanted = queued.after_failure.room_for if queued.after_failure is not None else 0
    try:
        feasible = _feasible(scheduling, profile, queued)
    except PluginError:
        return True  # the attempt reports the error
    except FitError as error:
        return profile.others_may_help(error.diagnosis.node_statuses)
    # Each feasible node takes one pod at least.
    return wanted <= 1 or int(np.maximum(places_by_node(feasible, queued.pod_info), 1).sum()) >= wanted


def is_rejected_again(scheduling: SchedulingCycle, profile: Profile, queued: QueuedPodInfo) -> bool:
    """Return True if no node takes the pod, and the plugins that reject it are those of its last attempt."""
    try:
        _feasible(scheduling, profile, queued)
    except PluginError:
        return False
    except FitError as error:
        found = error.diagnosis
        is_same = found.unschedulable_plugins == queued.unschedulable_plugins
        is_same &= found.pending_plugins == queued.pending_plugins
        return is_same and not profile.others_may_help(found.node_statuses)
    return False


def _feasible(scheduling: SchedulingCycle, profile: Profile, queued: QueuedPodInfo) -> Nodes:
    """Return the nodes that take the pod now; raise `FitError` if there is none, `PluginError` if a plugin failed."""
    scheduling.cache.update_snapshot(scheduling.snapshot)
    state = CycleState(Trial(TrialKind.QUESTION))
    return feasible_nodes(profile, state, queued.pod, scheduling.snapshot.nodes)


def places_by_node(nodes: Nodes, info: PodInfo) -> NDArray[np.int64]:
    """Return int64[n]: how many pods like this one each node can take by its amounts; 0 or less if it is full."""
    requests = info.requests
    amounts = {CPU: requests.milli_cpu, MEMORY: requests.memory, EPHEMERAL_STORAGE: requests.ephemeral_storage}
    places = nodes.allowed_pods() - nodes.pod_counts()
    for resource, amount in (*amounts.items(), *requests.scalars.items()):
        if amount > 0:
            free = nodes.allocatable(resource) - nodes.requested(resource)
            places = np.minimum(places, free // amount)
    return places
