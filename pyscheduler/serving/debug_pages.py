"""Debugging pages of the HTTPS port: flags, status, log verbosity and profiles.

Differs from kube-scheduler: all pages are text, and most pages of `/debug/pprof/`, such as `heap`, are missing.

Source: apiserver's server/flagz, server/statusz, server/routes/profiling.go and flags.go.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs
from aiohttp import web

from pyscheduler.flags import go_values
from pyscheduler.telemetry.logs import set_verbosity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kube_objects.clock import Clock

__all__ = ["DebugPages"]

_COMPONENT: Final = "kube-scheduler"
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
_PLAIN: Final = {"X-Content-Type-Options": "nosniff"}
_OF_AN_API: Final = frozenset({"/api", "/apis", "/openapi", "/openid", "/.well-known"})
_LONGEST_PROFILE_SECONDS: Final = 300.0
_PROFILES: Final = {
    "/debug/pprof/cmdline": "the command line",
    "/debug/pprof/goroutine": "where every thread and task is",
    "/debug/pprof/profile?seconds=30": "the time that functions take; seconds says how long to look",
}


@attrs.define(kw_only=True)
class DebugPages:
    """Answers requests to /debug, /flagz and /statusz."""

    clock: Clock
    started_at: float
    version: str
    flags: Mapping[str, str]
    profiling: bool
    with_flagz: bool
    with_statusz: bool
    #: The paths that /statusz lists.
    paths: Callable[[], Sequence[str]]
    _busy: bool = False

    async def answer(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request, or None for other paths."""
        path = request.path
        if self.profiling and path == "/debug/flags/v":
            return await _change_level(request)
        if request.method not in {"GET", "HEAD"}:
            return None
        if path == "/flagz" and self.with_flagz:
            return _text(self._flagz())
        if path == "/statusz" and self.with_statusz:
            return _text(self._statusz())
        if self.profiling:
            return await self._profiling(request)
        return None

    def _flagz(self) -> str:
        lines = [f"{name}={value}" for name, value in sorted(self.flags.items())]
        return "\n".join([f"\n{_COMPONENT} flagz", _WARNING, *lines, ""])

    def _folders(self) -> list[str]:
        """Return the first segment of every path that /statusz lists; the paths of an API are omitted."""
        flagz = ["/flagz"] if self.with_flagz else []
        return sorted({f"/{path.split('/')[1]}" for path in (*self.paths(), *flagz)} - _OF_AN_API)

    def _statusz(self) -> str:
        started = datetime.fromtimestamp(self.started_at, UTC)
        up = int(self.clock.wall() - self.started_at)
        hours, rest = divmod(up, 3600)
        lines = [
            f"\n{_COMPONENT} statusz",
            f"{_WARNING}\n",
            f"Started: {started:%a %b %e %H:%M:%S UTC %Y}",
            f"Up: {hours} hr {rest // 60:02d} min {rest % 60:02d} sec",
            f"Python version: {sys.version.split()[0]}",
            f"Binary version: {self.version}",
            "Emulation version: 1.36",
            f"Paths: {' '.join(self._folders())}\n",
        ]
        return "\n".join(lines)

    async def _profiling(self, request: web.BaseRequest) -> web.Response | None:
        match request.path:
            case "/debug/flags" | "/debug/flags/":
                return _text("/debug/flags/\nflags:\nv\n")
            case "/debug/pprof":
                return web.Response(status=301, headers={"Location": "/debug/pprof/"})
            case "/debug/pprof/":
                return _text("".join(f"{path}  {text}\n" for path, text in _PROFILES.items()))
            case "/debug/pprof/cmdline":
                return _text("\0".join(sys.argv))
            case "/debug/pprof/goroutine":
                return _text(_stacks())
            case "/debug/pprof/profile":
                return await self._profile(request.query.get("seconds", "30"))
        return None

    async def _profile(self, text: str) -> web.Response:
        """Profile the event loop's thread for some seconds and return the statistics."""
        try:
            seconds = go_values.parse_float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= _LONGEST_PROFILE_SECONDS:
            return _text(f"seconds must be over 0 and at most {_LONGEST_PROFILE_SECONDS:.0f}\n", status=400)
        if self._busy:
            return _text("Could not enable CPU profiling: cpu profiling already in use\n", status=500)
        import cProfile
        import pstats

        profile = cProfile.Profile()
        self._busy = True
        profile.enable()
        try:
            await self.clock.sleep(seconds)
        finally:
            profile.disable()
            self._busy = False
        out = io.StringIO()
        pstats.Stats(profile, stream=out).sort_stats("cumulative").print_stats(100)
        return _text(out.getvalue())


async def _change_level(request: web.BaseRequest) -> web.Response:
    if request.method != "PUT":
        return _text("unsupported http method\n", status=406)
    body = (await request.read()).decode("utf-8", "replace")
    try:
        level = go_values.parse_level(body)
    except ValueError as error:
        return _text(f"{error}\n", status=400)
    set_verbosity(level)
    return _text(f"successfully set klog.logging.verbosity to {body}\n")


def _stacks() -> str:
    out = io.StringIO()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for number, frame in sys._current_frames().items():  # noqa: SLF001 - documented, and there is no other way
        out.write(f"thread {names.get(number, number)}:\n")
        traceback.print_stack(frame, file=out)
        out.write("\n")
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        task.print_stack(file=out)
        out.write("\n")
    return out.getvalue()


def _text(text: str, *, status: int = 200) -> web.Response:
    return web.Response(status=status, text=text, headers=_PLAIN)
