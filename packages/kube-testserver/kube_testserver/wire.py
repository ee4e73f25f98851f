"""Helpers for requests and objects in JSON, for example to decode a body or to make a uid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kube_testserver import errors
from kube_testserver.store import decode

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from kube_testserver.store import Object

__all__ = [
    "decode_body",
    "go_json_error",
    "go_text",
    "is_true",
    "name_ending",
    "new_uid",
    "read_object",
    "tidy_metadata",
    "warning_header",
]

_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no look-alikes, as the real server
_NAME_ENDING_LENGTH: Final = 5
_METADATA_NAMES: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_METADATA_PLACES: Final = {name: place for place, name in enumerate(_METADATA_NAMES)}
_SUMMARY_LENGTH: Final = 30
#: How Python's decoder begins a message, and where Go's says that the mistake is; lists count as objects.
_SYNTAX: Final = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Illegal trailing comma before end of obj", "looking for beginning of object key string"),
    ("Expecting ':'", "after object key"),
    ("Expecting ','", "after object key:value pair"),
    ("Extra data", "after top-level value"),
    ("Invalid control", "in string literal"),
    ("Invalid \\", "in string escape code"),
)


def new_uid(rng: random.Random) -> str:
    """Return a random (version 4) UUID drawn from `rng`."""
    bits = rng.getrandbits(128) & ~(0xF000 << 64) & ~(0xC000 << 48) | (0x4000 << 64) | (0x8000 << 48)
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def name_ending(rng: random.Random) -> str:
    """Return what is appended to a generateName."""
    return "".join(rng.choices(_NAME_ALPHABET, k=_NAME_ENDING_LENGTH))


def tidy_metadata(metadata: Object) -> Object:
    """Return metadata in the order Go writes it, without what is empty."""
    names = [name for name, value in metadata.items() if (value or value == 0) and name in _METADATA_PLACES]
    names.sort(key=_METADATA_PLACES.__getitem__)
    return {name: metadata[name] for name in names}


def warning_header(warnings: Iterable[str]) -> str:
    """Return the header that carries warnings to a client."""
    return ", ".join(f"299 - {json.dumps(text, ensure_ascii=False)}" for text in warnings)


def is_true(text: str) -> bool:
    """Read a boolean of a query as Go does: all but two words say yes."""
    return bool(text) and text.lower() not in ("0", "false")


def read_object(raw: bytes) -> Object:
    """Return a JSON object; raise `ValueError` in the words of Go's decoder for what is none."""
    try:
        obj: Any = decode(raw)
    except ValueError as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {go_json_error(raw)}") from error
    if not isinstance(obj, dict):
        named = {list: "array", str: "string", bool: "bool"}.get(type(obj), "number")
        raise ValueError(  # noqa: TRY004 - callers treat both mistakes alike
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {named} into Go value of type "
            'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    return obj


def decode_body(body: bytes, kind: str) -> Object:
    """Decode a request's JSON object, or refuse it in the real server's words."""
    try:
        return read_object(body)
    except ValueError as error:
        why = f"the object provided is unrecognized (must be of type {kind}): {error} ({_summary(body)})"
        raise errors.bad_request(why) from error


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    shown = body[:_SUMMARY_LENGTH]
    text = shown.decode(errors="replace") if body[:1] == b"{" else shown.hex()
    return text if len(body) <= _SUMMARY_LENGTH else f"{text} ..."


def go_json_error(body: bytes) -> str:
    """Return what Go's JSON decoder says about bytes that are not JSON."""
    text = body.decode("latin-1")  # Go shows a byte that is no UTF-8 as the character of that number
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        shown = text[error.pos :].lstrip(" \t\r\n\\")[:1]  # Go names the character behind a backslash
        if not shown or error.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        quoted = {"'": "'\\''", '"': "'\"'"}.get(shown, f"'{shown}'")
        otherwise = "looking for beginning of value"
        where = next((words for start, words in _SYNTAX if error.msg.startswith(start)), otherwise)
        return f"invalid character {quoted} {where}"
    except RecursionError:
        return "exceeded max depth"
    return "invalid UTF-8 in string"


def go_text(value: Any) -> str:
    """Return how Go's ``%v`` prints decoded JSON: maps in the order of their keys, nothing in quotes."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{go_text(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(go_text(item) for item in value)}]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
