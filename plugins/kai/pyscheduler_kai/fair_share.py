"""Fair shares of a tree of queues, for all resources at once.

A queue first gets its quota, but not more than its limit and its requests. The rest is divided by weight and past use,
among the queues of the highest priority first. The children of a queue divide its fair share in the same way.

For example, two queues have a quota of 2 GPUs each, and both request all 10 GPUs of a cluster. The rest is 6 GPUs. With
weights 2 and 1, and no past use, the fair shares are 6 and 4 GPUs.

Source: KAI-Scheduler, `plugins/proportion/resource_division`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler_batch.contract import Amounts

__all__ = ["ShareInputs", "divide", "roll_up"]


#: Much larger than all parts of queues with ordinary weights; a sum of such parts is a number.
_LARGEST_PART: Final = 1e290


@attrs.frozen(eq=False)
class ShareInputs:
    """The inputs of shares; rows are queues (parents before their children), columns are resources."""

    #: int64[Q]: row of the parent, -1 at the top.
    parent: NDArray[np.int64]
    #: float64[Q, R]: infinity is unlimited.
    quota: Amounts
    limit: Amounts
    weight: Amounts
    #: float64[Q, R]: allocated and pending amounts of all jobs below the queue.
    requested: Amounts
    #: float64[Q]: the highest first.
    priority: NDArray[np.float64]
    #: int64[Q]: the place of each queue among all queues by age, then by name.
    rank: NDArray[np.int64]
    #: float64[Q, R]: historical usage divided by the capacity of the cluster.
    usage: Amounts | None = None
    #: How strongly historical usage counts.
    k_value: float = 1.0


def roll_up(parent: NDArray[np.int64], amounts: Amounts) -> Amounts:
    """Return float64[Q, R]: the amounts of each queue and of all queues below it."""
    total = amounts.copy()
    for rows in reversed(_levels(parent)):
        inner = rows[parent[rows] >= 0]
        np.add.at(total, parent[inner], total[inner])
    return total


def divide(inputs: ShareInputs, pool: Amounts) -> Amounts:
    """Return float64[Q, R]: the fair share of each queue.

    `pool`: float64[R], what the top queues divide.
    """
    count = len(inputs.parent)
    share = np.zeros_like(inputs.quota)
    # The row after the last one stands for the parent of the top queues.
    above = np.where(inputs.parent >= 0, inputs.parent, count)
    pools = np.zeros((count + 1, pool.shape[0]))
    pools[count] = pool
    for rows in _levels(inputs.parent):
        parents, group = np.unique(above[rows], return_inverse=True)
        share[rows] = _divide_level(inputs, rows, group, pools[parents])
        pools[rows] = share[rows]
    return share


def _levels(parent: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the rows of each level of the tree, the top level first."""
    depth = np.zeros(len(parent), dtype=np.int64)
    for row, above in enumerate(parent.tolist()):
        if above >= 0:
            depth[row] = depth[above] + 1
    if not len(parent):
        return []
    return [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]


def _sums(group: NDArray[np.int64], values: Amounts, groups: int) -> Amounts:
    """Return float64[groups, R]: the sums of the rows of each group."""
    return np.stack(
        [np.bincount(group, weights=values[:, column], minlength=groups) for column in range(values.shape[1])], axis=1
    )


def _divide_level(inputs: ShareInputs, rows: NDArray[np.int64], group: NDArray[np.int64], pools: Amounts) -> Amounts:
    """Return the shares of the queues `rows`; those of one group divide the pool of that group."""
    groups = len(pools)
    asked = np.minimum(inputs.limit[rows], inputs.requested[rows])
    quota = inputs.quota[rows]
    share = np.minimum(np.where(np.isinf(quota), pools[group], quota), asked)
    left = pools - _sums(group, share, groups)
    left = np.where(left > 0, left, 0.0)
    if not left.any():
        return share
    priority = inputs.priority[rows]
    remainders: list[tuple[NDArray[np.int64], Amounts]] = []
    for value in sorted({*priority.tolist()}, reverse=True):
        at = np.flatnonzero(priority == value)
        remainder = _divide_by_weight(inputs, rows, group, at, asked, share, left)
        remainders.append((at, remainder))
    for at, remainder in remainders:
        _hand_out_units(inputs.rank[rows[at]], group[at], remainder, share, at, left)
    return share


def _divide_by_weight(
    inputs: ShareInputs,
    rows: NDArray[np.int64],
    group: NDArray[np.int64],
    at: NDArray[np.int64],
    asked: Amounts,
    share: Amounts,
    left: Amounts,
) -> Amounts:
    """Divide what is left of each pool among the queues `at` of one priority; `share` and `left` are updated.

    Returns float64[len(at), R]: what rounding down took from each queue, 0 for queues that got all they asked for.
    """
    groups = len(left)
    own_group = group[at]
    own = rows[at]
    weight = inputs.weight[own]
    limit, requested = inputs.limit[own], inputs.requested[own]
    usage = inputs.usage[own] if inputs.usage is not None else 0.0
    remainder = np.zeros_like(weight)
    is_open = np.ones_like(left, dtype=bool)
    while True:
        current = share[at]
        wanted = np.maximum(asked[at] - current, 0.0)
        satisfied = (requested <= current) | (limit <= current)
        total_weight = _sums(own_group, np.where(wanted > 0, weight, 0.0), groups)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # A weight near 0 makes the part of a queue that asks for nothing more infinite: then no part is a number.
            part = np.minimum(weight / total_weight[own_group], _LARGEST_PART)
            part = np.clip(part + inputs.k_value * (part - usage), 0.0, _LARGEST_PART)
        part = np.where(satisfied | ~(total_weight[own_group] > 0), 0.0, part)
        total_part = _sums(own_group, part, groups)
        is_open &= (total_part > 0) & (left != 0)
        takes = is_open[own_group] & ~satisfied & (weight != 0)
        if not takes.any():
            return remainder
        with np.errstate(divide="ignore", invalid="ignore"):
            ideal = left[own_group] * (part / total_part[own_group])
        ideal = np.where(takes, ideal, 0.0)
        gets_all = takes & (wanted <= ideal)
        given = np.where(gets_all, wanted, np.where(takes, np.maximum(np.floor(ideal), 0.0), 0.0))
        remainder = np.where(gets_all, 0.0, np.where(takes & (ideal > given), ideal - given, remainder))
        share[at] = current + given
        left -= _sums(own_group, given, groups)
        # A queue that asked for less than its ideal part leaves something for another round.
        is_again = _sums(own_group, ((given != 0) & (wanted < ideal)).astype(np.float64), groups) > 0
        is_open &= is_again & (left != 0)


def _hand_out_units(
    rank: NDArray[np.int64],
    group: NDArray[np.int64],
    remainder: Amounts,
    share: Amounts,
    at: NDArray[np.int64],
    left: Amounts,
) -> None:
    """Give one unit each to the queues `at` with the largest remainders; `share` and `left` are updated."""
    for column in range(remainder.shape[1]):
        has = np.flatnonzero(remainder[:, column] > 0)
        if not len(has):
            continue
        order = has[np.lexsort((rank[has], -remainder[has, column], group[has]))]
        of = group[order]
        place = np.arange(len(order)) - np.searchsorted(of, of)
        given = np.clip(left[of, column] - place, 0.0, 1.0)
        share[at[order], column] += given
        left[:, column] -= np.bincount(of, weights=given, minlength=len(left))
