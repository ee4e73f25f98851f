"""Log outages of the API server: repeat one warning while list or watch requests fail."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from pyscheduler.framework.errors import APIError

if TYPE_CHECKING:
    from kube_objects.clock import Clock, Timer

__all__ = ["Outages"]

_log = logging.getLogger(__name__)

#: How long failures are gathered before the first line, in seconds.
_GATHER_SECONDS: Final = 1.0
#: After how long the line comes again: at first, and at most.
_AGAIN_SECONDS: Final = (10.0, 600.0)
#: How many kinds a line names.
_NAMED: Final = 3
#: Answers that say that the server is in trouble, whatever was asked.
_OVERLOADED: Final = frozenset({408, 429, 500, 502, 503, 504})


class Failing(Protocol):
    """An informer whose list or watch may fail."""

    def retry_soon(self) -> None:
        """Try again without waiting any longer."""


class Outages:
    """Notes which informers fail; `key` is an informer, `name` its kind in messages. Close it when done."""

    def __init__(self, clock: Clock) -> None:
        self._unreachable = _Outage("API server unreachable", clock)
        self._refused = _Outage("API server refused", clock)

    def failed(self, key: Failing, name: str, error: Exception) -> None:
        """Note that a list or watch failed."""
        refused = isinstance(error, APIError) and error.status not in _OVERLOADED
        (self._unreachable if refused else self._refused).leave(key)
        (self._refused if refused else self._unreachable).failed(key, name, error)

    def works(self, key: Failing) -> None:
        """Note that a watch is open, or that its kind is known not to be served."""
        others = [each for outage in (self._unreachable, self._refused) for each in outage.down]
        was_down = key in others
        self._unreachable.works(key)
        self._refused.works(key)
        for each in others if was_down else ():
            if each is not key:
                each.retry_soon()

    def close(self) -> None:
        """Stop logging; idempotent."""
        self._unreachable.reset()
        self._refused.reset()


class _Outage:
    """One kind of trouble, `what` in the log."""

    def __init__(self, what: str, clock: Clock) -> None:
        self._what = what
        self._clock = clock
        self._timer: Timer | None = None
        #: The names of those that fail.
        self.down: dict[Failing, str] = {}
        self._error: Exception | None = None
        #: How many watches were down at the same time, and since when.
        self._most = 0
        self._since = 0.0
        #: After how long the next line comes; 0 before the first one.
        self._again = 0.0

    def reset(self) -> None:
        """Forget all and set no timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._error = None
        self.down.clear()
        self._most = 0
        self._again = 0.0

    def failed(self, key: Failing, name: str, error: Exception) -> None:
        """Note a failure; the first one starts the timer."""
        self.down[key] = name
        self._error = error
        self._most = max(self._most, len(self.down))
        if self._timer is None:
            self._since = self._clock.now()
            self._timer = self._clock.call_later(_GATHER_SECONDS, self._tell)

    def works(self, key: Failing) -> None:
        """Note that one works again; the last one ends the outage, with a line if there was one before."""
        most, since = self._most, self._since
        if self.leave(key):
            _log.info("API server answers again watches=%d seconds=%.0f", most, self._clock.now() - since)

    def leave(self, key: Failing) -> bool:
        """Forget one; return True, and begin anew, where it was the last one of an outage that was told."""
        if self.down.pop(key, None) is None or self.down or not self._again:
            return False
        self.reset()
        return True

    def _tell(self) -> None:
        if not self.down:
            _log.info("Watches broke off and are open again watches=%d err=%s", self._most, self._error)
            self.reset()
            return
        names = ",".join(list(dict.fromkeys(self.down.values()))[:_NAMED])
        more = ",..." if len(self.down) > _NAMED else ""
        _log.warning("%s watches=%d resources=%s err=%s", self._what, len(self.down), f"{names}{more}", self._error)
        first, most = _AGAIN_SECONDS
        self._again = min(self._again * 2, most) if self._again else first
        self._timer = self._clock.call_later(self._again, self._tell)
