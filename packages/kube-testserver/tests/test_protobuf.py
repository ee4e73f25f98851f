"""Bodies in protobuf: what a Go client sent, and everything the table knows, there and back."""

from __future__ import annotations

import base64
import struct
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from kube_testserver.protobuf import BadProtobufError, UnknownKindError, decode, decode_protobuf

PROTOBUF = "application/vnd.kubernetes.protobuf"
#: What `kubectl create serviceaccount bob` sends.
ACCOUNT = bytes.fromhex(
    "6b3873000a140a027631120e536572766963654163636f756e7412150a130a03626f6212001a0022002a003200380042001a002200"
)
TABLE = decode._table()


async def test_protobuf_bodies_of_kubectl(api: Any) -> None:
    """The zeros that Go writes for what was not set are not there."""
    assert decode_protobuf(ACCOUNT) == {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "bob"}}
    path = "/api/v1/namespaces/default/serviceaccounts"
    made = await api.ok("POST", path, ACCOUNT, content_type=PROTOBUF)
    assert made["metadata"]["name"] == "bob"


# --- a plain writer, to read back ----------------------------------------------------------------


def varint(number: int) -> bytes:
    """Write a number, seven bits a byte."""
    number %= 1 << 64
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes) -> bytes:
    """Write a field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Write a whole body."""
    named = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, named) + field(2, raw) + field(3, b"") + field(4, b"")


TEXTS = st.text(max_size=3)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
#: A value of each type: what JSON shows, what is written, and whether it is the type's zero.
VALUES: dict[str, st.SearchStrategy[tuple[Any, int | bytes]]] = {
    "s": TEXTS.map(lambda text: (text, text.encode())),
    "i": NUMBERS.map(lambda number: (number, number % (1 << 64))),
    "t": st.booleans().map(lambda truth: (truth, int(truth))),
    "b": st.binary(max_size=3).map(lambda raw: (base64.b64encode(raw).decode(), raw)),
    "@quantity": st.sampled_from(("1", "100m", "8Gi")).map(lambda text: (text, field(1, text.encode()))),
    "@intstr": st.one_of(
        st.integers(1, 9).map(lambda number: (number, field(1, 0) + field(2, number) + field(3, b""))),
        st.just(("50%", field(1, 1) + field(2, 0) + field(3, b"50%"))),
    ),
    "@time": st.just(("2026-01-01T00:00:01Z", field(1, 1_767_225_601) + field(2, 0))),
    "@micro": st.just(("2026-01-01T00:00:01.500000Z", field(1, 1_767_225_601) + field(2, 500_000_000))),
    "@raw": st.just(({"a": [1]}, field(1, b'{"a":[1]}'))),
    "@fields": st.just(({"f:x": {}}, field(1, b'{"f:x":{}}'))),
    "@duration": st.integers(1, 9).map(lambda number: (number, field(1, number))),
    "@items": st.lists(TEXTS, max_size=2).map(
        lambda texts: (texts, b"".join(field(1, text.encode()) for text in texts))
    ),
}


@st.composite
def values(draw: st.DrawFn, type_: str, depth: int) -> tuple[Any, int | bytes]:
    """Draw a value of a type: as JSON shows it, and as it is written."""
    strategy = VALUES.get(type_)
    return draw(strategy) if strategy is not None else draw(messages(type_, depth + 1))


@st.composite
def messages(draw: st.DrawFn, name: str, depth: int = 0) -> tuple[dict[str, Any], bytes]:
    """Draw a message with some of its fields, fewer the deeper it lies."""
    numbers = st.sampled_from(sorted(TABLE[name])) if TABLE[name] and depth < 4 else st.nothing()
    shown: dict[str, Any] = {}
    raw = b""
    for number in draw(st.lists(numbers, max_size=3, unique=True)) if depth < 4 and TABLE[name] else ():
        key, type_ = TABLE[name][number]
        pointer, plain = type_.startswith("*"), type_.removeprefix("*")
        if plain.startswith("["):
            parts = draw(st.lists(values(plain[1:], depth), min_size=1, max_size=2))
            shown[key] = [json for json, _ in parts]
            raw += b"".join(field(number, written) for _, written in parts)
        elif plain.startswith("{"):
            inner, written = draw(values(plain[1:], depth))
            shown[key] = {"k": inner}
            raw += field(number, field(1, b"k") + field(2, written))
        else:
            json, written = draw(values(plain, depth))
            raw += field(number, written)
            if not key:
                shown |= json
            elif pointer or json not in ("", 0, {}):
                shown[key] = json
    return shown, raw


GROUPS = {"core": "v1", "rbac": "rbac.authorization.k8s.io/v1", "apps": "apps/v1", "policy": "policy/v1"}
KINDS = [
    "core.Pod",
    "core.Node",
    "core.PersistentVolume",
    "core.Event",
    "apps.StatefulSet",
    "policy.PodDisruptionBudget",
    "rbac.ClusterRole",
]


