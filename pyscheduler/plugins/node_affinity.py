"""NodeAffinity: a pod requires or prefers nodes with certain labels or names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.api import (
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    PreferredTerms,
    RequiredNodeAffinity,
    SelectorError,
    compile_node_selector,
    compile_preferred_terms,
    required_node_affinity,
)
from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ConfigError,
    CycleState,
    EnqueueExtensions,
    EventResource,
    FilterPlugin,
    Handle,
    Nodes,
    NodeStatuses,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueingHint,
    Reuse,
    ScorePlugin,
    SignFragment,
    SignPlugin,
    StateKey,
    Status,
)
from pyscheduler.framework.in_tree_args import NodeAffinityArgs
from pyscheduler.framework.node_matching import match_node_selector, match_required_affinity, score_preferred_terms
from pyscheduler.framework.scoring import default_normalize
from pyscheduler.framework.signatures import sign_node_affinity, sign_node_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["NodeAffinity"]

_NAME_FIELD: Final = "metadata.name"
#: So many values of a label a text of `why_nodes` names.
_NAMED_VALUES: Final = 5
#: At most so many nodes that meet a requirement are named.
_NAMED_NODES: Final = 3
_CONFLICT: Final = Status.unresolvable("pod affinity terms conflict")
_ENFORCED: Final = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
_REJECTION: Final = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
_REQUIRED: Final[StateKey[RequiredNodeAffinity]] = StateKey("PreFilterNodeAffinity")
_PREFERRED: Final[StateKey[PreferredTerms]] = StateKey("PreScoreNodeAffinity")


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions, SignPlugin):
    """Refuse nodes that the pod's node selector, its affinity or the profile's does not match; add up its wishes.

    Raise `ConfigError` for an `addedAffinity` that does not parse.
    """

    reuse = Reuse.WHILE_NODE_STAYS
    args_type = NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        added = args.added_affinity if args is not None else None
        required = added.required_during_scheduling_ignored_during_execution if added is not None else None
        wishes = added.preferred_during_scheduling_ignored_during_execution if added is not None else ()
        try:
            self._added = compile_node_selector(required) if required is not None else None
            if self._added is not None:
                self._added.check()
            self._added_wishes = compile_preferred_terms(wishes) if wishes else None
        except SelectorError as error:
            raise ConfigError(f"{error} @ addedAffinity of plugin NodeAffinity") from error

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        if required is None and self._added is None and not pod.spec.node_selector:
            return Status.skip()
        state.write(_REQUIRED, required_node_affinity(pod))
        names = _named_nodes(required.node_selector_terms) if required is not None else None
        if names is None:
            return None
        return PreFilterResult(names) if names else _CONFLICT

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NodeStatuses | None:
        required = state.get(_REQUIRED) or required_node_affinity(pod)
        refused = ~match_required_affinity(required, nodes)
        if self._added is None:
            return NodeStatuses.failing(refused, _REJECTION)
        unwanted = ~match_node_selector(self._added, nodes)
        if not (refused | unwanted).any():
            return None
        statuses = NodeStatuses(len(nodes))
        statuses.fail(unwanted, _ENFORCED)
        statuses.fail(refused, _REJECTION)
        return statuses

    def why_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> str:
        everywhere = self.handle.snapshot.nodes
        labels = [
            NodeSelectorRequirement(key=key, operator="In", values=(value,))
            for key, value in pod.spec.node_selector.items()
        ]
        fields: list[NodeSelectorRequirement] = []
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        for term in required.node_selector_terms if required is not None else ():
            labels += term.match_expressions
            fields += term.match_fields
        texts = [_label_miss(each, everywhere) for each in labels] + [_name_miss(each, everywhere) for each in fields]
        return "; ".join(dict.fromkeys(texts))

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        wishes = _wishes(pod)
        if not wishes and self._added_wishes is None:
            return Status.skip()
        state.write(_PREFERRED, compile_preferred_terms(wishes))
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        own = state.get(_PREFERRED)
        # A profile may do without PreScore.
        scores = score_preferred_terms(own if own is not None else compile_preferred_terms(_wishes(pod)), nodes)
        if self._added_wishes is not None:
            scores += score_preferred_terms(self._added_wishes, nodes)
        return scores

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> None:
        """Scale sums of weights to 0..100."""
        default_normalize(scores)

    def sign_pod(self, pod: Pod) -> Sequence[SignFragment]:
        return (sign_node_affinity(pod), sign_node_selector(pod))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        event = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return (ClusterEventWithHint(event, self.after_node_change),)

    def after_node_change(self, pod: Pod, old: object | None, new: object | None) -> QueueingHint:
        """Queue on a node that matches now, and that was not there or did not match before.

        Raise `SelectorError`, which the queue takes for QUEUE, where that hangs on a term that does not parse.
        """
        assert isinstance(new, Node)
        if self._added is not None and not self._added.matches(new.labels, new.name):
            return QueueingHint.SKIP
        required = required_node_affinity(pod)
        if not _matches(required, new):
            return QueueingHint.SKIP
        matched_before = isinstance(old, Node) and _matches(required, old)
        return QueueingHint.SKIP if matched_before else QueueingHint.QUEUE


def _label_miss(wanted: NodeSelectorRequirement, nodes: Nodes) -> str:
    """Return how many nodes meet a requirement on a label, and which other values nodes have."""
    key, values = wanted.key, wanted.values
    column = nodes.labels(key)
    numbers = np.bincount(column.ids, minlength=len(column.values)).tolist()
    present = {value: number for value, number in zip(column.values, numbers, strict=True) if value and number}
    is_in = wanted.operator == "In"
    text = f"{key}={'|'.join(values)}" if is_in else f"{key} {wanted.operator} {'|'.join(values)}".rstrip()
    named = values if is_in else ()
    most = sorted(present.items(), key=lambda item: -item[1])[:_NAMED_VALUES]
    others = ", ".join(f"{number} have {key}={value}" for value, number in most if value not in named)
    if not others:
        others = f"no {'other ' if present else ''}node has the label"
    alone = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(wanted,)),))
    met = match_node_selector(compile_node_selector(alone), nodes)
    return f"{text}: {_counted(met, nodes)}; {others}"


def _name_miss(wanted: NodeSelectorRequirement, nodes: Nodes) -> str:
    """Return which of the names that a term requires are those of nodes."""
    text = f"{wanted.key} {wanted.operator} {'|'.join(wanted.values)}"
    absent = [value for value in wanted.values if nodes.index(value) is None]
    return f"{text}: no node is called {' or '.join(absent)}" if absent else text


def _counted(met: NDArray[np.bool_], nodes: Nodes) -> str:
    """Return the number of nodes, and the names of a few."""
    rows = np.flatnonzero(met).tolist()
    if not rows:
        return "no node"
    number = f"{len(rows)} node{'' if len(rows) == 1 else 's'}"
    return f"{number} ({', '.join(map(nodes.name, rows))})" if len(rows) <= _NAMED_NODES else number


def _wishes(pod: Pod) -> tuple[PreferredSchedulingTerm, ...]:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return affinity.preferred_during_scheduling_ignored_during_execution if affinity is not None else ()


def _matches(required: RequiredNodeAffinity, node: Node) -> bool:
    """Return whether a node meets a pod's demands; raise `SelectorError` if only terms that do not parse are left."""
    if required.matches(node.labels, node.name):
        return True
    if required.affinity is not None and required.labels.matches(node.labels):
        required.affinity.check()
    return False


def _named_nodes(terms: Sequence[NodeSelectorTerm]) -> frozenset[str] | None:
    """Return the nodes that `terms` name, none where each term contradicts itself; None where one names no node."""
    if not terms:
        return None
    named: set[str] = set()
    for term in terms:
        names: frozenset[str] | None = None
        for field in term.match_fields:
            if field.key == _NAME_FIELD and field.operator == "In":
                values = frozenset(field.values)
                names = values if names is None else names & values
        if names is None:
            return None
        named |= names
    return frozenset(named)
