"""Small things of the wire: uids, name endings, metadata, and the words of Go's JSON decoder."""

from __future__ import annotations

import random
import re
import uuid

import pytest

from kube_testserver import wire
from kube_testserver.errors import StatusError


def test_uids_are_random_uuids() -> None:
    """A uid is a version 4 UUID, and the next one is another."""
    rng = random.Random(1)
    uids = [wire.new_uid(rng) for _ in range(100)]
    assert {uuid.UUID(uid).version for uid in uids} == {4}
    assert {uuid.UUID(uid).variant for uid in uids} == {uuid.RFC_4122}
    assert len(set(uids)) == 100


def test_name_endings_have_five_unmistakable_characters() -> None:
    """A generated name ends in five characters without vowels and look-alikes."""
    rng = random.Random(1)
    assert all(re.fullmatch(r"[bcdfghjklmnpqrstvwxz2-9]{5}", wire.name_ending(rng)) for _ in range(100))


def test_metadata_is_put_in_order_and_rid_of_what_is_empty() -> None:
    """Metadata comes in the order Go writes it; empty fields and unknown ones go; a zero stays."""
    untidy = {"labels": {}, "annotations": {"a": "1"}, "managedFields": [], "deletionGracePeriodSeconds": 0}
    tidy = wire.tidy_metadata({**untidy, "uid": "u", "selfLink": "x", "name": "n", "finalizers": None})
    assert list(tidy.items()) == [
        ("name", "n"),
        ("uid", "u"),
        ("deletionGracePeriodSeconds", 0),
        ("annotations", {"a": "1"}),
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"{not json", "invalid character 'n' looking for beginning of object key string", id="key"),
        pytest.param(b"abc", "invalid character 'a' looking for beginning of value", id="value"),
        pytest.param(b'{"a":1', "unexpected end of JSON input", id="cut in an object"),
        pytest.param(b'{"a', "unexpected end of JSON input", id="cut in a text"),
        pytest.param(b"", "unexpected end of JSON input", id="nothing"),
        pytest.param(b'{"a" 1}', "invalid character '1' after object key", id="no colon"),
        pytest.param(b'{"a":1 2}', "invalid character '2' after object key:value pair", id="no comma in an object"),
        pytest.param(b'{"\\"[":1 2}', "invalid character '2' after object key:value pair", id="bracket in a text"),
        pytest.param(b'{"a":"\\x"}', "invalid character 'x' in string escape code", id="unknown escape"),
        pytest.param(b"{'a':1}", "invalid character '\\'' looking for beginning of object key string", id="a quote"),
        pytest.param(b"{} x", "invalid character 'x' after top-level value", id="more than one"),
        pytest.param(b"i\xb7", "invalid character 'i' looking for beginning of value", id="no text"),
        pytest.param(b"\xb7", "invalid character '·' looking for beginning of value", id="a byte"),
        pytest.param(b'"\xff"', "invalid UTF-8 in string", id="bad text"),
        pytest.param(b"[" * 100_000, "exceeded max depth", id="too deep"),
    ],
)
def test_json_errors_in_the_words_of_go(body: bytes, words: str) -> None:
    """What is wrong with a body is said as Go's decoder says it."""
    assert wire.go_json_error(body) == words


@pytest.mark.parametrize(
    ("body", "tail"),
    [
        pytest.param(b"", "unexpected end of JSON input (<empty>)", id="empty"),
        pytest.param(b"{" + b"x" * 40, f"object key string ({{{'x' * 29} ...)", id="long"),
        pytest.param(b"zz", "looking for beginning of value (7a7a)", id="not even a brace"),
        pytest.param(b"[1]", "(5b315d)", id="a list"),
        pytest.param(b'"x"', "(227822)", id="a text"),
        pytest.param(b"1", "(31)", id="a number"),
    ],
)
def test_bodies_that_are_no_objects_are_refused_with_a_summary(body: bytes, tail: str) -> None:
    """The refusal shows the beginning of what came, in hexadecimal where it may not be text."""
    with pytest.raises(StatusError) as refusal:
        wire.decode_body(body, "Pod")
    assert refusal.value.status == 400
    assert str(refusal.value).startswith("the object provided is unrecognized (must be of type Pod): ")
    assert str(refusal.value).endswith(tail)
