"""JSON patch and JSON merge patch, by the examples of their RFCs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_testserver.patching.json_patches import PatchError, apply_json_patch, apply_merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="add a member"),
        pytest.param([1, 3], [{"op": "add", "path": "/1", "value": 2}], [1, 2, 3], id="add into a list"),
        pytest.param([1], [{"op": "add", "path": "/-", "value": 2}], [1, 2], id="append"),
        pytest.param({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}, id="add over"),
        pytest.param({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}, id="remove"),
        pytest.param([1, 2, 3], [{"op": "remove", "path": "/1"}], [1, 3], id="remove from a list"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}, id="replace"),
        pytest.param({"a": [1]}, [{"op": "replace", "path": "/a/0", "value": 5}], {"a": [5]}, id="replace in a list"),
        pytest.param(
            {"a": {"b": 1}, "c": {}},
            [{"op": "move", "from": "/a/b", "path": "/c/d"}],
            {"a": {}, "c": {"d": 1}},
            id="move",
        ),
        pytest.param({"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}, id="copy"),
        pytest.param({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}], {"m~n": 2}, id="escaped slash"),
        pytest.param({"m~n": 2}, [{"op": "test", "path": "/m~0n", "value": 2}], {"m~n": 2}, id="escaped tilde, test"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}, id="whole document"),
        pytest.param({"a": 1}, [{"op": "test", "path": "/x", "value": None}], {"a": 1}, id="missing equals null"),
    ],
)
def test_json_patch(document: Any, operations: Any, expected: Any) -> None:
    """RFC 6902: every operation, on objects and lists; the document given stays as it was."""
    before = copy.deepcopy(document)
    assert apply_json_patch(document, operations) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        pytest.param({}, {"op": "remove", "path": "/a"}, id="remove what is not there"),
        pytest.param({}, {"op": "replace", "path": "/a", "value": 1}, id="replace what is not there"),
        pytest.param({}, {"op": "add", "path": "/a/b", "value": 1}, id="add below nothing"),
        pytest.param([1], {"op": "add", "path": "/2", "value": 1}, id="beyond the end"),
        pytest.param([1], {"op": "remove", "path": "/-"}, id="remove the end"),
        pytest.param([1], {"op": "remove", "path": "/01"}, id="leading zero"),
        pytest.param({"a": 1}, {"op": "test", "path": "/a", "value": 2}, id="failed test"),
        pytest.param({"a": True}, {"op": "test", "path": "/a", "value": 1}, id="true is not 1"),
        pytest.param({"a": [1.5]}, {"op": "test", "path": "/a", "value": [True]}, id="lists compare item by item"),
        pytest.param({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": "/a/b"}, id="move into itself"),
        pytest.param({"a": 1}, {"op": "remove", "path": ""}, id="remove everything"),
        pytest.param({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}, id="below a number"),
        pytest.param({"a": 1}, {"op": "copy", "from": "/b", "path": "/c"}, id="copy nothing"),
        pytest.param({"a": 1}, {"op": "turn", "path": "/a"}, id="unknown operation"),
    ],
)
def test_json_patch_that_does_not_apply(document: Any, operation: Any) -> None:
    """An operation that does not apply is an error, but not a malformed patch."""
    with pytest.raises(PatchError) as refusal:
        apply_json_patch(document, [operation])
    assert not refusal.value.malformed


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param({"op": "add"}, id="no list"),
        pytest.param([1], id="no operation"),
        pytest.param([{"op": "remove", "path": "a"}], id="no pointer"),
        pytest.param([{"op": "remove"}], id="no path"),
        pytest.param([{"op": "add", "path": "/a"}], id="no value"),
        pytest.param([{"op": "test", "path": "/a"}] * 10_001, id="too many"),
    ],
)
def test_malformed_json_patch(operations: Any) -> None:
    """What is no JSON patch at all is told apart from one that does not apply."""
    with pytest.raises(PatchError) as refusal:
        apply_json_patch({"a": 1}, operations)
    assert refusal.value.malformed


@given(JSON, JSON)
def test_merge_patch_is_idempotent(target: Any, patch: Any) -> None:
    """Applying a merge patch twice is applying it once."""
    once = apply_merge_patch(target, patch)
    assert apply_merge_patch(once, patch) == once


@given(JSON, JSON)
def test_replacing_the_document_by_json_patch(document: Any, value: Any) -> None:
    """A replaced root is the value, and testing it against itself holds."""
    operations = [{"op": "add", "path": "", "value": value}, {"op": "test", "path": "", "value": value}]
    assert apply_json_patch(document, operations) == value
