"""PodTopologySpread: keep matching pods evenly spread over the values of a node label, such as zones.

`maxSkew` limits how many more pods a zone may have than the emptiest zone. DoNotSchedule rejects nodes where the pod
would exceed this limit. ScheduleAnyway prefers nodes in zones with fewer matching pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyscheduler.api import (
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    SelectorError,
    Service,
    StatefulSet,
    kind_of,
)
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    NodeInfo,
    Nodes,
    NodeStatuses,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueingHint,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.in_tree_args import PodTopologySpreadArgs
from pyscheduler.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    Constraint,
    compile_constraints,
    has_all_keys,
)
from pyscheduler.plugins.pod_topology_spread.default_constraints import SYSTEM_CONSTRAINTS, DefaultConstraints
from pyscheduler.plugins.pod_topology_spread.domains import Spread
from pyscheduler.plugins.pod_topology_spread.scoring import SpreadScores, normalize

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import ResourceKind

__all__ = ["PodTopologySpread"]

_SKEWED: Final = Status.unschedulable("node(s) didn't match pod topology spread constraints")
_NO_LABEL: Final = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
_EXPLICIT_UNSIGNABLE: Final = Status.unschedulable("pods with topology constraints are not signable")
_DEFAULT_UNSIGNABLE: Final = Status.unschedulable("pods with default topology constraints are not signable")
_SPREAD: Final[StateKey[Spread]] = StateKey("PreFilterPodTopologySpread")
_SCORES: Final[StateKey[SpreadScores]] = StateKey("PreScorePodTopologySpread")
#: bool[n]: the scored nodes that get no score, None where all get one.
_IGNORED: Final[StateKey[NDArray[np.bool_] | None]] = StateKey("ScorePodTopologySpread/ignored")
_SYSTEM: Final = "System"
#: How kube-scheduler's errors begin, by what the constraints say.
_STRENGTH: Final = {HARD: "hard", SOFT: "soft"}


class PodTopologySpread(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes that would make the spread too uneven; prefer those that make it more even."""

    args_type = PodTopologySpreadArgs
    watches: ClassVar[Sequence[ResourceKind]] = (
        kind_of(Service, "services"),
        kind_of(ReplicationController, "replicationcontrollers"),
        kind_of(ReplicaSet, "replicasets"),
        kind_of(StatefulSet, "statefulsets"),
    )

    def __init__(self, args: PodTopologySpreadArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        gates = handle.feature_gates if handle is not None else {}
        self._comparison_operators = gates.get("TaintTolerationComparisonOperators", False)
        self._match_label_keys = gates.get("MatchLabelKeysInPodTopologySpread", True)
        args = args if args is not None else PodTopologySpreadArgs()
        self._is_system = args.defaulting_type == _SYSTEM
        constraints = SYSTEM_CONSTRAINTS if self._is_system else args.default_constraints
        self._defaults = DefaultConstraints(constraints, handle) if constraints and handle is not None else None

    # Forbidding nodes

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        try:
            constraints = self._constraints(pod, HARD)
        except SelectorError as error:
            return Status.from_error(SelectorError(f"get constraints from pod: {error}"))
        if not constraints:
            return Status.skip()
        state.write(_SPREAD, Spread.of(pod, constraints, nodes, comparison_operators=self._comparison_operators))
        return None

    def add_pod(self, state: CycleState, pod: Pod, to_add: PodInfo, node: NodeInfo) -> None:
        """Count a pod that a what-if puts on `node`."""
        self._change(state, pod, to_add, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, to_remove: PodInfo, node: NodeInfo) -> None:
        """Stop counting a pod that a what-if takes off `node`."""
        self._change(state, pod, to_remove, node, -1)

    def _change(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo, by: int) -> None:
        if node.node is not None:
            spread = state.read(_SPREAD)
            spread.change(pod, other.pod, node.node, by, comparison_operators=self._comparison_operators)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        statuses: NodeStatuses | None = None
        for domains in state.read(_SPREAD).domains:
            ids = nodes.labels(domains.constraint.topology_key).ids
            missing = ids == 0
            if missing.any():
                statuses = statuses if statuses is not None else NodeStatuses(len(nodes))
                statuses.fail(missing, _NO_LABEL)
            overfull = domains.overfull()
            if overfull is not None:
                statuses = statuses if statuses is not None else NodeStatuses(len(nodes))
                statuses.fail(overfull[ids], _SKEWED)
        return statuses

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        return "; ".join(each.text() for each in state.read(_SPREAD).domains)

    # Preferring nodes

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        try:
            constraints = self._constraints(pod, SOFT)
        except SelectorError as error:
            return Status.from_error(SelectorError(f"calculating preScoreState: {error}"))
        if not constraints:
            return Status.skip()
        # The system's own constraints still spread over hosts where there are no zones; any others mean all their keys.
        require_all = bool(pod.spec.topology_spread_constraints) or not self._is_system
        scores = SpreadScores.of(
            pod,
            constraints,
            nodes,
            self.handle.snapshot.nodes,
            require_all=require_all,
            comparison_operators=self._comparison_operators,
        )
        state.write(_SCORES, scores)
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        scores = state.read(_SCORES)
        state.write(_IGNORED, scores.ignored(nodes))
        return scores.score(pod, nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Turn numbers of pods around, so that the emptiest domains score highest, in 0..100."""
        normalize(scores, state.read(_IGNORED))

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment] | Status:
        # Where a pod goes depends on where its likes are, so two equal pods need not be treated alike.
        if pod.spec.topology_spread_constraints:
            return _EXPLICIT_UNSIGNABLE
        return _DEFAULT_UNSIGNABLE if self._defaults is not None else ()

    # Waking pods

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.POD, pods), self.after_pod_change),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes), self.after_node_change),
        )

    def after_pod_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a pod begins or ceases to count, or the pod itself tolerates other taints that matter to it."""
        before, after = (each if isinstance(each, Pod) else None for each in (old, new))
        if any(each is not None and not _is_involved(each, pod) for each in (before, after)):
            return QueueingHint.SKIP
        constraints = self._constraints(pod, HARD)
        if before is None or after is None:
            changed = before if before is not None else after
            assert changed is not None, "a change has an old object, or a new one"
            return _queue_if(any(each.selector.matches(changed.labels) for each in constraints))
        if (
            pod.uid == after.uid
            and before.spec.tolerations != after.spec.tolerations
            and any(each.honors_taints for each in constraints)
        ):
            return QueueingHint.QUEUE
        return _queue_if(
            any(each.selector.matches(before.labels) != each.selector.matches(after.labels) for each in constraints)
        )

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue when a node enters, leaves or changes its domains, or its taints change while it is in some."""
        constraints = self._constraints(pod, HARD)
        before, after = (each if isinstance(each, Node) else None for each in (old, new))
        was_in = before is not None and has_all_keys(before.labels, constraints)
        is_in = after is not None and has_all_keys(after.labels, constraints)
        if before is None or after is None or was_in != is_in:
            return _queue_if(was_in or is_in)
        moved = any(before.labels.get(each.topology_key) != after.labels.get(each.topology_key) for each in constraints)
        return _queue_if(is_in and (moved or before.spec.taints != after.spec.taints))

    def _constraints(self, pod: Pod, action: str) -> tuple[Constraint, ...]:
        """Return the constraints of `pod` that say `action`; raise `SelectorError`."""
        explicit = pod.spec.topology_spread_constraints
        if not explicit:
            return self._defaults.of(pod, action) if self._defaults is not None else ()
        try:
            return compile_constraints(explicit, action, pod.labels, match_label_keys=self._match_label_keys)
        except SelectorError as error:
            text = f"obtaining pod's {_STRENGTH[action]} topology spread constraints: {error}"
            raise SelectorError(text) from error


def _is_involved(other: Pod, pod: Pod) -> bool:
    """Return whether a change of `other` can matter to how `pod` spreads: it is placed, or to be, in its namespace."""
    if other.uid == pod.uid:
        return True
    return bool(other.node_name or other.status.nominated_node_name) and other.namespace == pod.namespace


def _queue_if(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
