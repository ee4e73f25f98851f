"""Watch plugins in tests: find slow calls, and calls that change the labels or annotations of the pod."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from pyscheduler.framework.callables import is_foreign
from pyscheduler.framework.interfaces import SignPlugin
from pyscheduler.framework.plugin_failures import SLOW_SECONDS, slow_remedy
from pyscheduler.framework.step_watch import StepWatch
from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod
from pyscheduler.runtime.extension_points.signing import Signing
from pyscheduler.testing.garbage import without_collections

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # not on Linux: then a call that sleeps is not told from one that the machine delayed

    def _pauses() -> int:
        return 0
else:

    def _pauses() -> int:
        """Return how often this thread gave up the processor by itself."""
        return getrusage(RUSAGE_THREAD).ru_nvcsw


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.runtime.profile import Profile

__all__ = ["PluginWarning", "RealStepWatch", "SlowCalls", "signers", "watch_calls"]

T = TypeVar("T")

_CHANGED: Final = (
    "changed the labels or annotations of the pod, which all plugins share; write dict(pod.labels) for a copy of your "
    "own, or handle.client.patch(...) to change the pod"
)


class PluginWarning(UserWarning):
    """A plugin works, and yet something about it is likely not what its author wants."""


@attrs.define
class SlowCalls:
    """The slow calls of a framework's plugins: number and longest time in seconds, by plugin and extension point."""

    found: dict[tuple[str, str], tuple[int, float]] = attrs.Factory(dict)

    def add(self, plugin: str, point: str, seconds: float) -> None:
        """Count a call that took `seconds`."""
        count, longest = self.found.get((plugin, point), (0, 0.0))
        self.found[plugin, point] = count + 1, max(longest, seconds)

    def texts(self) -> list[str]:
        """Return a sentence for each plugin and extension point."""
        return [
            f'plugin "{plugin}" is slow at {point}: {longest * 1000:.0f} ms in one call'
            f"{f', {count} calls of over {SLOW_SECONDS * 1000:.0f} ms' if count > 1 else ''}"
            f"; the scheduler does nothing else meanwhile; {slow_remedy(point)}"
            for (plugin, point), (count, longest) in self.found.items()
        ]


@contextmanager
def _measured(add: Callable[[float], object]) -> Iterator[None]:
    """Give `add` the real seconds that a call took, if it was slow."""
    # Until the time is read: a collection that is due begins at once when they are allowed again.
    with without_collections():
        pauses, began, worked = _pauses(), time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            seconds, worked = time.perf_counter() - began, time.thread_time() - worked
            # A busy machine delays a thread that wants to work; that is no fault of the plugin.
            if worked >= SLOW_SECONDS or (seconds >= SLOW_SECONDS and _pauses() > pauses):
                add(seconds)


class RealStepWatch(StepWatch):
    """Measures real time beside the clock's, and adds what is slow to `slow`."""

    def __init__(self, slow: SlowCalls, clock: Clock, failures: PluginFailures) -> None:
        super().__init__(clock, failures)
        self._slow = slow

    def run(self, call: Callable[..., T], *args: object, plugin: str, point: str, about: str = "") -> T:
        """Call a function and return its answer."""

        def add(seconds: float) -> None:
            self._slow.add(plugin or self.failures.owners.of_call(call) or about, point, seconds)

        with _measured(add):
            return super().run(call, *args, plugin=plugin, point=point, about=about)


def watch_calls(calls: PluginCalls, slow: SlowCalls) -> None:
    """Watch the calls of a profile from now on; slow ones are added to `slow`, changes of pods are failures."""

    class WatchedCalls(PluginCalls):
        """Calls plugins as its base class does, and watches those of others."""

        __slots__ = ()

        def run(self, method: PluginMethod, pod: Pod, *args: object, sampled: bool = False) -> object:
            if method.in_tree:
                return super().run(method, pod, *args, sampled=sampled)
            before = _texts(pod)
            with _measured(lambda seconds: slow.add(method.plugin, method.point, seconds)):
                answer = super().run(method, pod, *args, sampled=sampled)
            if _texts(pod) != before:
                self.failed(method, pod, TypeError(f"{method.point} {_CHANGED}"))
            return answer

    calls.__class__ = WatchedCalls


def signers(profile: Profile) -> list[Signing]:
    """Return the signing of each plugin alone that signs pods, without the in-tree plugins."""
    calls = profile.calls
    return [
        Signing(calls, [PluginMethod(plugin=name, point="Sign", call=plugin.sign_pod, running=f'signing by "{name}"')])
        for name, plugin in profile.plugins.items()
        if isinstance(plugin, SignPlugin) and is_foreign(type(plugin))
    ]


def _texts(pod: Pod) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return dict(pod.metadata.labels), dict(pod.metadata.annotations)
