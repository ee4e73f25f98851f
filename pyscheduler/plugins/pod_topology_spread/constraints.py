"""The topology spread constraints of a pod, with all defaults filled in.

Source: kube-scheduler 1.36, `plugins/podtopologyspread/common.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.api import (
    NOTHING,
    CompiledSelector,
    compile_label_selector,
    find_untolerated,
    required_node_affinity,
    selector_from_labels,
)
from pyscheduler.framework.node_matching import match_required_affinity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from pyscheduler.api import Node, Pod, Taint, TopologySpreadConstraint
    from pyscheduler.framework import Nodes

__all__ = [
    "HARD",
    "SOFT",
    "Constraint",
    "Inclusion",
    "compile_constraints",
    "count_matching",
    "has_all_keys",
    "includes",
    "intersection",
]

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
_HONOR: Final = "Honor"


@attrs.frozen(kw_only=True)
class Constraint:
    """A constraint with its selector compiled and everything left out filled in."""

    max_skew: int
    topology_key: str
    selector: CompiledSelector
    min_domains: int
    #: Whether nodes count only where the pod's node selector and affinity match, and where it tolerates the taints.
    honors_affinity: bool
    honors_taints: bool


def compile_constraints(
    constraints: Iterable[TopologySpreadConstraint],
    action: str,
    labels: Mapping[str, str],
    *,
    match_label_keys: bool = True,
) -> tuple[Constraint, ...]:
    """Return those of `constraints` that say `action`, for a pod with `labels`; raise `SelectorError`.

    `match_label_keys` is the feature gate MatchLabelKeysInPodTopologySpread.
    """
    return tuple(
        Constraint(
            max_skew=each.max_skew,
            topology_key=each.topology_key,
            selector=_selector(each, labels if match_label_keys else {}),
            min_domains=1 if each.min_domains is None else each.min_domains,
            honors_affinity=each.node_affinity_policy is None or each.node_affinity_policy == _HONOR,
            honors_taints=each.node_taints_policy == _HONOR,
        )
        for each in constraints
        if each.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> CompiledSelector:
    selector = compile_label_selector(constraint.label_selector)
    own = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    # No selector selects nothing, whatever is added to it.
    if not own or selector == NOTHING:
        return selector
    # The API server has merged these keys already where the pod came from one; holding twice is holding once.
    return CompiledSelector.of(dict.fromkeys((*selector_from_labels(own).requirements, *selector.requirements)))


def has_all_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    """Return whether a node with `labels` is in some domain of each constraint."""
    return all(each.topology_key in labels for each in constraints)


def count_matching(nodes: Nodes, constraint: Constraint, pod: Pod) -> NDArray[np.int64] | None:
    """Return int64[n]: the pods on each node that count for `pod`; None where none does anywhere.

    Pods being deleted do not count, and an empty selector counts nobody.
    """
    if constraint.selector.is_empty or constraint.selector == NOTHING:
        return None
    return nodes.matching_pods(constraint.selector, frozenset((pod.namespace,)), terminating=False)


def intersection(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return bool[n]: which nodes are in both, where None stands for all nodes."""
    if one is None or other is None:
        return one if other is None else other
    both: NDArray[np.bool_] = one & other
    return both


class Inclusion:
    """The nodes that count for a pod, as its constraints' policies say. Each policy is worked out once."""

    def __init__(self, pod: Pod, nodes: Nodes, *, comparison_operators: bool) -> None:
        self._pod = pod
        self._nodes = nodes
        self._comparison_operators = comparison_operators

    def of(self, constraint: Constraint) -> NDArray[np.bool_] | None:
        """Return bool[n]: which nodes count for `constraint`; None where all do."""
        affinity = self._by_affinity if constraint.honors_affinity else None
        taints = self._by_taints if constraint.honors_taints else None
        return intersection(affinity, taints)

    @cached_property
    def _by_affinity(self) -> NDArray[np.bool_] | None:
        required = required_node_affinity(self._pod)
        free = required.affinity is None and required.labels.is_empty
        return None if free else match_required_affinity(required, self._nodes)

    @cached_property
    def _by_taints(self) -> NDArray[np.bool_] | None:
        taints = self._nodes.taints()
        tolerated = [_tolerates(self._pod, each, self._comparison_operators) for each in taints.sets]
        return None if all(tolerated) else np.array(tolerated, dtype=np.bool_)[taints.ids]


def includes(constraint: Constraint, pod: Pod, node: Node, *, comparison_operators: bool) -> bool:
    """Return whether one node counts for a pod's constraint, as `Inclusion` says for all nodes."""
    if constraint.honors_affinity and not required_node_affinity(pod).matches(node.labels, node.name):
        return False
    return not constraint.honors_taints or _tolerates(pod, node.spec.taints, comparison_operators)


def _tolerates(pod: Pod, taints: Sequence[Taint], comparison_operators: bool) -> bool:
    found = find_untolerated(taints, pod.spec.tolerations, comparison_operators=comparison_operators)
    return found is None
