"""The write-only half of a Secret: `stringData`, plain text that is merged into `data` before anything is stored.

The real server does this where it converts what a client sent into its own type, so it holds for every write. Values of
`data` are checked and written in the one spelling of base64 that Go's encoder has.
"""

from __future__ import annotations

import base64
import re
import string
from typing import TYPE_CHECKING, Final

from kube_testserver import errors

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["merge_string_data"]

_ALPHABET: Final = frozenset(string.ascii_letters + string.digits + "+/")
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_NEWLINES: Final = str.maketrans("", "", "\r\n")


def merge_string_data(secret: Object) -> Object:
    """Return a secret without `stringData`, whose values win over those of `data`; refuse (400) bad base64."""
    plain = secret.get("stringData") or {}
    data = {key: _normal(value) for key, value in (secret.get("data") or {}).items()}
    data |= {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
    merged = {name: value for name, value in secret.items() if name not in ("data", "stringData")}
    return {**merged, "data": data} if data else merged


def _normal(text: str) -> str:
    """Return base64 as Go writes it; it reads line breaks, and bits behind the last byte."""
    joined = text.translate(_NEWLINES)
    if _BASE64.fullmatch(joined) is None:
        why = f"illegal base64 data at input byte {_bad_byte(text.encode())}"
        raise errors.bad_request(f'Secret in version "v1" cannot be handled as a Secret: {why}')
    return base64.b64encode(base64.b64decode(joined)).decode()


def _bad_byte(raw: bytes) -> int:
    """Return the place that Go's decoder names: the wrong byte, or the beginning of an incomplete group of four."""
    in_group = 0
    for place, byte in enumerate(raw):
        character = chr(byte)
        if character in "\r\n":
            continue
        if character in _ALPHABET:
            in_group = (in_group + 1) % 4
            continue
        if character != "=" or in_group < 2:
            return place
        return _bad_padding(raw, place + 1, in_group)
    return len(raw) - in_group


def _bad_padding(raw: bytes, place: int, in_group: int) -> int:
    """Return the place of the mistake from the first `=` on, which ends the text: one more, or none, may follow it."""
    rest = [index for index in range(place, len(raw)) if raw[index] not in b"\r\n"]
    if in_group == 2:
        if not rest:
            return len(raw)
        if raw[rest[0]] != ord("="):
            return rest[0]
        rest = rest[1:]
    return rest[0] if rest else len(raw)
