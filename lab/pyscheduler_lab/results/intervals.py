"""95 % confidence intervals of a mean over a few random seeds, by Student's t distribution."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Interval", "bootstrap_interval", "student_interval"]

Interval: TypeAlias = "tuple[float | None, float | None]"

_INSIDE: Final = 0.95
_RESAMPLES: Final = 10_000
_NO_INTERVAL: Final = (None, None)


def student_interval(values: NDArray[np.float64]) -> Interval:
    """Return the ends of the interval by Student's t; None for each with fewer than two values."""
    if len(values) < 2:
        return _NO_INTERVAL
    mean = float(values.mean())
    half = _quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean - half, mean + half


def bootstrap_interval(values: NDArray[np.float64]) -> Interval:
    """Return the ends of the interval that holds 95 % of the means of 10,000 resamples; None with fewer than two.

    For n values, the resamples are `numpy.random.default_rng(0).integers(0, n, (10_000, n))`, so that another program
    finds the same interval.
    """
    if len(values) < 2:
        return _NO_INTERVAL
    draws = np.random.default_rng(0).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [(1 - _INSIDE) / 2, (1 + _INSIDE) / 2])
    return float(low), float(high)


@lru_cache(maxsize=64)
def _quantile(freedom: int) -> float:
    """Return the t that the absolute value of Student's t does not exceed with 95 % probability."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, freedom) < _INSIDE else (low, middle)
    return math.tan(low) * math.sqrt(freedom)


def _probability(angle: float, freedom: int) -> float:
    """Return the probability that |t| is at most tan(angle) * sqrt(freedom).

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    term, total = (cosine if is_odd else 1.0), 0.0
    for power in range(is_odd, freedom - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total
