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
from pyscheduler.framework.diagnosis import Diagnosis
from pyscheduler.framework.resource import CPU, EPHEMERAL_STORAGE, MEMORY
from pyscheduler.framework.trial import Trial, TrialKind
from pyscheduler.scheduler.algorithm import searched_nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
        state, pod = CycleState(Trial(TrialKind.QUESTION)), queued.pod
        nodes: Nodes = self.snapshot.nodes
        outcome = profile.run_pre_filter(state, pod, nodes)
        if outcome.status is not None:
            return outcome.status.is_error  # which the attempt is to report
        nodes = searched_nodes(outcome, nodes, Diagnosis())
        found = profile.find_feasible(state, pod, nodes)
        if found.status is not None:
            return True  # the attempt is to report the error
        if not len(found.rows):
            return found.statuses is not None and profile.others_may_help(found.statuses)
        return _places(nodes, found.rows, queued.pod_info) >= after.room_for


def _places(nodes: Nodes, rows: NDArray[np.int64], info: PodInfo) -> int:
    """Return how many pods like this one the rows can take by their amounts; each of them takes one at least."""
    requests = info.requests
    amounts = {CPU: requests.milli_cpu, MEMORY: requests.memory, EPHEMERAL_STORAGE: requests.ephemeral_storage}
    places = (nodes.allowed_pods() - nodes.pod_counts())[rows]
    for resource, amount in (*amounts.items(), *requests.scalars.items()):
        if amount > 0:
            free = (nodes.allocatable(resource) - nodes.requested(resource))[rows]
            places = np.minimum(places, free // amount)
    return int(np.maximum(places, 1).sum())
