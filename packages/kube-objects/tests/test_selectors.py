"""Label selectors: what matches, what is refused, and that equal ones are one object."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from kube_objects.errors import SelectorError
from kube_objects.meta import LabelSelector, LabelSelectorRequirement
from kube_objects.requirements import (
    EVERYTHING,
    NOTHING,
    CompiledSelector,
    Requirement,
    parse_int64,
    requirement_errors,
)
from kube_objects.selectors import compile_label_selector, selector_from_labels


def expression(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    """Make a requirement of a wire selector."""
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("requirement", "labels", "expected"),
    [
        pytest.param(("a", "In", ("x",)), {"a": "x"}, True, id="in one"),
        pytest.param(("a", "In", ("x",)), {"a": "y"}, False, id="in one, other value"),
        pytest.param(("a", "In", ("x",)), {}, False, id="in one, absent"),
        pytest.param(("a", "In", ("",)), {}, False, id="absent is not the empty value"),
        pytest.param(("a", "In", ("",)), {"a": ""}, True, id="empty value"),
        pytest.param(("a", "In", ("x", "y")), {"a": "y"}, True, id="in several"),
        pytest.param(("a", "In", ("x", "y")), {"a": "z"}, False, id="not in several"),
        pytest.param(("a", "In", ("x", "y")), {}, False, id="in several, absent"),
        pytest.param(("a", "NotIn", ("x", "y")), {"a": "z"}, True, id="notin, other value"),
        pytest.param(("a", "NotIn", ("x", "y")), {"a": "x"}, False, id="notin, listed"),
        pytest.param(("a", "NotIn", ("x", "y")), {}, True, id="notin, absent"),
        pytest.param(("a", "Exists", ()), {"a": ""}, True, id="exists"),
        pytest.param(("a", "Exists", ()), {"b": "x"}, False, id="exists, absent"),
        pytest.param(("a", "DoesNotExist", ()), {}, True, id="does not exist"),
        pytest.param(("a", "DoesNotExist", ()), {"a": ""}, False, id="does not exist, present"),
        pytest.param(("a", "Gt", ("5",)), {"a": "6"}, True, id="gt"),
        pytest.param(("a", "Gt", ("5",)), {"a": "5"}, False, id="gt, equal"),
        pytest.param(("a", "Gt", ("5",)), {"a": "10"}, True, id="gt compares numbers, not texts"),
        pytest.param(("a", "Gt", ("5",)), {"a": "007"}, True, id="leading zeros"),
        pytest.param(("a", "Gt", ("5",)), {"a": "x"}, False, id="gt, no number"),
        pytest.param(("a", "Gt", ("5",)), {"a": "6_0"}, False, id="gt, underscore"),
        pytest.param(("a", "Gt", ("5",)), {"a": "٦"}, False, id="gt, foreign digit"),
        pytest.param(("a", "Gt", ("5",)), {}, False, id="gt, absent"),
        pytest.param(("a", "Gt", ("5",)), {"a": "9223372036854775808"}, False, id="gt, over 64 bits"),
        pytest.param(("a", "Lt", ("5",)), {"a": "4"}, True, id="lt"),
        pytest.param(("a", "Lt", ("5",)), {"a": "-9223372036854775808"}, True, id="lt, smallest"),
        pytest.param(("a", "Lt", ("5",)), {"a": "5"}, False, id="lt, equal"),
    ],
)
def test_a_requirement_on_labels(
    requirement: tuple[str, str, tuple[str, ...]], labels: Mapping[str, str], expected: bool
) -> None:
    """Each operator, with the label there and not there."""
    assert CompiledSelector.of([Requirement(*requirement)]).matches(labels) is expected


def test_all_requirements_must_hold() -> None:
    """Labels and expressions of one selector are a conjunction."""
    selector = compile_label_selector(
        LabelSelector(match_labels={"a": "1", "b": "2"}, match_expressions=(expression("c", "Exists"),))
    )
    assert selector.matches({"a": "1", "b": "2", "c": "", "d": "x"})
    assert not selector.matches({"a": "1", "b": "2"})
    assert not selector.matches({"a": "1", "c": ""})


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    """The difference decides whether an affinity term without a selector matches pods."""
    assert compile_label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.matches({"": ""})
    assert not NOTHING.is_empty
    assert compile_label_selector(LabelSelector()) is EVERYTHING
    assert EVERYTHING.matches({})
    assert EVERYTHING.is_empty


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        pytest.param(
            LabelSelector(match_expressions=(expression("a", "Gt", "5"),)),
            '"Gt" is not a valid label selector operator',
            id="gt is for nodes",
        ),
        pytest.param(
            LabelSelector(match_expressions=(expression("a", "in", "x"),)),
            '"in" is not a valid label selector operator',
            id="wrong case",
        ),
        pytest.param(
            LabelSelector(match_expressions=(expression("a", "In"),)),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            id="in nothing",
        ),
        pytest.param(
            LabelSelector(match_expressions=(expression("a", "Exists", "x"),)),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
            id="exists with a value",
        ),
        pytest.param(LabelSelector(match_labels={"": "x"}), 'key: Invalid value: "": name part must', id="empty key"),
        pytest.param(
            LabelSelector(match_labels={"a": "-"}), 'values[0][a]: Invalid value: "-": a valid label', id="bad value"
        ),
    ],
)
def test_an_invalid_selector_is_refused(selector: LabelSelector, error: str) -> None:
    """The error is worded as Kubernetes words it; a pod with such a selector gets it in its event."""
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(selector)
    assert str(caught.value).startswith(error)


def test_equal_selectors_are_one_object() -> None:
    """Where selectors repeat, as they do from pod to pod, answers can be kept per object."""
    one = compile_label_selector(
        LabelSelector(match_labels={"a": "1", "b": "2"}, match_expressions=(expression("c", "Exists"),))
    )
    other = compile_label_selector(
        LabelSelector(
            match_expressions=(expression("c", "Exists"), expression("b", "In", "2"), expression("a", "In", "1"))
        )
    )
    assert one is other
    assert one is CompiledSelector.of(one.requirements)
    assert one == CompiledSelector(one.requirements)
    assert hash(one) == hash(CompiledSelector(one.requirements))
    assert one != EVERYTHING
    assert one != "a=1,b=2,c"


def test_a_map_of_labels_is_a_selector() -> None:
    """Services select so; what they say is not validated."""
    selector = selector_from_labels({"b": "not a valid value!", "a": "1"})
    assert selector.matches({"a": "1", "b": "not a valid value!", "c": ""})
    assert not selector.matches({"a": "1"})
    assert selector_from_labels({}) is EVERYTHING


def test_a_selector_prints_as_text() -> None:
    """Logs show the textual form, sorted by key."""
    requirements = [
        Requirement("e", "Lt", ("3",)),
        Requirement("d", "NotIn", ("x",)),
        Requirement("c", "In", ("y", "x")),
        Requirement("b", "DoesNotExist"),
        Requirement("a", "Exists"),
        Requirement("f", "In", ("v",)),
        Requirement("g", "Gt", ("9",)),
    ]
    selector = CompiledSelector.of(requirements)
    assert str(selector) == "a,!b,c in (x,y),d!=x,e<3,f=v,g>9"
    assert repr(selector) == "CompiledSelector('a,!b,c in (x,y),d!=x,e<3,f=v,g>9')"


@pytest.mark.parametrize(
    ("operator", "values", "errors"),
    [
        pytest.param("Gt", ("5",), [], id="one integer"),
        pytest.param(
            "Gt",
            ("1", "2"),
            ["p.values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required"],
            id="two integers",
        ),
        pytest.param(
            "Lt",
            ("x",),
            ["p.values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer"],
            id="no integer",
        ),
    ],
)
def test_comparisons_take_one_integer(operator: str, values: tuple[str, ...], errors: list[str]) -> None:
    """Errors carry the path of the field they are about."""
    assert requirement_errors("a", operator, values, "p") == errors


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("-7", -7, id="negative"),
        pytest.param("+7", 7, id="signed"),
        pytest.param("9223372036854775807", 2**63 - 1, id="largest"),
        pytest.param("9223372036854775808", None, id="too large"),
        pytest.param("", None, id="empty"),
        pytest.param("1e3", None, id="exponent"),
        pytest.param(" 1", None, id="blank"),
        pytest.param("1" * 5000, None, id="absurd"),
    ],
)
def test_integers_of_64_bits(text: str, number: int | None) -> None:
    """Anything that Go would not parse as an int64 is no number."""
    assert parse_int64(text) == number


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["", "x", "y", "5"])
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1).map(tuple)),
    st.builds(Requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
)


def naive(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Judge a requirement straight from the definition."""
    there = requirement.key in labels
    match requirement.operator:
        case "In":
            return there and labels[requirement.key] in requirement.values
        case "NotIn":
            return not there or labels[requirement.key] not in requirement.values
        case "Exists":
            return there
        case _:
            return not there


@given(st.lists(REQUIREMENTS, max_size=5), st.dictionaries(KEYS, VALUES))
def test_compiled_selectors_agree_with_the_definition(requirements: list[Requirement], labels: dict[str, str]) -> None:
    """Compilation changes the cost, never the answer."""
    assert CompiledSelector.of(requirements).matches(labels) is all(naive(item, labels) for item in requirements)
