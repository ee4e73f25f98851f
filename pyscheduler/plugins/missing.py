"""Stand-in for a plugin of kube-scheduler's that is not written yet.

A pod that uses a field which it decides about must not be placed as if the field were not there. The stand-in bears the
plugin's name and rejects such pods in PreFilter, unresolvably, with a message that names the field and the plugin; all
other pods it skips. So a profile that names the plugin loads, and one that does not ignores the field, as in
kube-scheduler.

Differs from kube-scheduler: the pods named above wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework import (
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Nodes,
    NodeStatuses,
    PreFilterPlugin,
    PreFilterResult,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import ClusterEventWithHint

__all__ = ["GangScheduling"]

_REJECTION: Final = Status.unresolvable(
    "pod uses spec.schedulingGroup, which plugin GangScheduling would decide; it is not implemented yet"
)


class GangScheduling(PreFilterPlugin, FilterPlugin, EnqueueExtensions):
    """Keep the place of the plugin that starts the pods of a `spec.schedulingGroup` together."""

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        return _REJECTION if pod.spec.scheduling_group is not None else Status.skip()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        # Reached by pods of a group only in a profile that disables PreFilter of this plugin.
        if pod.spec.scheduling_group is None:
            return None
        return NodeStatuses.failing(np.ones(len(nodes), dtype=np.bool_), _REJECTION)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        # The field does not change after a pod was made, so nothing that happens can help.
        return ()
