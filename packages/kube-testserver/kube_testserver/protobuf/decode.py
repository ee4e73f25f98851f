"""Convert protobuf request bodies to JSON.

A body is four magic bytes and an envelope, which names the kind and contains the object.

`fields.json.gz` has the name and the type of each field: ``s`` text, ``i`` integer, ``t`` boolean, ``f`` floating
point, ``b`` bytes, a message's name, or a special type such as ``@time``. In front of the type, ``*`` is a pointer,
``[`` a list, ``{`` a map with text keys. If a field has no name, its content is merged into the surrounding message.
"""

from __future__ import annotations

import base64
import functools
import gzip
import struct
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.times import format_micro_time, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kube_testserver.store import Object

__all__ = ["PROTOBUF", "BadProtobufError", "UnknownKindError", "decode_protobuf"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_MARK: Final = b"k8s\0"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SIGN: Final = 1 << 63
_DEEPEST: Final = 64

Value = int | bytes
"""A value on the wire: a number, or bytes that the field's type explains."""


class BadProtobufError(Exception):
    """The bytes are no such body; the text says why."""


class UnknownKindError(Exception):
    """The body is of a kind that has no field numbers here, as custom resources have none anywhere."""


@functools.cache
def _table() -> dict[str, dict[int, tuple[str, str]]]:
    packed = resources.files(__package__).joinpath("fields.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(packed), type=dict[str, dict[int, tuple[str, str]]])


def decode_protobuf(body: bytes) -> Object:
    """Return the object of a body; raise `BadProtobufError`, or `UnknownKindError` for a kind without numbers."""
    if not body.startswith(_MARK):
        raise BadProtobufError("the body does not begin as Kubernetes' protobuf does")
    api_version = kind = ""
    raw = b""
    for number, value in _fields(memoryview(body)[len(_MARK) :]):
        if number == 1 and isinstance(value, bytes):
            named = dict(_fields(memoryview(value)))
            api_version, kind = _text(named.get(1, b"")), _text(named.get(2, b""))
        elif number == 2 and isinstance(value, bytes):
            raw = value
    message = _message_of(api_version, kind)
    return {"kind": kind, "apiVersion": api_version, **_read(message, memoryview(raw), 0)}


def _message_of(api_version: str, kind: str) -> str:
    group = api_version.rpartition("/")[0]
    for name in (f"{group.partition('.')[0] or 'core'}.{kind}", f"meta.{kind}"):
        if name in _table():
            return name
    raise UnknownKindError(f"{api_version} {kind}")


# --- the wire -------------------------------------------------------------------------------------


def _fields(data: memoryview) -> Iterator[tuple[int, Value]]:
    """Yield number and value of each field, in the order they come."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire_type in (_FIXED64, _FIXED32):
            end = at + (8 if wire_type == _FIXED64 else 4)
            yield number, int.from_bytes(_cut(data, at, end), "little")
            at = end
        elif wire_type == _BYTES:
            length, at = _varint(data, at)
            yield number, bytes(_cut(data, at, at + length))
            at += length
        else:
            raise BadProtobufError(f"wire type {wire_type} is not in use")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result % (2 * _SIGN), at
    raise BadProtobufError("a number has no end")


def _cut(data: memoryview, start: int, end: int) -> memoryview:
    if end > len(data):
        raise BadProtobufError("a field is longer than what it is in")
    return data[start:end]


# --- messages -------------------------------------------------------------------------------------


def _read(message: str, data: memoryview, depth: int) -> Object:
    if depth > _DEEPEST:
        raise BadProtobufError("messages are nested too deep")
    known = _table()[message]
    obj: Object = {}
    for number, value in _fields(data):
        if number not in known:
            continue
        name, type_ = known[number]
        pointer = type_.startswith("*")
        type_ = type_.removeprefix("*")
        if type_.startswith("["):
            obj.setdefault(name, []).extend(_list_part(type_[1:], value, depth))
        elif type_.startswith("{"):
            key, inner = _entry(type_[1:], value, depth)
            obj.setdefault(name, {})[key] = inner
        else:
            read = _value(type_, value, depth)
            if not name:
                obj.update(read)
            elif pointer or read not in ("", 0, None, {}):  # a zero that is no pointer's is nothing; so is False
                obj[name] = read
    return obj


def _list_part(type_: str, value: Value, depth: int) -> Iterator[Any]:
    """Yield the elements that one field holds: one, or, of numbers packed together, many."""
    if type_ in ("i", "t") and isinstance(value, bytes):
        data, at = memoryview(value), 0
        while at < len(data):
            number, at = _varint(data, at)
            yield _value(type_, number, depth)
    else:
        yield _value(type_, value, depth)


def _entry(type_: str, value: Value, depth: int) -> tuple[str, Any]:
    parts = dict(_fields(memoryview(_as_bytes(value))))
    key = _text(parts.get(1, b""))
    if 2 in parts:
        return key, _value(type_, parts[2], depth)
    return key, _value(type_, 0 if type_ in ("i", "t", "f") else b"", depth)


def _value(type_: str, value: Value, depth: int) -> Any:
    rule = _RULES.get(type_)
    if rule is not None:
        return rule(value)
    return _read(type_, memoryview(_as_bytes(value)), depth + 1)


def _as_bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise BadProtobufError("a field has a number instead of bytes")
    return value


def _as_number(value: Value) -> int:
    if isinstance(value, bytes):
        raise BadProtobufError("a field has bytes instead of a number")
    return value - 2 * _SIGN if value & _SIGN else value


def _text(value: Value) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError as error:
        raise BadProtobufError("a text is not UTF-8") from error


def _parts(value: Value) -> dict[int, Value]:
    return dict(_fields(memoryview(_as_bytes(value))))


def _seconds(value: Value) -> float | None:
    """Return a timestamp in seconds since the epoch; None for Go's zero time, which is written as nothing."""
    parts = _parts(value)
    if not parts:
        return None
    return _as_number(parts.get(1, 0)) + _as_number(parts.get(2, 0)) / 1e9


def _time(value: Value) -> str | None:
    seconds = _seconds(value)
    return None if seconds is None else format_time(seconds)


def _micro_time(value: Value) -> str | None:
    seconds = _seconds(value)
    return None if seconds is None else format_micro_time(seconds)


def _int_or_string(value: Value) -> int | str:
    parts = _parts(value)
    return _text(parts.get(3, b"")) if parts.get(1) else _as_number(parts.get(2, 0))


def _json_within(value: Value) -> Any:
    raw = _as_bytes(_parts(value).get(1, b""))
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise BadProtobufError(f"JSON within the body cannot be read: {error}") from error


def _texts(value: Value) -> list[str]:
    return [_text(one) for number, one in _fields(memoryview(_as_bytes(value))) if number == 1]


_RULES: Final[dict[str, Callable[[Value], Any]]] = {
    "s": _text,
    "i": _as_number,
    "t": lambda value: bool(_as_number(value)),
    "f": lambda value: struct.unpack("<d", (_as_number(value) % (2 * _SIGN)).to_bytes(8, "little"))[0],
    "b": lambda value: base64.b64encode(_as_bytes(value)).decode(),
    "@time": _time,
    "@micro": _micro_time,
    "@quantity": lambda value: _text(_parts(value).get(1, b"")),
    "@intstr": _int_or_string,
    "@raw": _json_within,
    "@fields": _json_within,
    "@duration": lambda value: _as_number(_parts(value).get(1, 0)),
    "@items": _texts,
}
