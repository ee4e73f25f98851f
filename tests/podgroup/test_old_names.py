"""Names of `pyscheduler.podgroup` that were renamed stay importable for one version."""

from __future__ import annotations

import pytest

from pyscheduler import podgroup


def test_old_name_warns_and_returns_the_renamed_class() -> None:
    """`podgroup.Place` is `podgroup.MemberPlace`, with a DeprecationWarning that says the new name."""
    with pytest.warns(DeprecationWarning, match=r"podgroup\.Place is now called MemberPlace"):
        old = podgroup.Place
    assert old is podgroup.MemberPlace


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that never existed is not found."""
    with pytest.raises(AttributeError, match="has no attribute 'Nowhere'"):
        _ = podgroup.Nowhere
