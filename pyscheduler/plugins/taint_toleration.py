"""TaintToleration: keep a pod off nodes with taints that it does not tolerate.

A taint with the effect PreferNoSchedule only lowers the score of the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import HARD_EFFECTS, PREFER_NO_SCHEDULE, Node, Pod, Toleration, find_untolerated
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    PreScorePlugin,
    QueueingHint,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.scoring import default_normalize
from pyscheduler.framework.signatures import sign_tolerations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Taint

__all__ = ["TaintToleration"]

#: At most so many nodes with a taint are named.
_NAMED: Final = 3
_REJECTION: Final = Status.unresolvable("node(s) had untolerated taint(s)")
_SOFT_TOLERATIONS: Final[StateKey[tuple[Toleration, ...]]] = StateKey("PreScoreTaintToleration")


class TaintToleration(FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes with taints the pod does not tolerate; prefer those with fewer untolerated soft taints."""

    reuse = Reuse.WHILE_NODE_STAYS

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        gates = handle.feature_gates if handle is not None else {}
        self._comparison_operators = gates.get("TaintTolerationComparisonOperators", False)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        taints = nodes.taints()
        refused = [self._is_refused(pod, each) if each else False for each in taints.sets]
        if True not in refused:
            return None
        return NodeStatuses.failing(np.array(refused, dtype=np.bool_)[taints.ids], _REJECTION)

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        taints = nodes.taints()
        refused = [self._untolerated(pod, each) if each else None for each in taints.sets]
        names: dict[str, list[str]] = {}
        for row, number in enumerate(taints.ids.tolist()):
            taint = refused[number]
            if taint is not None:
                value = f"={taint.value}" if taint.value else ""
                names.setdefault(f"{taint.key}{value}:{taint.effect}", []).append(nodes.name(row))
        most = sorted(names.items(), key=lambda item: -len(item[1]))
        return "not tolerated: " + ", ".join(f"{text} ({_counted(found)})" for text, found in most)

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        soft = (PREFER_NO_SCHEDULE, "")
        state.write(_SOFT_TOLERATIONS, tuple(each for each in pod.spec.tolerations if each.effect in soft))
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        tolerations = state.read(_SOFT_TOLERATIONS)
        taints = nodes.taints()
        counts = [self._count_untolerated(each, tolerations) if each else 0 for each in taints.sets]
        return np.array(counts, dtype=np.int64)[taints.ids]

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Turn numbers of taints around: the fewest score highest."""
        default_normalize(scores, reverse=True)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_tolerations(pod),)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
                self.after_node_change,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION), self.after_toleration_added
            ),
        )

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue on a node that the pod may use now, and could not use before."""
        assert isinstance(new, Node)
        was_refused = not isinstance(old, Node) or self._is_refused(pod, old.spec.taints)
        return QueueingHint.QUEUE if was_refused and not self._is_refused(pod, new.spec.taints) else QueueingHint.SKIP

    def after_toleration_added(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue the pod that was given the toleration."""
        assert isinstance(new, Pod)
        return QueueingHint.QUEUE if new.uid == pod.uid else QueueingHint.SKIP

    def _is_refused(self, pod: Pod, taints: Sequence[Taint]) -> bool:
        return self._untolerated(pod, taints) is not None

    def _untolerated(self, pod: Pod, taints: Sequence[Taint]) -> Taint | None:
        return find_untolerated(
            taints, pod.spec.tolerations, HARD_EFFECTS, comparison_operators=self._comparison_operators
        )

    def _count_untolerated(self, taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int:
        soft, compares = {PREFER_NO_SCHEDULE}, self._comparison_operators
        return sum(
            find_untolerated((each,), tolerations, soft, comparison_operators=compares) is not None for each in taints
        )


def _counted(names: Sequence[str]) -> str:
    """Return the number of nodes, and the names of a few."""
    number = f"{len(names)} node{'' if len(names) == 1 else 's'}"
    return f"{number}: {', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"