@pytest.mark.slow
def test_everything_in_the_table_there_and_back() -> None:
    """What is written field by field comes back as the JSON it stands for; every type comes up."""
    fired: Counter[str] = Counter()

    @settings(max_examples=20 * settings.default.max_examples // 3)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(KINDS))
        group, _, kind = name.partition(".")
        shown, raw = data.draw(messages(name))
        body = envelope(GROUPS[group], kind, raw)
        assert decode_protobuf(body) == {"kind": kind, "apiVersion": GROUPS[group], **shown}
        fired[name] += 1

    check()
    assert set(fired) == set(KINDS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", [*sorted(VALUES), "core.Toleration"])
def test_every_type(type_: str) -> None:
    """Each type is read as it is written, also in an unknown field's company."""

    @settings(max_examples=20)
    @given(values(type_, 0))
    def check(value: tuple[Any, int | bytes]) -> None:
        shown, written = value
        assert decode._value(type_, written, 0) == shown

    check()


def test_the_table_is_whole() -> None:
    """Every type that a field names is there, or has a rule."""
    types = {type_.lstrip("*[{") for fields in TABLE.values() for _, type_ in fields.values()}
    assert types <= TABLE.keys() | decode._RULES.keys()
    assert {
        "core.Pod",
        "policy.Eviction",
        "authorization.SelfSubjectAccessReview",
        "meta.DeleteOptions",
    } <= TABLE.keys()


def test_numbers_may_be_packed() -> None:
    """A list of numbers comes one by one or in one piece; floating point is eight bytes; unknown fields are skipped."""
    groups = field(4, varint(7) + varint(8)) + field(4, 9) + field(99, b"x") + varint(98 << 3 | 5) + b"\0\0\0\0"
    pod = envelope("v1", "Pod", field(2, field(14, groups)))
    assert decode_protobuf(pod)["spec"]["securityContext"]["supplementalGroups"] == [7, 8, 9]
    assert decode._value("f", int.from_bytes(struct.pack("<d", 0.5), "little"), 0) == 0.5


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="json"),
        pytest.param(b"k8s\0\x0a", id="cut after the key"),
        pytest.param(b"k8s\0\x0a\x05ab", id="cut in a field"),
        pytest.param(b"k8s\0" + b"\xff" * 12, id="a number without end"),
        pytest.param(b"k8s\0\x0b", id="wire type"),
        pytest.param(envelope("v1", "Pod", field(1, 5)), id="a number for a message"),
        pytest.param(envelope("v1", "Pod", field(1, field(1, b"\xff"))), id="not utf-8"),
        pytest.param(envelope("v1", "Pod", field(1, field(7, b"x"))), id="text for a number"),
        pytest.param(envelope("apps/v1", "ControllerRevision", field(2, field(1, b"{"))), id="json within"),
    ],
)
async def test_invalid_protobuf_is_refused(api: Any, body: bytes) -> None:
    """It is refused in one line, and nothing breaks."""
    with pytest.raises(BadProtobufError):
        decode_protobuf(body)
    if body:
        status, reason, message = await api.refused("POST", "/api/v1/namespaces", body, content_type=PROTOBUF)
        assert (status, reason, "\n" in message) == (400, "BadRequest", False)


def test_random_bytes_break_nothing() -> None:
    """Whatever comes, it is an object or refused."""

    @given(st.binary(max_size=40))
    def check(raw: bytes) -> None:
        try:
            decoded = decode_protobuf(envelope("v1", "Pod", raw))
        except BadProtobufError:
            return
        assert msgspec.json.encode(decoded)

    check()


async def test_a_kind_without_numbers(api: Any) -> None:
    """Custom resources have no protobuf, here as there."""
    body = envelope("example.com/v1", "Thing", b"")
    with pytest.raises(UnknownKindError):
        decode_protobuf(body)
    assert (await api.refused("POST", "/api/v1/namespaces", body, content_type=PROTOBUF))[0] == 415


async def test_evictions_and_deletions(api: Any, cluster: Any, pod: Any) -> None:
    """What `kubectl drain` sends."""
    cluster.add(pod("p"), pod("q"))
    identity = field(1, b"p") + field(3, b"default")
    body = envelope("policy/v1", "Eviction", field(1, identity) + field(2, field(1, 0)))
    await api.ok("POST", "/api/v1/namespaces/default/pods/p/eviction", body, content_type=PROTOBUF)
    options = envelope("v1", "DeleteOptions", field(1, 0))
    await api.ok("DELETE", "/api/v1/namespaces/default/pods/q", options, content_type=PROTOBUF)
    assert not cluster.pods()
