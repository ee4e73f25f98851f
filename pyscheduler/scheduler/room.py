"""A look whether there is room for several pods like one, before a group is tried again.

The look asks the filters about one pod, and counts by amounts how many like it the nodes that pass can take. It is
quick, and can err to both sides. Where it sees room that is none, an attempt fails; where it misses room, for members
that find theirs only beside each other, say, the group is tried after its backoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.framework.errors import PluginError
from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.runtime.placement import feasible_nodes

if TYPE_CHECKING:
    from pyscheduler.cache.cache import Cache
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.nodes import Nodes
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
    from pyscheduler.runtime.profile import Profile

__all__ = ["Room"]


@attrs.define(kw_only=True)
class Room:
    """Looks for room, between two cycles."""

    cache: Cache
    snapshot: Snapshot

    def has_room(self, profile: Profile, queued: QueuedPodInfo) -> bool:
        """Tell whether so many pods like this one would find room as its group needs (`AfterFailure.room_for`)."""
        after = queued.after_failure
        if after is None or after.room_for <= 0:
            return True
        self.cache.update_snapshot(self.snapshot)
        state = CycleState(Trial(TrialKind.QUESTION))
        try:
            feasible = feasible_nodes(profile, state, queued.pod, self.snapshot.nodes)
        except PluginError:
            return True  # the attempt reports the error
        except FitError as error:
            return profile.others_may_help(error.diagnosis.node_statuses)
        return _places(feasible, queued.pod_info) >= after.room_for


def _places(nodes: Nodes, info: PodInfo) -> int:
    """Return how many pods like this one the nodes can take by their amounts; each of them takes one at least."""
    requests = info.requests
    amounts = {CPU: requests.milli_cpu, MEMORY: requests.memory, EPHEMERAL_STORAGE: requests.ephemeral_storage}
    places = nodes.allowed_pods() - nodes.pod_counts()
    for resource, amount in (*amounts.items(), *requests.scalars.items()):
        if amount > 0:
            free = nodes.allocatable(resource) - nodes.requested(resource)
            places = np.minimum(places, free // amount)
    return int(np.maximum(places, 1).sum())
