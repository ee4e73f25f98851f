"""Values of flags as Go's libraries read them: whatever is written in their way comes back, and nothing else breaks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.flags import go_values

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=8)
PARSERS: list[Callable[[str], Any]] = [
    go_values.parse_bool,
    go_values.parse_int(),
    go_values.parse_int(32),
    go_values.parse_float,
    go_values.parse_level,
    go_values.parse_address,
    go_values.parse_duration,
    go_values.parse_list,
    go_values.parse_map,
    go_values.parse_named_pair,
    go_values.parse_vmodule,
]


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([str, hex, oct, bin, "{:+d}".format]))
def test_integers_in_every_base(number: int, written: Callable[[int], str]) -> None:
    """Go's literals: decimal, and with the prefixes 0x, 0o and 0b."""
    assert go_values.parse_int()(written(number)) == number


@pytest.mark.parametrize(
    ("text", "expected"),
    [("010", 8), ("-010", -8), ("0", 0), ("00", 0), ("0x1F", 31), ("+5", 5), ("2147483647", 2**31 - 1)],
)
def test_integers_agree_with_go(text: str, expected: int) -> None:
    """A leading zero makes it octal."""
    assert go_values.parse_int(32)(text) == expected


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_000", "٣", "1.0", "0x", "09", "--1", "1e3"])
def test_invalid_integers(text: str) -> None:
    """Nothing that Python takes and Go does not."""
    with pytest.raises(ValueError, match="invalid syntax"):
        go_values.parse_int()(text)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_lists_round_trip(values: list[str]) -> None:
    """With commas, quotes and blanks in them, once they are quoted."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(values)
    assert go_values.parse_list(out.getvalue().rstrip("\r\n")) == tuple(values)


@given(st.dictionaries(WORDS.filter(lambda word: "=" not in word), WORDS, min_size=2, max_size=4))
def test_pairs_round_trip(pairs: dict[str, str]) -> None:
    """With `=` in their values, too."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow([f"{key}={value}" for key, value in pairs.items()])
    assert go_values.parse_map(out.getvalue().rstrip("\r\n")) == pairs


def test_any_text_is_a_value_or_a_mistake() -> None:
    """Never another exception, whatever is typed; each parser has refused something and taken something."""
    outcomes: Counter[tuple[int, bool]] = Counter()
    reasons: list[str] = []
    likely = st.text('0123456789abcdefghmsxT=:,.-+" ', max_size=12)
    examples = st.sampled_from(["true", "0x10", "1.5", "4", "::1", "5m0s", "a,b", "k=v", "c,k:n", "p=2", ""])

    @settings(max_examples=7 * settings.default.max_examples)
    @given(st.one_of(likely, examples, st.text(max_size=12)))
    def check(text: str) -> None:
        for number, parse in enumerate(PARSERS):
            try:
                parse(text)
            except ValueError as error:
                reasons.append(str(error))
                outcomes[number, False] += 1
            else:
                outcomes[number, True] += 1

    check()
    assert all(reasons)
    assert all(outcomes[number, taken] for number in range(len(PARSERS)) for taken in (True, False)), outcomes
