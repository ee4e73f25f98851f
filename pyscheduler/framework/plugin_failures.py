"""Count failures and slow calls of plugins, and log some of them.

Of each kind of failure, only the first, the tenth, the hundredth (and so on) are logged as errors.
"""

from __future__ import annotations

import logging
import re
from functools import partial
from traceback import format_exception, walk_tb
from types import CodeType
from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import PySchedulerError, text_of
from pyscheduler.framework.plugin_owners import PluginOwners

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from types import TracebackType

    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.step_watch import StepWatch

__all__ = [
    "EVENT_HANDLER",
    "GROUP_CYCLE",
    "HINT",
    "RUN",
    "SLOW_SECONDS",
    "TASK",
    "PluginFailure",
    "PluginFailures",
    "Repeats",
    "error_place",
    "error_text",
    "slow_remedy",
]

_log = logging.getLogger(__name__)

#: What stands for an extension point where there is none: handlers of events, and the methods of a `GroupCyclePlugin`.
EVENT_HANDLER: Final = "EventHandler"
GROUP_CYCLE: Final = "GroupCycle"
HINT: Final = "QueueingHint"
RUN: Final = "run"
TASK: Final = "Task"

#: A call of a plugin that takes so long is reported, in seconds: the scheduler does nothing else meanwhile.
SLOW_SECONDS: Final = 0.1
#: The least time between two log lines about slow calls of a plugin at an extension point, in seconds.
_SLOW_LOG_SECONDS: Final = 60.0

#: Where plugins may await.
_AWAITING: Final = frozenset({"PostFilter", "PreBind", "Bind", "PostBind", RUN, TASK})

#: A field of `about`; a value with spaces is quoted.
_FIELD: Final = re.compile(r'(\w+)=("[^"]*"|\S+)')

#: So much of an error's text is shown: others' code may put anything into it.
_LONGEST_TEXT: Final = 4096

#: How many different failures are told apart; beyond that, the oldest is forgotten, and logged anew if it comes again.
_DISTINCT: Final = 500


@attrs.frozen(kw_only=True)
class PluginFailure:
    """One failure of a plugin.

    `plugin` is "" if the owner of the code is unknown. `frames` are those in which `error` was raised, None if it was
    only made. `traceback` is their text. They are here because statuses keep the error without its frames. `point` is
    the extension point, or `run`, `Task`, `QueueingHint`, `EventHandler`, `GroupCycle`, `WaitingIndex`, `Session` (a
    pass of a batch profile), `Close`. `about` names the object (`pod=default/web`), or is "". `place` is the line that
    raised `error`, or the method that returned something of the wrong type: `plugin.py:12 in Spread.filter`.
    """

    plugin: str
    point: str
    about: str
    place: str
    error: BaseException
    frames: TracebackType | None = attrs.Factory(lambda self: self.error.__traceback__, takes_self=True)
    traceback: str = attrs.Factory(lambda self: "".join(format_exception(self.error)), takes_self=True)

    @property
    def pod(self) -> str:
        """Return the key of the pod that the call was about, "" if it was about none."""
        return next((value for name, value in _FIELD.findall(self.about) if name == "pod"), "")

    def __str__(self) -> str:
        """Return one line: plugin, extension point, pod, what happened and where."""
        whose = f'plugin "{self.plugin}"' if self.plugin else "code of a plugin"
        about = f" ({self.about})" if self.about else ""
        place = f", {self.place}" if self.place else ""
        return f"{whose} failed at {self.point}{about}: {error_text(self.error)}{place}"


