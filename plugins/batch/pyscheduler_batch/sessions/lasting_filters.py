"""Cache filter results that depend only on the pod and on node objects, not on other pods."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

import attrs

from pyscheduler.framework.profile import ExtensionPoint
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code
from pyscheduler.runtime.extension_points.run_context import context_of
from pyscheduler.runtime.placement import is_narrowed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.cache.snapshot import Snapshot
    from pyscheduler.framework.cycle_state import CycleState
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod
    from pyscheduler.runtime.profile import Profile

__all__ = ["AMOUNTS", "ANTI_AFFINITY", "SHARES", "KeptAnswers", "LastingAnswer", "LastingFilters"]

ANTI_AFFINITY: Final = "InterPodAffinity"
AMOUNTS: Final = "NodeResourcesFit"
SHARES: Final = "GpuSharing"
#: With more answers, all are forgotten.
_MOST_ANSWERS: Final = 1_000
#: Filters that look at other pods, unless PreFilter skips a pod. What they skip follows from the pod; InterPodAffinity
#: also needs a cluster without pods that repel others.
_SKIPPING: Final = frozenset(
    {
        ANTI_AFFINITY,
        "NodePorts",
        "NodeVolumeLimits",
        "PodTopologySpread",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
)
#: The filters whose results are left out.
_LEFT_OUT: Final = frozenset({AMOUNTS, SHARES})
#: What filters depend on whose answers may change in a pass.
_SHORT: Final = frozenset({Reuse.NEVER, Reuse.UNTIL_FORGOTTEN})


@attrs.frozen(eq=False)
class LastingAnswer:
    """The answers of filters about a pod."""

    #: bool[N]: the nodes that pass all filters but NodeResourcesFit and GpuSharing.
    accepted: NDArray[np.bool_]
    #: bool[N]: the nodes that pass, and those that evictions could make pass.
    curable: NDArray[np.bool_]

    @classmethod
    def of(cls, accepted: NDArray[np.bool_], curable: NDArray[np.bool_]) -> Self:
        """Return an answer of arrays that nobody may change any more."""
        accepted.flags.writeable = curable.flags.writeable = False
        return cls(accepted, curable)


class KeptAnswers:
    """The answers of earlier passes, by key of look-alikes."""

    def __init__(self) -> None:
        self._node_changes = -1
        self._answers: dict[Hashable, LastingAnswer] = {}

    def since(self, node_changes: int) -> dict[Hashable, LastingAnswer]:
        """Return the answers that hold, to which more are added; `node_changes` counts changes of node objects."""
        if self._node_changes != node_changes or len(self._answers) > _MOST_ANSWERS:
            self._node_changes = node_changes
            self._answers = {}
        return self._answers


class LastingFilters:
    """The filters of a profile in one pass. Ask after the nominations of the pass's own tasks are gone."""

    def __init__(self, profile: Profile, snapshot: Snapshot, known: dict[Hashable, LastingAnswer]) -> None:
        """Begin a pass. `known`: answers that still hold; more are added."""
        self._profile = profile
        self._snapshot = snapshot
        self._known = known

    @cached_property
    def _may_last(self) -> bool:
        """Return whether no plugin and no pod of the cluster forbids it for all pods."""
        profile, snapshot = self._profile, self._snapshot
        if profile.equivalence_cache is None or snapshot.nodes_with_anti_affinity_pods:
            return False
        if any(snapshot.nominated_pods(name) for name in snapshot.nominated_nodes):
            return False
        names = (name for name in profile.points[ExtensionPoint.FILTER] if name not in _SKIPPING | _LEFT_OUT)
        # What a base class says does not count.
        return not any(vars(type(profile.plugins[name])).get("reuse", Reuse.NEVER) in _SHORT for name in names)

    def answer(self, key: Hashable, state: Callable[[], CycleState], pod: Pod) -> LastingAnswer | None:
        """Return what the filters say about a plain pod during the whole pass; None if their answers may change in it.

        A plain pod has a key of `FilterKeys.plain`. The answers hold until a pod with required anti-affinity is placed.
        `state` makes the state of a cycle.
        """
        if not self._may_last:
            return None
        found = self._known.get(key)
        if found is None and (found := self._ask(state(), pod)) is not None:
            self._known[key] = found
        return found

    def _ask(self, state: CycleState, pod: Pod) -> LastingAnswer | None:
        nodes = self._snapshot.nodes
        narrowed = is_narrowed(self._profile, state, pod, nodes)
        if narrowed or not all(map(_lasts, self._profile.active_filters(state))):
            return None
        hopeful = self._profile.run_filters(state, pod, nodes)
        context_of(state).skip_filter.update(_LEFT_OUT)
        accepting = self._profile.run_filters(state, pod, nodes)
        failed = int(Code.ERROR)
        if (hopeful.codes == failed).any() or (accepting.codes == failed).any():
            return None
        return LastingAnswer.of(accepting.passed(), hopeful.codes != int(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))


def _lasts(method: PluginMethod) -> bool:
    """Return whether an answer holds while the node object is the same, or is left out."""
    return method.reuse is Reuse.WHILE_NODE_STAYS or method.plugin in _LEFT_OUT
