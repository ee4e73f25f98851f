"""YAML is read as kube-scheduler reads it, and what is no YAML is told in one line with its place."""

from __future__ import annotations

import pytest

from pyscheduler.config import yaml_text
from pyscheduler.config.yaml_text import read, resolve
from pyscheduler.framework import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(text, value, id=repr(text))
        for text, value in [
            ("yes", True),
            ("On", True),
            ("y", True),
            ("TRUE", True),
            ("no", False),
            ("off", False),
            ("N", False),
            ("tRUE", "tRUE"),
            ("", None),
            ("~", None),
            ("Null", None),
            ("none", "none"),
            ("0", 0),
            ("-12", -12),
            ("+12", 12),
            ("1_000", 1000),
            ("0x1F", 31),
            ("-0x1f", -31),
            ("0b101", 5),
            ("010", 8),
            ("0o17", 15),
            ("08", 8.0),
            ("18446744073709551615", 2**64 - 1),
            ("18446744073709551616", float(2**64)),
            ("0x10000000000000000", "0x10000000000000000"),
            ("0b1" + "0" * 64, "0b1" + "0" * 64),
            ("07" + "0" * 24, 7e24),
            ("-9223372036854775808", -(2**63)),
            ("1.5", 1.5),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("1_0.5", 10.5),
            ("1e999", "1e999"),
            ("._5", "._5"),
            (".5_0", 0.5),
            (".5__0", ".5__0"),
            ("1:30", "1:30"),
            ("2001-01-01", "2001-01-01"),
            ("15s", "15s"),
            ("1.2.3", "1.2.3"),
            ("-", "-"),
            ("٣", "٣"),
            ("9" * 5000, "9" * 5000),
        ]
    ],
)
def test_plain_scalars_mean_what_they_mean_in_go(text: str, value: object) -> None:
    """YAML 1.1 as Go's library has it: its booleans, its numbers, and text for everything else."""
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("# nothing\n", None, id="a comment"),
        pytest.param("---\na: 1\n...\n", {"a": 1}, id="document marks"),
        pytest.param("a: 1\n---\n# the end\n---\n", {"a": 1}, id="empty documents after it"),
        pytest.param("\ufeffa: 1", {"a": 1}, id="a byte order mark"),
        pytest.param('{"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}, id="JSON"),
        pytest.param("a: '1'\nb: \"yes\"\nc: |\n  no\n", {"a": "1", "b": "yes", "c": "no\n"}, id="quoted is text"),
        pytest.param("a: !!str 1\nb: !!int '1'\nc: !!float 1", {"a": "1", "b": 1, "c": 1.0}, id="tags"),
        pytest.param("a: !ours 1\nb: ! 1", {"a": "1", "b": "1"}, id="tags of others are ignored"),
        pytest.param("1: a\ntrue: b\n1.50: c", {"1": "a", "true": "b", "1.50": "c"}, id="keys are text"),
        pytest.param("0x10: a\n010: b", {"16": "a", "8": "b"}, id="keys that are numbers, as these are written"),
        pytest.param("a: &x [1]\nb: *x", {"a": [1], "b": [1]}, id="alias"),
        pytest.param("a: &x {k: 1}\nb:\n  <<: *x\n  l: 2", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}, id="merge"),
        pytest.param("a: {<<: [{k: 1}, {l: 2}]}", {"a": {"k": 1, "l": 2}}, id="merge of a list"),
        pytest.param("a: {'<<': 1}", {"a": {"<<": 1}}, id="a quoted << is a key"),
    ],
)
def test_documents_become_plain_values(text: str, value: object) -> None:
    """Mappings, lists and scalars, as JSON would have them."""
    document = read(text)
    assert (document.root, document.problems) == (value, ())


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        pytest.param("a: 1\na: 2", ['line 2: key "a" already set @ $.a'], id="at the top"),
        pytest.param(
            "a: [{b: 1,\nb: 2}]\nc: 1\nc: 2",
            ['line 2: key "b" already set @ $.a[0].b', 'line 4: key "c" already set @ $.c'],
            id="several, deep",
        ),
        pytest.param("a: &x {k: 1}\nb: {<<: *x, k: 2}", ['line 2: key "k" already set @ $.b.k'], id="over a merge"),
        pytest.param("1: a\n'1': b", ['line 2: key "1" already set @ $["1"]'], id="equal once they are text"),
        pytest.param("a: [.inf]", ["unsupported value: .inf @ $.a[0]"], id="what JSON cannot say"),
    ],
)
def test_all_mistakes_in_readable_yaml_are_reported(text: str, problems: list[str]) -> None:
    """A key that is there twice does not hide the other mistakes in the file."""
    assert [str(problem) for problem in read(text).problems] == problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: b: c", "line 1, column 5: mapping values are not allowed in this context", id="two colons"),
        pytest.param(
            "a: [1\nb: 2",
            "line 2, column 2: did not find expected ',' or ']' (while parsing a flow sequence)",
            id="an open list",
        ),
        pytest.param(
            "a:\n\t- b",
            "line 2, column 1: found character that cannot start any token (while scanning for the next token)",
            id="a tab",
        ),
        pytest.param(
            "é: 'x\n",
            "line 2, column 1: found unexpected end of stream (while scanning a quoted scalar)",
            id="an open quote",
        ),
        pytest.param("é: \x01", "line 1, column 4: control characters are not allowed", id="a control character"),
        pytest.param("a: *x", "line 1, column 4: unknown anchor 'x' referenced", id="an unknown anchor"),
        pytest.param("a: &x [*x]", "line 1, column 8: anchor 'x' value contains itself", id="in itself"),
        pytest.param("[a]: 1", "line 1, column 1: a key must be text", id="a list as key"),
        pytest.param("~: 1", "line 1, column 1: a key is missing here (null is none)", id="null as key"),
        pytest.param(
            "a: {<<: 1}", "line 1, column 9: map merge requires map or sequence of maps as the value", id="<<"
        ),
        pytest.param(
            "a: 1\n---\nb: 1", "line 2, column 1: a second document begins; a configuration file holds one", id="two"
        ),
        pytest.param("a: !!int x", "line 1, column 4: cannot decode !!str `x` as a !!int", id="a tag that lies"),
        pytest.param(
            "a: !!binary eA==", "line 1, column 4: !!binary is not supported; write the text as it is", id="binary"
        ),
        pytest.param("[" * 200, "line 1, column 101: nested deeper than 100 levels", id="deep nesting"),
    ],
)
def test_invalid_yaml_is_reported_with_its_place(text: str, message: str) -> None:
    """One line, with line and column."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert str(caught.value) == message


def test_aliases_that_multiply_are_refused() -> None:
    """A short text cannot fill the memory."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(ConfigError, match="document contains excessive aliasing"):
        read("\n".join(lines))


def test_without_libyaml_it_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyYAML that was built without the C library is slower, and that is all."""
    text = "a: [1, yes, 'no', {b: 1e3}]\nc: &x {d: 1}\ne: {<<: *x}\nd: {a: 1,\n a: 2}"
    quick = read(text)
    monkeypatch.setattr(yaml_text, "_Loader", yaml_text.yaml.SafeLoader)
    assert read(text) == quick
    with pytest.raises(ConfigError, match=r"^line 1, column \d+: "):
        read("a: b: c")
