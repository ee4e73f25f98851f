"""CBOR (RFC 8949) as Kubernetes writes it, for objects of mappings, lists, texts, integers, booleans and null.

An object begins with the tag of self-described CBOR, texts are byte strings, and keys are sorted by their encoding.

Source: apimachinery's runtime/serializer/cbor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["encode_object"]

_SELF_DESCRIBED: Final = b"\xd9\xd9\xf7"
_CONSTANTS: Final = {False: b"\xf4", True: b"\xf5", None: b"\xf6"}
_UNSIGNED: Final = 0
_NEGATIVE: Final = 1
_BYTE_STRING: Final = 2
_ARRAY: Final = 4
_MAP: Final = 5
#: Numbers below this are in the first byte; greater ones in the 1, 2, 4 or 8 bytes after it.
_IN_FIRST_BYTE: Final = 24


def encode_object(found: Mapping[str, object]) -> bytes:
    """Return the encoding of a Kubernetes object; raise `TypeError` for a value of another type."""
    return _SELF_DESCRIBED + _encode(found)


def _encode(value: object) -> bytes:
    match value:
        case None | bool():
            return _CONSTANTS[value]
        case int():
            return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
        case str():
            data = value.encode()
            return _head(_BYTE_STRING, len(data)) + data
        case Mapping():
            items = sorted((_encode(key), _encode(item)) for key, item in value.items())
            return _head(_MAP, len(items)) + b"".join(key + item for key, item in items)
        case list() | tuple():
            return _head(_ARRAY, len(value)) + b"".join(map(_encode, value))
    raise TypeError(f"{type(value).__name__} has no CBOR encoding here")


def _head(kind: int, number: int) -> bytes:
    """Return the first bytes of an item: its kind, and its value or length."""
    if number < _IN_FIRST_BYTE:
        return bytes([kind << 5 | number])
    for exponent in range(4):
        if number < 1 << (8 << exponent):
            return bytes([kind << 5 | _IN_FIRST_BYTE + exponent]) + number.to_bytes(1 << exponent, "big")
    raise TypeError(f"{number} is too large for CBOR")
