"""What is wrong with the permissions that a plugin declares, in one line each."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import PolicyRule
from pyscheduler.runtime.assembly.declaration_checks import rbac_problems

RULE = PolicyRule(api_groups=("",), resources=("pods",), verbs=("patch",))


def rule(**changed: Any) -> PolicyRule:
    """Return the rule with other fields."""
    return PolicyRule(**{"api_groups": ("",), "resources": ("pods",), "verbs": ("patch",), **changed})


@pytest.mark.parametrize(
    ("rbac", "problem"),
    [
        pytest.param((RULE,), "", id="right"),
        pytest.param([rule(verbs=["get"])], "", id="lists"),
        pytest.param(RULE, "must be a tuple of PolicyRule, not a PolicyRule; write (PolicyRule(...),)", id="one"),
        pytest.param(None, "must be a tuple of PolicyRule, not None", id="None"),
        pytest.param("pods", "must be a tuple of PolicyRule, not 'pods'", id="text"),
        pytest.param(({"verbs": ["get"]},), "has {'verbs': ['get']}, which is no PolicyRule", id="mapping"),
        pytest.param(
            (rule(resources="pods"),),
            'resources of a PolicyRule in `rbac` of plugin "Mine" is \'pods\'; write ("pods",)',
            id="text for a tuple",
        ),
        pytest.param((rule(verbs=None),), "is None; write a tuple of texts", id="None for a tuple"),
        pytest.param((rule(verbs=(1,)),), "is (1,); write a tuple of texts", id="numbers"),
    ],
)
def test_wrong_permissions_are_named(rbac: object, problem: str) -> None:
    """The sentence has the plugin, the field and what to write."""
    found = [*rbac_problems("Mine", rbac)]
    assert len(found) == bool(problem)
    assert all('plugin "Mine"' in each and problem in each for each in found)
