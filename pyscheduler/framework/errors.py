"""The exceptions of pyscheduler: mistakes of users, failures of plugins, error answers of the API server.

Expected outcomes, such as a rejected pod, are values (`Status`), not exceptions.
"""

from __future__ import annotations

from asyncio import CancelledError, current_task
from typing import Final, TypeVar

from kube_objects.errors import (
    AlreadyExistsError,
    APIError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    PySchedulerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)

__all__ = [
    "PLUGIN_FAILURES",
    "APIError",
    "AlreadyExistsError",
    "ConfigError",
    "ConflictError",
    "ForbiddenError",
    "GoneError",
    "NotFoundError",
    "PluginError",
    "PySchedulerError",
    "TooManyRequestsError",
    "TransportError",
    "UnauthorizedError",
    "os_error_text",
    "raise_own_cancellation",
    "text_of",
    "without_frames",
]

E = TypeVar("E", bound=BaseException)

#: What a plugin's plain function may raise without costing more than its answer. A `CancelledError` out of one comes
#: from a cancelled future that it read, and is nobody's cancellation: nothing was awaited. `SystemExit` is a library's
#: `sys.exit()`. Let through, the one would silently end the watch or the loop that called, and the other the program.
PLUGIN_FAILURES: Final = (Exception, CancelledError, SystemExit)


class PluginError(PySchedulerError):
    """Report a plugin that broke the contract or raised; `plugin` and `extension_point` name the culprit."""

    def __init__(self, message: str, *, plugin: str, extension_point: str = "") -> None:
        self.plugin = plugin
        self.extension_point = extension_point
        super().__init__(message)


def raise_own_cancellation(error: BaseException) -> None:
    """Raise `error` if it is the cancellation of the current task, and not of something that the task awaited."""
    task = current_task()
    if isinstance(error, CancelledError) and task is not None and task.cancelling():
        raise error


def without_frames(error: E) -> E:
    """Return an error that may be kept: without the frames in which it and its causes were raised.

    A frame keeps everything that its function had in hand, and the frames of all callers.
    """
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            left += (
                each.__cause__,
                each.__context__,
                *(each.exceptions if isinstance(each, BaseExceptionGroup) else ()),
            )
    return error


def os_error_text(error: OSError) -> str:
    """Return what the operating system says of an error, in lower case and without the file's name."""
    return (error.strerror or str(error)).lower()


def text_of(error: BaseException) -> str:
    """Return what users read of an error: of an API server's refusal what it said, as in kube-scheduler's messages."""
    try:
        return error.said if isinstance(error, APIError) else str(error)
    except PLUGIN_FAILURES:
        return "<exception str() failed>"  # as in tracebacks
