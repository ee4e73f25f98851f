"""Semantic versions: their order, and what is none."""

from __future__ import annotations

import pytest

from kube_cel.versions import parse_relaxed_version, parse_version

SORTED = (
    "0.0.1",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-11",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0",
    "1.2.0",
    "1.10.0",
    "2.0.0",
)


def test_order() -> None:
    """Numbers sort as numbers, before words, and a release behind its pre-releases."""
    assert [parse_version(text) for text in SORTED] == sorted(map(parse_version, reversed(SORTED)))
    assert parse_version("1.0.0+a") == parse_version("1.0.0+b")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "Version string empty", id="empty"),
        pytest.param("1.2", "No Major.Minor.Patch elements found", id="short"),
        pytest.param("v1.2.3", 'Invalid character(s) found in major number "v1"', id="v"),
        pytest.param("1.x.3", 'Invalid character(s) found in minor number "x"', id="letter"),
        pytest.param("1.2.3.4", 'Invalid character(s) found in patch number "3.4"', id="long"),
        pytest.param("01.2.3", 'Major number must not contain leading zeroes "01"', id="zero"),
        pytest.param("1.2.3-", "Prerelease is empty", id="no pre-release"),
        pytest.param("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"', id="early zero"),
        pytest.param("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"', id="early letter"),
        pytest.param("1.2.3+", "Build meta data is empty", id="no build"),
        pytest.param("1.2.3+a_b", 'Invalid character(s) found in build meta data "a_b"', id="build letter"),
        pytest.param("..", 'strconv.ParseUint: parsing "": invalid syntax', id="dots"),
        pytest.param("1.2.18446744073709551616", "value out of range", id="huge"),
    ],
)
def test_what_is_no_version(text: str, why: str) -> None:
    """The error says what is wrong with it."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its text is looked at below
        parse_version(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        pytest.param("v1", "1.0.0", id="major alone"),
        pytest.param("1.2", "1.2.0", id="no patch"),
        pytest.param("v01.02.03-rc.1", "1.2.3-rc.1", id="leading zeros"),
        pytest.param("00.0.0", "0.0.0", id="zeros alone"),
    ],
)
def test_relaxed(text: str, meant: str) -> None:
    """A ``v``, missing parts and leading zeros are let pass."""
    assert parse_relaxed_version(text) == parse_version(meant)


def test_relaxed_has_limits() -> None:
    """A short version cannot say more than its numbers."""
    with pytest.raises(ValueError, match="short version cannot contain PreRelease/Build meta data"):
        parse_relaxed_version("1.2-rc")
