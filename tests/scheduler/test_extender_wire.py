"""What is said to extenders, and what their answers mean."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.runtime.cooperative_yield import run_now
from pyscheduler.scheduler import extender_wire as wire
from pyscheduler.scheduler.extender_wire import ExtenderError, MetaVictims


def listed(nodes: msgspec.Raw | bytes) -> list[str]:
    """Return the names in a list of nodes."""
    return run_now(wire.read_node_list(nodes))


READERS: list[Callable[[bytes], object]] = [
    wire.read_filter_result,
    wire.read_priorities,
    wire.read_victims,
    wire.read_binding_error,
    listed,
]


def said(pieces: list[bytes]) -> Any:
    """Return what the pieces are together."""
    return json.loads(b"".join(pieces))


def test_questions() -> None:
    """Fields are spelled as in Go, and those that are not used are null."""
    pod = b'{"kind":"Pod"}'
    assert said(wire.filter_args(pod, names=["a", 'b"'], nodes=())) == {
        "Pod": {"kind": "Pod"},
        "Nodes": None,
        "NodeNames": ["a", 'b"'],
    }
    assert said(wire.filter_args(pod, names=None, nodes=[b"1", b"2"])) == {
        "Pod": {"kind": "Pod"},
        "Nodes": {"metadata": {}, "items": [1, 2]},
        "NodeNames": None,
    }
    assert said(wire.filter_args(pod, names=None, nodes=()))["Nodes"]["items"] == []
    victims = {"n1": ([b'"u1"', b'"u2"'], 1), "n2": ([], 0)}
    assert said(wire.preemption_args(pod, victims=victims, meta=True)) == {
        "Pod": {"kind": "Pod"},
        "NodeNameToVictims": None,
        "NodeNameToMetaVictims": {
            "n1": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1},
            "n2": {"Pods": [], "NumPDBViolations": 0},
        },
    }
    assert said(wire.preemption_args(pod, victims={"n1": ([pod], 0)}, meta=False))["NodeNameToVictims"] == {
        "n1": {"Pods": [{"kind": "Pod"}], "NumPDBViolations": 0}
    }
    assert said(wire.binding_args(name="p", namespace="s", uid="u", node_name="n")) == {
        "PodName": "p",
        "PodNamespace": "s",
        "PodUID": "u",
        "Node": "n",
    }


def test_answers_are_read_as_go_reads_them() -> None:
    """Names in any case, null for empty, and only the first value counts."""
    result = wire.read_filter_result(
        b'{"nodeNames":["a",null],"FAILEDNODES":{"b":"no","c":null},"nodes":{"items":[{"metadata":{"name":"d",'
        b'"labels":null},"status":5}]},"error":null,"unknown":[{}]} and more'
    )
    assert (result.node_names, result.error) == (["a", ""], "")
    assert result.nodes is not None
    assert listed(result.nodes) == ["d"]
    assert result.failed == {"b": "no", "c": ""}
    assert wire.read_filter_result(b"null") == wire.FilterResult()
    assert listed(b'{"items":null}') == []
    assert listed(b"{}") == []
    assert listed(b'{"items":[{"metadata":null}]}') == [""]
    assert wire.read_filter_result(b'{"FailedNodes":{"\xff":"\xfe"}}').failed == {"\ufffd": "\ufffd"}
    assert wire.read_priorities(b'[{"Host":"a","Score":-3},{"host":"b"},null]') == [("a", -3), ("b", 0), ("", 0)]
    assert wire.read_priorities(b"null") == []
    assert wire.read_victims(
        b'{"NodeNameToMetaVictims":{"n":{"pods":[{"uid":"u"},null],"numPDBViolations":2},"m":null}}'
    ) == {"n": MetaVictims(["u", ""], 2), "m": None}
    assert wire.read_binding_error(b'{"Error":"taken"}') == "taken"
    assert not wire.read_binding_error(b"{}")


@pytest.mark.parametrize(
    ("read", "body", "message"),
    [
        pytest.param(0, b"", "EOF", id="empty"),
        pytest.param(0, b" \n", "EOF", id="blank"),
        pytest.param(0, b"<html>", "invalid character '<' looking for beginning of value", id="html"),
        pytest.param(0, b'{"NodeNames":["a', "unexpected EOF", id="cut in a text"),
        pytest.param(0, b'{"NodeNames":["a"', "unexpected EOF", id="cut in a list"),
        pytest.param(0, b"{,}", "invalid character ',' looking for beginning of object key string", id="no key"),
        pytest.param(0, b'{"a" 1}', "invalid character '1' after object key", id="no colon"),
        pytest.param(0, b'{"a":1 2}', "invalid character '2' after object key:value pair", id="no comma"),
        pytest.param(0, b'{"a":NaN}', "invalid character 'N' looking for beginning of value", id="NaN"),
        pytest.param(
            0, b"[1]", "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult", id="a list"
        ),
        pytest.param(
            0,
            b'{"NodeNames":3}',
            "json: cannot unmarshal number into Go struct field ExtenderFilterResult.NodeNames of type []string",
            id="a number for a list",
        ),
        pytest.param(
            0,
            b'{"FailedNodes":{"a":true}}',
            "json: cannot unmarshal bool into Go struct field ExtenderFilterResult.FailedNodes of type string",
            id="a truth value for a reason",
        ),
        pytest.param(
            0,
            b'{"FailedNodes":["a"]}',
            "json: cannot unmarshal array into Go struct field ExtenderFilterResult.FailedNodes of type "
            "v1.FailedNodesMap",
            id="a list for a map",
        ),
        pytest.param(
            4,
            b'"all"',
            "json: cannot unmarshal string into Go struct field ExtenderFilterResult.Nodes of type v1.NodeList",
            id="a text for nodes",
        ),
        pytest.param(
            1,
            b'[{"Host":"a","Score":1.5}]',
            "json: cannot unmarshal number 1.5 into Go struct field HostPriority.Score of type int64",
            id="half a point",
        ),
        pytest.param(
            1,
            b'[{"Host":"a","Score":9223372036854775808}]',
            "json: cannot unmarshal number 9223372036854775808 into Go struct field HostPriority.Score of type int64",
            id="a score out of range",
        ),
        pytest.param(1, b"{}", "json: cannot unmarshal object into Go value of type v1.HostPriorityList", id="no list"),
        pytest.param(1, b"[5]", "json: cannot unmarshal number into Go value of type v1.HostPriority", id="no entry"),
        pytest.param(
            2,
            b'{"NodeNameToMetaVictims":[]}',
            "json: cannot unmarshal array into Go struct field ExtenderPreemptionResult.NodeNameToMetaVictims of type "
            "map[string]*v1.MetaVictims",
            id="victims without nodes",
        ),
        pytest.param(
            2,
            b'{"NodeNameToMetaVictims":{"n":{"Pods":{}}}}',
            "json: cannot unmarshal object into Go struct field MetaVictims.Pods of type []*v1.MetaPod",
            id="victims that are no list",
        ),
        pytest.param(
            3,
            b'{"Error":{}}',
            "json: cannot unmarshal object into Go struct field ExtenderBindingResult.Error of type string",
            id="an error that is no text",
        ),
    ],
)
def test_what_go_refuses_is_refused_in_its_words(read: int, body: bytes, message: str) -> None:
    """The error of the attempt, which users read, is the one that kube-scheduler would give."""
    with pytest.raises(ExtenderError) as told:
        READERS[read](body)
    assert str(told.value) == message


NAMES = [
    "NodeNames", "nodes", "FailedNodes", "failedAndUnresolvableNodes", "Error", "Host", "Score", "items", "metadata",
    "name", "NodeNameToMetaVictims", "Pods", "UID", "NumPDBViolations",
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.slow
def test_no_answer_breaks_anything() -> None:
    """Whatever comes back, whole, cut off or changed somewhere, is read or refused with `ExtenderError`."""
    counts: Counter[str] = Counter()

    @settings(max_examples=7 * settings.default.max_examples, deadline=None)
    @given(VALUES, st.data())
    def check(value: object, data: st.DataObject) -> None:
        body = json.dumps(value).encode()
        match data.draw(st.sampled_from(["whole", "cut", "changed"])):
            case "cut":
                body = body[: data.draw(st.integers(0, len(body)))]
            case "changed":
                at = data.draw(st.integers(0, len(body) - 1))
                body = body[:at] + data.draw(st.binary(max_size=3)) + body[at + 1 :]
        for read in READERS:
            try:
                read(body)
                counts["read"] += 1
            except ExtenderError:
                counts["refused"] += 1

    check()
    assert counts["read"] > 50
    assert counts["refused"] > 50
