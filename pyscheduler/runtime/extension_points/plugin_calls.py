"""Call plugins, and convert their errors to a `Status`.

If a plugin raises an exception or returns a wrong type, the error is logged and counted, and the scheduler continues.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Final

from pyscheduler.framework.errors import PLUGIN_FAILURES, without_frames
from pyscheduler.framework.plugin_failures import SLOW_SECONDS, PluginFailures, error_text
from pyscheduler.framework.reuse import Reuse
from pyscheduler.framework.status import Code, Status
from pyscheduler.runtime.extension_points.codes import unexpected_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.recorder import Recorder

__all__ = ["PluginCalls", "PluginMethod", "error_status"]

_log = logging.getLogger(__name__)

#: For so long each plugin is timed, and not in a tenth of the cycles only, after an extension point was slow. Seconds.
_WATCH_SECONDS: Final = 600.0

#: Where waiting is no fault: the binding cycle awaits the API server, and preemption computes for long in small steps.
_MAY_TAKE_LONG: Final = frozenset({"PostFilter", "PreBind", "Bind", "PostBind"})

#: How many parts of a wrong tuple a message shows.
_SHOWN: Final = 4

_SUCCESS = Code.SUCCESS
_SUCCESS_LABEL = _SUCCESS.label


class PluginMethod:
    """A bound method of a plugin, ready to be called.

    `point` is the label in metrics and logs. `running` is how kube-scheduler's messages begin when the method fails
    (`running PreFilter plugin "Name"`). `evaluations` counts what scheduler_plugin_evaluation_total shows: runs at
    PreFilter and PreScore that did not end in a skip, nodes at Filter and Score. Whoever calls counts; it is only read
    when somebody scrapes. `reuse` is how long the plugin's answers hold. The arrays of a plugin that is `in_tree` are
    not checked.
    """

    __slots__ = ("call", "evaluations", "in_tree", "plugin", "point", "reuse", "running")

    def __init__(
        self,
        *,
        plugin: str,
        point: str,
        call: Callable[..., object],
        running: str,
        reuse: Reuse = Reuse.NEVER,
        in_tree: bool = False,
    ) -> None:
        self.plugin = plugin
        self.point = point
        self.call = call
        self.running = running
        self.reuse = reuse
        self.in_tree = in_tree
        self.evaluations = 0


def error_status(message: str, *, plugin: str, error: BaseException | None = None) -> Status:
    """Return an ERROR with that very message, which keeps `error` for those who ask what was behind it."""
    status = Status(Code.ERROR, message, plugin=plugin)
    status.error = None if error is None else without_frames(error)
    return status


class PluginCalls:
    """The boundary between one profile and its plugins."""

    __slots__ = ("_watched_until", "clock", "failures", "profile", "recorder")

    def __init__(self, *, profile: str, clock: Clock, recorder: Recorder, failures: PluginFailures) -> None:
        self.profile = profile
        self.clock = clock
        self.recorder = recorder
        self.failures = failures
        self._watched_until = -1.0

    def run(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
        """Call a plain method and return its answer, or an ERROR status where it raised."""
        if sampled:
            began = self.clock.now()
            answer = self.run(method, pod, *args)
            self.took(method, answer, self.clock.now() - began, pod)
            return answer
        try:
            return method.call(*args)
        except PLUGIN_FAILURES as error:
            return self.failed(method, pod, error)

    async def run_async(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
        """Call a method that may be a coroutine function; await what it returns where that can be awaited."""
        began = self.clock.now() if sampled else 0.0
        watch = self.failures.steps
        try:
            if method.in_tree or watch is None:
                answer = method.call(*args)
                if answer is not None and not isinstance(answer, Status) and inspect.isawaitable(answer):
                    answer = await answer
            else:
                where = {"plugin": method.plugin, "point": method.point, "about": f"pod={pod.key}"}
                answer = watch.run(method.call, *args, **where)
                if inspect.isawaitable(answer):
                    answer = await watch.steps(answer, **where)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this pod's task: something that the plugin awaited was. The pod must not get lost by it.
            answer = self.failed(method, pod, error)
        except PLUGIN_FAILURES as error:
            answer = self.failed(method, pod, error)
        if sampled:
            self.took(method, answer, self.clock.now() - began, pod)
        return answer

    @property
    def is_watching(self) -> bool:
        """Return True if each plugin is to be timed, because an extension point was slow."""
        if self._watched_until < 0:
            return False
        if self.clock.now() >= self._watched_until:
            self._watched_until = -1.0
        return self._watched_until >= 0

    def took(self, method: PluginMethod, answer: object, seconds: float, pod: Pod) -> None:
        """Record the time of one plugin in a sampled cycle."""
        if seconds >= SLOW_SECONDS and method.point not in _MAY_TAKE_LONG:
            about = f"pod={pod.key}"
            now = self.clock.now()
            self.failures.slow(plugin=method.plugin, point=method.point, about=about, seconds=seconds, now=now)
        self.recorder.observe(
            "scheduler_plugin_execution_duration_seconds", seconds, method.plugin, method.point, _label(answer)
        )

    def point(self, point: str, status: Status | None, began: float) -> None:
        """Record one run of an extension point that began at the clock time `began`."""
        now = self.clock.now()
        seconds = now - began
        if seconds >= SLOW_SECONDS and point not in _MAY_TAKE_LONG:
            self._watch(point, seconds, now)
        label = _SUCCESS_LABEL if status is None else status.code.label
        self.recorder.observe(
            "scheduler_framework_extension_point_duration_seconds", seconds, point, label, self.profile
        )

    def _watch(self, point: str, seconds: float, now: float) -> None:
        """Time each plugin for some time, to find the slow one; so far only the extension point is known to be slow."""
        if not self.is_watching:
            _log.info(
                "Extension point was slow; its plugins are timed from now on extensionPoint=%s profile=%s seconds=%.3f",
                *(point, self.profile, seconds),
            )
        self._watched_until = now + _WATCH_SECONDS

    def failed(self, method: PluginMethod, pod: Pod, error: BaseException) -> Status:
        """Log and count what a plugin raised; return it as an ERROR."""
        self.failures.report(error, plugin=method.plugin, point=method.point, about=f"pod={pod.key}", call=method.call)
        return error_status(f"{method.running}: {error_text(error)}", plugin=method.plugin, error=error)

    def wrong_type(self, method: PluginMethod, pod: Pod, answer: object, expected: str) -> Status:
        """Return the ERROR for an answer that is none; a coroutine is closed, so that nobody waits for it."""
        what = type(answer).__name__
        if isinstance(answer, Status):
            what = f"Status ({answer.code.label})"
            if answer.is_skip and method.point == "Score":
                expected += "; return Status.skip() from pre_score"
        elif isinstance(answer, tuple):
            what = f"({', '.join(type(each).__name__ for each in answer[:_SHOWN])}{', ...' * (len(answer) > _SHOWN)})"
        elif inspect.iscoroutine(answer):
            answer.close()
            what = "a coroutine (only PostFilter, PreBind, Bind and PostBind may be async)"
        error = TypeError(f"{method.point} returned {what}; expected {expected}")
        return self.failed(method, pod, error)

    def status_of(self, method: PluginMethod, pod: Pod, answer: object) -> Status | None:
        """Return the answer of a method that returns `Status | None`; None for success."""
        if answer is None:
            return None
        if not isinstance(answer, Status):
            return self.wrong_type(method, pod, answer, "Status or None")
        if answer.code != _SUCCESS:
            return answer
        if answer.reasons:
            self.unread_reasons(method, pod, answer)
        return None

    def unread_reasons(self, method: PluginMethod, pod: Pod, status: Status) -> None:
        """Report a success that has reasons: nobody reads them, and the plugin may have meant a rejection."""
        text = "return None for success, or reject with Status.unschedulable(reason)"
        self.failed(
            method, pod, TypeError(f'{method.point} returned Success with a reason ("{status.message}"); {text}')
        )

    def expect_nothing(self, method: PluginMethod, pod: Pod, answer: object) -> None:
        """Report an answer of a method that has none to give."""
        if answer is not None and not (isinstance(answer, Status) and _is_reported(method, answer)):
            self.wrong_type(method, pod, answer, "None")

    def wrapped(self, method: PluginMethod, pod: Pod, status: Status) -> Status:
        """Return an ERROR in kube-scheduler's wording for a status that its extension point cannot make use of.

        A code that the extension point does not allow is reported, too.
        """
        if _is_reported(method, status):
            return status
        if not status.is_error:
            self.failed(method, pod, TypeError(unexpected_code(method.point, status)))
        message = status.message or f"unexpected status {status.code.label}"
        return error_status(f"{method.running}: {message}", plugin=method.plugin, error=status.as_error())


def _is_reported(method: PluginMethod, status: Status) -> bool:
    """Return True for the ERROR that `failed` returned in place of the plugin's answer."""
    return status.is_error and status.plugin == method.plugin and status.message.startswith(method.running)


def _label(answer: object) -> str:
    if isinstance(answer, tuple) and answer:
        answer = answer[-1]
    return answer.code.label if isinstance(answer, Status) else _SUCCESS_LABEL
