"""CBOR as Kubernetes writes it."""

from __future__ import annotations

import pytest

from pyscheduler.serving.cbor import encode_object

HEAD = b"\xd9\xd9\xf7\xa1\x41k"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # Numbers and containers are RFC 8949's own examples, appendix A.
        pytest.param(0, "00", id="0"),
        pytest.param(23, "17", id="23"),
        pytest.param(24, "1818", id="24"),
        pytest.param(1000, "1903e8", id="1000"),
        pytest.param(1_000_000, "1a000f4240", id="million"),
        pytest.param(2**64 - 1, "1bffffffffffffffff", id="longest"),
        pytest.param(-1, "20", id="-1"),
        pytest.param(-1000, "3903e7", id="-1000"),
        pytest.param(False, "f4", id="false"),
        pytest.param(True, "f5", id="true"),
        pytest.param(None, "f6", id="null"),
        pytest.param("", "40", id="no text"),
        pytest.param("\u00fc", "42c3bc", id="text"),
        pytest.param("a" * 300, "59012c" + "61" * 300, id="long text"),
        pytest.param([1, [2, 3]], "8201820203", id="list"),
        pytest.param([], "80", id="empty list"),
        pytest.param({"bb": 1, "c": 2, "a": 3}, "a341610341630242626201", id="keys, the shortest first"),
    ],
)
def test_values(value: object, expected: str) -> None:
    """Each value in its shortest form, texts as byte strings."""
    assert encode_object({"k": value}) == HEAD + bytes.fromhex(expected)


@pytest.mark.parametrize("value", [1.5, 2**64, b"bytes", {1, 2}], ids=repr)
def test_unsupported_types_are_rejected(value: object) -> None:
    """The objects that are served hold none of these."""
    with pytest.raises(TypeError, match=r"CBOR"):
        encode_object({"k": value})
