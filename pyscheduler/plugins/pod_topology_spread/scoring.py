"""Scores for ScheduleAnyway constraints: the fewer matching pods a zone has, the better are its nodes.

Source: kube-scheduler 1.36, `plugins/podtopologyspread/scoring.go`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework import MAX_SCORE
from pyscheduler.plugins.pod_topology_spread.constraints import Constraint, Inclusion, count_matching, intersection
from pyscheduler.plugins.pod_topology_spread.domains import all_present, sum_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Pod
    from pyscheduler.framework import Nodes

__all__ = ["SpreadScores", "normalize"]

#: Each node is a domain of its own: its pods are counted on it, whatever the constraint's policies say.
_HOSTNAME: Final = "kubernetes.io/hostname"


@attrs.frozen
class SpreadScores:
    """The data that PreScore leaves to Score and NormalizeScore.

    `require_all`: nodes that lack a key of some constraint get no score. `amounts`: per constraint the pods by label
    id, None where they are counted per node. `weights`: per constraint the factor of its counts.
    """

    constraints: Sequence[Constraint]
    require_all: bool
    amounts: tuple[NDArray[np.int64] | None, ...]
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls,
        pod: Pod,
        constraints: Sequence[Constraint],
        candidates: Nodes,
        all_nodes: Nodes,
        *,
        require_all: bool,
        comparison_operators: bool,
    ) -> SpreadScores:
        """Count pods on `all_nodes`; the domains that weigh are those of `candidates`."""
        scored = all_present(candidates, constraints) if require_all else None
        complete = all_present(all_nodes, constraints) if require_all else None
        inclusion = Inclusion(pod, all_nodes, comparison_operators=comparison_operators)
        num_scored = len(candidates) if scored is None else int(np.count_nonzero(scored))
        amounts: list[NDArray[np.int64] | None] = []
        weights = []
        for each in constraints:
            if each.topology_key == _HOSTNAME:
                amounts.append(None)
                weights.append(_weight(num_scored))
                continue
            column = all_nodes.labels(each.topology_key)
            size = len(column.values)
            counted = intersection(inclusion.of(each), complete)
            amount = sum_up(all_nodes, each.topology_key, count_matching(all_nodes, each, pod), counted)
            ids = candidates.labels(each.topology_key).ids
            present = np.zeros(size, dtype=np.bool_)
            present[ids if scored is None else ids[scored]] = True
            # Where a node may lack the label, lacking it and having it empty is one and the same domain.
            blank = column.id_of("")
            if blank > 0 and not require_all:
                amount[blank] += amount[0]
                present[blank] |= present[0]
                present[0] = False
            amounts.append(amount)
            weights.append(_weight(int(np.count_nonzero(present))))
        return cls(constraints, require_all, tuple(amounts), tuple(weights))

    def ignored(self, nodes: Nodes) -> NDArray[np.bool_] | None:
        """Return bool[n]: which nodes get no score; None where all get one."""
        complete = all_present(nodes, self.constraints) if self.require_all else None
        return None if complete is None else ~complete

    def score(self, pod: Pod, nodes: Nodes) -> NDArray[np.int64]:
        """Return int64[n]: the weighted sum of matching pods in each node's domains; 0 for nodes that get no score."""
        total = np.zeros(len(nodes), dtype=np.float64)
        for constraint, amount, weight in zip(self.constraints, self.amounts, self.weights, strict=True):
            ids = nodes.labels(constraint.topology_key).ids
            extra = float(constraint.max_skew - 1)
            if amount is not None:
                by_domain = amount * weight + extra
                by_domain[0] = 0.0  # no label, no part in this constraint
                total += by_domain[ids]
                continue
            counts = count_matching(nodes, constraint, pod)
            part = np.full(len(nodes), extra) if counts is None else counts * weight + extra
            part[ids == 0] = 0.0
            total += part
        ignored = self.ignored(nodes)
        if ignored is not None:
            total[ignored] = 0.0
        return _round(total)


def normalize(scores: NDArray[np.int64], ignored: NDArray[np.bool_] | None) -> None:
    """Turn sums into scores, in place: the fewest pods score highest, nodes that get no score get 0."""
    counted = scores if ignored is None else scores[~ignored]
    if len(counted):
        largest, smallest = max(int(counted.max()), 0), int(counted.min())
        if largest == 0:
            scores[:] = MAX_SCORE
        else:
            np.subtract(largest + smallest, scores, out=scores)
            scores *= MAX_SCORE
            scores //= largest
    if ignored is not None:
        scores[ignored] = 0


def _weight(num_domains: int) -> float:
    return math.log(num_domains + 2)


def _round(values: NDArray[np.float64]) -> NDArray[np.int64]:
    whole = np.trunc(values)
    # numpy rounds halves to even, and adding a half first goes wrong just below one.
    whole += np.where(np.abs(values - whole) >= 0.5, np.copysign(1.0, values), 0.0)
    return whole.astype(np.int64)