class Repeats:
    """Counts failures by kind, so that the log has the first of each kind, the tenth, the hundredth and so on."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}

    def count(self, kind: Hashable) -> int:
        """Count a failure; return how many of its kind there were."""
        count = self._counts.get(kind, 0) + 1
        if count == 1 and len(self._counts) >= _DISTINCT:
            del self._counts[next(iter(self._counts))]
        self._counts[kind] = count
        return count

    @staticmethod
    def level(count: int) -> int:
        """Return the level at which the failure with that number is logged."""
        return logging.ERROR if str(count).strip("0") == "1" else logging.DEBUG


class PluginFailures:
    """Reports the failures of the plugins of a scheduler; `recorder` counts them as warnings."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._repeats = Repeats()
        self._counts: dict[tuple[str, str], int] = {}
        #: By plugin and extension point, how many calls were slow, and when that was logged last.
        self._slow: dict[tuple[str, str], int] = {}
        self._slow_logged: dict[tuple[str, str], float] = {}
        #: Knows the plugins of all profiles.
        self.owners = PluginOwners()
        #: Measures event handlers and coroutines of plugins; None where nobody does.
        self.steps: StepWatch | None = None
        #: Whether failures are logged; turn this off where a listener shows them.
        self.logs = True
        #: Called with each failure; for tests and for `explain --traceback`.
        self.listeners: list[Callable[[PluginFailure], object]] = []
        #: What is likely a mistake of a plugin although nothing failed; the test kit shows it.
        self.warnings: list[str] = []

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """Return how often each plugin failed, by plugin and extension point."""
        return self._counts

    def warn(self, text: str) -> None:
        """Log what is likely a mistake of a plugin, once."""
        if text not in self.warnings:
            self.warnings.append(text)
            _log.warning("%s", text)

    def slow(self, *, plugin: str, point: str, about: str, seconds: float, now: float) -> None:
        """Count a call that took longer than `SLOW_SECONDS`; log one a minute. `now`: clock seconds."""
        key = plugin, point
        self._slow[key] = self._slow.get(key, 0) + 1
        if not self.logs or now - self._slow_logged.get(key, -_SLOW_LOG_SECONDS) < _SLOW_LOG_SECONDS:
            return
        self._slow_logged[key] = now
        names, values = _fields(about)
        _log.warning(
            f"Plugin is slow, and the scheduler does nothing else meanwhile; {slow_remedy(point)} "
            f"plugin=%s extensionPoint=%s {names}seconds=%.3f times=%d",
            *(plugin, point, *values, seconds, self._slow[key]),
        )

    def report(
        self,
        error: BaseException,
        *,
        plugin: str,
        point: str,
        about: str = "",
        call: Callable[..., object] | CodeType | None = None,
        warning: str = "plugin_error",
    ) -> None:
        """Log and count an exception of a plugin; with `plugin` "", find out whose code it was.

        `call` is what was called, or its code: its place stands for the line where `error` was not raised but made.
        `warning` is the label in pyscheduler_warnings_total.
        """
        plugin = plugin or self.owners.find(error, call)
        self._recorder.warning(warning)
        self._counts[plugin, point] = self._counts.get((plugin, point), 0) + 1
        place = error_place(error, call)
        count = self._repeats.count((plugin, point, type(error), place))
        if self.listeners:
            failure = PluginFailure(plugin=plugin, point=point, about=about, place=place, error=error)
            for listener in self.listeners:
                listener(failure)
        if not self.logs:
            return
        names, values = _fields(about)
        fields = f'plugin=%s extensionPoint=%s {names}place="%s" err="%s"'
        values = (plugin, point, *values, place, error_text(error))
        if count == 1:
            _log.error(f"Plugin failed {fields}", *values, exc_info=error if error.__traceback__ is not None else None)
        else:
            _log.log(Repeats.level(count), f"Plugin failed again times=%d {fields}", count, *values)


def slow_remedy(point: str) -> str:
    """Return what the author of a plugin that is slow at a point can do."""
    if point in _AWAITING:
        return "await what takes long, or await asyncio.to_thread(function)"
    if point == EVENT_HANDLER:
        return "only keep the object here, and do the work in run() or a task of handle.spawn"
    return "do the work in run() and read its result here"


def _fields(about: str) -> tuple[str, tuple[str, ...]]:
    """Return placeholders for the fields of `about` (`pod=default/web`), each with a space, and their values."""
    found = _FIELD.findall(about)
    names = "".join(f'{name}="%s" ' if value.startswith('"') else f"{name}=%s " for name, value in found)
    return names, tuple(value.strip('"') for _, value in found)


def error_text(error: BaseException) -> str:
    """Return the error on one line: its type, unless the message was written for users, and its text."""
    text = " ".join(text_of(error).split())
    text = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} ..."
    if isinstance(error, PySchedulerError):
        return text
    # The text of a KeyError is a key: without the type it says nothing.
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def error_place(error: BaseException, call: Callable[..., object] | CodeType | None = None) -> str:
    """Return the line that raised `error` (`plugin.py:12 in Spread.filter`), within the code that was called.

    Where a library raised it, that is the innermost line of the same file. Where `call` returned something wrong or
    could not be called, it is the place of its definition; "" where that is not known.
    """
    entry = _code_of(call)
    file = found = ""
    for depth, (frame, line) in enumerate(walk_tb(error.__traceback__)):
        code = frame.f_code
        # Without code, `call` is a C function; then the frame after the scheduler's own, which caught it.
        if not file and (code is entry or (entry is None and depth > 0)):
            file = code.co_filename
        if file and code.co_filename == file:
            found = _place(code, line)
    return found or (_place(entry, entry.co_firstlineno) if entry is not None else "")


def _code_of(call: Callable[..., object] | CodeType | None) -> CodeType | None:
    if isinstance(call, CodeType):
        return call
    while isinstance(call, partial):
        call = call.func
    return getattr(getattr(call, "__func__", call), "__code__", None)


def _place(code: CodeType, line: int) -> str:
    """Return file, line and function; the file without its folders, which make log lines long and say little."""
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{file}:{line} in {code.co_qualname.replace('<locals>.', '')}"
