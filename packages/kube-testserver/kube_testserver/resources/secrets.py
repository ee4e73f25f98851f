"""The write-only field `stringData` of a Secret: text that is merged into `data` before the Secret is stored."""

from __future__ import annotations

import base64
import re
import string
from typing import TYPE_CHECKING, Final

from kube_testserver import errors

if TYPE_CHECKING:
    from kube_testserver.store import Object

__all__ = ["merge_string_data"]

_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ALPHABET: Final = string.ascii_letters + string.digits + "+/\r\n"
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
        place = len(text) - len(text.lstrip(_ALPHABET))
        why = f"illegal base64 data at input byte {place}"
        raise errors.bad_request(f'Secret in version "v1" cannot be handled as a Secret: {why}')
    return base64.b64encode(base64.b64decode(joined)).decode()
