"""The filter of InterPodAffinity: it counts pods in each topology domain, such as a zone.

For example, a node is rejected if its zone has a pod that matches a required anti-affinity term of the incoming pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs
import numpy as np

from pyscheduler.framework import NodeStatuses, Status
from pyscheduler.framework.affinity_terms import TermKind
from pyscheduler.plugins.inter_pod_affinity.terms import Target, by_domain, common_target

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import NodeInfo, Nodes, PodInfo, Snapshot
    from pyscheduler.framework.affinity_terms import PlacedTerm

__all__ = ["FilterState", "count_for_filter"]

#: By topology key, how many pods (int64) are in each domain.
_Counts: TypeAlias = "dict[str, NDArray[np.int64]]"

#: So many pods a text of `partners` names.
_NAMED: Final = 5
_UNMET: Final = Status.unresolvable("node(s) didn't match pod affinity rules")
_SHUNNED: Final = Status.unschedulable("node(s) didn't match pod anti-affinity rules")
_SHUNNING: Final = Status.unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")


@attrs.define
class FilterState:
    """The counts of PreFilter; what-ifs bring a copy of them up to date."""

    pod: Pod
    #: Labels of the pod's namespace.
    namespace_labels: Mapping[str, str]
    #: The pods that all terms of its affinity look for, and the topology keys of these terms; None without terms.
    wanted: Target | None
    wanted_keys: Sequence[str]
    #: The pods it shuns, term by term.
    unwanted: Sequence[Target]
    wanted_counts: _Counts
    unwanted_counts: _Counts
    shunning_counts: _Counts

    @property
    def is_idle(self) -> bool:
        """Return whether the filter passes every node."""
        return self.wanted is None and not self.unwanted and not _has_any(self.shunning_counts)

    def clone(self) -> FilterState:
        """Return a copy with counts of its own."""
        return attrs.evolve(
            self,
            wanted_counts=_copy(self.wanted_counts),
            unwanted_counts=_copy(self.unwanted_counts),
            shunning_counts=_copy(self.shunning_counts),
        )

    def update(self, other: PodInfo, node: NodeInfo, nodes: Nodes, change: int) -> None:
        """Count `other` in (`change` 1) or out (-1) on `node`, one of `nodes`."""
        for term in other.required_anti_affinity_terms:
            if term.matches(self.pod, self.namespace_labels):
                _change(self.shunning_counts, term.topology_key, node, nodes, change)
        if self.wanted is not None and self.wanted.includes(other.pod):
            for key in self.wanted_keys:
                _change(self.wanted_counts, key, node, nodes, change)
        for target in self.unwanted:
            if target.includes(other.pod):
                _change(self.unwanted_counts, target.topology_key, node, nodes, change)

    def judge(self, nodes: Nodes) -> NodeStatuses | None:
        """Return which of `nodes` are refused and why; None where none is."""
        verdicts = [(self._lacking(nodes), _UNMET)]
        verdicts += [
            (_in_any_domain(counts, nodes), status)
            for counts, status in ((self.unwanted_counts, _SHUNNED), (self.shunning_counts, _SHUNNING))
        ]
        statuses: NodeStatuses | None = None
        for refused, status in verdicts:
            if refused is not None and refused.any():
                statuses = statuses or NodeStatuses(len(nodes))
                statuses.fail(refused, status)
        return statuses

    def partners(self, snapshot: Snapshot) -> str:
        """Return which pods, by name, the pod's terms and those of placed pods keep away, and what is not there."""
        texts = []
        nodes = snapshot.nodes
        for target in self.unwanted:
            rows = np.flatnonzero(nodes.matching_pods(target.selector, target.namespaces))
            names = (info.pod.key for row in rows for info in nodes[int(row)].pods if target.includes(info.pod))
            if len(rows):
                texts.append(f"its anti-affinity per {target.topology_key}: {_first(names)}")
        shunning = (
            f"{info.pod.key} on {node.name} per {term.topology_key}"
            for node in snapshot.nodes_with_anti_affinity_pods
            for info in node.pods
            for term in info.required_anti_affinity_terms
            if term.matches(self.pod, self.namespace_labels)
        )
        if _has_any(self.shunning_counts):
            texts.append(f"the anti-affinity of {_first(shunning)}")
        if self.wanted is not None:
            count = int(nodes.matching_pods(self.wanted.selector, self.wanted.namespaces).sum())
            texts.append(
                f"its affinity per {', '.join(self.wanted_keys)} to pods with {self.wanted.selector or 'any labels'}: "
                f"{count or 'no'} placed pods match"
            )
        return "; ".join(texts)

    def _lacking(self, nodes: Nodes) -> NDArray[np.bool_] | None:
        """Return bool[n]: which nodes lack a topology key of the pod's affinity, or the pods it looks for."""
        if self.wanted is None:
            return None
        # Some pod has to be the first of those that want to be together: it may go anywhere.
        is_first = self.wanted.includes(self.pod) and not _has_any(self.wanted_counts)
        met = np.ones(len(nodes), dtype=np.bool_)
        for key in self.wanted_keys:
            ids = nodes.labels(key).ids
            met &= ids != 0 if is_first else (self.wanted_counts[key] > 0)[ids]
        return ~met


