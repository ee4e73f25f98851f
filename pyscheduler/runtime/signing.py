"""A pod's signature: pods of one profile with equal signatures are feasible on the same nodes with the same scores.

Source: kube-scheduler 1.36, `computeBatchablePlugins` and `SignPod`. Differs from kube-scheduler: no list of nodes is
carried over from one pod to the next by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pyscheduler.framework.interfaces import SignFragment
from pyscheduler.framework.status import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.runtime.plugin_calls import PluginCalls, PluginMethod

__all__ = ["Signing"]

_SCHEDULER_NAME: Final = "v1.Pod.Spec.SchedulerName"


@attrs.frozen
class Signing:
    """The Sign plugins of a profile; `methods` None where some plugin that judges nodes cannot sign."""

    calls: PluginCalls
    methods: Sequence[PluginMethod] | None

    def sign(self, pod: Pod) -> tuple[tuple[str, object], ...] | None:
        """Return the pod's signature, hashable; None where it has none, which only costs speed."""
        if self.methods is None:
            return None
        began = self.calls.clock.now()
        signature, status = self._sign(pod, self.methods)
        self.calls.point("Sign", status, began)
        return signature

    def _sign(
        self, pod: Pod, methods: Sequence[PluginMethod]
    ) -> tuple[tuple[tuple[str, object], ...] | None, Status | None]:
        calls = self.calls
        parts: dict[str, object] = {_SCHEDULER_NAME: pod.scheduler_name}
        for method in methods:
            answer = calls.run(method, pod, pod)
            if isinstance(answer, Status):
                return None, answer
            if not isinstance(answer, (tuple, list)) or not all(isinstance(each, SignFragment) for each in answer):
                return None, calls.wrong_type(method, pod, answer, "SignFragments or Status")
            for fragment in answer:
                try:
                    hash(fragment.value)
                except TypeError as error:
                    return None, calls.failed(method, pod, error)
                parts[fragment.key] = fragment.value
        return tuple(sorted(parts.items(), key=_key)), None


def _key(part: tuple[str, object]) -> str:
    return part[0]
