"""The page about results of simulations has the definitions of the code."""

from __future__ import annotations

from tests import lab_columns_page


def test_page_has_the_columns_of_the_code() -> None:
    """Names, units and meanings are those of the code; `python -m tests.lab_columns_page --write` makes them anew."""
    assert lab_columns_page.text() == lab_columns_page.PAGE.read_text(encoding="utf-8")
