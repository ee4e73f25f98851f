"""Count the matching pods in each zone or other domain, for topology spread constraints with DoNotSchedule.

Source: kube-scheduler 1.36, `plugins/podtopologyspread/filtering.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.plugins.pod_topology_spread.constraints import (
    Constraint,
    Inclusion,
    count_matching,
    has_all_keys,
    includes,
    intersection,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Node, Pod
    from pyscheduler.framework import Nodes

__all__ = ["Domains", "Spread", "all_present", "sum_up"]

#: The smallest count where there is no domain: larger than any, so that every node passes.
_NO_DOMAIN: Final = 2**31 - 1

#: So many domains a text names.
_NAMED: Final = 6


@attrs.define
class Domains:
    """The domains of one constraint.

    `counts`: int64 by label id. `present`: bool by label id, whether it is a domain. `index` gives the id of a label's
    value. `self_match`: 1 where the pod itself is one of those it counts, else 0.
    """

    constraint: Constraint
    index: Mapping[str, int]
    counts: NDArray[np.int64]
    present: NDArray[np.bool_]
    self_match: int
    #: What `minimum` found, until a count changes.
    _minimum: int | None = None

    def minimum(self) -> int:
        """Return how many pods the emptiest domain has; 0 where there are fewer domains than there should be."""
        if self._minimum is None:
            present = self.counts[self.present]
            if len(present) < self.constraint.min_domains:
                self._minimum = 0
            else:
                self._minimum = int(present.min()) if len(present) else _NO_DOMAIN
        return self._minimum

    def overfull(self) -> NDArray[np.bool_] | None:
        """Return bool by label id: where one more pod would exceed the skew; None where nowhere."""
        most = self.constraint.max_skew + self.minimum() - self.self_match
        over: NDArray[np.bool_] = self.counts > most
        return over if over.any() else None

    def text(self) -> str:
        """Return the constraint with the number of matching pods in its emptiest and fullest domains."""
        names = [value for value, number in self.index.items() if self.present[number]]
        names.sort(key=lambda value: int(self.counts[self.index[value]]))
        shown = names if len(names) <= _NAMED else [*names[: _NAMED - 1], names[-1]]
        counts = ", ".join(f"{value} {int(self.counts[self.index[value]])}" for value in shown)
        constraint = self.constraint
        least = ""
        if len(names) < constraint.min_domains:
            least = f", minDomains {constraint.min_domains} with {len(names)} there, so the least count is 0"
        text = f"maxSkew {constraint.max_skew} per {constraint.topology_key}{least}"
        return f"{text}: pods by domain: {counts or 'no domain'}"

    def change(self, value: str, by: int) -> None:
        """Count `by` pods more in the domain of `value`."""
        domain = self.index.get(value)
        if domain is None:
            return  # of a node that is not in the snapshot
        self.counts[domain] += by
        self.present[domain] = True
        self._minimum = None

    def clone(self) -> Domains:
        """Return an independent copy of what changes."""
        return Domains(
            self.constraint, self.index, self.counts.copy(), self.present.copy(), self.self_match, self._minimum
        )


@attrs.frozen
class Spread:
    """The domains of all hard constraints of a pod; what PreFilter leaves to Filter."""

    domains: tuple[Domains, ...]

    @classmethod
    def of(cls, pod: Pod, constraints: Sequence[Constraint], nodes: Nodes, *, comparison_operators: bool) -> Spread:
        """Count the pods on `nodes`."""
        complete = all_present(nodes, constraints)
        inclusion = Inclusion(pod, nodes, comparison_operators=comparison_operators)
        made = []
        for each in constraints:
            column = nodes.labels(each.topology_key)
            size = len(column.values)
            counted = intersection(inclusion.of(each), complete)
            ids = column.ids if counted is None else column.ids[counted]
            present = np.zeros(size, dtype=np.bool_)
            present[ids] = True
            counts = sum_up(nodes, each.topology_key, count_matching(nodes, each, pod), counted)
            made.append(Domains(each, column.index, counts, present, int(each.selector.matches(pod.labels))))
        return cls(tuple(made))

    def change(self, pod: Pod, other: Pod, node: Node, by: int, *, comparison_operators: bool) -> None:
        """Have `other` come to `node` (`by` 1) or go from it (-1).

        As in kube-scheduler, whether it is being deleted makes no difference here, and an empty selector matches it.
        """
        if other.namespace != pod.namespace:
            return
        if not has_all_keys(node.labels, [each.constraint for each in self.domains]):
            return
        for each in self.domains:
            constraint = each.constraint
            if constraint.selector.matches(other.labels) and includes(
                constraint, pod, node, comparison_operators=comparison_operators
            ):
                each.change(node.labels[constraint.topology_key], by)

    def clone(self) -> Spread:
        """Return a copy for a what-if."""
        return Spread(tuple(each.clone() for each in self.domains))


def all_present(nodes: Nodes, constraints: Sequence[Constraint]) -> NDArray[np.bool_] | None:
    """Return bool[n]: which nodes have the keys of all constraints; None where all have."""
    complete: NDArray[np.bool_] | None = None
    for each in constraints:
        has = nodes.labels(each.topology_key).ids != 0
        complete = has if complete is None else complete & has
    return None if complete is None or complete.all() else complete


def sum_up(
    nodes: Nodes, key: str, amounts: NDArray[np.int64] | None, counted: NDArray[np.bool_] | None
) -> NDArray[np.int64]:
    """Return int64 by id of the label `key`: the sums of amounts (None: all 0) over `counted` nodes (None: all)."""
    if amounts is None:
        return np.zeros(len(nodes.labels(key).values), dtype=np.int64)
    if counted is not None:
        rows = np.flatnonzero(counted)
        return nodes.take(rows).domain_sums(key, amounts[rows])
    return nodes.domain_sums(key, amounts)
