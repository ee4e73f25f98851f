"""Each wrong plugin leads to a message that names plugin, place and remedy; the page about them is current."""

from __future__ import annotations

import re

import pytest

from pyscheduler.testing import FakeCluster
from tests.testing.wrong_plugin_rows import PAGE, ROWS, rendered
from tests.testing.wrong_plugin_runs import Row


def pattern(message: str) -> str:
    """Return the regular expression of a message in which `...` stands for any text."""
    return ".*".join(re.escape(part) for part in message.split("..."))


@pytest.mark.sampled(42)
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in ROWS])
async def test_a_wrong_plugin_leads_to_its_message(row: Row, pyscheduler_cluster: FakeCluster) -> None:
    """The author reads which plugin is wrong, where, and what to do."""
    found = await row.run(pyscheduler_cluster, row)
    assert re.search(pattern(row.message), found), found


def test_there_are_twenty_and_each_is_another() -> None:
    """Every symptom and every plugin appears once."""
    assert len(ROWS) >= 20
    assert len({row.symptom for row in ROWS}) == len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.slow
def test_the_page_is_current() -> None:
    """The page is what `python -m tests.testing.wrong_plugin_rows` writes."""
    assert PAGE.read_text(encoding="utf-8") == rendered()
