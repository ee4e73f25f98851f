"""Arithmetic of scores: Go's division, the default normalisation, lines through points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from pyscheduler.framework import NodeScore
from pyscheduler.framework.scoring import broken_linear, default_normalize, divide

SMALL = st.integers(-(10**12), 10**12)


def in_go(dividend: int, divisor: int) -> int:
    """Divide as Go does, one number at a time."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


@given(st.lists(SMALL, min_size=1), st.integers(1, 10**6))
def test_division_cuts_towards_zero(dividends: list[int], divisor: int) -> None:
    """Quotients below zero are cut like those above."""
    assert divide(np.array(dividends), divisor).tolist() == [in_go(each, divisor) for each in dividends]


@given(st.lists(st.tuples(SMALL, st.integers(1, 10**6)), min_size=1))
def test_division_by_an_array(pairs: list[tuple[int, int]]) -> None:
    """Each number is divided by its own divisor."""
    dividends, divisors = (np.array(each) for each in zip(*pairs, strict=True))
    assert divide(dividends, divisors).tolist() == [in_go(*pair) for pair in pairs]


NORMALIZED = [
    pytest.param([1, 2, 3, 4], False, [25, 50, 75, 100], id="the largest becomes 100"),
    pytest.param([1, 2, 3, 4], True, [75, 50, 25, 0], id="reversed, the largest becomes 0"),
    pytest.param([1000, 10, 20, 30], False, [100, 1, 2, 3], id="scaled down"),
    pytest.param([1, 1, 3], False, [33, 33, 100], id="fractions are cut"),
    pytest.param([1, 1, 3], True, [67, 67, 0], id="cut before they are reversed"),
    pytest.param([0, 0], False, [0, 0], id="nothing above 0 stays as it is"),
    pytest.param([0, 0], True, [100, 100], id="nothing above 0 is best when reversed"),
    pytest.param([-3, 0], False, [-3, 0], id="below 0 is not above 0"),
    pytest.param([-1, 3], False, [-33, 100], id="below 0 is cut towards 0"),
    pytest.param([], False, [], id="no nodes"),
]


@pytest.mark.parametrize(("scores", "reverse", "expected"), NORMALIZED)
def test_default_normalization(scores: list[int], reverse: bool, expected: list[int]) -> None:
    """Scores are scaled to 0..100 in place, with Go's rounding, in an array as in a list of scores by node."""
    values = np.array(scores, dtype=np.int64)
    default_normalize(values, reverse=reverse)
    by_node = [NodeScore(name=str(row), score=score) for row, score in enumerate(scores)]
    default_normalize(by_node, reverse=reverse)
    assert values.tolist() == [each.score for each in by_node] == expected


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        pytest.param(0, 100, id="level before the first point"),
        pytest.param(10, 100, id="at the first point"),
        pytest.param(25, 50, id="half-way down"),
        pytest.param(12, 94, id="downwards the step is cut towards zero"),
        pytest.param(40, 0, id="at a point"),
        pytest.param(45, 35, id="half-way up"),
        pytest.param(42, 14, id="upwards the step is cut towards zero"),
        pytest.param(50, 70, id="at the last point"),
        pytest.param(90, 70, id="level after the last point"),
    ],
)
def test_a_line_through_points(x: int, expected: int) -> None:
    """Between two points the value is on the straight line, cut to an integer like in Go."""
    assert broken_linear([(10, 100), (40, 0), (50, 70)], x) == expected


def test_a_line_of_one_point_is_level() -> None:
    """A single point gives its value everywhere."""
    assert {broken_linear([(50, 7)], x) for x in (0, 50, 100)} == {7}
