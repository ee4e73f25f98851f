"""Selectors and labels find each other through what they are filed under, and miss nobody."""

from __future__ import annotations

from collections import Counter
from typing import Final

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from pyscheduler.api import EVERYTHING, NOTHING, CompiledSelector, Requirement
from pyscheduler.cache.label_filing import LabelledThings, SelectingThings

KEYS: Final = st.sampled_from(["app", "tier", "hash"])
VALUES: Final = st.sampled_from(["a", "b", ""])
LABELS: Final = st.dictionaries(KEYS, VALUES)
REQUIREMENTS: Final = st.one_of(
    st.builds(lambda key, value: Requirement(key, "In", (value,)), KEYS, VALUES),
    st.builds(lambda key: Requirement(key, "In", ("a", "b")), KEYS),
    st.builds(lambda key, value: Requirement(key, "NotIn", (value,)), KEYS, VALUES),
    st.builds(lambda key: Requirement(key, "Exists"), KEYS),
    st.builds(lambda key: Requirement(key, "DoesNotExist"), KEYS),
)
SELECTORS: Final = st.one_of(st.just(NOTHING), st.lists(REQUIREMENTS, max_size=3).map(CompiledSelector.of))


@pytest.mark.slow
def test_all_that_matches_is_found_after_any_history() -> None:
    """Things come and go; among the candidates of a selector, or of labels, is whatever matches, and few others."""
    fired: Counter[str] = Counter()

    @settings(max_examples=4 * settings.default.max_examples)
    @given(history=st.lists(st.tuples(SELECTORS, LABELS, st.booleans()), max_size=12), keys=st.sampled_from([0, 62]))
    def check(history: list[tuple[CompiledSelector, dict[str, str], bool]], keys: int) -> None:
        selecting: SelectingThings[int] = SelectingThings()
        labelled: LabelledThings[int] = LabelledThings()
        for number in range(keys):
            labelled.candidates(CompiledSelector.of([Requirement(f"other-{number}", "In", ("a",))]), list)
        selectors: dict[int, CompiledSelector] = {}
        things: dict[int, dict[str, str]] = {}
        for number, (selector, labels, drops) in enumerate(history):
            selecting.add(selector, number)
            labelled.add(labels, number)
            selectors[number], things[number] = selector, labels
            if drops:
                gone = number // 2
                if gone in things:
                    selecting.remove(selectors.pop(gone), gone)
                    labelled.remove(things.pop(gone), gone)
                    fired["dropped"] += 1
            found = set(labelled.candidates(selector, lambda: [(each, key) for key, each in things.items()]))
            matching = {key for key, each in things.items() if selector.matches(each)}
            assert matching <= found <= things.keys()
            asked = set(selecting.candidates(labels))
            interested = {key for key, each in selectors.items() if each.matches(labels)}
            assert interested <= asked <= selectors.keys()
            labelled.check_invariants([(each, key) for key, each in things.items()])
            selecting.check_invariants([(each, key) for key, each in selectors.items()])
            fired["found"] += bool(matching)
            fired["spared"] += found != things.keys()
            fired["interested"] += bool(interested)
            fired["spared selectors"] += asked != selectors.keys()

    check()
    assert min(fired[rule] for rule in ("dropped", "found", "spared", "interested", "spared selectors")) > 30, fired


def test_only_what_shares_the_required_label_is_looked_at() -> None:
    """A selector that requires one value leaves aside whoever has another; one that does not must look at all."""
    labelled: LabelledThings[str] = LabelledThings()
    things = {name: {"app": name} for name in "abc"}
    for name, labels in things.items():
        labelled.add(labels, name)

    def everything() -> list[tuple[dict[str, str], str]]:
        return [(labels, name) for name, labels in things.items()]

    assert list(labelled.candidates(CompiledSelector.of([Requirement("app", "In", ("b",))]), everything)) == ["b"]
    assert list(labelled.candidates(EVERYTHING, everything)) == ["a", "b", "c"]
    assert list(labelled.candidates(NOTHING, everything)) == ["a", "b", "c"]


def test_what_nobody_requires_any_more_leaves_nothing_behind() -> None:
    """When the last selector with a key goes, so does the key."""
    selecting: SelectingThings[str] = SelectingThings()
    selector = CompiledSelector.of([Requirement("app", "In", ("b",))])
    selecting.add(selector, "x")
    selecting.remove(selector, "x")
    assert not selecting._filed
    assert not list(selecting.candidates({"app": "b"}))
