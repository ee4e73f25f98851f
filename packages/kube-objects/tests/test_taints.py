"""Taints and tolerations: which answers which."""

from __future__ import annotations

import pytest

from kube_objects.taints import Taint, Toleration, find_untolerated, tolerates

FOO = Taint(key="foo", value="bar", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        pytest.param(Toleration(key="foo", operator="Equal", value="bar", effect="NoSchedule"), FOO, True, id="equal"),
        pytest.param(Toleration(key="foo", value="bar", effect="NoSchedule"), FOO, True, id="no operator is Equal"),
        pytest.param(Toleration(key="foo", value="bar"), FOO, True, id="no effect fits every effect"),
        pytest.param(Toleration(key="foo", operator="Exists"), FOO, True, id="exists ignores the value"),
        pytest.param(Toleration(operator="Exists"), FOO, True, id="exists without key fits everything"),
        pytest.param(Toleration(operator="Exists", effect="NoExecute"), FOO, False, id="but not another effect"),
        pytest.param(Toleration(value="bar"), FOO, True, id="equal without key compares the value only"),
        pytest.param(Toleration(), FOO, False, id="nothing equals the empty value"),
        pytest.param(Toleration(), Taint(key="k", effect="NoSchedule"), True, id="empty value equals empty value"),
        pytest.param(Toleration(key="foo", value="baz"), FOO, False, id="other value"),
        pytest.param(Toleration(key="fox", operator="Exists"), FOO, False, id="other key"),
        pytest.param(Toleration(key="foo", value="bar", effect="NoExecute"), FOO, False, id="other effect"),
        pytest.param(Toleration(key="foo", operator="exists"), FOO, False, id="operators are case-sensitive"),
        pytest.param(Toleration(key="foo", operator="In", value="bar"), FOO, False, id="unknown operator"),
    ],
)
def test_a_toleration_answers_a_taint(toleration: Toleration, taint: Taint, expected: bool) -> None:
    """Effect, key and value all have to fit, each in its way."""
    assert tolerates(toleration, taint) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        pytest.param("Gt", "750", "950", True, id="950 is greater than 750"),
        pytest.param("Gt", "950", "800", False, id="800 is not greater than 950"),
        pytest.param("Gt", "950", "950", False, id="equal is not greater"),
        pytest.param("Lt", "950", "800", True, id="800 is less than 950"),
        pytest.param("Lt", "800", "950", False, id="950 is not less than 800"),
        pytest.param("Gt", "-5", "0", True, id="negative bound"),
        pytest.param("Gt", "950", "high", False, id="value is no number"),
        pytest.param("Gt", "low", "950", False, id="bound is no number"),
        pytest.param("Gt", "0010", "950", False, id="leading zeros are no number"),
        pytest.param("Lt", "10", "-0", False, id="minus nothing is no number"),
        pytest.param("Lt", "99999999999999999999", "1", False, id="more than 64 bits"),
        pytest.param("Gt", "1", "9999999999999999999", False, id="just more than 64 bits"),
        pytest.param("Gt", "1", "9" * 5000, False, id="absurd"),
        pytest.param("Gt", str(-(2**63)), "1", True, id="the least there is in 64 bits"),
    ],
)
def test_comparisons_need_their_gate(operator: str, bound: str, value: str, expected: bool) -> None:
    """Gt and Lt compare the taint's value with the toleration's, as integers, and only when switched on."""
    toleration = Toleration(key="sla", operator=operator, value=bound, effect="NoSchedule")
    taint = Taint(key="sla", value=value, effect="NoSchedule")
    assert tolerates(toleration, taint, comparison_operators=True) is expected
    assert not tolerates(toleration, taint)
    assert (find_untolerated([taint], [toleration], comparison_operators=True) is None) is expected


SOFT = Taint(key="soft", effect="PreferNoSchedule")
EVICT = Taint(key="evict", effect="NoExecute")


@pytest.mark.parametrize(
    ("taints", "tolerations", "effects", "expected"),
    [
        pytest.param([], [], None, None, id="no taints"),
        pytest.param([FOO], [], None, FOO, id="no tolerations"),
        pytest.param([SOFT], [], None, None, id="a soft taint does not forbid"),
        pytest.param([SOFT, EVICT, FOO], [], None, EVICT, id="the first in the node's order"),
        pytest.param([EVICT, FOO], [Toleration(key="evict", operator="Exists")], None, FOO, id="the first left over"),
        pytest.param([EVICT, FOO], [Toleration(operator="Exists")], None, None, id="everything tolerated"),
        pytest.param([FOO, SOFT], [], {"PreferNoSchedule"}, SOFT, id="asked for soft ones"),
        pytest.param([FOO], [], {"NoExecute"}, None, id="asked for another effect"),
    ],
)
def test_the_first_untolerated_taint_is_found(
    taints: list[Taint], tolerations: list[Toleration], effects: set[str] | None, expected: Taint | None
) -> None:
    """Only taints with the effects asked for count; by default those that forbid the node."""
    found = find_untolerated(taints, tolerations) if effects is None else find_untolerated(taints, tolerations, effects)
    assert found == expected


def test_equal_taints_are_one_key() -> None:
    """Taints can be interned: equality and hash go by content."""
    assert len({FOO, Taint(key="foo", value="bar", effect="NoSchedule"), SOFT}) == 2
