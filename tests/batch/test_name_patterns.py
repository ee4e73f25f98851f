"""Names that match a pattern: Go's syntax, and no pattern that takes long."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, strategies as st

from kube_cel import Meter
from kube_cel.regex import Regex, RegexError
from pyscheduler_volcano.name_patterns import PatternError, matching


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        pytest.param("^r1-", [True, False, False], id="prefix"),
        pytest.param("1$", [False, True, False], id="suffix"),
        pytest.param("^(r1|x)-", [True, False, False], id="alternatives"),
        pytest.param("(?i)R2-", [False, True, False], id="flag"),
        pytest.param("[[:digit:]]-1", [False, True, False], id="class of Go"),
        pytest.param("^(a+)+$", [False, False, False], id="nested repetitions"),
        pytest.param("", [True, True, True], id="empty"),
    ],
)
def test_a_pattern_matches_a_part_of_a_name(pattern: str, expected: list[bool]) -> None:
    """A pattern need not match the whole name; one with nested repetitions takes no time that grows exponentially."""
    assert matching(pattern, ("r1-0", "r2-1", "a" * 40 + "-x")).tolist() == expected


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        pytest.param("(", "missing closing )", id="open group"),
        pytest.param("a{9999999999999}", "invalid repeat count", id="repeat count"),
        pytest.param("(" * 5000 + ")" * 5000, "expression nests too deeply", id="nested groups"),
        pytest.param("(?=a)", "invalid or unsupported Perl syntax", id="syntax of Python"),
        pytest.param("(a?){1000}a{1000}", "it takes too long", id="many steps"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_reported(pattern: str, problem: str) -> None:
    """The problem is one short line."""
    with pytest.raises(PatternError, match=re.escape(problem)) as caught:
        matching(pattern, ("a" * 60,))
    assert len(str(caught.value)) < 80


@given(st.text("ab1.-\\d^$|()*+?{}[2,3]", max_size=9), st.text("ab1.-3", max_size=6))
def test_plain_patterns_match_as_in_go(pattern: str, name: str) -> None:
    """Python's module, which matches the plain ones, and the engine for Go's syntax agree."""
    try:
        expected = Regex(pattern, Meter()).search(name, Meter()) is not None
    except RegexError:
        assume(False)
    assert matching(pattern, (name,)).tolist() == [expected]