def count_for_filter(
    pod: Pod,
    nodes: Nodes,
    namespace_labels: Mapping[str, str],
    *,
    affinity: Sequence[Target],
    anti_affinity: Sequence[Target],
    placed: Sequence[PlacedTerm],
) -> FilterState:
    """Count pods over `nodes`, all of the snapshot. `placed` are the terms of pods there that speak of `pod`."""
    wanted = common_target(affinity) if affinity else None
    wanted_keys = tuple(dict.fromkeys(target.topology_key for target in affinity))
    wanted_counts: _Counts = {}
    if wanted is not None:
        matching = nodes.matching_pods(wanted.selector, wanted.namespaces)
        wanted_counts = {key: by_domain(nodes, key, matching) for key in wanted_keys}
    unwanted_counts: _Counts = {}
    for target in anti_affinity:
        matching = nodes.matching_pods(target.selector, target.namespaces)
        _add(unwanted_counts, target.topology_key, by_domain(nodes, target.topology_key, matching))
    shunning_counts: _Counts = {}
    for each in placed:
        if each.kind is TermKind.REQUIRED_ANTI_AFFINITY:
            key = each.term.topology_key
            _add(shunning_counts, key, by_domain(nodes, key, each.counts))
    return FilterState(
        pod, namespace_labels, wanted, wanted_keys, anti_affinity, wanted_counts, unwanted_counts, shunning_counts
    )


def _first(names: Iterable[str]) -> str:
    """Return the first names, and "..." if there are more."""
    found = [*islice(names, _NAMED + 1)]
    return ", ".join(found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")


def _add(counts: _Counts, key: str, more: NDArray[np.int64]) -> None:
    if key in counts:
        counts[key] += more
    else:
        counts[key] = more


def _change(counts: _Counts, key: str, node: NodeInfo, nodes: Nodes, change: int) -> None:
    value = node.node.labels.get(key) if node.node is not None else None
    if value is None:
        return
    column = nodes.labels(key)
    if key not in counts:
        counts[key] = np.zeros(len(column.values), dtype=np.int64)
    counts[key][column.id_of(value)] += change


def _copy(counts: _Counts) -> _Counts:
    return {key: each.copy() for key, each in counts.items()}


def _has_any(counts: _Counts) -> bool:
    return any(bool(each.any()) for each in counts.values())


def _in_any_domain(counts: _Counts, nodes: Nodes) -> NDArray[np.bool_] | None:
    """Return bool[n]: which nodes are in a domain with pods that count; None where no domain has any."""
    found: NDArray[np.bool_] | None = None
    for key, each in counts.items():
        occupied = (each > 0)[nodes.labels(key).ids]
        found = occupied if found is None else np.logical_or(found, occupied, out=found)
    return found
