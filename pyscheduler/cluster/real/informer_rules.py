"""Decide whether an informer watches or lists next; this module does no I/O.

For example, the informer lists again if the server has forgotten the version of the watch (410), or if an event
contradicts the local copy.
"""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

from kube_objects.meta import is_older
from pyscheduler.framework.errors import (
    APIError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    TransportError,
    UnauthorizedError,
)

if TYPE_CHECKING:
    from pyscheduler.api import APIStatus

__all__ = ["PAGE", "SHORT_WATCH_SECONDS", "InformerRules", "Recovery", "RelistError", "SilenceError", "Step"]

#: Objects per page of a list; a page of large pods takes some 10 ms to decode.
PAGE: Final = 500
#: A watch that ends sooner than this did not reach its timeout.
SHORT_WATCH_SECONDS: Final = 1.0
#: After this many silent watches in a row the version is suspect, and everything is listed again.
_SILENCES: Final = 2
#: An informer waits no longer than this because of a Retry-After header.
_RETRY_AFTER_LIMIT_SECONDS: Final = 60.0
_GONE: Final = 410
_BUSY: Final = 429
#: Refusals that do not concern the version of a watch; the next watch asks for the same version.
_NOT_ABOUT_VERSIONS: Final = frozenset({401, 403, 408, 429, 500, 502, 503})
#: After this many failures or fruitless watches in a row the informer lists again whatever the reason was.
_PATIENCE: Final = 5


class RelistError(Exception):
    """The copy cannot be continued from its version; the message says why."""


class SilenceError(Exception):
    """A watch was open and brought nothing, not even a bookmark."""


class Step(Enum):
    """The next step of an informer."""

    LIST = auto()
    CHECK_VERSION = auto()
    WATCH = auto()


class Recovery(NamedTuple):
    """The reaction of an informer to a failure: log `message`, count `warning`, and go on after `pause_seconds`.

    `key` names the error in the log line. `outage` reports the failure to the outage log. `absent` empties the copy.
    `fatal` ends the informer.
    """

    message: str
    level: int = logging.DEBUG
    warning: str = ""
    outage: bool = False
    absent: bool = False
    fatal: bool = False
    pause_seconds: float = 0.0
    key: str = "err"


@attrs.define
class InformerRules:
    """The progress of one informer: an `optional` kind may be absent, a `needed` one must not be refused."""

    optional: bool = False
    needed: bool = False
    #: The server may lack the API group of a kind, or this version of it, even if the kind is built in.
    may_be_absent: bool = False
    #: The version from which to watch; "" when a list is due.
    version: str = ""
    #: The first list was delivered, and the kind is still served.
    synced: bool = False
    #: The first list was delivered, or will not be: the kind is absent or refused.
    settled: bool = False
    page_size: int = PAGE
    #: The server that answers next may know less than this copy, for example after a restore from a backup. It would
    #: accept a watch from this version, and send no events.
    unsure: bool = False
    _failures: int = 0
    _silences: int = 0
    #: Watches in a row that ended at once and brought no event.
    _fruitless: int = 0

    def next_step(self) -> Step:
        """Return what to do next."""
        if not self.version:
            return Step.LIST
        return Step.CHECK_VERSION if self.unsure else Step.WATCH

    def listed(self, version: str) -> None:
        """Note a complete list at a version."""
        self.page_size, self.version, self.unsure = PAGE, version, False
        self.synced = self.settled = True

    def emptied(self) -> None:
        """Note that the kind is absent, and that the handlers know that all its objects are gone."""
        self.version, self.synced, self.settled = "", False, True

    def list_failed(self, error: APIError | TransportError) -> None:
        """Choose the page size of the next list: larger pages if this one outlived its version, else smaller ones."""
        larger = isinstance(error, GoneError)
        self.page_size = self.page_size * 4 if larger else max(self.page_size // 2, PAGE)

    def opened(self) -> None:
        """Note that the server accepted a watch."""
        self._failures = 0
        self._fruitless += 1

    def heard(self) -> None:
        """Note that the stream of a watch brought something."""
        self._silences = 0

    def check_order(self, version: str) -> None:
        """Raise `RelistError` if an event has an older version than the one before."""
        if is_older(version, self.version):
            raise RelistError(f"version {version} came after {self.version}")

    def advanced(self, version: str) -> None:
        """Note that an event or a bookmark of a version was applied."""
        self.version = version or self.version
        self._fruitless = 0

    def fell_silent(self) -> None:
        """Note that a watch brought nothing for too long; list again after the second one in a row."""
        self._silences += 1
        if self._silences >= _SILENCES:
            self._silences, self.version = 0, ""

    def refused_in_stream(self, status: APIStatus, what: str) -> APIError:
        """Return the error for a `Status` in a watch; list again unless the server was only busy."""
        message = f"{what}: {status.message or status.reason}"
        if status.code != _BUSY:
            self.version = ""
        if status.code == _GONE:
            return GoneError(message, status=_GONE, reason=status.reason)
        seconds = float(status.details.retry_after_seconds) if status.details is not None else None
        return APIError(message, status=status.code, reason=status.reason, retry_after_seconds=seconds)

    def ended(self, lasted_seconds: float) -> bool:
        """Note the end of a watch; return True if too many ended at once without an event, so that a list is due."""
        if lasted_seconds >= SHORT_WATCH_SECONDS:
            self._fruitless = 0
        elif self._fruitless >= _PATIENCE:
            self._fruitless, self.version = 0, ""
            return True
        return False

    def failed(self, error: Exception) -> Recovery:
        """Return what to do after a list or a watch failed."""
        self._failures += 1
        match error:
            case GoneError() | RelistError():
                self.version = ""
                return Recovery("Listing again", logging.INFO, "relisted", key="reason")
            case SilenceError():
                self.unsure = True
                return Recovery("Asking again", key="reason")
            case TransportError():
                self.unsure = True
                return Recovery("Reconnecting", warning="watch_broken", outage=True)
            case NotFoundError() if self.optional or self.may_be_absent:
                level = logging.WARNING if self.may_be_absent else logging.INFO
                news = self.synced or not self.settled
                return Recovery("Kind is not served", level if news else logging.DEBUG, absent=True)
            case APIError():
                return self._refused(error)
        self.version = ""
        return Recovery("Listing again after a fault", logging.ERROR, warning="informer_failed")

    def _refused(self, error: APIError) -> Recovery:
        """Return what to do after a refusal: give up a first list that is not permitted, else wait."""
        fatal = False
        if not self.settled and isinstance(error, UnauthorizedError | ForbiddenError | NotFoundError):
            fatal = self.needed or not self.optional
            self.settled = True
        if error.status not in _NOT_ABOUT_VERSIONS or self._failures >= _PATIENCE:
            self.version = ""
        pause = min(error.retry_after_seconds or 0.0, _RETRY_AFTER_LIMIT_SECONDS)
        return Recovery("API server refused", warning="watch_refused", outage=True, fatal=fatal, pause_seconds=pause)
