"""Warn if an event handler or a coroutine of a plugin blocks the event loop for 0.1 s or longer."""

from __future__ import annotations

import types
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyscheduler.framework.plugin_failures import SLOW_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from kube_objects.clock import Clock
    from pyscheduler.framework.plugin_failures import PluginFailures

__all__ = ["StepWatch", "stepwise"]

T = TypeVar("T")


class StepWatch:
    """Reports calls, and steps of coroutines, that take `SLOW_SECONDS` or longer on the clock."""

    def __init__(self, clock: Clock, failures: PluginFailures) -> None:
        self._clock = clock
        self.failures = failures

    def run(self, call: Callable[..., T], *args: object, plugin: str, point: str, about: str = "") -> T:
        """Call a function and return its answer; with `plugin` "", a slow call is attributed by its function."""
        began = self._clock.now()
        try:
            return call(*args)
        finally:
            now = self._clock.now()
            if now - began >= SLOW_SECONDS:
                name = plugin or self.failures.owners.of_call(call)
                self.failures.slow(plugin=name, point=point, about=about, seconds=now - began, now=now)

    def steps(self, work: Awaitable[Any], *, plugin: str, point: str, about: str = "") -> Awaitable[Any]:
        """Return an awaitable that awaits `work` and measures each of its steps."""
        return stepwise(work, partial(self.run, plugin=plugin, point=point, about=about))


@types.coroutine
def stepwise(work: Awaitable[Any], run: Callable[..., Any]) -> Generator[Any, Any, Any]:
    """Await `work`, and let `run(step, argument)` call each of its steps."""
    # A generator of `types.coroutine` is its own iterator.
    steps: Any = work.__await__() if hasattr(work, "__await__") else work
    argument: object = None
    error: BaseException | None = None
    while True:
        try:
            waited = run(steps.send, argument) if error is None else run(steps.throw, error)
        except StopIteration as done:
            return done.value
        error = None
        try:
            argument = yield waited
        except BaseException as thrown:  # noqa: BLE001 - cancellation, too, belongs to the work
            error = thrown
