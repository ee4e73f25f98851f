"""From the API server's answers to our errors."""

from __future__ import annotations

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
    from pyscheduler.scheduler.ports import Response

__all__ = ["error_of", "raise_for_status"]

_OK_BELOW: Final = 300
_CONFLICT: Final = 409
_BY_STATUS: Final[dict[int, type[APIError]]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    429: TooManyRequestsError,
}
#: How much of a body that is no Status is quoted, in characters.
_QUOTE: Final = 200


class _Details(msgspec.Struct):
    retryAfterSeconds: float | None = None  # noqa: N815 - wire name


class _Status(msgspec.Struct):
    kind: str = ""
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


def raise_for_status(response: Response, what: str) -> bytes:
    """Return the body of a success; raise the fitting `APIError` otherwise. `what` names the request in the message."""
    if response.status < _OK_BELOW:
        return response.body
    raise error_of(response.status, response.body, response.headers.get("retry-after", ""), what)


def error_of(status: int, body: bytes, retry_after: str, what: str) -> APIError:
    """Return the error that an answer stands for; a proxy's HTML page is quoted in one line."""
    try:
        parsed = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        parsed = _Status()
    if parsed.kind == "Status":
        message, reason = parsed.message or "", parsed.reason or ""
    else:
        text = " ".join(body.decode("utf-8", "replace").split())
        message, reason = text[:_QUOTE], ""
    kind = _BY_STATUS.get(status, APIError)
    if status == _CONFLICT and reason == "AlreadyExists":
        kind = AlreadyExistsError
    seconds = _seconds(retry_after)
    if seconds is None and parsed.details is not None:
        seconds = parsed.details.retryAfterSeconds
    return kind(f"{what}: {message or f'HTTP {status}'}", status=status, reason=reason, retry_after_seconds=seconds)


def _seconds(text: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:  # a date: then the caller's own backoff serves as well
        return None
