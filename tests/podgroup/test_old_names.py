"""Names of `pyscheduler.podgroup` that were renamed stay importable for one version."""

from __future__ import annotations

import attrs
import pytest

from pyscheduler import podgroup
from pyscheduler.podgroup.wire import GroupStatus
from pyscheduler_coscheduling.deadlock_resolver.units import DeadlockArgs
from tests.podgroup.builders import ROWS


def test_old_name_warns_and_returns_the_renamed_class() -> None:
    """`podgroup.Place` is `podgroup.MemberPlace`, with a DeprecationWarning that says the new name."""
    with pytest.warns(DeprecationWarning, match=r"podgroup\.Place is removed in 0\.4; use MemberPlace"):
        old = podgroup.Place
    assert old is podgroup.MemberPlace


def test_status_style_names_the_status_objects() -> None:
    """A row with a `StatusStyle`, or with None, still works, and `next_status` returns the next status."""
    with pytest.warns(DeprecationWarning, match="use a DialectStatus"):
        style = podgroup.StatusStyle
    with pytest.warns(DeprecationWarning, match=r"use DialectStatus\.next"):
        next_status = podgroup.next_status
    row = attrs.evolve(ROWS["koordinator"], status=style.COUNTS)
    facts = podgroup.MemberFacts(min=1, members=1, running=1)
    assert next_status(row.status, GroupStatus(), facts, now=0.0) == GroupStatus(running=1)
    assert not attrs.evolve(row, status=None).status.is_written


def test_name_that_moved_warns_and_returns_the_class() -> None:
    """A class that is part of another module now is the same under its old name."""
    with pytest.warns(
        DeprecationWarning, match=r"use pyscheduler_coscheduling\.deadlock_resolver\.units\.DeadlockArgs"
    ):
        old = podgroup.DeadlockArgs
    assert old is DeadlockArgs


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that never existed is not found."""
    with pytest.raises(AttributeError, match="has no attribute 'Nowhere'"):
        _ = podgroup.Nowhere
