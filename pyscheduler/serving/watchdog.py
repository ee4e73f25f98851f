"""A thread that can end the program while the event loop is blocked, for example because a plugin never returns.

The thread receives SIGTERM and SIGINT. The first signal starts a graceful shutdown, and a second signal ends the
program at once. The thread also ends the program if the shutdown takes too long, or if the lease is lost while the loop
is blocked.

Differs from kube-scheduler, in which a plugin that never returns keeps the lease for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import io
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kube_objects.clock import LoopClock
from pyscheduler.cluster.real.loop_heartbeat import Heartbeat
from pyscheduler.framework.interfaces import Plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pyscheduler.cluster.real.lease import LeaderElector

__all__ = ["Watchdog"]

_log = logging.getLogger(__name__)

_SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_TICK_SECONDS: Final = 0.5
#: Block after which the log reports it.
_TOLD_SECONDS: Final = 5.0
#: Limit for the end, from the signal on: ten seconds for an orderly end, and some for the interpreter's own.
_END_SECONDS: Final = 12.0
#: When SIGALRM ends the program after a signal, and after the loss of the lease, if this thread cannot run.
_LAST_RESORT_SECONDS: Final = 14.0
_AFTER_LOSS_SECONDS: Final = 60.0
#: How often the timer is set anew while this replica leads.
_PUT_OFF_SECONDS: Final = 2.0
#: Time for the loop to notice the loss of the lease.
_LOSS_SECONDS: Final = 1.0
#: Time limit for the last log line, because the blocked main thread may hold a lock of the logging module.
_LAST_LINE_SECONDS: Final = 1.0


class Watchdog:
    """Watches the running event loop until the process ends; create it in the main thread.

    `stop` is set at the first SIGTERM or SIGINT; a second signal ends the program at once, with exit code 1.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._main = threading.get_ident()
        self._elector: LeaderElector | None = None
        self._lease_seconds = 0.0
        #: When the timer was last set to end a leader; None if it is not set.
        self._set_at: float | None = None
        self.heartbeat = Heartbeat(LoopClock())
        self.heartbeat.start()
        self._turns = 0
        #: How long this thread has seen the loop blocked; a process that was suspended as a whole has not seen it.
        self._blocked = 0.0
        self._is_told = False
        #: Start of the end, or None.
        self._ending_since: float | None = None
        self._is_closed = False
        self._signals, self._written = socket.socketpair()
        self._written.setblocking(False)
        signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, _arm)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        # faulthandler's handler needs no GIL: it writes a stack, and then the signal ends the program. The handler
        # writes only the stack of the thread that it interrupts, because reading the stack of a running thread can
        # crash the program. `faulthandler.dump_traceback_later` would read the stacks of all threads.
        with contextlib.suppress(  # standard error is closed, or is no file
            ValueError, io.UnsupportedOperation, AttributeError, RuntimeError
        ):
            faulthandler.register(signal.SIGALRM, all_threads=False, chain=True)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def guard(self, elector: LeaderElector, *, renew_deadline_seconds: float) -> None:
        """End the program if this lease is lost while the loop is blocked."""
        self._lease_seconds = renew_deadline_seconds
        self._elector = elector

    def close(self) -> None:
        """End the watch after the loop has ended, if the process goes on; signals have their usual effect again."""
        self._is_closed = True
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _arm_for(0)
        faulthandler.unregister(signal.SIGALRM)

    def _watch(self) -> None:
        last = time.monotonic()
        while not self._is_closed:
            readable, _, _ = select.select([self._signals], [], [], _TICK_SECONDS)
            now = time.monotonic()
            if readable:
                self._hear(self._signals.recv(64), now)
            self._look(now, min(now - last, 2 * _TICK_SECONDS))
            last = now

    def _hear(self, numbers: bytes, now: float) -> None:
        for number in numbers:
            if number not in _SIGNALS:
                continue
            if self._ending_since is not None or self._stop.is_set():
                self._end("Stopping at once, for a second signal")
            self._ending_since = now
            _arm()
            with contextlib.suppress(RuntimeError):  # the loop is closed: the program is about to end
                self._loop.call_soon_threadsafe(self._stop.set)

    def _look(self, now: float, seconds: float) -> None:
        """Process `seconds` in which the loop has run or not."""
        if self._loop.is_closed() or self._turns != self.heartbeat.turns:
            if self._is_told:
                self._say(_log.warning, "The event loop turns again blockedSeconds=%.1f", self._blocked)
            self._turns, self._blocked, self._is_told = self.heartbeat.turns, 0.0, False
        else:
            self._blocked += seconds
        if self._blocked >= _TOLD_SECONDS and not self._is_told:
            self._is_told = True
            self._tell()
        lost = self._elector.reason if self._elector is not None else ""
        if self._ending_since is None and (lost or self._stop.is_set()):
            self._ending_since = now
        self._put_off(now)
        if lost and self._blocked >= _LOSS_SECONDS:
            where = self._where()
            text = (
                "Exiting immediately: the lease is lost while the event loop is blocked in %s "
                "blockedSeconds=%.1f reason=%s"
            )
            self._end(text, where, self._blocked, lost)
        if self._ending_since is not None and now - self._ending_since >= _END_SECONDS:
            where = self._where()
            if self._blocked >= _LOSS_SECONDS:
                text = (
                    "Exiting immediately: the event loop is blocked in %s "
                    "blockedSeconds=%.1f; the lease, if held, runs out"
                )
                self._end(text, where, self._blocked)
            self._end("Exiting immediately: stopping took over %.0f s, and is in %s", _END_SECONDS, where)

    def _put_off(self, now: float) -> None:
        """Set the timer anew for this leader; stop it for a standby, which may be suspended for long."""
        if self._ending_since is not None:
            return
        if self._elector is not None and self._elector.is_leader:
            if self._set_at is None or now - self._set_at >= _PUT_OFF_SECONDS:
                self._set_at = now
                _arm_for(self._lease_seconds + _AFTER_LOSS_SECONDS)
        elif self._set_at is not None:
            self._set_at = None
            _arm_for(0)

    def _tell(self) -> None:
        self._say(_log.warning, "The event loop has been blocked for %.1f s in %s", self._blocked, self._where())
        self._say(_log.info, "Where the event loop is blocked stack=%s", " < ".join(map(_place, self._frames())))

    def _frames(self) -> Iterator[FrameType]:
        """Yield the frames of the main thread, the innermost first."""
        frame = sys._current_frames().get(self._main)  # noqa: SLF001 - documented, and there is no other way
        while frame is not None:
            yield frame
            frame = frame.f_back

    def _where(self) -> str:
        """Return the plugin and method that the main thread runs, or its innermost function."""
        innermost = ""
        for frame in self._frames():
            innermost = innermost or _place(frame)
            owner = frame.f_locals.get("self")
            if isinstance(owner, Plugin):
                return f"plugin {owner.name} ({frame.f_code.co_name})"
        return innermost

    def _end(self, message: str, *args: object) -> None:
        """Log one line and end the process with exit code 1; never returns."""
        self._say(_log.error, message, *args)
        os._exit(1)

    def _say(self, log: Callable[..., None], message: str, *args: object) -> None:
        """Log with a time limit: the main thread may be blocked while it logs."""
        saying = threading.Thread(target=log, args=(message, *args), name="watchdog's line", daemon=True)
        with contextlib.suppress(RuntimeError):  # the interpreter is ending and starts no threads any more
            saying.start()
            saying.join(_LAST_LINE_SECONDS)


def _arm(*_: object) -> None:
    """Let SIGALRM end the program some time after a signal.

    As a signal handler it is called in the main thread, where Python checks for signals, also within a regular
    expression; it does nothing else.
    """
    _arm_for(_LAST_RESORT_SECONDS)


def _arm_for(seconds: float) -> None:
    """Let SIGALRM end the program after so long; 0 for never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({Path(frame.f_code.co_filename).name}:{frame.f_lineno})"
