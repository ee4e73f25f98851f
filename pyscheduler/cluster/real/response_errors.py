"""Convert error answers of the API server to exceptions (`APIError` and its subclasses)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

import msgspec

from pyscheduler.framework.errors import (
    AlreadyExistsError,
    APIError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TooManyRequestsError,
    UnauthorizedError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyscheduler.scheduler.ports import Response

__all__ = ["error_of", "is_about_budgets", "quoted", "raise_for_status"]

_OK_BELOW: Final = 300
_ERROR_FROM: Final = 400
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_BUSY: Final = 429
_BY_STATUS: Final[dict[int, type[APIError]]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: TooManyRequestsError,
}
#: What an API server says of a path that no resource is served at; everything else of its own is a `Status`.
_NO_SUCH_PATH: Final = b"404 page not found"
#: How much of a body that is no `Status` is quoted, in characters.
_QUOTE: Final = 200
_TAG: Final = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.DOTALL | re.IGNORECASE)


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    kind: str = ""
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


def raise_for_status(response: Response, what: str) -> bytes:
    """Return the body of a success; raise the fitting `APIError` otherwise. `what` names the request in the message."""
    if response.status < _OK_BELOW:
        return response.body
    raise error_of(response.status, response.body, response.headers, what)


def error_of(status: int, body: bytes, headers: Mapping[str, str], what: str) -> APIError:
    """Return the error for an answer; header names are in lower case."""
    parsed = _parse(body)
    kind = _BY_STATUS.get(status, APIError)
    said = ""
    if parsed is not None:
        message, reason = parsed.message or f"HTTP {status}", parsed.reason or ""
        said = parsed.message or ""
        if status == _CONFLICT and reason == "AlreadyExists":
            kind = AlreadyExistsError
    else:
        message, reason = _foreign_message(status, body, headers), ""
        if status == _NOT_FOUND and body.strip() != _NO_SUCH_PATH:
            kind = APIError
    seconds = _seconds(headers.get("retry-after", ""))
    if seconds is None and parsed is not None and parsed.details is not None:
        seconds = parsed.details.retry_after_seconds
    return kind(f"{what}: {message}", status=status, reason=reason, retry_after_seconds=seconds, said=said)


def is_about_budgets(error: APIError) -> bool:
    """Return True if an eviction was refused, and not a request too many, of which servers tell in plain text."""
    return error.status == _BUSY and error.reason == "TooManyRequests" and "disruption budget" in str(error)


def quoted(body: bytes) -> str:
    """Return the beginning of a foreign body as one line of text, without markup."""
    text = " ".join(_TAG.sub(" ", body[: 20 * _QUOTE].decode("utf-8", "replace")).split())
    return text if len(text) <= _QUOTE else text[:_QUOTE] + "..."


def _parse(body: bytes) -> _Status | None:
    try:
        parsed = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return parsed if parsed.kind == "Status" else None


def _foreign_message(status: int, body: bytes, headers: Mapping[str, str]) -> str:
    if status < _ERROR_FROM:
        target = headers.get("location", "elsewhere")
        return f"HTTP {status}, redirected to {target}; name the API server's own address"
    text = quoted(body)
    return f"HTTP {status}: {text}" if text else f"HTTP {status}"


def _seconds(text: str) -> float | None:
    """Read a Retry-After in seconds; a date is None, the caller's own backoff then serves as well."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
