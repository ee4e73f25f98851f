"""Selectors written as text: grammar, errors, and the round trip."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from kube_objects.errors import SelectorError
from kube_objects.requirements import EVERYTHING, CompiledSelector, Requirement
from kube_objects.selector_text import parse_field_selector, parse_label_selector


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("  \t", [], id="blank"),
        pytest.param("a", [("a", "Exists", ())], id="exists"),
        pytest.param("!a", [("a", "DoesNotExist", ())], id="does not exist"),
        pytest.param("a=b", [("a", "In", ("b",))], id="equal"),
        pytest.param("a==b", [("a", "In", ("b",))], id="double equal"),
        pytest.param("a!=b", [("a", "NotIn", ("b",))], id="not equal"),
        pytest.param("a=", [("a", "In", ("",))], id="equal to nothing"),
        pytest.param("a!=", [("a", "NotIn", ("",))], id="not equal to nothing"),
        pytest.param("a>5", [("a", "Gt", ("5",))], id="greater"),
        pytest.param("a<5", [("a", "Lt", ("5",))], id="less"),
        pytest.param("a in (x)", [("a", "In", ("x",))], id="in one"),
        pytest.param("a in (y,x,y)", [("a", "In", ("x", "y"))], id="in a set"),
        pytest.param("a notin (x,y)", [("a", "NotIn", ("x", "y"))], id="notin"),
        pytest.param("a in ()", [("a", "In", ("",))], id="in the empty value"),
        pytest.param("a in (,)", [("a", "In", ("",))], id="in the empty value, twice"),
        pytest.param("a in (,x)", [("a", "In", ("", "x"))], id="empty value first"),
        pytest.param("a in (x,)", [("a", "In", ("", "x"))], id="empty value last"),
        pytest.param("a in (x,,y)", [("a", "In", ("", "x", "y"))], id="empty value between"),
        pytest.param("in in (in,notin)", [("in", "In", ("in", "notin"))], id="keywords as names"),
        pytest.param("in", [("in", "Exists", ())], id="keyword as key"),
        pytest.param("notin=in", [("notin", "In", ("in",))], id="keywords on both sides"),
        pytest.param(
            " a = b , c in ( x , y ) ,\t! d ",
            [("a", "In", ("b",)), ("c", "In", ("x", "y")), ("d", "DoesNotExist", ())],
            id="blanks anywhere",
        ),
        pytest.param("b,a", [("a", "Exists", ()), ("b", "Exists", ())], id="sorted by key"),
        pytest.param("kubernetes.io/os in (linux)", [("kubernetes.io/os", "In", ("linux",))], id="key with a prefix"),
    ],
)
def test_label_selectors_are_read(text: str, requirements: list[tuple[str, str, tuple[str, ...]]]) -> None:
    """The grammar of Kubernetes, quirks included."""
    assert parse_label_selector(text).requirements == tuple(Requirement(*item) for item in requirements)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("===", "found '==', expected: !, identifier, or 'end of string'", id="only operators"),
        pytest.param(",", "found ',', expected: !, identifier, or 'end of string'", id="only a comma"),
        pytest.param("a,", "found '', expected: identifier after ','", id="ends with a comma"),
        pytest.param("a,,b", "found ',', expected: identifier after ','", id="two commas"),
        pytest.param("a=b c", "found 'c', expected: ',' or 'end of string'", id="two values"),
        pytest.param("!a=b", "found '=', expected: ',' or 'end of string'", id="negated and compared"),
        pytest.param("!", "unable to parse requirement: found '', expected: identifier", id="lonely !"),
        pytest.param("!!a", "unable to parse requirement: found '!', expected: identifier", id="double !"),
        pytest.param(
            "a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt", id="no operator"
        ),
        pytest.param("a==(", "unable to parse requirement: found '(', expected: identifier", id="value is a symbol"),
        pytest.param("a in", "unable to parse requirement: found '' expected: '('", id="in without a set"),
        pytest.param("a in x", "unable to parse requirement: found 'x' expected: '('", id="in without parentheses"),
        pytest.param(
            "a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier", id="set not begun"
        ),
        pytest.param("a in (x", "unable to parse requirement: found '', expected: ',' or ')'", id="set not ended"),
        pytest.param("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'", id="no comma"),
        pytest.param(
            "a in (x,=)", "unable to parse requirement: found '=', expected: ',', or identifier", id="symbol in set"
        ),
        pytest.param(
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
            id="compared with a word",
        ),
    ],
)
def test_label_selectors_are_refused_in_the_servers_words(text: str, message: str) -> None:
    """A client sees the same message as from a real API server."""
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param("-a=b", '<nil>: Invalid value: "-a": name part must consist of', id="key"),
        pytest.param("a=-b", 'values[0][a]: Invalid value: "-b": a valid label must be', id="value"),
    ],
)
def test_keys_and_values_are_validated(text: str, part: str) -> None:
    """A selector that no label could ever meet is a mistake."""
    with pytest.raises(SelectorError) as caught:
        parse_label_selector(text)
    assert str(caught.value).startswith(f"unable to parse requirement: {part}")


WORDS = st.from_regex(r"[a-z]([a-z0-9.-]{0,5}[a-z0-9])?", fullmatch=True)
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        WORDS,
        st.sampled_from(["In", "NotIn"]),
        st.sets(WORDS, min_size=1, max_size=3).map(lambda words: tuple(sorted(words))),
    ),
    st.builds(Requirement, WORDS, st.sampled_from(["Exists", "DoesNotExist"]), st.just(())),
    st.builds(Requirement, WORDS, st.sampled_from(["Gt", "Lt"]), st.integers(0, 99).map(lambda n: (str(n),))),
)


@given(st.lists(REQUIREMENTS, max_size=5))
def test_a_printed_label_selector_reads_as_itself(requirements: list[Requirement]) -> None:
    """Text and object say the same."""
    selector = CompiledSelector.of(requirements)
    assert parse_label_selector(str(selector)) is selector


@given(st.text(alphabet="ab=!<>(), in\t", max_size=20))
def test_any_text_is_a_label_selector_or_a_selector_error(text: str) -> None:
    """No input breaks the parser, or keeps it busy."""
    with contextlib.suppress(SelectorError):
        selector = parse_label_selector(text)
        assert selector is EVERYTHING or selector.requirements


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        pytest.param("", {}, True, id="empty"),
        pytest.param("metadata.name=x", {"metadata.name": "x"}, True, id="equal"),
        pytest.param("metadata.name==x", {"metadata.name": "x"}, True, id="double equal"),
        pytest.param("metadata.name=x", {"metadata.name": "y"}, False, id="other value"),
        pytest.param("metadata.name!=x", {"metadata.name": "y"}, True, id="not equal"),
        pytest.param("spec.nodeName=", {"spec.nodeName": ""}, True, id="not assigned"),
        pytest.param("spec.nodeName=", {}, True, id="a missing field is empty"),
        pytest.param("spec.nodeName!=", {"spec.nodeName": "n"}, True, id="assigned"),
        pytest.param("spec.nodeName!=", {"spec.nodeName": ""}, False, id="assigned, but is not"),
        pytest.param("status.phase!=Succeeded,status.phase!=Failed", {"status.phase": "Running"}, True, id="and"),
        pytest.param("status.phase!=Succeeded,status.phase!=Failed", {"status.phase": "Failed"}, False, id="and not"),
        pytest.param(",metadata.name=x,", {"metadata.name": "x"}, True, id="stray commas"),
        pytest.param(r"a=x\,y\=z\\", {"a": "x,y=z\\"}, True, id="escapes"),
    ],
)
def test_field_selectors_match_fields(text: str, fields: Mapping[str, str], expected: bool) -> None:
    """Conditions are joined by commas and all must hold."""
    assert parse_field_selector(text).matches(fields) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a", "invalid selector: 'a'; can't understand 'a'", id="no operator"),
        pytest.param("a=b,c", "invalid selector: 'a=b,c'; can't understand 'c'", id="second without operator"),
        pytest.param("a=b=c", "invalid field selector: unescaped character in value: 61", id="unescaped ="),
        pytest.param("a!==b", "invalid field selector: unescaped character in value: 61", id="operator too long"),
        pytest.param(r"a=\b", r"invalid field selector: invalid escape sequence: \b", id="unknown escape"),
        pytest.param("a=b\\", "invalid field selector: invalid escape sequence: \\", id="ends in a backslash"),
    ],
)
def test_field_selectors_are_refused_in_the_servers_words(text: str, message: str) -> None:
    """A client sees the same message as from a real API server."""
    with pytest.raises(SelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


@given(
    st.lists(
        st.tuples(st.sampled_from(["metadata.name", "spec.nodeName"]), st.text(max_size=8), st.booleans()), max_size=4
    )
)
def test_a_printed_field_selector_reads_as_itself(terms: list[tuple[str, str, bool]]) -> None:
    """Values are escaped on the way out and unescaped on the way in."""
    selector = parse_field_selector(
        ",".join(
            field + ("!=" if negated else "=") + value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
            for field, value, negated in terms
        )
    )
    assert [tuple(item) for item in selector.requirements] == terms
    assert parse_field_selector(str(selector)) == selector
