"""Bindings that a Bind plugin reported as done, but that the API server does not show.

The pod's requests still count on its node, because the binding may come later. After half a minute, the scheduler
reports a failure of the plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_objects.clock import Clock, Timer
    from pyscheduler.api import Pod
    from pyscheduler.cache.cache import Cache
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.runtime.extension_points.plugin_calls import PluginMethod

__all__ = ["UnconfirmedBindings"]

#: How long the watch may take to show a binding, in seconds; then it is reported.
_SECONDS: Final = 30.0


@attrs.define(kw_only=True)
class UnconfirmedBindings:
    """The pods that plugins say they bound, until the watch shows it."""

    clock: Clock
    cache: Cache
    failures: PluginFailures
    #: By uid, in the order of the bindings: when a pod is reported, in clock seconds, the pod and the plugin's method.
    _bindings: dict[str, tuple[float, Pod, PluginMethod]] = attrs.Factory(dict)
    _timer: Timer | None = None

    def expect(self, pod: Pod, method: PluginMethod) -> None:
        """Note that a plugin returned success for a pod."""
        if not self.cache.is_assumed(pod.uid):
            return  # the watch was faster
        self._bindings[pod.uid] = (self.clock.now() + _SECONDS, pod, method)
        if self._timer is None:
            self._timer = self.clock.call_later(_SECONDS, self._look)

    def __iter__(self) -> Iterator[tuple[Pod, PluginMethod]]:
        """Yield the pods that the watch has not shown as bound, with the plugin's method, except those reported."""
        for _, pod, method in [*self._bindings.values()]:
            if self.cache.is_assumed(pod.uid):
                yield pod, method

    def report(self, pod: Pod, method: PluginMethod) -> None:
        """Report that a plugin returned success for a pod and did not bind it."""
        self._bindings.pop(pod.uid, None)
        text = (
            f"returned success, but the pod is not bound to {pod.node_name}; "
            "await handle.client.bind(pod, node_name), or return Status.skip()"
        )
        self.failures.report(
            PluginError(text, plugin=method.plugin),
            plugin=method.plugin,
            point=method.point,
            about=f"pod={pod.key}",
            call=method.call,
            warning="binding_not_confirmed",
        )

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Report the pods that are due."""
        now, self._timer = self.clock.now(), None
        for uid, (due, pod, method) in [*self._bindings.items()]:
            if due > now:
                self._timer = self.clock.call_at(due, self._look)
                return
            del self._bindings[uid]
            if self.cache.is_assumed(uid):
                self.report(pod, method)
