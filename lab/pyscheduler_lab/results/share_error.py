"""Compute how far teams were below their fair shares of the GPUs while a trace was replayed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ShareError", "Spans", "area_until", "divide", "share_error"]


@attrs.frozen(kw_only=True)
class Spans:
    """Spans of time, each with a number of GPUs; `row` is the team. All arrays have the same length."""

    begin: NDArray[np.float64]
    end: NDArray[np.float64]
    row: NDArray[np.int64]
    gpus: NDArray[np.float64]


@attrs.frozen(kw_only=True)
class ShareError:
    """The error over time: `values[i]` holds from `edges[i]` until `edges[i + 1]` (seconds)."""

    edges: NDArray[np.float64]
    values: NDArray[np.float64]

    def mean(self) -> float:
        """Return the mean over time; 0 for an empty time."""
        seconds = np.diff(self.edges)
        total = seconds.sum()
        return float((seconds * self.values).sum() / total) if total else 0.0

    def percentile(self, percent: float) -> float:
        """Return the value that the error does not exceed during so much of the time; 0 for an empty time."""
        order = np.argsort(self.values, kind="stable")
        seconds = np.cumsum(np.diff(self.edges)[order])
        if not len(seconds) or not seconds[-1]:
            return 0.0
        return float(self.values[order[min(np.searchsorted(seconds, seconds[-1] * percent / 100), len(order) - 1)]])

    def series(self, parts: int) -> list[float]:
        """Return the means of equal parts of the time."""
        if len(self.edges) < 2 or self.edges[-1] <= self.edges[0]:
            return [0.0] * parts
        cuts = np.linspace(self.edges[0], self.edges[-1], parts + 1)
        means: list[float] = (np.diff(area_until(cuts, self.edges, self.values)) / np.diff(cuts)).tolist()
        return means


def area_until(
    times: NDArray[np.float64], edges: NDArray[np.float64], values: NDArray[np.float64] | NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the area below steps until each of the times; `values[i]` holds from `edges[i]` until `edges[i + 1]`."""
    found: NDArray[np.float64] = np.interp(times, edges, np.append(0.0, np.cumsum(np.diff(edges) * values)))
    return found


def share_error(
    requested: Spans, used: Spans, weights: NDArray[np.float64], capacity: float, window: tuple[float, float]
) -> ShareError:
    """Return the share error in the `window` (seconds) on `capacity` GPUs; `weights`: float64[T], quotas by team.

    The error is the number of GPUs that teams lack of their fair shares, as a part of the capacity. The fair share at a
    moment divides the capacity among the teams in proportion to their quotas, up to what the jobs of each request.
    """
    begin, end = window
    changes = np.concatenate([requested.begin, requested.end, used.begin, used.end])
    times = np.unique(np.append(changes[(changes > begin) & (changes < end)], [begin, end]))
    wanted, held = (_levels(spans, times, len(weights)) for spans in (requested, used))
    if capacity <= 0:
        return ShareError(edges=times[:1], values=np.empty(0))
    lacking = np.maximum(divide(wanted, weights, capacity) - held, 0.0).sum(axis=1)
    return ShareError(edges=times, values=lacking[:-1] / capacity)


def _levels(spans: Spans, times: NDArray[np.float64], rows: int) -> NDArray[np.float64]:
    """Return float64[E, T]: the GPUs of the spans by row that hold from each time until the next."""
    changes = np.zeros((len(times) + 1, rows))
    np.add.at(changes, (np.searchsorted(times, spans.begin), spans.row), spans.gpus)
    np.add.at(changes, (np.searchsorted(times, spans.end), spans.row), -spans.gpus)
    levels: NDArray[np.float64] = np.cumsum(changes, axis=0)[:-1]
    return levels


def divide(requested: NDArray[np.float64], weights: NDArray[np.float64], capacity: float) -> NDArray[np.float64]:
    """Return float64[E, T]: at each moment the share of each team, in GPUs.

    `requested`: float64[E, T] in GPUs, `weights`: float64[T]. No team gets more than it requests; what it leaves is
    divided among the others. A team of weight 0 gets nothing.
    """
    share = np.zeros_like(requested)
    is_open = np.broadcast_to(weights > 0, requested.shape).copy()
    for _ in range(len(weights) + 1):  # the last round gives the rest to the teams that are still open
        rest = capacity - share.sum(axis=1, keepdims=True)
        heavy = np.maximum((weights * is_open).sum(axis=1, keepdims=True), 1e-12)
        part = rest * weights / heavy
        is_met = is_open & (requested <= part)
        share = np.where(is_met, requested, share)
        is_open &= ~is_met
    found: NDArray[np.float64] = np.where(is_open, part, share)
    return found
