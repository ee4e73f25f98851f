"""Fair shares of the preset kai: a scalar model written separately, and properties over random trees of queues."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler_kai.fair_share import ShareInputs, divide, roll_up

UNLIMITED = math.inf


@attrs.define
class Queue:
    """A queue with one resource."""

    parent: int
    quota: float
    limit: float
    weight: float
    priority: int
    own: float
    usage: float = 0.0
    requested: float = 0.0
    share: float = 0.0


def inputs_of(queues: list[Queue], k_value: float = 1.0) -> ShareInputs:
    """Return the columns; queues are in the order of their age."""

    def column(values: list[float]) -> Any:
        return np.array(values, dtype=np.float64)[:, None]

    parent = np.array([queue.parent for queue in queues], dtype=np.int64)
    return ShareInputs(
        parent=parent,
        quota=column([queue.quota for queue in queues]),
        limit=column([queue.limit for queue in queues]),
        weight=column([queue.weight for queue in queues]),
        requested=roll_up(parent, column([queue.own for queue in queues])),
        priority=np.array([queue.priority for queue in queues], dtype=np.float64),
        rank=np.arange(len(queues)),
        usage=column([queue.usage for queue in queues]),
        k_value=k_value,
    )


def shares_of(queues: list[Queue], pool: float, k_value: float = 1.0) -> list[float]:
    """Return the share of each queue as the columns give it."""
    shares: list[float] = divide(inputs_of(queues, k_value), np.array([pool]))[:, 0].tolist()
    return shares


def model_shares(queues: list[Queue], pool: float, k_value: float) -> list[float]:
    """Return the shares queue by queue, as the specification tells it."""
    queues = [attrs.evolve(queue, requested=queue.own) for queue in queues]
    for queue in reversed(queues):
        if queue.parent >= 0:
            queues[queue.parent].requested += queue.requested
    _model_level(queues, -1, pool, k_value)
    return [queue.share for queue in queues]


def _model_level(queues: list[Queue], parent: int, pool: float, k_value: float) -> None:
    rows = [row for row, queue in enumerate(queues) if queue.parent == parent]
    left = pool
    for row in rows:
        queue = queues[row]
        quota = pool if queue.quota == UNLIMITED else queue.quota
        queue.share = min(quota, queue.limit, queue.requested)
        left -= queue.share
    if left > 0:
        _model_rest(queues, rows, left, k_value)
    for row in rows:
        _model_level(queues, row, queues[row].share, k_value)


def _model_rest(queues: list[Queue], rows: list[int], left: float, k_value: float) -> None:
    priorities = sorted({queues[row].priority for row in rows}, reverse=True)
    remainders: dict[int, dict[int, float]] = {}
    for priority in priorities:
        remainders[priority] = {}
        left = _model_rounds(
            queues, [row for row in rows if queues[row].priority == priority], left, k_value, remainders[priority]
        )
    for priority in priorities:
        by_size = sorted(remainders[priority], key=lambda row: (-remainders[priority][row], row))
        for row in by_size:
            if left <= 0:
                return
            given_now = min(1.0, left)
            queues[row].share += given_now
            left -= given_now


def _model_rounds(
    queues: list[Queue], rows: list[int], left: float, k_value: float, remainders: dict[int, float]
) -> float:
    while left:
        wanted = {row: max(min(queues[row].requested, queues[row].limit) - queues[row].share, 0) for row in rows}
        weights = sum(queues[row].weight for row in rows if wanted[row] > 0)
        if not weights:
            return left
        parts = {}
        for row in rows:
            if queues[row].requested > queues[row].share and queues[row].limit > queues[row].share:
                norm = queues[row].weight / weights
                parts[row] = max(0.0, norm + k_value * (norm - queues[row].usage))
        total = sum(parts.values())
        if not total:
            return left
        pool, again = left, False
        for row in (row for row in parts if queues[row].weight):
            ideal = pool * (parts[row] / total)
            if wanted[row] <= ideal:
                amount = wanted[row]
                remainders.pop(row, None)
            else:
                amount = max(float(math.floor(ideal)), 0.0)
                if ideal > amount:
                    remainders[row] = ideal - amount
            queues[row].share += amount
            left -= amount
            again = again or (amount != 0 and wanted[row] < ideal)
        if not again:
            return left
    return left


@st.composite
def trees(draw: st.DrawFn) -> list[Queue]:
    """Draw a tree of queues, parents first, the leaves with requests."""
    queues: list[Queue] = []
    for row in range(draw(st.integers(1, 9))):
        parent = draw(st.integers(-1, row - 1)) if row else -1
        queues.append(
            Queue(
                parent=parent,
                quota=draw(st.sampled_from([0.0, 1.0, 2.0, 2.5, 5.0, 8.0, UNLIMITED])),
                limit=draw(st.sampled_from([UNLIMITED, UNLIMITED, 0.0, 2.0, 4.0, 7.0])),
                weight=float(draw(st.integers(0, 4))),
                priority=draw(st.sampled_from([100, 100, 50, 200])),
                own=float(draw(st.integers(0, 12))),
                usage=draw(st.sampled_from([0.0, 0.0, 0.25, 0.5])),
            )
        )
    parents = {queue.parent for queue in queues}
    return [attrs.evolve(queue, own=0.0) if row in parents else queue for row, queue in enumerate(queues)]


@pytest.mark.slow
def test_columns_equal_the_scalar_model() -> None:
    """Dividing all queues of a level at once gives what dividing queue by queue gives."""
    counts: Counter[str] = Counter()

    @settings(max_examples=max(150, 5 * settings.default.max_examples), deadline=None)
    @given(trees(), st.integers(0, 24), st.sampled_from([0.0, 1.0, 2.0]))
    def check(queues: list[Queue], pool: int, k_value: float) -> None:
        shares = shares_of(queues, float(pool), k_value)
        assert np.allclose(shares, model_shares(queues, float(pool), k_value), atol=1e-6)
        for queue, share in zip(queues, shares, strict=True):
            counts["at the limit"] += share == queue.limit
            counts["above quota"] += share > queue.quota
            counts["below the parent"] += queue.parent >= 0
            counts["reduced by usage"] += bool(queue.usage and k_value)

    check()
    _report(counts, 20)


@pytest.mark.slow
def test_shares_use_up_the_pool_or_all_requests() -> None:
    """Without quotas and zero weights, the top queues share the whole pool or get all they may ask for."""
    counts: Counter[str] = Counter()

    @settings(max_examples=max(100, 10 * settings.default.max_examples // 3), deadline=None)
    @given(trees(), st.integers(0, 24))
    def check(queues: list[Queue], pool: int) -> None:
        queues = [attrs.evolve(queue, quota=0.0, weight=queue.weight + 1, usage=0.0) for queue in queues]
        shares = shares_of(queues, float(pool))
        requested = inputs_of(queues).requested[:, 0].tolist()
        top = [row for row, queue in enumerate(queues) if queue.parent < 0]
        asked = sum(min(requested[row], queues[row].limit) for row in top)
        assert math.isclose(sum(shares[row] for row in top), min(asked, pool), abs_tol=1e-6)
        counts["the pool is used up" if asked >= pool else "all requests are met"] += 1

    check()
    _report(counts, 20)


@pytest.mark.slow
def test_more_weight_or_request_gets_no_less_within_one_unit() -> None:
    """A queue that has more weight, or asks for more, than a sibling gets at most one unit less; equals get equal."""
    counts: Counter[str] = Counter()

    @settings(max_examples=max(100, 10 * settings.default.max_examples // 3), deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12)), min_size=2, max_size=7), st.integers(0, 20))
    def check(flat: list[tuple[int, int]], pool: int) -> None:
        queues = [Queue(-1, 0.0, UNLIMITED, float(weight), 100, float(own)) for weight, own in flat]
        shares = shares_of(queues, float(pool))
        for left, first in zip(shares, queues, strict=True):
            for right, second in zip(shares, queues, strict=True):
                if first is not second and first.weight >= second.weight and first.own >= second.own:
                    assert left >= right - 1 - 1e-6
                    is_equal = (first.weight, first.own) == (second.weight, second.own)
                    counts["equals" if is_equal else "more weight or request"] += 1

    check()
    _report(counts, 20)


@pytest.mark.slow
def test_a_queue_that_gets_more_weight_or_asks_for_more_loses_nothing() -> None:
    """The share of one queue falls by one unit at most when its own weight or request rises."""
    counts: Counter[str] = Counter()

    @settings(max_examples=max(100, 10 * settings.default.max_examples // 3), deadline=None)
    @given(trees(), st.integers(0, 24), st.integers(0, 2), st.integers(0, 4), st.data())
    def check(queues: list[Queue], pool: int, weight: int, request: int, data: st.DataObject) -> None:
        queues = [attrs.evolve(queue, parent=-1, usage=0.0, priority=100) for queue in queues]
        row = data.draw(st.integers(0, len(queues) - 1))
        more = attrs.evolve(queues[row], weight=queues[row].weight + weight, own=queues[row].own + request)
        before = shares_of(queues, float(pool))[row]
        after = shares_of([*queues[:row], more, *queues[row + 1 :]], float(pool))[row]
        assert after >= before - 1 - 1e-6
        counts["more weight"] += bool(weight)
        counts["more request"] += bool(request)
        counts["gets more"] += after > before

    check()
    _report(counts, 20)


def _report(counts: Counter[str], least: int) -> None:
    """Print how often each rule fired, and make sure that each did."""
    print(dict(sorted(counts.items())))  # noqa: T201 - how often each rule fired
    assert all(count >= least for count in counts.values()), counts


def test_shares_of_the_worked_example() -> None:
    """Quotas come first. Weights divide the rest in whole units. The largest remainders get the left-overs."""
    queues = [
        Queue(-1, 8, UNLIMITED, 2, 100, 0),
        Queue(-1, 4, UNLIMITED, 1, 100, 0),
        Queue(0, 5, UNLIMITED, 1, 100, 10),
        Queue(0, 3, UNLIMITED, 3, 100, 9),
        Queue(1, 4, 6, 1, 100, 3),
    ]
    assert shares_of(queues, 16.0) == [13, 3, 6, 7, 3]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weight", [1e-308, 5e-324])
def test_a_tiny_weight_overflows_nothing(weight: float) -> None:
    """Shares are numbers, whatever a queue with an ordinary weight asks for."""
    for own in (0.0, 0.5, 3.0):
        queues = [
            Queue(parent=-1, quota=0.0, limit=UNLIMITED, weight=each, priority=1, own=wants)
            for each, wants in ((weight, 5.0), (1.0, own))
        ]
        assert sum(shares_of(queues, 6.0)) <= 6.0
