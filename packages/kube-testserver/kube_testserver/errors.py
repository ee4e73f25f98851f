"""Refusals of the API server: one exception, and a function for each kind of refusal.

Code, reason, details and message are those of kube-apiserver, because clients read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_objects.errors import APIError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "FieldProblem",
    "StatusError",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "internal_error",
    "invalid",
    "method_not_allowed",
    "not_found",
    "path_not_found",
    "precondition_failed",
    "success",
    "too_large",
    "too_large_version",
    "too_many_requests",
    "too_old_version",
    "unauthorized",
    "unsupported_media_type",
]

CONTINUE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."
OBJECT_MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(APIError):
    """Refuse a request with a `Status`; `details` and `continue_token` go into it where they are set."""

    def __init__(
        self,
        message: str,
        *,
        code: int,
        reason: str,
        details: dict[str, Any] | None = None,
        continue_token: str = "",
    ) -> None:
        retry = (details or {}).get("retryAfterSeconds")
        super().__init__(message, status=code, reason=reason, retry_after_seconds=retry)
        self.details = details
        self.continue_token = continue_token

    def as_status(self) -> dict[str, Any]:
        """Return the `Status` object, fields in the order the real server writes them."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": str(self),
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.status
        return status


class FieldProblem(msgspec.Struct, frozen=True):
    """Name one field that is wrong: its path, the kind of mistake (a `FieldValue...` reason) and the words for it."""

    field: str
    reason: str
    message: str

    @classmethod
    def required(cls, field: str, detail: str = "") -> FieldProblem:
        """Say that a field must be set."""
        return cls(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")

    @classmethod
    def invalid(cls, field: str, value: object, detail: str) -> FieldProblem:
        """Say that a field's value is not acceptable, and why."""
        return cls(field, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")

    @classmethod
    def forbidden(cls, field: str, detail: str) -> FieldProblem:
        """Say that a field may not be set or changed here."""
        return cls(field, "FieldValueForbidden", f"Forbidden: {detail}")

    @classmethod
    def duplicate(cls, field: str, value: str) -> FieldProblem:
        """Say that a list has a value twice."""
        return cls(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')

    @classmethod
    def unsupported(cls, field: str, value: object, supported: Sequence[str]) -> FieldProblem:
        """Say that a field has an unsupported value."""
        known = ", ".join(_shown(item) for item in supported)
        return cls(field, "FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {known}")


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _resource_details(group: str, plural: str, name: str) -> dict[str, Any]:
    return {key: value for key, value in (("name", name), ("group", group), ("kind", plural)) if value}


def _about(group: str, plural: str, name: str, message: str, code: int, reason: str) -> StatusError:
    """Return a refusal whose details name an object."""
    return StatusError(message, code=code, reason=reason, details=_resource_details(group, plural, name))


def _qualified(group: str, plural: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> StatusError:
    """404: no object of that name."""
    return _about(group, plural, name, f'{_qualified(group, plural)} "{name}" not found', 404, "NotFound")


def path_not_found() -> StatusError:
    """404: the group is served, the resource is not."""
    return StatusError("the server could not find the requested resource", code=404, reason="NotFound", details={})


def already_exists(group: str, plural: str, name: str, *, generated: bool = False) -> StatusError:
    """409 AlreadyExists; `generated` when random names kept colliding."""
    tail = ", the server was not able to generate a unique name for the object" if generated else ""
    return _about(
        group, plural, name, f'{_qualified(group, plural)} "{name}" already exists{tail}', 409, "AlreadyExists"
    )


def conflict(group: str, plural: str, name: str, why: str = OBJECT_MODIFIED) -> StatusError:
    """409 Conflict: the object is not what the writer believed it to be."""
    return _about(
        group,
        plural,
        name,
        f'Operation cannot be fulfilled on {_qualified(group, plural)} "{name}": {why}',
        409,
        "Conflict",
    )


def precondition_failed(group: str, plural: str, name: str, key: str, why: str) -> StatusError:
    """409 Conflict: the object under a key of the storage is not the one that was meant, in the storage's own words."""
    detail = f"invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {why}"
    return conflict(group, plural, name, f"StorageError: {detail}")


def forbidden(group: str, plural: str, name: str, why: str) -> StatusError:
    """403: an admission rule says no."""
    subject = f'{_qualified(group, plural)} "{name}"' if name else _qualified(group, plural)
    return _about(group, plural, name, f"{subject} is forbidden: {why}", 403, "Forbidden")


def unauthorized() -> StatusError:
    """401: credentials were given, and are not good."""
    return StatusError("Unauthorized", code=401, reason="Unauthorized")


def bad_request(message: str) -> StatusError:
    """400: the request cannot be understood."""
    return StatusError(message, code=400, reason="BadRequest")


def invalid(group: str, kind: str, name: str, problems: Sequence[FieldProblem]) -> StatusError:
    """422: the object is understood, and wrong; every problem is named."""
    words = list(dict.fromkeys(f"{problem.field}: {problem.message}" for problem in problems))
    text = words[0] if len(words) == 1 else f"[{', '.join(words)}]"
    details = _resource_details(group, kind, name)
    details["causes"] = [
        {"reason": problem.reason, "message": problem.message, "field": problem.field} for problem in problems
    ]
    return StatusError(
        f'{_qualified(group, kind)} "{name}" is invalid: {text}', code=422, reason="Invalid", details=details
    )


def expired(message: str, *, continue_token: str = "") -> StatusError:
    """410: the version asked for is no longer kept; list again."""
    return StatusError(message, code=410, reason="Expired", continue_token=continue_token)


def too_old_version(asked: int, oldest: int) -> StatusError:
    """410: a watch asks for events that are no longer kept."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large_version(asked: int, current: int) -> StatusError:
    """504: the version asked for has not happened yet."""
    return StatusError(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        code=504,
        reason="Timeout",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def method_not_allowed() -> StatusError:
    """405: the resource is there, the verb is not."""
    return StatusError(
        "the server does not allow this method on the requested resource",
        code=405,
        reason="MethodNotAllowed",
        details={},
    )


def unsupported_media_type(message: str, *, details: dict[str, Any] | None = None) -> StatusError:
    """415: a patch or body of a type that this resource does not take."""
    return StatusError(message, code=415, reason="UnsupportedMediaType", details=details)


def too_many_requests(message: str, retry_after_seconds: int, *, causes: Any = None) -> StatusError:
    """429: come back later."""
    details: dict[str, Any] = {}
    if causes:
        details["causes"] = causes
    if retry_after_seconds:
        details["retryAfterSeconds"] = retry_after_seconds
    return StatusError(message, code=429, reason="TooManyRequests", details=details)


def too_large(limit_bytes: int) -> StatusError:
    """413: the body of a request is over the limit."""
    return StatusError(f"Request entity too large: limit is {limit_bytes}", code=413, reason="RequestEntityTooLarge")


def internal_error(message: str) -> StatusError:
    """500: the server's own fault."""
    return StatusError(
        f"Internal error occurred: {message}",
        code=500,
        reason="InternalError",
        details={"causes": [{"message": message}]},
    )


def success(code: int | None = None, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the `Status` that says yes: of a binding (`code` 201) or of a deletion (`details` name what went)."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code is not None:
        status["code"] = code
    return status
