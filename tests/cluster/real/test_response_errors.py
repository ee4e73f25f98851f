"""What the API server's answers, and those of others in its place, are made into."""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.cluster.real.response_errors import error_of, quoted, raise_for_status
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
from pyscheduler.scheduler.ports import Response


def status(reason: str = "", message: str = "", **details: object) -> bytes:
    """Return the body by which an API server refuses."""
    return msgspec.json.encode({"kind": "Status", "reason": reason, "message": message, "details": details})


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        pytest.param(401, status("Unauthorized"), UnauthorizedError, id="401"),
        pytest.param(403, status("Forbidden"), ForbiddenError, id="403"),
        pytest.param(404, status("NotFound"), NotFoundError, id="404"),
        pytest.param(404, b"404 page not found\n", NotFoundError, id="404-path"),
        pytest.param(404, b"<html>nothing here</html>", APIError, id="404-proxy"),
        pytest.param(409, status("Conflict"), ConflictError, id="409"),
        pytest.param(409, status("AlreadyExists"), AlreadyExistsError, id="409-exists"),
        pytest.param(410, status("Expired"), GoneError, id="410"),
        pytest.param(422, status("Invalid"), APIError, id="422"),
        pytest.param(429, status("TooManyRequests"), TooManyRequestsError, id="429"),
        pytest.param(500, status("InternalError"), APIError, id="500"),
        pytest.param(502, b"", APIError, id="502"),
        pytest.param(301, b"moved", APIError, id="redirect"),
    ],
)
def test_each_refusal_has_its_error(code: int, body: bytes, kind: type[APIError]) -> None:
    """Status and reason choose the class; both are kept, and what was asked is named."""
    error = error_of(code, body, {}, "list pods")
    assert type(error) is kind
    assert error.status == code
    assert str(error).startswith("list pods: ")
    assert "\n" not in str(error)


def test_servers_own_words_are_kept() -> None:
    """Message and reason are those of the Status."""
    body = status("Forbidden", 'pods is forbidden: User "x" cannot list resource "pods" in API group ""')
    error = error_of(403, body, {}, "list pods")
    assert str(error) == 'list pods: pods is forbidden: User "x" cannot list resource "pods" in API group ""'
    assert error.reason == "Forbidden"


@pytest.mark.parametrize(
    ("header", "detail", "expected"),
    [
        pytest.param("7", 3, 7.0, id="header-first"),
        pytest.param("", 3, 3.0, id="details"),
        pytest.param("Fri, 20 Nov 2026 10:00:00 GMT", None, None, id="date"),
        pytest.param("nan", None, None, id="nan"),
        pytest.param("inf", None, None, id="inf"),
        pytest.param("-5", None, None, id="negative"),
        pytest.param("", None, None, id="none"),
    ],
)
def test_retry_after(header: str, detail: float | None, expected: float | None) -> None:
    """Seconds are read from the header, else from the Status; what is no number of seconds is left out."""
    body = status("TooManyRequests", retryAfterSeconds=detail)
    assert error_of(429, body, {"retry-after": header}, "x").retry_after_seconds == expected


def test_foreign_page_is_quoted_in_one_line() -> None:
    """A proxy's error page is shown as text, short, without markup."""
    page = (
        b"<html><head><style>body {color: red}</style></head>\n<body><h1>Bad\nGateway</h1>" + b"x" * 5000 + b"</body>"
    )
    error = error_of(502, page, {}, "GET /api/v1")
    assert str(error).startswith("GET /api/v1: HTTP 502: Bad Gateway xxx")
    assert str(error).endswith("...")
    assert len(str(error)) < 260


def test_redirect_names_its_target() -> None:
    """An API server does not redirect: somebody else answered, and says where the way leads."""
    error = error_of(302, b"", {"location": "https://login.example.com/"}, "GET /api/v1")
    assert "redirected to https://login.example.com/" in str(error)


def test_success_is_its_body() -> None:
    """Everything below 300 is one."""
    assert raise_for_status(Response(status=201, body=b"{}", headers={}), "x") == b"{}"
    with pytest.raises(APIError, match="x: HTTP 300"):
        raise_for_status(Response(status=300, body=b"", headers={}), "x")


def test_nothing_and_bad_bytes_can_be_quoted() -> None:
    """Whatever came, quoting it does not fail."""
    assert quoted(b"") == ""
    assert quoted(b"\xff\xfe ok") == "\ufffd\ufffd ok"
    assert str(error_of(500, b"\xff", {}, "x")) == "x: HTTP 500: \ufffd"
    assert str(error_of(500, status(), {}, "x")) == "x: HTTP 500"
