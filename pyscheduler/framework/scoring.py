"""Arithmetic for scores, with the rounding of kube-scheduler.

Go rounds the result of an integer division towards zero; Python and numpy round towards minus infinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pyscheduler.framework.status import MAX_SCORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pyscheduler.framework.interfaces import NodeScore

__all__ = ["broken_linear", "default_normalize", "divide"]


def divide(dividend: NDArray[np.int64], divisor: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return int64[n]: the quotients, cut towards zero as in Go; `divisor` is positive."""
    quotient = dividend // divisor
    # Rounding down went one too far below zero where something was left over.
    quotient += (quotient < 0) & (quotient * divisor != dividend)
    return quotient


def default_normalize(
    scores: NDArray[np.int64] | list[NodeScore], *, reverse: bool = False, max_score: int = MAX_SCORE
) -> None:
    """Scale `scores` in place so that the largest becomes `max_score`; with `reverse` so that it becomes 0.

    Where no score is above 0 they stay as they are, or all become `max_score` with `reverse`. Takes what either kind of
    plugin gets in `normalize_scores`. Source: DefaultNormalizeScore of kube-scheduler.
    """
    if isinstance(scores, list):
        values = np.array([score.score for score in scores], dtype=np.int64)
        _normalize(values, reverse=reverse, max_score=max_score)
        for score, value in zip(scores, values.tolist(), strict=True):
            score.score = value
    else:
        _normalize(scores, reverse=reverse, max_score=max_score)


def _normalize(scores: NDArray[np.int64], *, reverse: bool, max_score: int) -> None:
    largest = int(scores.max(initial=0))
    if largest == 0:
        if reverse:
            scores[:] = max_score
        return
    scores[:] = divide(scores * max_score, largest)
    if reverse:
        np.subtract(max_score, scores, out=scores)


def broken_linear(shape: Sequence[tuple[int, int]], x: int) -> int:
    """Return the value at `x` of the line through the points of `shape`, level before the first and after the last.

    Points are (x, value) with rising x. Between two points the integer division cuts towards zero, as in Go.
    """
    previous_x, previous = shape[0]
    for point_x, value in shape:
        if x <= point_x:
            if point_x == previous_x:
                return value
            step = (value - previous) * (x - previous_x)
            width = point_x - previous_x
            return previous + (step // width if step >= 0 else -(-step // width))
        previous_x, previous = point_x, value
    return previous
