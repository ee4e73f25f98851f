"""kube-scheduler's recorded answers are ours (see NOTICE), and the parity page says what is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.vectors.replay import FAMILIES, replay, row_of

README = Path(__file__).parents[2] / "README.md"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "parity.md"


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_is_answered_as_recorded(family: str) -> None:
    """Codes, reasons, scores, messages, victims, hints: every field of every case; and the page's row says so."""
    outcome = replay(family)
    assert outcome.cases > 0
    assert not outcome.differing
    assert row_of(outcome) in PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_of_the_cases_is_answered_as_recorded(family: str) -> None:
    """One case in fifty, for `make test-quick`."""
    outcome = replay(family, every=50)
    assert outcome.cases > 0
    assert not outcome.differing


def test_the_parity_page_has_a_row_for_each_family_and_the_sum() -> None:
    """`python -m tests.vectors` writes them."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Recorded decisions\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `?([\w-]+)`? \| ([\d,]+) \| ([\d,]+) \|$", section, re.MULTILINE)
    counted = {family: (int(cases.replace(",", "")), int(equal.replace(",", ""))) for family, cases, equal in rows}
    cases, equal = counted.pop("all")
    assert sorted(counted) == FAMILIES
    assert (cases, equal) == tuple(map(sum, zip(*counted.values(), strict=True)))
    readme = " ".join(README.read_text(encoding="utf-8").split())
    assert f"{cases:,} recorded decisions of kube-scheduler 1.36: pyscheduler takes the same ones" in readme
