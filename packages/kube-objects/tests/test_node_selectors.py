"""Node selectors: terms, fields, weights, and what happens to terms that cannot be parsed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from kube_objects.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from kube_objects.errors import SelectorError
from kube_objects.node_selectors import (
    compile_node_selector,
    compile_preferred_terms,
    required_node_affinity,
)
from kube_objects.pods import Pod, PodSpec


def need(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    """Make one requirement."""
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def term(*expressions: NodeSelectorRequirement, fields: tuple[NodeSelectorRequirement, ...] = ()) -> NodeSelectorTerm:
    """Make a term of label requirements and field requirements."""
    return NodeSelectorTerm(match_expressions=expressions, match_fields=fields)


def selector(*terms: NodeSelectorTerm) -> NodeSelector:
    """Make a selector of terms."""
    return NodeSelector(node_selector_terms=terms)


def pod(node_selector: Mapping[str, str] | None = None, required: NodeSelector | None = None) -> Pod:
    """Make a pod that demands something of its node."""
    affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    return Pod(spec=PodSpec(node_selector=node_selector or {}, affinity=affinity if required is not None else None))


NAME = "metadata.name"
SSD = need("disk", "In", "ssd")
FAST = need("speed", "Gt", "5")
BAD = need("disk", "Near", "ssd")


@pytest.mark.parametrize(
    ("terms", "labels", "name", "expected"),
    [
        pytest.param((), {"disk": "ssd"}, "n1", False, id="no terms"),
        pytest.param((term(),), {"disk": "ssd"}, "n1", False, id="an empty term matches nothing"),
        pytest.param((term(SSD),), {"disk": "ssd"}, "n1", True, id="label"),
        pytest.param((term(SSD),), {}, "n1", False, id="label absent"),
        pytest.param((term(SSD, FAST),), {"disk": "ssd", "speed": "6"}, "n1", True, id="both labels"),
        pytest.param((term(SSD, FAST),), {"disk": "ssd", "speed": "5"}, "n1", False, id="one of two labels"),
        pytest.param((term(FAST), term(SSD)), {"disk": "ssd"}, "n1", True, id="second term"),
        pytest.param((term(), term(SSD)), {"disk": "ssd"}, "n1", True, id="second term after an empty one"),
        pytest.param((term(need("zone", "DoesNotExist")),), {}, "n1", True, id="does not exist"),
        pytest.param((term(need("zone", "NotIn", "a")),), {}, "n1", True, id="not in, absent"),
        pytest.param((term(need("speed", "Lt", "5")),), {"speed": "4"}, "n1", True, id="lt"),
        pytest.param((term(fields=(need(NAME, "In", "n1"),)),), {}, "n1", True, id="name"),
        pytest.param((term(fields=(need(NAME, "In", "n1"),)),), {}, "n2", False, id="other name"),
        pytest.param((term(fields=(need(NAME, "NotIn", "n1"),)),), {}, "n2", True, id="not that name"),
        pytest.param((term(fields=(need(NAME, "NotIn", "n1"),)),), {}, "n1", False, id="that name"),
        pytest.param((term(SSD, fields=(need(NAME, "In", "n1"),)),), {}, "n1", False, id="name but not label"),
        pytest.param(
            (term(fields=(need(NAME, "In", "n1"), need(NAME, "In", "n2"))),), {}, "n1", False, id="two names at once"
        ),
        pytest.param((term(fields=(need("spec.x", "In", "y"),)),), {}, "n1", False, id="a field nodes do not have"),
        pytest.param((term(fields=(need("spec.x", "NotIn", "y"),)),), {}, "n1", True, id="not a field they lack"),
        pytest.param((term(fields=(need("spec.x", "In", ""),)),), {}, "n1", True, id="a lacking field is empty"),
        pytest.param((term(fields=(need(NAME, "In", "n1"),)),), {}, "", True, id="no name, names do not count"),
        pytest.param((term(BAD),), {"disk": "ssd"}, "n1", False, id="a bad term matches nothing"),
        pytest.param((term(BAD), term(SSD)), {"disk": "ssd"}, "n1", True, id="and spoils no other"),
        pytest.param((term(SSD, BAD),), {"disk": "ssd"}, "n1", False, id="but its whole term"),
    ],
)
def test_a_node_matches_one_of_the_terms(
    terms: tuple[NodeSelectorTerm, ...], labels: Mapping[str, str], name: str, expected: bool
) -> None:
    """Requirements of a term are a conjunction, terms an alternative."""
    assert compile_node_selector(selector(*terms)).matches(labels, name) is expected


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(
            term(BAD),
            'nodeSelectorTerms[1].matchExpressions[0].operator: Unsupported value: "Near": '
            'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
            id="operator",
        ),
        pytest.param(
            term(need("a", "In")),
            "nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: []: "
            "for 'in', 'notin' operators, values set can't be empty",
            id="no values",
        ),
        pytest.param(
            term(need("a", "Gt", "x")),
            'nodeSelectorTerms[1].matchExpressions[0].values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="not an integer",
        ),
        pytest.param(
            term(fields=(need(NAME, "Exists"),)),
            'nodeSelectorTerms[1].matchFields[0].operator: Unsupported value: "Exists": '
            'supported values: "In", "NotIn"',
            id="field operator",
        ),
        pytest.param(
            term(fields=(need(NAME, "In", "a", "b"),)),
            'nodeSelectorTerms[1].matchFields[0].values: Invalid value: ["a","b"]: must have one element',
            id="two names",
        ),
        pytest.param(
            term(fields=(need(NAME, "In"), need(NAME, "In"))),
            "[nodeSelectorTerms[1].matchFields[0].values: Invalid value: []: must have one element, "
            "nodeSelectorTerms[1].matchFields[1].values: Invalid value: []: must have one element]",
            id="several errors",
        ),
    ],
)
def test_errors_say_where_they_are(bad: NodeSelectorTerm, message: str) -> None:
    """Who validates gets every error with its path; the terms that are fine have none."""
    compiled = compile_node_selector(selector(term(SSD), bad))
    with pytest.raises(SelectorError) as caught:
        compiled.check()
    assert str(caught.value) == message
    assert (
        compile_node_selector(selector(bad), "addedAffinity")
        .errors[0]
        .startswith("addedAffinity.nodeSelectorTerms[0].")
    )


def test_a_selector_without_errors_passes_the_check() -> None:
    """Checking is silent when all terms parse."""
    compiled = compile_node_selector(selector(term(SSD)))
    compiled.check()
    assert compiled.errors == ()


@pytest.mark.parametrize(
    ("demand", "labels", "expected"),
    [
        pytest.param(pod(), {}, True, id="demands nothing"),
        pytest.param(pod({"disk": "ssd"}), {"disk": "ssd"}, True, id="node selector"),
        pytest.param(pod({"disk": "ssd"}), {}, False, id="node selector, absent"),
        pytest.param(pod({"disk": "not valid!"}), {"disk": "not valid!"}, True, id="node selector is not validated"),
        pytest.param(pod(required=selector(term(FAST))), {"speed": "9"}, True, id="affinity"),
        pytest.param(pod(required=selector()), {}, False, id="affinity without terms"),
        pytest.param(pod({"disk": "ssd"}, selector(term(FAST))), {"speed": "9"}, False, id="affinity only"),
        pytest.param(pod({"disk": "ssd"}, selector(term(FAST))), {"disk": "ssd"}, False, id="node selector only"),
        pytest.param(pod({"disk": "ssd"}, selector(term(FAST))), {"disk": "ssd", "speed": "9"}, True, id="both"),
    ],
)
def test_node_selector_and_required_affinity_both_hold(demand: Pod, labels: Mapping[str, str], expected: bool) -> None:
    """A pod may demand labels in two ways at once."""
    assert required_node_affinity(demand).matches(labels, "n1") is expected


def test_pods_that_demand_the_same_share_one_object() -> None:
    """Equal demands are answered once per set of node labels, so they must be recognisable."""
    one = required_node_affinity(pod({"a": "1", "b": "2"}, selector(term(SSD))))
    other = required_node_affinity(pod({"b": "2", "a": "1"}, selector(term(need("disk", "In", "ssd")))))
    assert one is other
    assert hash(one) == hash(other)


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        pytest.param(pod({"a": "1"}), False, id="node selector"),
        pytest.param(pod(required=selector(term(SSD))), False, id="labels"),
        pytest.param(pod(required=selector(term(SSD), term(fields=(need(NAME, "In", "n1"),)))), True, id="name"),
    ],
)
def test_whether_names_matter_is_known(demand: Pod, expected: bool) -> None:
    """Where they do not, one answer serves all nodes with equal labels."""
    assert required_node_affinity(demand).uses_names is expected


def wish(weight: int, preference: NodeSelectorTerm) -> PreferredSchedulingTerm:
    """Make a weighted wish."""
    return PreferredSchedulingTerm(weight=weight, preference=preference)


def test_wishes_add_up_their_weights() -> None:
    """Each wish that holds counts; an empty one never holds."""
    compiled = compile_preferred_terms(
        (wish(10, term(SSD)), wish(5, term(FAST)), wish(3, term()), wish(1, term(fields=(need(NAME, "In", "n1"),))))
    )
    assert compiled.score({"disk": "ssd", "speed": "9"}, "n1") == 16
    assert compiled.score({"disk": "ssd"}, "n2") == 10
    assert compiled.score({}, "n2") == 0
    assert compiled.uses_names
    assert not compile_preferred_terms((wish(10, term(SSD)),)).uses_names


def test_a_wish_that_cannot_be_parsed_is_an_error_unless_it_weighs_nothing() -> None:
    """Scoring reports what filtering would ignore."""
    assert compile_preferred_terms((wish(0, term(BAD)),)).terms == ()
    with pytest.raises(SelectorError, match=r"^preferred\[1\]\.matchExpressions\[0\]\.operator: Unsupported value"):
        compile_preferred_terms((wish(1, term(SSD)), wish(1, term(BAD))), "preferred")


KEYS = st.sampled_from(["a", "b"])
VALUES = st.sampled_from(["x", "y", "3", "7"])
EXPRESSIONS = st.one_of(
    st.builds(need, KEYS, st.sampled_from(["In", "NotIn"]), VALUES),
    st.builds(need, KEYS, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(need, KEYS, st.sampled_from(["Gt", "Lt"]), st.sampled_from(["3", "5"])),
)
TERMS = st.lists(EXPRESSIONS, max_size=3).map(lambda expressions: term(*expressions))


def naive(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Judge a requirement straight from the definition."""
    have = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return have in requirement.values
        case "NotIn":
            return have not in requirement.values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case operator:
            if have is None or not have.isdigit():
                return False
            bound = int(requirement.values[0])
            return int(have) > bound if operator == "Gt" else int(have) < bound


@given(st.lists(TERMS, max_size=3), st.dictionaries(KEYS, VALUES))
def test_compiled_selectors_agree_with_the_definition(terms: list[NodeSelectorTerm], labels: dict[str, str]) -> None:
    """Compilation changes the cost, never the answer."""
    expected = any(
        one.match_expressions and all(naive(item, labels) for item in one.match_expressions) for one in terms
    )
    assert compile_node_selector(selector(*terms)).matches(labels, "n1") is expected
