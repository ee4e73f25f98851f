"""The base class of pyscheduler's errors, and the errors that report invalid values and failed API requests."""

from __future__ import annotations

__all__ = [
    "APIError",
    "AlreadyExistsError",
    "ConfigError",
    "ConflictError",
    "DecodeError",
    "ForbiddenError",
    "GoneError",
    "NotFoundError",
    "PySchedulerError",
    "QuantityError",
    "SelectorError",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
]


class PySchedulerError(Exception):
    """Report a mistake that a user can mend; the message is one line and complete.

    Commands print it without a traceback. A bug raises some other exception.
    """


class QuantityError(PySchedulerError, ValueError):
    """Report a text that the API server would refuse as a resource quantity."""


class SelectorError(PySchedulerError, ValueError):
    """Report a label, field or node selector that cannot be evaluated."""


class DecodeError(PySchedulerError, ValueError):
    """Report bytes from the wire that are not the object they should be."""


class ConfigError(PySchedulerError):
    """Report every mistake of a configuration at once; mend the file at the paths it names.

    `problems` holds one line per mistake, each ending in its path (`... @ $.profiles[0].plugins`); the text has a line
    for each, beginning with `source`.
    """

    def __init__(self, *problems: str, source: str | None = None) -> None:
        self.problems = problems
        self.source = source
        where = f"{source}: " if source else ""
        super().__init__("\n".join(where + problem for problem in problems))


class TransportError(PySchedulerError):
    """Report that no answer came: refused, reset, timed out, or cut off mid-stream. Retrying may help."""


class APIError(PySchedulerError):
    """Carry the API server's own refusal: HTTP `status`, its `reason` (CamelCase) and message.

    `said` is the message as the server worded it, which is what kube-scheduler shows to users; the text of the error
    also names the request, for logs.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        reason: str = "",
        retry_after_seconds: float | None = None,
        said: str = "",
    ) -> None:
        self.status = status
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        self.said = said or message
        super().__init__(message)


class UnauthorizedError(APIError):
    """401: the credentials were not accepted; mend the kubeconfig or renew the token."""


class ForbiddenError(APIError):
    """403: the credentials lack a permission; the message names verb and resource."""


class NotFoundError(APIError):
    """404: the object, or its kind, does not exist (yet)."""


class AlreadyExistsError(APIError):
    """409 AlreadyExists: an object of that name is there."""


class ConflictError(APIError):
    """409 Conflict: the object changed since it was read, or is already bound; read again before you retry."""


class GoneError(APIError):
    """410: the resourceVersion is too old; list again."""


class TooManyRequestsError(APIError):
    """429: the server is busy, or a disruption budget forbids an eviction; wait `retry_after_seconds`."""
