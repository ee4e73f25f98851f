"""The dialect of groups in simulations."""

from __future__ import annotations

import attrs
import pytest

from pyscheduler.podgroup import DIALECTS, Dialect, DialectTable, Key, KeyPlace
from pyscheduler_lab.simulation.group_objects import default_dialect

#: A row of a third party: its groups are declared by pods alone.
TEAMS = Dialect(name="acme", system="Acme", keys=(Key(KeyPlace.LABEL, "acme.example/team"),), claimed_by="Acme")


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param(["Acme", "Gang"], "koordinator", id="the next plugin's"),
        pytest.param(["Acme"], "sigs", id="the first of all"),
    ],
)
def test_default_dialect_has_objects(plugins: list[str], expected: str) -> None:
    """Dialects without a kind of object are passed over."""
    assert default_dialect(plugins, [TEAMS, *DIALECTS]) == expected
    with_object = attrs.evolve(TEAMS, kinds=DialectTable(DIALECTS).named("sigs").kinds)
    assert default_dialect(plugins, [with_object, *DIALECTS]) == "acme"
