"""PreEnqueue: ask plugins whether the scheduler may try a pod.

Source: kube-scheduler 1.36, `runPreEnqueuePlugins`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.status import Status
    from pyscheduler.runtime.extension_points.plugin_calls import PluginCalls, PluginMethod

__all__ = ["PreEnqueueing"]


@attrs.frozen
class PreEnqueueing:
    """The PreEnqueue plugins of a profile, in its order."""

    calls: PluginCalls
    methods: Sequence[PluginMethod]

    def run(self, pod: Pod, *, sampled: bool) -> Status | None:
        """Run plugins until one keeps the pod back; its status names it. None when the pod may enter."""
        calls = self.calls
        began = calls.clock.now()
        status: Status | None = None
        for method in self.methods:
            answer = calls.run(method, pod, pod, sampled=sampled)
            status = None if answer is None else calls.status_of(method, pod, answer)
            if status is not None:
                status = status.with_plugin(method.plugin) if status.is_rejected else calls.wrapped(method, pod, status)
                break
        # Success whatever the answer, as in kube-scheduler, where a variable of the same name hides the status from the
        # metric. The plugins' own metric has what each plugin answered.
        calls.point("PreEnqueue", None, began)
        return status
