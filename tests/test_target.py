"""The exceptions from the target shape are known, and become fewer only."""

from __future__ import annotations

import pytest

from tests import target


@pytest.fixture(scope="module")
def listed() -> dict[str, list[str]]:
    """Return the list of exceptions."""
    return target.read(target.LIST.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_list_has_what_breaks_the_rules_and_nothing_else(listed: dict[str, list[str]]) -> None:
    """A new exception is seen, and one that is mended leaves the list: `python -m tests.target`."""
    assert target.exceptions() == listed


def test_no_exception_was_added_since_the_last_tag(listed: dict[str, list[str]]) -> None:
    """The list may only shrink."""
    before = target.at_last_tag()
    if before is None:
        pytest.skip("no tag with a list of exceptions; a full clone has one")
    assert not target.added(before, listed)


def test_an_added_exception_is_found() -> None:
    """A line that is new, and a count that grew; one that shrank or went is welcome."""
    before = {"imports": ["a -> b", "a -> c"], "names": ["x.py 3", "y.py 2"]}
    now = {"imports": ["a -> b", "a -> d"], "names": ["x.py 4", "y.py 1"], "a new rule": ["e -> f"]}
    assert target.added(before, now) == ["imports: a -> d", "names: x.py 4"]
    assert target.read(target.write(before)) == before
